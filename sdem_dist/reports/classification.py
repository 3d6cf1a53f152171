"""What a classifier gets right and wrong, by class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sdem_dist.calibration import Reliability, bin_sums, brier_scores, reliability
from sdem_dist.counted import counted, one_line
from sdem_dist.evaluation import macro_f1
from sdem_dist.reports.report import NAME_WIDTH, Report, Table, by_class_table, most_wrong

if TYPE_CHECKING:
    import pandas as pd

MAX_MATRIX, LINE_WIDTH = 12, 80
"""Classes of a confusion matrix at a terminal, and characters of its lines, at most."""
MAX_NAMED = 10
"""Classes without documents that are named."""


class Confusion(NamedTuple):
    """Documents of one class that were taken for another."""

    label: object
    prediction: object
    documents: int
    share: float
    """Of the documents of the class."""


@dataclass(frozen=True, repr=False)
class ClassificationReport(Report):
    """Figures of a classifier over documents whose classes are known.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    labels : ndarray of shape (n_documents,), integers
        Positions in `classes`.
    log_probabilities : ndarray of shape (n_documents, n_classes), float64
        ln p(class | document).
    positions : ndarray of shape (n_documents,), int64
        Which of the documents given each one is: those without a label are left out.
    error_columns : callable, or None
        From positions of errors, and their labels, to more columns of `errors_frame`: distinctive words, texts.
    """

    classes: np.ndarray
    labels: np.ndarray
    log_probabilities: np.ndarray
    positions: np.ndarray
    error_columns: Callable[[np.ndarray, list[object]], dict[str, list[str]]] | None = None

    def __post_init__(self) -> None:
        if not len(self.labels):
            raise ValueError("none of the documents has a label: a report needs some that have")

    @cached_property
    def probabilities(self) -> np.ndarray:
        """p(class | document), shape (n_documents, n_classes)."""
        return np.asarray(np.exp(self.log_probabilities))

    @cached_property
    def predictions(self) -> np.ndarray:
        """Position of the most probable class of each document, shape (n_documents,)."""
        return np.asarray(self.log_probabilities.argmax(axis=1))

    @cached_property
    def confidence(self) -> np.ndarray:
        """Probability of each prediction, shape (n_documents,)."""
        return np.asarray(self.probabilities.max(axis=1))

    @cached_property
    def right(self) -> np.ndarray:
        """Whether each prediction is right, shape (n_documents,)."""
        return np.asarray(self.predictions == self.labels)

    @property
    def accuracy(self) -> float:
        """Share of the documents whose most probable class is their label."""
        return float(self.right.mean())

    @property
    def log_loss(self) -> float:
        """Mean of -ln p(label | document), the NCLL of the literature; nothing is clipped."""
        return float(-self.log_probabilities[np.arange(self.n_documents), self.labels].mean())

    @property
    def brier(self) -> float:
        """Mean over documents of the squared distance of probabilities from the truth, summed over classes: 0 to 2."""
        return float(brier_scores(self.probabilities, self.labels).mean())

    @cached_property
    def reliability(self) -> Reliability:
        """Accuracy beside confidence."""
        return reliability(bin_sums(self.confidence, self.right))

    @property
    def ece(self) -> float:
        """Expected calibration error, over 15 equal bins."""
        return self.reliability.ece

    @cached_property
    def confusion(self) -> np.ndarray:
        """Documents by class and prediction, shape (n_classes, n_classes), int64."""
        return self.confusion_among(np.arange(len(self.classes)))

    def confusion_among(self, chosen: np.ndarray) -> np.ndarray:
        """Return documents by class and prediction of classes at some positions, shape (n_chosen, n_chosen), int64."""
        n, place = len(chosen), np.full(len(self.classes), -1)
        place[chosen] = np.arange(n)
        rows, columns_ = place[self.labels], place[self.predictions]
        both = (rows >= 0) & (columns_ >= 0)
        return np.bincount(rows[both] * n + columns_[both], minlength=n * n).reshape(n, n)

    @cached_property
    def _counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each class: documents that are found, all its documents, and documents that are taken for it."""
        n = len(self.classes)
        hits, labels, predictions = self.labels[self.right], self.labels, self.predictions
        return np.bincount(hits, minlength=n), np.bincount(labels, minlength=n), np.bincount(predictions, minlength=n)

    @property
    def _n_wrong(self) -> np.ndarray:
        """Documents of each class that were not found, and others that were taken for it."""
        hits, support, predicted = self._counts
        return support + predicted - 2 * hits

    @property
    def worst(self) -> np.ndarray:
        """Positions of the classes with most errors, 60 of them at most, ascending."""
        return most_wrong(self._n_wrong, self.support)

    @cached_property
    def _by_class(self) -> tuple[np.ndarray, ...]:
        """Precision, recall, F1 and support; 0 where there is nothing to divide by."""
        hits, support, predicted = self._counts
        of = ((hits, predicted), (hits, support), (2 * hits, predicted + support))
        return *(part / np.maximum(whole, 1) for part, whole in of), support

    @property
    def precision(self) -> np.ndarray:
        """Share of the predictions of each class that are right; 0 where it was never predicted."""
        return self._by_class[0]

    @property
    def recall(self) -> np.ndarray:
        """Share of the documents of each class that were found; 0 where it has none."""
        return self._by_class[1]

    @property
    def f1(self) -> np.ndarray:
        """Harmonic mean of precision and recall of each class."""
        return self._by_class[2]

    @property
    def support(self) -> np.ndarray:
        """Documents of each class, int64."""
        return self._by_class[3]

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the classes that occur or were predicted."""
        hits, support, predicted = self._counts
        return macro_f1(np.concatenate([support, predicted, hits]))

    @property
    def roc_auc(self) -> float | None:
        """Area under the ROC curve, of two classes that both occur, for the second one; else None."""
        from sklearn.metrics import roc_auc_score

        return float(roc_auc_score(self.labels, self._log_odds)) if self._of_two else None

    @property
    def pr_auc(self) -> float | None:
        """Average precision, of two classes that both occur, for the second one; else None."""
        from sklearn.metrics import average_precision_score

        return float(average_precision_score(self.labels, self._log_odds)) if self._of_two else None

    @property
    def _of_two(self) -> bool:
        return len(self.classes) == 2 and len(np.unique(self.labels)) == 2

    @property
    def _log_odds(self) -> np.ndarray:
        """Log-odds, by which documents of two classes are ranked: probabilities near 1 would be ties."""
        finite = np.clip(self.log_probabilities, -1e300, 0.0)
        return np.asarray(finite[:, 1] - finite[:, 0])

    @property
    def errors(self) -> np.ndarray:
        """Rows of the wrong predictions, the most confident first; `positions` says which documents they are."""
        wrong = np.flatnonzero(~self.right)
        return wrong[np.argsort(-self.confidence[wrong], kind="stable")]

    def confusions(self, n: int = 10) -> list[Confusion]:
        """Return the most frequent pairs of a class and what it was taken for."""
        wrong, names, support = ~self.right, self.classes.tolist(), self.support
        pairs = self.labels[wrong].astype(np.int64) * len(names) + self.predictions[wrong]
        places, times = np.unique(pairs, return_counts=True)
        most = np.argsort(-times, kind="stable")[:n]
        found = [(*divmod(int(places[k]), len(names)), int(times[k])) for k in most]
        return [Confusion(names[i], names[j], times, float(times / support[i])) for i, j, times in found]

    @property
    def figures(self) -> dict[str, float]:
        """Figures over all documents by name; the areas under curves of two classes only."""
        found = {name: getattr(self, name) for name in ("accuracy", "log_loss", "macro_f1", "brier", "ece")}
        areas = {"roc_auc": self.roc_auc, "pr_auc": self.pr_auc}
        return found | {name: area for name, area in areas.items() if area is not None}

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as JSON can hold them."""
        by_class = zip(self.classes.tolist(), *(column.tolist() for column in self._by_class), strict=True)
        names = ("label", "precision", "recall", "f1", "support")
        return {
            "documents": self.n_documents,
            **self.figures,
            "classes": [dict(zip(names, row, strict=True)) for row in by_class],
            "confusions": [confusion._asdict() for confusion in self.confusions()],
        }

    def _columns(self) -> tuple[str, Any, dict[str, Any]]:
        names = ("precision", "recall", "f1", "support")
        return "class", self.classes, dict(zip(names, self._by_class, strict=True))

    def confusion_frame(self) -> pd.DataFrame:
        """Return `confusion` as a pandas table: a row for each class, a column for each prediction."""
        import pandas as pd

        return pd.DataFrame(
            self.confusion,
            index=pd.Index(self.classes, name="class"),
            columns=pd.Index(self.classes, name="prediction"),
        )

    def errors_frame(self) -> pd.DataFrame:
        """Return the wrong predictions as a pandas table, the most confident first; its index is `positions`.

        Columns of the words that spoke for the prediction and for the label follow where the model has an explanation,
        and the texts where they are there.
        """
        import pandas as pd

        rows, beside = self.errors, self.error_columns
        labels = self.classes[self.labels[rows]]
        more = {} if beside is None else beside(self.positions[rows], labels.tolist())
        return pd.DataFrame(
            {
                "label": labels,
                "prediction": self.classes[self.predictions[rows]],
                "probability": self.confidence[rows],
                "probability_of_label": self.probabilities[rows, self.labels[rows]],
                **more,
            },
            index=pd.Index(self.positions[rows], name="document"),
        )

    @property
    def _occurs(self) -> np.ndarray:
        """Which classes have documents or were predicted, bool of shape (n_classes,)."""
        _, support, predicted = self._counts
        return np.asarray(support + predicted > 0)

    @property
    def _absent(self) -> str:
        """Name the classes that neither have documents nor were predicted, and say what that does to macro-F1."""
        absent = [one_line(c, NAME_WIDTH) for c in self.classes[~self._occurs].tolist()]
        if not absent:
            return ""
        more = f" and {len(absent) - MAX_NAMED:,} more" if len(absent) > MAX_NAMED else ""
        return (
            f"No documents, and never predicted: {', '.join(absent[:MAX_NAMED])}{more}. Macro-F1 is the mean of the other "
            f"{counted(len(self.classes) - len(absent), 'class', 'classes')}."
        )

    @property
    def heading(self) -> str:
        """Documents and errors."""
        return f"{super().heading}, {counted(int((~self.right).sum()), 'error')}"

    def tables(self) -> list[Table]:
        """Return figures by class, and the most frequent confusions."""
        confusions = self.confusion_table(10)
        return [self.class_table(), *([confusions] if confusions.rows else [])]

    def details(self) -> str:
        """Return the tables for a terminal, with the confusion matrix where its lines are short enough."""
        by_class, *rest = self.tables()
        return "\n\n".join([by_class.text(), *self._matrix(), *(table.text() for table in rest)])

    def class_table(self) -> Table:
        """Return precision, recall, F1 and documents by class, the lowest F1 first."""
        columns = dict(zip(("precision", "recall", "F1", "documents"), self._by_class, strict=True))
        table = by_class_table("class", self.classes, columns, self._n_wrong, self._occurs)
        return replace(table, note=self._absent)

    def confusion_table(self, n: int = 10) -> Table:
        """Return the most frequent confusions."""
        rows = [(c.label, c.prediction, f"{c.documents:,}", f"{c.share:.1%}") for c in self.confusions(n)]
        heads, widths = ("class", "taken for", "documents", "of the class"), {0: NAME_WIDTH, 1: NAME_WIDTH}
        return Table(heads, rows, "Most frequent confusions", left=(0, 1), widths=widths)

    def _matrix(self) -> list[str]:
        """Return the confusion matrix, its predictions numbered; nothing where a line would be too wide."""
        if len(self.classes) > MAX_MATRIX:
            return []
        names = [f"{k:>2} {one_line(name, NAME_WIDTH - 4)}" for k, name in enumerate(self.classes.tolist())]
        rows = [[name, *(f"{n:,}" if n else "." for n in row)] for name, row in zip(names, self.confusion, strict=True)]
        matrix = Table(["class", *map(str, range(len(names)))], rows).text()
        title = "Documents by class (rows) and prediction (columns):"
        return [title, matrix] if max(map(len, matrix.splitlines())) <= LINE_WIDTH else []


def classification_report(
    classes: np.ndarray, labels: np.ndarray, log_probabilities: np.ndarray
) -> ClassificationReport:
    """Return the report of documents, those without a label left out.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
    labels : ndarray of shape (n_documents,), integers
        Positions in `classes`; -1 where there is none.
    log_probabilities : ndarray of shape (n_documents, n_classes), float64

    Raises
    ------
    ValueError
        No document has a label.
    """
    known = np.flatnonzero(labels >= 0)
    return ClassificationReport(classes, labels[known], log_probabilities[known], known)
