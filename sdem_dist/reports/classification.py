"""Reports of classifiers, by class, or by label for several labels per document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sdem_dist.counted import counted, one_line
from sdem_dist.evaluation import (
    COUNTS,
    Decisions,
    bin_sums,
    brier_scores,
    label_metrics,
    label_sums,
    macro_f1,
    probabilities,
    reliability,
)  # fmt: skip
from sdem_dist.reports.report import NAME_WIDTH, Columns, ErrorReport
from sdem_dist.table import Table

if TYPE_CHECKING:
    import pandas as pd

MAX_ROWS = 60  # most classes, or labels, in a table or a picture
MAX_MATRIX, LINE_WIDTH = 12, 80  # most classes, and most characters per line, of a confusion matrix at a terminal


class ByClassReport(ErrorReport):
    """Precision, recall, F1 and number of documents by class or label; 0 if the denominator is 0.

    Attributes
    ----------
    counts : ndarray of shape (3, n_classes), int64
        Per class: number of documents, of predictions, and of correct predictions.
    """

    def __init__(self, positions: np.ndarray, figures: dict[str, float], classes: np.ndarray, counts: np.ndarray):
        self.classes, self.counts = classes, counts
        present, predicted, right = counts
        columns = {"precision": right / np.maximum(predicted, 1), "recall": right / np.maximum(present, 1)}
        columns |= {"f1": 2 * right / np.maximum(present + predicted, 1), "documents": present}
        super().__init__(positions, figures, classes.tolist(), columns)

    @property
    def worst(self) -> np.ndarray:
        """Positions of the 60 classes with the most errors (then the most documents), in ascending order."""
        present, predicted, right = self.counts
        return np.sort(np.lexsort((-present, 2 * right - present - predicted))[:MAX_ROWS])

    def tables(self) -> list[Table]:
        """Return metrics by class, lowest F1 first; with very many classes, only those with the most errors."""
        present, predicted, _ = self.counts
        occurs, rows, note = present + predicted > 0, self.worst, ""
        rows, n_occurring = rows[occurs[rows]], int(occurs.sum())
        rows = rows[np.lexsort((-present[rows], self.columns["f1"][rows]))]
        some = others = ""
        if n_others := n_occurring - len(rows):
            documents = counted(int(present.sum() - present[rows].sum()), "document")
            some = f", the {len(rows)} with the most errors"
            others = f"; {counted(n_others, 'other')} ({documents}) are in to_frame(), and in evaluate --report --json"
        if n_absent := len(occurs) - n_occurring:
            n = counted(n_occurring, self.kind, self.kinds)
            note = f"Macro-F1 is the mean over {n}, excluding {n_absent:,} without documents or predictions."
        return [self.table(rows, f"By {self.kind}{some}, lowest F1 first{others}", note)]


class Confusion(NamedTuple):
    """Documents of one class that were predicted as another."""

    label: object
    prediction: object
    documents: int
    share: float
    """Fraction of the documents in the class."""


class ClassificationReport(ByClassReport):
    """Metrics of a classifier on labelled documents.

    ValueError: no document has a label.

    Attributes
    ----------
    labels, predictions : ndarray of shape (n_documents,), integers
        Positions in `classes` of the true and the predicted class of each document.
    probabilities : ndarray of shape (n_documents, n_classes)
    confidence, right : ndarray of shape (n_documents,), float64 and bool
        Probability of each prediction, and whether it is correct.
    reliability : Reliability
        Accuracy and confidence, in 15 equal bins.
    accuracy, macro_f1, log_loss, ece : float
        Fraction of correct predictions; mean F1 over classes that occur or were predicted; mean of -ln p(label |
        document), without clipping; expected calibration error. `figures` also contains the Brier score (0 to 2), and
        for two classes the areas under the ROC and precision-recall curves of the second class.
    """

    kind, kinds = "class", "classes"

    def __init__(
        self, classes: np.ndarray, labels: np.ndarray, log_p: np.ndarray, positions: np.ndarray | None = None
    ) -> None:
        labelled = np.flatnonzero(labels >= 0)
        if not len(labelled):
            raise ValueError("no document has a label: a report needs labels")
        self.labels, log_p = labels[labelled], log_p[labelled]
        self.probabilities, self.predictions = np.exp(log_p), log_p.argmax(axis=1)
        self.confidence, self.right = self.probabilities.max(axis=1), self.predictions == self.labels
        self.reliability = reliability(bin_sums(self.confidence, self.right, np.ones(len(self.right))))
        columns = self.labels, self.predictions, self.labels[self.right]
        counts = np.array([np.bincount(column, minlength=len(classes)) for column in columns])
        self.accuracy, self.macro_f1 = float(self.right.mean()), macro_f1(counts.ravel())
        self.log_loss, self.ece = float(-log_p[np.arange(len(labelled)), self.labels].mean()), self.reliability.ece
        figures = {name: getattr(self, name) for name in ("accuracy", "log_loss", "macro_f1", "ece")}
        figures["brier"] = float(brier_scores(self.probabilities, self.labels).mean())
        if len(classes) == 2 and counts[0].all():
            from sklearn.metrics import average_precision_score, roc_auc_score

            # Rank documents by log-odds, since probabilities near 1 would be ties.
            odds = np.diff(np.clip(log_p, -1e300, 0.0)).ravel()
            figures["roc_auc"] = float(roc_auc_score(self.labels, odds))
            figures["pr_auc"] = float(average_precision_score(self.labels, odds))
        super().__init__(labelled if positions is None else positions[labelled], figures, classes, counts)
        wrong = np.flatnonzero(~self.right)
        self.errors = wrong[np.argsort(-self.confidence[wrong], kind="stable")]

    @property
    def confusion(self) -> np.ndarray:
        """Documents by class and prediction, shape (n_classes, n_classes), int64."""
        return self.confusion_among(np.arange(len(self.classes)))

    def confusion_among(self, chosen: np.ndarray) -> np.ndarray:
        """Return documents by class and prediction for classes at some positions, shape (n_chosen, n_chosen), int64."""
        from sklearn.metrics import confusion_matrix

        return np.asarray(confusion_matrix(self.labels, self.predictions, labels=chosen))

    def confusions(self, n: int = 10) -> list[Confusion]:
        """Return the most frequent confusions: pairs of a class and its wrong prediction."""
        names, pairs = self.names, np.stack([self.labels, self.predictions])[:, self.errors]
        pairs, times = np.unique(pairs, axis=1, return_counts=True)
        cells = ((*pairs[:, k].tolist(), int(times[k])) for k in np.argsort(-times, kind="stable")[:n])
        return [Confusion(names[i], names[j], n, n / int(self.counts[0, i])) for i, j, n in cells]

    def confusion_frame(self) -> pd.DataFrame:
        """Return `confusion` as a pandas DataFrame: a row for each class, a column for each prediction."""
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

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"confusions": [confusion._asdict() for confusion in self.confusions()]}

    @property
    def heading(self) -> str:
        return f"{super().heading}, {counted(len(self.errors), 'error')}"

    def tables(self) -> list[Table]:
        """Return metrics by class, the confusion matrix if it fits a terminal, and the most frequent confusions."""
        tables = super().tables()
        if len(self.names) <= MAX_MATRIX:
            names = [f"{k:>2} {one_line(name, NAME_WIDTH - 4)}" for k, name in enumerate(self.names)]
            pairs = zip(names, self.confusion, strict=True)
            rows = [[name, *(f"{n:,}" if n else "." for n in row)] for name, row in pairs]
            heads = ["class", *map(str, range(len(names)))]
            matrix = Table(heads, rows, "Documents by class (rows) and prediction (columns)")
            tables += [matrix] if max(map(len, matrix.text().splitlines())) <= LINE_WIDTH else []
        return [*tables, *([self.confusion_table()] if len(self.errors) else [])]

    def confusion_table(self, n: int = 10) -> Table:
        """Return the most frequent confusions."""
        rows = [(c.label, c.prediction, f"{c.documents:,}", f"{c.share:.1%}") for c in self.confusions(n)]
        heads, widths = ("class", "predicted", "documents", "of the class"), {0: NAME_WIDTH, 1: NAME_WIDTH}
        return Table(heads, rows, "Most frequent confusions", left=(0, 1), widths=widths)


class LabelReport(ByClassReport):
    """Metrics of a classifier with several labels per document.

    Errors are documents with a wrong or missing label, highest log-loss (the sum over labels) first.

    Attributes
    ----------
    members, predictions : ndarray of shape (n_documents, n_labels), bool
        True and predicted labels of each document.
    probabilities, losses : ndarray of shape (n_documents, n_labels), float64
    """

    kind, kinds = "label", "labels"

    def __init__(
        self, classes: np.ndarray, members: np.ndarray, odds: np.ndarray, thresholds: np.ndarray, positions: np.ndarray
    ) -> None:
        self.members, self.probabilities = members, probabilities(odds)
        self.predictions = self.probabilities >= thresholds
        self.losses = np.logaddexp(0.0, np.where(members, -odds, odds))
        sums = label_sums(odds, members, np.ones(len(members)), Decisions(np.ones(len(classes)), thresholds))
        counts = sums[len(COUNTS) :].reshape(4, -1)[:3].astype(np.int64)
        super().__init__(positions, label_metrics(sums), classes, counts)
        self.columns = {**self.columns, "threshold": thresholds}
        rows = np.flatnonzero((self.predictions != members).any(axis=1))
        self.errors = rows[np.argsort(-self.losses[rows].sum(axis=1), kind="stable")]

    def confusion_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with the correct and wrong predictions of each label, and of its absence."""
        import pandas as pd

        present, predicted, right = self.counts
        cells = {"true_positives": right, "false_negatives": present - right, "false_positives": predicted - right}
        cells["true_negatives"] = self.n_documents - present - predicted + right
        return pd.DataFrame(cells, index=pd.Index(self.classes, name="label"))

    def wrong_labels(self, rows: np.ndarray) -> np.ndarray:
        """Return the position of the label with the largest error, for each error in `rows`."""
        return np.where((self.predictions != self.members)[rows], self.losses[rows], -1.0).argmax(axis=1)

    def error_columns(self, rows: np.ndarray) -> Columns:
        wrong = self.wrong_labels(rows)
        return {
            "labels": [tuple(self.classes[row].tolist()) for row in self.members[rows]],
            "predictions": [tuple(self.classes[row].tolist()) for row in self.predictions[rows]],
            "log_loss": self.losses[rows].sum(axis=1).tolist(),
            "wrong_label": self.classes[wrong].tolist(),
            "probability": self.probabilities[rows, wrong].tolist(),
        }

    @property
    def heading(self) -> str:
        return f"{super().heading}, {counted(len(self.classes), 'label')}"
