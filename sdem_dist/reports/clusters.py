"""What clusters and topics hold, and how well clusters agree with classes that are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.reports.report import Report, Table

if TYPE_CHECKING:
    from sdem_dist.inspection.top_words import Topic


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
    positions : ndarray of shape (n_documents,), int64
        Which of the documents given each one is.
    """

    probabilities: np.ndarray
    words: list[str]
    labels: np.ndarray | None
    classes: np.ndarray
    positions: np.ndarray

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


@dataclass(frozen=True, repr=False)
class TopicReport(Report):
    """Topics over documents.

    Attributes
    ----------
    topics : sequence of Topic
    proportions : ndarray of shape (n_documents, n_topics), float64
    labels : ndarray of shape (n_documents,), integers, or None
        Positions in `classes`; -1 where there is none.
    classes : ndarray of shape (n_classes,)
    positions : ndarray of shape (n_documents,), int64
        Which of the documents given each one is.
    """

    topics: Sequence[Topic]
    proportions: np.ndarray
    labels: np.ndarray | None
    classes: np.ndarray
    positions: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """Mean proportion of each topic over documents, shape (n_topics,)."""
        return np.asarray(self.proportions.mean(axis=0))

    @property
    def prevalence(self) -> np.ndarray | None:
        """Mean proportion of topics in each class, shape (n_classes, n_topics); NaN for a class without documents."""
        if self.labels is None:
            return None
        found = np.full((len(self.classes), len(self.topics)), np.nan)
        for k in np.unique(self.labels[self.labels >= 0]):
            found[k] = self.proportions[self.labels == k].mean(axis=0)
        return found

    def examples(self, topic: int, n: int = 3) -> list[int]:
        """Return the positions of the documents that a topic has the largest proportion of, the largest first."""
        order = np.argsort(-self.proportions[:, topic], kind="stable")
        return self.positions[order[:n]].tolist()  # type: ignore[no-any-return]

    @property
    def titles(self) -> list[str]:
        """How topics are called: by number, and by what each speaks for."""
        return [topic.title for topic in self.topics]

    @property
    def figures(self) -> dict[str, float]:
        """None: no single number measures topics."""
        return {}

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as JSON can hold them."""
        prevalence = self.prevalence
        rows = zip(self.titles, self.shares.tolist(), self.topics, strict=True)
        return {
            "documents": self.n_documents,
            "topics": [
                {"topic": t, "share": s, "words": topic.words, "telling": topic.distinctive} for t, s, topic in rows
            ],
            "classes": self.classes.tolist(),
            "prevalence": None
            if prevalence is None
            else [[None if p != p else p for p in row] for row in prevalence.tolist()],
        }

    def _columns(self) -> tuple[str, Any, dict[str, Any]]:
        columns: dict[str, Any] = {"share": self.shares, "words": [" ".join(t.words) for t in self.topics]}
        if (prevalence := self.prevalence) is not None:
            columns |= dict(zip(self.classes.tolist(), prevalence, strict=True))
        return "topic", self.titles, columns

    def _main_classes(self, topic: int) -> str:
        """Return the classes that have most of a topic."""
        if (prevalence := self.prevalence) is None:
            return ""
        shares = np.nan_to_num(prevalence[:, topic])
        most = np.argsort(-shares, kind="stable")[:2]
        return ", ".join(f"{self.classes[c]} {shares[c]:.0%}" for c in most)

    def tables(self) -> list[Table]:
        """Return the topics with the words that set them apart, the largest share first."""
        table = self.topic_table()
        rows = [(title, distinctive, share) for title, _, distinctive, _, share in table.rows]
        return [Table(("topic", "words", "share"), rows, left=(0, 1), widths={0: 20, 1: 46})]

    def topic_table(self) -> Table:
        """Return the topics with their words, classes and shares, the largest share first."""
        order, shares = np.argsort(-self.shares, kind="stable").tolist(), self.shares
        rows = [
            (t.title, " ".join(t.words), " ".join(t.distinctive), self._main_classes(k), f"{shares[k]:.1%}")
            for k, t in ((k, self.topics[k]) for k in order)
        ]
        heads = ("topic", "most probable", "most distinctive", "classes with most of it", "share")
        return Table(heads, rows, left=range(4))

    def _repr_html_(self) -> str:
        return f'<div class="sdem">{self.topic_table().html()}</div>'
