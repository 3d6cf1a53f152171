"""Clusters and topics of documents, and how well they agree with labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.reports.report import Report
from sdem_dist.table import Table

if TYPE_CHECKING:
    import pandas as pd

    from sdem_dist.reports.top_words import Topic


class ClusterReport(Report):
    """Documents by cluster; where labels are known purity, normalised mutual information and adjusted Rand index.

    Parameters
    ----------
    probabilities : ndarray of shape (n_documents, n_clusters), float64
    words : list of str
        What each cluster speaks of; empty where words have no names.
    labels : ndarray of shape (n_documents,), integers, or None
        Positions in `classes`; -1 where there is none.
    classes : ndarray of shape (n_classes,)
    positions : ndarray of shape (n_documents,), int64
        Which of the documents given each one is.
    """

    kind, kinds = "cluster", "clusters"

    def __init__(
        self,
        probabilities: np.ndarray,
        words: list[str],
        labels: np.ndarray | None,
        classes: np.ndarray,
        positions: np.ndarray,
    ) -> None:
        self.probabilities, self.words, self.labels, self.classes = probabilities, words, labels, classes
        clusters, n = probabilities.argmax(axis=1), probabilities.shape[1]
        self.sizes = np.bincount(clusters, minlength=n)
        labelled = np.zeros(0, bool) if labels is None else labels >= 0
        figures = cluster_scores(labels[labelled], clusters[labelled]) if labels is not None and labelled.any() else {}
        columns = {"words": words or [""] * n, "documents": self.sizes, "share": self.sizes / max(len(clusters), 1)}
        super().__init__(positions, figures, range(n), columns)

    def tables(self) -> list[Table]:
        """Return the clusters, the largest first."""
        return [self.table(np.argsort(-self.sizes, kind="stable"))]


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


class TopicReport(Report):
    """Topics over documents.

    Parameters
    ----------
    topics : sequence of Topic
    proportions : ndarray of shape (n_documents, n_topics), float64
    labels : ndarray of shape (n_documents,), integers, or None
        Positions in `classes`; -1 where there is none.
    classes : ndarray of shape (n_classes,)
    positions : ndarray of shape (n_documents,), int64
        Which of the documents given each one is.

    Attributes
    ----------
    shares : ndarray of shape (n_topics,)
        Mean proportion of each topic over documents.
    prevalence : ndarray of shape (n_classes, n_topics), or None
        The same of the documents of each class; NaN for a class without any.
    """

    kind, kinds = "topic", "topics"

    def __init__(
        self,
        topics: Sequence[Topic],
        proportions: np.ndarray,
        labels: np.ndarray | None,
        classes: np.ndarray,
        positions: np.ndarray,
    ) -> None:
        self.topics, self.proportions, self.labels, self.classes = topics, proportions, labels, classes
        self.shares = proportions.mean(axis=0)
        columns: dict[str, Any] = {"distinctive": [" ".join(t.distinctive) for t in topics]}
        columns["probable"] = [" ".join(t.words) for t in topics]
        self.prevalence = None
        if labels is not None:
            self.prevalence = np.full((len(classes), len(topics)), np.nan)
            for k in np.unique(labels[labels >= 0]):
                self.prevalence[k] = proportions[labels == k].mean(axis=0)
            means = np.nan_to_num(self.prevalence)
            main = np.argsort(-means, axis=0, kind="stable")[:2].T.tolist()
            columns["classes"] = [
                ", ".join(f"{classes[c]} {means[c, k]:.0%}" for c in two) for k, two in enumerate(main)
            ]
        super().__init__(positions, {}, [topic.title for topic in topics], columns | {"share": self.shares})

    def to_dict(self) -> dict[str, Any]:
        prevalence = None if self.prevalence is None else self.prevalence.tolist()
        return super().to_dict() | {"prevalence": prevalence, "classes": self.classes.tolist()}

    def prevalence_frame(self) -> pd.DataFrame:
        """Return `prevalence` as a pandas table: a row for each class, a column for each topic."""
        import pandas as pd

        return pd.DataFrame(self.prevalence, index=pd.Index(self.classes, name="class"), columns=self.names)

    def examples(self, topic: int, n: int = 3) -> list[int]:
        """Return the positions of the documents that a topic has the largest proportion of, the largest first."""
        order = np.argsort(-self.proportions[:, topic], kind="stable")
        return self.positions[order[:n]].tolist()  # type: ignore[no-any-return]

    def tables(self) -> list[Table]:
        """Return the topics with their words, classes and shares, the largest share first."""
        table = self.table(np.argsort(-self.shares, kind="stable"))
        # At a terminal there is room for the words that set a topic apart.
        return [replace(table, widths={0: 20, 1: 46} | dict.fromkeys(range(2, len(self.columns)), 0))]
