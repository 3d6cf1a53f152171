"""What a classifier gets right and wrong, by class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sdem_dist.calibration import bin_sums, brier_scores, reliability
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


class ClassificationReport(ByClassReport):
    """Figures of a classifier over documents whose classes are known; those without a label are left out.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
    labels : ndarray of shape (n_documents,), integers
        Positions in `classes`; -1 where there is none.
    log_probabilities : ndarray of shape (n_documents, n_classes), float64
        ln p(class | document).
    positions : ndarray of shape (n_documents,), default=None
        Which of the documents given each one is; None: all in their order.

    Attributes
    ----------
    predictions : ndarray of shape (n_documents,), integers
        Position of the most probable class of each document.
    probabilities : ndarray of shape (n_documents, n_classes)
    confidence : ndarray of shape (n_documents,)
        Probability of each prediction.
    right : ndarray of shape (n_documents,), bool
    reliability : Reliability
        Accuracy beside confidence, in 15 equal bins.
    accuracy, macro_f1, log_loss, ece : float
        Share of right predictions; mean F1 of the classes that occur or were predicted; mean of -ln p(label |
        document), without clipping; expected calibration error. `figures` has them, too, with the Brier score (0 to 2),
        and of two classes that both occur the areas under the ROC and the precision-recall curve of the second one.

    Raises
    ------
    ValueError
        No document has a label.
    """

    kind, kinds = "class", "classes"

    def __init__(
        self,
        classes: np.ndarray,
        labels: np.ndarray,
        log_probabilities: np.ndarray,
        positions: np.ndarray | None = None,
    ) -> None:
        labelled = np.flatnonzero(labels >= 0)
        if not len(labelled):
            raise ValueError("none of the documents has a label: a report needs some that have")
        self.labels, log_p = labels[labelled], log_probabilities[labelled]
        self.probabilities, self.predictions = np.exp(log_p), log_p.argmax(axis=1)
        self.confidence, self.right = self.probabilities.max(axis=1), self.predictions == self.labels
        self.reliability = reliability(bin_sums(self.confidence, self.right))
        columns = self.labels, self.predictions, self.labels[self.right]
        counts = np.array([np.bincount(column, minlength=len(classes)) for column in columns])
        self.accuracy, self.macro_f1, self.ece = (
            float(self.right.mean()),
            macro_f1(counts.ravel()),
            self.reliability.ece,
        )
        self.log_loss = float(-log_p[np.arange(len(labelled)), self.labels].mean())
        figures = {"accuracy": self.accuracy, "log_loss": self.log_loss, "macro_f1": self.macro_f1, "ece": self.ece}
        figures["brier"] = float(brier_scores(self.probabilities, self.labels).mean())
        if len(classes) == 2 and counts[0].all():
            from sklearn.metrics import average_precision_score, roc_auc_score

            # Documents are ranked by log-odds: probabilities near 1 would be ties.
            finite = np.clip(log_p, -1e300, 0.0)
            figures["roc_auc"] = float(roc_auc_score(self.labels, finite[:, 1] - finite[:, 0]))
            figures["pr_auc"] = float(average_precision_score(self.labels, finite[:, 1] - finite[:, 0]))
        super().__init__(labelled if positions is None else positions[labelled], figures, classes, counts)
        wrong = np.flatnonzero(~self.right)
        self.errors = wrong[np.argsort(-self.confidence[wrong], kind="stable")]

    @property
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
        names, wrong = self.names, self.errors
        pairs = self.labels[wrong].astype(np.int64) * len(names) + self.predictions[wrong]
        codes, times = np.unique(pairs, return_counts=True)
        most = np.argsort(-times, kind="stable")[:n]
        cells = ((*divmod(int(codes[k]), len(names)), int(times[k])) for k in most)
        return [Confusion(names[i], names[j], n, n / int(self.counts[0, i])) for i, j, n in cells]

    def confusion_frame(self) -> pd.DataFrame:
        """Return `confusion` as a pandas table: a row for each class, a column for each prediction."""
        import pandas as pd

        classes, predictions = (pd.Index(self.classes, name=name) for name in ("class", "prediction"))
        return pd.DataFrame(self.confusion, index=classes, columns=predictions)

    def error_columns(self, rows: np.ndarray) -> Columns:
        return {
            "label": self.classes[self.labels[rows]].tolist(),
            "prediction": self.classes[self.predictions[rows]].tolist(),
            "probability": self.confidence[rows].tolist(),
            "probability_of_label": self.probabilities[rows, self.labels[rows]].tolist(),
        }

    def explained(self, rows: np.ndarray) -> dict[str, Any]:
        return {"against": self.classes[self.labels[rows]].tolist()}

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"confusions": [confusion._asdict() for confusion in self.confusions()]}

    @property
    def heading(self) -> str:
        return f"{super().heading}, {counted(len(self.errors), 'error')}"

    def tables(self) -> list[Table]:
        """Return figures by class, the confusion matrix where it is small, and the most frequent confusions."""
        confusions = self.confusion_table()
        return [*super().tables(), *self._matrix(), *([confusions] if confusions.rows else [])]

    def confusion_table(self, n: int = 10) -> Table:
        """Return the most frequent confusions."""
        rows = [(c.label, c.prediction, f"{c.documents:,}", f"{c.share:.1%}") for c in self.confusions(n)]
        heads, widths = ("class", "taken for", "documents", "of the class"), {0: NAME_WIDTH, 1: NAME_WIDTH}
        return Table(heads, rows, "Most frequent confusions", left=(0, 1), widths=widths)

    def _matrix(self) -> list[Table]:
        """Return the confusion matrix, its predictions numbered; nothing where a line would be too wide."""
        if len(self.classes) > MAX_MATRIX:
            return []
        names = [f"{k:>2} {one_line(name, NAME_WIDTH - 4)}" for k, name in enumerate(self.names)]
        rows = [[name, *(f"{n:,}" if n else "." for n in row)] for name, row in zip(names, self.confusion, strict=True)]
        heads, caption = ["class", *map(str, range(len(names)))], "Documents by class (rows) and prediction (columns)"
        table = Table(heads, rows, caption)
        return [table] if max(map(len, table.text().splitlines())) <= LINE_WIDTH else []
