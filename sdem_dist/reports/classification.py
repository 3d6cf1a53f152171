"""What a classifier gets right and wrong, by class."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sdem_dist.calibration import Reliability, bin_sums, brier_scores, reliability
from sdem_dist.counted import counted, one_line
from sdem_dist.evaluation import macro_f1
from sdem_dist.reports.report import NAME_WIDTH, ByClassReport, Columns
from sdem_dist.table import Table

if TYPE_CHECKING:
    import pandas as pd

MAX_MATRIX, LINE_WIDTH = 12, 80
"""Classes of a confusion matrix at a terminal, and characters of its lines, at most."""


class Confusion(NamedTuple):
    """Documents of one class that were taken for another."""

    label: object
    prediction: object
    documents: int
    share: float
    """Of the documents of the class."""


@dataclass(frozen=True, repr=False)
class ClassificationReport(ByClassReport):
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
    """

    kind, kinds = "class", "classes"
    classes: np.ndarray
    labels: np.ndarray
    log_probabilities: np.ndarray
    positions: np.ndarray

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

    @cached_property
    def counts(self) -> np.ndarray:
        """Documents of each class, those it was predicted for, and rightly, shape (3, n_classes), int64."""
        columns, n = (self.labels, self.predictions, self.labels[self.right]), len(self.classes)
        return np.array([np.bincount(column, minlength=n) for column in columns])

    @property
    def accuracy(self) -> float:
        """Share of the documents whose most probable class is their label."""
        return float(self.right.mean())

    @property
    def log_loss(self) -> float:
        """Mean of -ln p(label | document), the NCLL of the literature; nothing is clipped."""
        return float(-self.log_probabilities[np.arange(self.n_documents), self.labels].mean())

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the classes that occur or were predicted."""
        return macro_f1(self.counts.ravel())

    @cached_property
    def reliability(self) -> Reliability:
        """Accuracy beside confidence, in 15 equal bins."""
        return reliability(bin_sums(self.confidence, self.right))

    @property
    def ece(self) -> float:
        """Expected calibration error, over 15 equal bins."""
        return self.reliability.ece

    @cached_property
    def figures(self) -> dict[str, float]:
        """Figures over all documents by name; of two classes that both occur the areas under curves, too.

        The curves are of the second class. Documents are ranked by log-odds: probabilities near 1 would be ties.
        """
        figures = {name: float(getattr(self, name)) for name in ("accuracy", "log_loss", "macro_f1")}
        figures |= {"brier": float(brier_scores(self.probabilities, self.labels).mean()), "ece": self.ece}
        if len(self.classes) == 2 and self.counts[0].all():
            from sklearn.metrics import average_precision_score, roc_auc_score

            finite = np.clip(self.log_probabilities, -1e300, 0.0)
            log_odds = finite[:, 1] - finite[:, 0]
            figures["roc_auc"] = float(roc_auc_score(self.labels, log_odds))
            figures["pr_auc"] = float(average_precision_score(self.labels, log_odds))
        return figures

    @cached_property
    def confusion(self) -> np.ndarray:
        """Documents by class and prediction, shape (n_classes, n_classes), int64."""
        return self.confusion_among(np.arange(len(self.classes)))

    def confusion_among(self, chosen: np.ndarray) -> np.ndarray:
        """Return documents by class and prediction of classes at some positions, shape (n_chosen, n_chosen), int64."""
        n, place = len(chosen), np.full(len(self.classes), -1)
        place[chosen] = np.arange(n)
        rows, columns = place[self.labels], place[self.predictions]
        both = (rows >= 0) & (columns >= 0)
        return np.bincount(rows[both] * n + columns[both], minlength=n * n).reshape(n, n)

    def confusions(self, n: int = 10) -> list[Confusion]:
        """Return the most frequent pairs of a class and what it was taken for."""
        names, wrong = self.names, ~self.right
        pairs = self.labels[wrong].astype(np.int64) * len(names) + self.predictions[wrong]
        codes, times = np.unique(pairs, return_counts=True)
        most = np.argsort(-times, kind="stable")[:n]
        cells = zip(codes[most].tolist(), times[most].tolist(), strict=True)
        rows = [(*divmod(code, len(names)), count) for code, count in cells]
        return [Confusion(names[i], names[j], count, count / int(self.counts[0, i])) for i, j, count in rows]

    def confusion_frame(self) -> pd.DataFrame:
        """Return `confusion` as a pandas table: a row for each class, a column for each prediction."""
        import pandas as pd

        classes, predictions = (pd.Index(self.classes, name=name) for name in ("class", "prediction"))
        return pd.DataFrame(self.confusion, index=classes, columns=predictions)

    @property
    def errors(self) -> np.ndarray:
        """Rows of the wrong predictions, the most confident first; `positions` says which documents they are."""
        wrong = np.flatnonzero(~self.right)
        return wrong[np.argsort(-self.confidence[wrong], kind="stable")]

    def error_columns(self, rows: np.ndarray) -> Columns:
        """Return label, prediction and their probabilities of some errors."""
        return {
            "label": self.classes[self.labels[rows]].tolist(),
            "prediction": self.classes[self.predictions[rows]].tolist(),
            "probability": self.confidence[rows].tolist(),
            "probability_of_label": self.probabilities[rows, self.labels[rows]].tolist(),
        }

    def explained(self, rows: np.ndarray) -> dict[str, Any]:
        """Return what predictions are explained against: the labels."""
        return {"against": self.classes[self.labels[rows]].tolist()}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON can hold them."""
        return super().to_dict() | {"confusions": [confusion._asdict() for confusion in self.confusions()]}

    @property
    def heading(self) -> str:
        """Documents and errors."""
        return f"{super().heading}, {counted(int((~self.right).sum()), 'error')}"

    def tables(self) -> list[Table]:
        """Return figures by class, the confusion matrix where it is small, and the most frequent confusions."""
        matrix = self._matrix() if len(self.classes) <= MAX_MATRIX else Table((), ())
        fits = matrix.rows and max(map(len, matrix.text().splitlines())) <= LINE_WIDTH
        confusions = self.confusion_table()
        return [self.table(), *([matrix] if fits else []), *([confusions] if confusions.rows else [])]

    def confusion_table(self, n: int = 10) -> Table:
        """Return the most frequent confusions."""
        rows = [(c.label, c.prediction, f"{c.documents:,}", f"{c.share:.1%}") for c in self.confusions(n)]
        heads, widths = ("class", "taken for", "documents", "of the class"), {0: NAME_WIDTH, 1: NAME_WIDTH}
        return Table(heads, rows, "Most frequent confusions", left=(0, 1), widths=widths)

    def _matrix(self) -> Table:
        """Return the confusion matrix, its predictions numbered."""
        names = [f"{k:>2} {one_line(name, NAME_WIDTH - 4)}" for k, name in enumerate(self.names)]
        rows = [[name, *(f"{n:,}" if n else "." for n in row)] for name, row in zip(names, self.confusion, strict=True)]
        return Table(
            ["class", *map(str, range(len(names)))], rows, "Documents by class (rows) and prediction (columns)"
        )


def classification_report(
    classes: np.ndarray, labels: np.ndarray, log_probabilities: np.ndarray, positions: np.ndarray | None = None
) -> ClassificationReport:
    """Return the report of documents, those without a label left out.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
    labels : ndarray of shape (n_documents,), integers
        Positions in `classes`; -1 where there is none.
    log_probabilities : ndarray of shape (n_documents, n_classes), float64
    positions : ndarray of shape (n_documents,), default=None
        None: all documents in their order.

    Raises
    ------
    ValueError
        No document has a label.
    """
    labelled = np.flatnonzero(labels >= 0)
    positions = labelled if positions is None else positions[labelled]
    return ClassificationReport(classes, labels[labelled], log_probabilities[labelled], positions)
