"""Base of reports, and reports of regression, clusters and topics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sdem_dist.counted import PREFIXES, by_metric_name, counted, metric_of
from sdem_dist.table import Table

if TYPE_CHECKING:
    import pandas as pd

    from sdem_dist.reports.top_words import Topic

NAME_WIDTH = 24  # most characters of a class, or a label, at a terminal
Columns = dict[str, list[Any]]
# Positions of the documents' classes (-1: no label; None: no labels at all), and the classes.
Labels = tuple["np.ndarray | None", np.ndarray]


class Report:
    """Metrics and tables, for a terminal, a notebook, pandas and JSON.

    Attributes
    ----------
    positions : ndarray of shape (n_documents,), int64
        Position of each document in the input.
    figures : dict of str to float
        Metrics over all documents.
    names : sequence
        Classes, labels, targets, clusters or topics: the rows of `columns`.
    columns : dict of str to ndarray or list
        Metrics and words by row.
    """

    kind: ClassVar[str]
    kinds: ClassVar[str]
    digits: ClassVar[str] = ".3f"

    def __init__(self, positions: np.ndarray, figures: dict[str, float], names: Sequence[Any], columns: dict[str, Any]):
        self.positions, self.figures, self.names, self.columns = positions, figures, names, columns

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.positions)

    @property
    def heading(self) -> str:
        """The heading of the report."""
        return counted(self.n_documents, "document")

    def to_frame(self) -> pd.DataFrame:
        """Return `columns` as a pandas DataFrame, with a row for each of `names`."""
        import pandas as pd

        return pd.DataFrame(self.columns, index=pd.Index(self.names, name=self.kind))

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON."""
        columns = {self.kind: self.names, **self.columns}
        rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
        listed = [dict(zip(columns, row, strict=True)) for row in rows]
        return {"documents": self.n_documents, **self.figures, self.kinds: listed}

    def table(self, rows: np.ndarray, caption: str = "", note: str = "") -> Table:
        """Return the given rows of `columns` as a table."""
        cells, widths, bars = [[self.names[k] for k in rows.tolist()]], {0: NAME_WIDTH}, []
        for i, (name, values) in enumerate(self.columns.items(), 1):
            column = np.asarray(values)[rows]
            form = {"i": ",", "f": self.digits}.get(column.dtype.kind, "")
            cells.append([format(value, form) for value in column.tolist()])
            widths |= {} if form else {i: 2 * NAME_WIDTH}
            bars += [i] if name in ("f1", "share") else []
        heads = self.kind, *("F1" if name == "f1" else name for name in self.columns)
        return Table(heads, list(zip(*cells, strict=True)), caption, note, tuple(widths), widths, bars)

    def tables(self) -> list[Table]:
        """Return the tables of the report; clusters and topics are sorted by decreasing share."""
        shares = self.columns.get("share", np.zeros(len(self.names)))
        return [self.table(np.argsort(-shares, kind="stable"))]

    def figure_table(self) -> Table:
        """Return `figures` under their usual names."""
        return Table((), [(name, f"{value:.4f}") for name, value in by_metric_name(self.figures).items()])

    def details(self) -> str:
        """Return `tables` for a terminal."""
        return "\n\n".join(table.text() for table in self.tables())

    def __repr__(self) -> str:
        return "\n\n".join(filter(None, (self.heading, self.figure_table().text(), self.details())))

    def _repr_html_(self) -> str:
        tables = [self.figure_table()] if self.figures else []
        return f'<div class="sdem">{"".join(table.html() for table in [*tables, *self.tables()])}</div>'


class ErrorReport(Report):
    """A report with a list of errors."""

    errors: np.ndarray
    """Rows of the wrong documents, worst error first; see `positions` for the documents."""
    blocks: Callable[[ErrorReport], Iterator[Columns]] | None = None
    """A function that yields the errors of the report in blocks, with their IDs, texts and words."""

    @abstractmethod
    def error_columns(self, rows: np.ndarray) -> Columns:
        """Return the columns of the errors in `rows`, one row per error."""

    def errors_frame(self) -> pd.DataFrame:
        """Return the errors as a pandas DataFrame, worst error first; its index is `positions`.

        It contains the texts, if available, and the words for and against the prediction (with several labels, the
        label with the largest error), if the model can explain it.
        """
        import pandas as pd

        blocks = [self.error_columns(self.errors)] if self.blocks is None else self.blocks(self)
        frame = pd.concat(map(pd.DataFrame, blocks)).drop(columns="id", errors="ignore")
        return frame.set_axis(pd.Index(self.positions[self.errors], name="document"))


class RegressionReport(ErrorReport):
    """Metrics of a regressor on documents with known targets: R2, MSE, its root, MAE and the mean error (bias).

    Errors are all documents, largest error first.

    Attributes
    ----------
    targets, predictions : ndarray of shape (n_documents, n_targets), float64
    """

    kind, kinds, digits = "target", "targets", ".4g"

    def __init__(self, targets: np.ndarray, predictions: np.ndarray, positions: np.ndarray) -> None:
        from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

        self.targets, self.predictions = targets, predictions
        scores = {"r2": r2_score, "mse": mean_squared_error, "mae": mean_absolute_error}
        columns = {k: np.asarray(score(targets, predictions, multioutput="raw_values")) for k, score in scores.items()}
        columns |= {"rmse": np.sqrt(columns["mse"]), "bias": (predictions - targets).mean(axis=0)}
        figures = {name: float(values.mean()) for name, values in columns.items()}
        super().__init__(positions, figures, range(targets.shape[1]), columns)
        self.errors = np.argsort(-np.abs(predictions - targets).max(axis=1), kind="stable")

    def error_columns(self, rows: np.ndarray) -> Columns:
        columns = {"target": self.targets, "prediction": self.predictions, "error": self.predictions - self.targets}
        ends = [f"_{k}" for k in self.names] if len(self.names) > 1 else [""]
        return {name + end: v[rows, k].tolist() for k, end in enumerate(ends) for name, v in columns.items()}


