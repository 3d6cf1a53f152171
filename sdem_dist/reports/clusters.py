"""What clusters hold, and how well they agree with classes that are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdem_dist.reports.report import Report
from sdem_dist.reports.table import Table


@dataclass(frozen=True, repr=False)
class ClusterReport(Report):
    """Documents by cluster.

    Attributes
    ----------
    probabilities : ndarray of shape (n_documents, n_clusters), float64
    words : list of str
        What each cluster speaks of; empty where words have no names.
    labels : ndarray of shape (n_documents,), integers, or None
        Positions in `classes`; -1 where there is none.
    classes : ndarray of shape (n_classes,)
    """

    probabilities: np.ndarray
    words: list[str]
    labels: np.ndarray | None
    classes: np.ndarray

    @property
    def n_documents(self) -> int:
        """Documents."""
        return len(self.probabilities)

    @property
    def sizes(self) -> np.ndarray:
        """Documents whose most probable cluster each one is, int64."""
        return np.bincount(self.probabilities.argmax(axis=1), minlength=self.probabilities.shape[1])

    @property
    def figures(self) -> dict[str, float]:
        """Purity, normalised mutual information and adjusted Rand index, where labels are known."""
        if self.labels is None or not (self.labels >= 0).any():
            return {}
        known = self.labels >= 0
        return cluster_scores(self.labels[known], self.probabilities.argmax(axis=1)[known])

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as JSON can hold them."""
        return {"documents": self.n_documents, **self.figures, "sizes": self.sizes.tolist(), "words": self.words}

    def _columns(self) -> tuple[str, Any, dict[str, Any]]:
        words = self.words or [""] * len(self.sizes)
        return "cluster", range(len(words)), {"documents": self.sizes, "words": words}

    def tables(self) -> list[Table]:
        """Return the clusters, the largest first."""
        sizes, words = self.sizes, self.words or [""] * len(self.sizes)
        rows = [
            (k, words[k], f"{sizes[k]:,}", f"{sizes[k] / max(self.n_documents, 1):.1%}")
            for k in np.argsort(-sizes, kind="stable").tolist()
        ]
        return [Table(("cluster", "words", "documents", "share"), rows, left=(0, 1), widths={1: 48})]


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
