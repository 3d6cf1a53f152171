"""How well clusters and known classes of documents agree."""

import numpy as np


def cluster_scores(y: object, labels: object) -> dict[str, float]:
    """Return purity, normalised mutual information and adjusted Rand index of clusters.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Known classes.
    labels : array-like of shape (n_samples,)
        Clusters, such as ``labels_``.

    Returns
    -------
    dict
        ``purity``: the share of documents whose class is the most frequent one of their cluster; it grows with the
        number of clusters. ``nmi`` and ``ari`` are scikit-learn's: 0 is chance (for NMI about 0), 1 full agreement.

    Examples
    --------
    >>> from sdem_dist import cluster_scores
    >>> cluster_scores(["cat", "cat", "dog", "dog"], [1, 1, 0, 0])["purity"]
    1.0
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
    from sklearn.metrics.cluster import contingency_matrix

    return {
        "purity": float(contingency_matrix(y, labels).max(axis=0).sum() / len(np.asarray(y))),
        "nmi": float(normalized_mutual_info_score(y, labels)),
        "ari": float(adjusted_rand_score(y, labels)),
    }