class ClusterReport(Report):
    """Documents by cluster; if labels are known, purity, normalized mutual information and adjusted Rand index.

    Attributes
    ----------
    probabilities : ndarray of shape (n_documents, n_clusters), float64
    sizes : ndarray of shape (n_clusters,), int64
    words : list of str
        Most indicative words of each cluster; empty if words have no names.
    labels : ndarray of shape (n_documents,), integers, or None
        Positions in `classes`; -1 for documents without a label.
    """

    kind, kinds = "cluster", "clusters"

    def __init__(self, probabilities: np.ndarray, words: list[str], truth: Labels, positions: np.ndarray) -> None:
        self.probabilities, self.words, (self.labels, self.classes) = probabilities, words, truth
        clusters, n = probabilities.argmax(axis=1), probabilities.shape[1]
        self.sizes = np.bincount(clusters, minlength=n)
        columns = {"words": words or [""] * n, "documents": self.sizes, "share": self.sizes / max(len(clusters), 1)}
        super().__init__(positions, agreement_of(self.labels, clusters), range(n), columns)


def agreement_of(labels: np.ndarray | None, clusters: np.ndarray) -> dict[str, float]:
    """Return `cluster_scores` of the documents with a label; empty if there are none."""
    if labels is None or not (labels >= 0).any():
        return {}
    return cluster_scores(labels[labels >= 0], clusters[labels >= 0])


def cluster_scores(y: object, labels: object) -> dict[str, float]:
    """Return purity, normalized mutual information and adjusted Rand index of clusters.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Known classes.
    labels : array-like of shape (n_samples,)
        Clusters, such as ``labels_``.

    Returns
    -------
    dict
        ``purity``: fraction of documents in the most frequent class of their cluster. It increases with the number of
        clusters. ``nmi`` and ``ari`` are scikit-learn's: about 0 for random clusters, 1 for full agreement.

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

    Attributes
    ----------
    topics : sequence of Topic
    proportions : ndarray of shape (n_documents, n_topics), float64
    shares : ndarray of shape (n_topics,)
        Mean proportion of each topic over documents.
    labels, classes : ndarray, as in `ClusterReport`
    prevalence : ndarray of shape (n_classes, n_topics), or None
        Mean proportions in the documents of each class; NaN for a class without documents.
    """

    kind, kinds = "topic", "topics"

    def __init__(self, topics: Sequence[Topic], proportions: np.ndarray, truth: Labels, positions: np.ndarray) -> None:
        self.topics, self.proportions, (labels, classes) = topics, proportions, truth
        self.labels, self.classes, self.shares, self.prevalence = labels, classes, proportions.mean(axis=0), None
        columns: dict[str, Any] = {"distinctive": [" ".join(t.distinctive) for t in topics]}
        columns["probable"] = [" ".join(t.words) for t in topics]
        if labels is not None:
            self.prevalence = np.full((len(classes), len(topics)), np.nan)
            for k in np.unique(labels[labels >= 0]):
                self.prevalence[k] = proportions[labels == k].mean(axis=0)
            means = np.nan_to_num(self.prevalence)
            main = enumerate(np.argsort(-means, axis=0, kind="stable")[:2].T.tolist())
            columns["classes"] = [", ".join(f"{classes[c]} {means[c, k]:.0%}" for c in two) for k, two in main]
        super().__init__(positions, {}, [topic.title for topic in topics], columns | {"share": self.shares})

    def to_dict(self) -> dict[str, Any]:
        prevalence = None if self.prevalence is None else self.prevalence.tolist()
        return super().to_dict() | {"prevalence": prevalence, "classes": self.classes.tolist()}

    def prevalence_frame(self) -> pd.DataFrame:
        """Return `prevalence` as a pandas DataFrame: a row for each class, a column for each topic."""
        import pandas as pd

        return pd.DataFrame(self.prevalence, index=pd.Index(self.classes, name="class"), columns=self.names)

    def examples(self, topic: int, n: int = 3) -> list[int]:
        """Return the positions of the documents with the largest proportions of a topic, in descending order."""
        order = np.argsort(-self.proportions[:, topic], kind="stable")
        return self.positions[order[:n]].tolist()  # type: ignore[no-any-return]

    def tables(self) -> list[Table]:
        # A terminal has room for the distinctive words only.
        widths = {0: 20, 1: 46} | dict.fromkeys(range(2, len(self.columns)), 0)
        return [replace(table, widths=widths) for table in super().tables()]


def by_documents(entry: Mapping[str, float], unshown: Collection[str], digits: str) -> dict[str, str]:
    """Return the metrics of an epoch as text, for each set of documents, see `PREFIXES`."""
    texts = {prefix: list[str]() for prefix in PREFIXES}
    for name, value in entry.items():
        prefix = next(prefix for prefix in reversed(PREFIXES) if name.startswith(prefix))
        plain = name.removeprefix(prefix)
        if plain not in ("epoch", "unlabelled_weight", *unshown) and not plain.endswith("seconds"):
            texts[prefix].append(f"{metric_of(plain, prefix).name} {value:{digits}}")
    return {documents: ", ".join(texts[prefix]) for prefix, documents in PREFIXES.items() if texts[prefix]}
