"""Predicted numbers, clusters and topics of documents, and how well they agree with what is known of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.reports.report import Columns, ErrorReport, Report
from sdem_dist.table import Table

if TYPE_CHECKING:
    import pandas as pd

    from sdem_dist.reports.top_words import Topic


@dataclass(frozen=True, repr=False)
class RegressionReport(ErrorReport):
    """Figures of a regressor over documents whose targets are known.

    Attributes
    ----------
    targets, predictions : ndarray of shape (n_documents, n_targets), float64
    positions : ndarray of shape (n_documents,), int64
        Which of the documents given each one is.
    """

    kind, kinds, digits = "target", "targets", ".4g"
    targets: np.ndarray
    predictions: np.ndarray
    positions: np.ndarray

    @property
    def names(self) -> Sequence[int]:
        """The targets are numbered from 0."""
        return range(self.targets.shape[1])

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """R2, mean squared error, its root, mean absolute error and mean error (bias) of each target."""
        from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

        both = self.targets, self.predictions
        r2, mse, mae = (
            np.asarray(score(*both, multioutput="raw_values"))
            for score in (r2_score, mean_squared_error, mean_absolute_error)
        )
        bias = (self.predictions - self.targets).mean(axis=0)
        return {"r2": r2, "mse": mse, "rmse": np.sqrt(mse), "mae": mae, "bias": bias}

    @property
    def figures(self) -> dict[str, float]:
        """Means over targets by name."""
        return {name: float(values.mean()) for name, values in self.columns.items()}

    @property
    def errors(self) -> np.ndarray:
        """Rows of all documents, the largest error first."""
        return np.argsort(-np.abs(self.predictions - self.targets).max(axis=1), kind="stable")

    def error_columns(self, rows: np.ndarray) -> Columns:
        """Return target, prediction and error; of several targets with their numbers."""
        errors = self.predictions - self.targets
        columns = {"target": self.targets, "prediction": self.predictions, "error": errors}
        numbers = [f"_{k}" for k in self.names] if len(self.names) > 1 else [""]
        return {
            f"{name}{number}": values[rows, k].tolist()
            for k, number in enumerate(numbers)
            for name, values in columns.items()
        }


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

    kind, kinds = "cluster", "clusters"
    probabilities: np.ndarray
    words: list[str]
    labels: np.ndarray | None
    classes: np.ndarray
    positions: np.ndarray

    @property
    def names(self) -> Sequence[int]:
        """The clusters are numbered from 0."""
        return range(self.probabilities.shape[1])

    @property
    def sizes(self) -> np.ndarray:
        """Documents whose most probable cluster each one is, int64."""
        return np.bincount(self.probabilities.argmax(axis=1), minlength=len(self.names))

    @property
    def columns(self) -> dict[str, Any]:
        """Words, documents and share of each cluster."""
        words = self.words or [""] * len(self.names)
        return {"words": words, "documents": self.sizes, "share": self.sizes / max(self.n_documents, 1)}

    @property
    def figures(self) -> dict[str, float]:
        """Purity, normalised mutual information and adjusted Rand index, where labels are known."""
        if self.labels is None or not (labelled := self.labels >= 0).any():
            return {}
        return cluster_scores(self.labels[labelled], self.probabilities.argmax(axis=1)[labelled])

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

    kind, kinds = "topic", "topics"
    topics: Sequence[Topic]
    proportions: np.ndarray
    labels: np.ndarray | None
    classes: np.ndarray
    positions: np.ndarray

    @property
    def names(self) -> list[str]:
        """How topics are called: by number, and by what each speaks for."""
        return [topic.title for topic in self.topics]

    @property
    def shares(self) -> np.ndarray:
        """Mean proportion of each topic over documents, shape (n_topics,)."""
        return np.asarray(self.proportions.mean(axis=0))

    @cached_property
    def prevalence(self) -> np.ndarray | None:
        """Mean proportion of topics in each class, shape (n_classes, n_topics); NaN for a class without documents."""
        if self.labels is None:
            return None
        means = np.full((len(self.classes), len(self.topics)), np.nan)
        for k in np.unique(self.labels[self.labels >= 0]):
            means[k] = self.proportions[self.labels == k].mean(axis=0)
        return means

    @property
    def columns(self) -> dict[str, Any]:
        """The most distinctive words of each topic, the most probable ones, its two main classes, and its share."""
        columns: dict[str, Any] = {"distinctive": [" ".join(t.distinctive) for t in self.topics]}
        columns["probable"] = [" ".join(t.words) for t in self.topics]
        if self.prevalence is not None:
            means = np.nan_to_num(self.prevalence)
            main = [np.argsort(-column, kind="stable")[:2] for column in means.T]
            columns["classes"] = [
                ", ".join(f"{self.classes[c]} {means[c, k]:.0%}" for c in best) for k, best in enumerate(main)
            ]
        return columns | {"share": self.shares}

    @property
    def figures(self) -> dict[str, float]:
        """None: no single number measures topics."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON can hold them."""
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
        return [replace(table, widths={0: 20, 1: 46, 2: 0} | ({} if self.prevalence is None else {3: 0}))]
