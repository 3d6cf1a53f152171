"""How well several labels per document are found, label by label."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.label_scores import COUNTS, Decisions, finish, label_sums, probabilities
from sdem_dist.reports.report import Report, Table, by_class_table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class LabelReport(Report):
    """Figures of a classifier of several labels over documents whose labels are known.

    `classes`: shape (n_labels,).
    `members`: shape (n_documents, n_labels), bool: which document has which label.
    `scores`: shape (n_documents, n_labels), float64: log-odds of each label.
    `thresholds`: shape (n_labels,): the probability from which on a document gets a label.
    `positions`: shape (n_documents,), int64: which of the documents given each one is.
    """

    classes: np.ndarray
    members: np.ndarray
    scores: np.ndarray
    thresholds: np.ndarray
    positions: np.ndarray

    @property
    def probabilities(self) -> np.ndarray:
        """p(label | document), shape (n_documents, n_labels)."""
        return probabilities(self.scores)

    @property
    def given(self) -> np.ndarray:
        """Which document gets which label, bool of shape (n_documents, n_labels)."""
        return self.probabilities >= self.thresholds

    @cached_property
    def _sums(self) -> np.ndarray:
        decisions = Decisions(np.ones(len(self.classes)), self.thresholds)
        return label_sums(self.scores, self.members, np.ones(self.n_documents), decisions)

    @property
    def figures(self) -> dict[str, float]:
        """Figures over all documents by name."""
        return finish(self._sums)

    @property
    def by_label(self) -> dict[str, np.ndarray]:
        """Precision, recall, F1 and number of documents of each label, 0 where nothing is divided; its threshold."""
        present, given, right, _ = self._sums[len(COUNTS) :].reshape(4, -1)

        def share(of: np.ndarray, all_: np.ndarray) -> np.ndarray:
            return np.divide(of, all_, out=np.zeros_like(of), where=all_ > 0)

        return {
            "precision": share(right, given),
            "recall": share(right, present),
            "f1": share(2.0 * right, given + present),
            "support": present.astype(np.int64),
            "threshold": self.thresholds,
        }

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as JSON can hold them."""
        names = ("label", *self.by_label)
        rows = zip(self.classes.tolist(), *(column.tolist() for column in self.by_label.values()), strict=True)
        labels = [dict(zip(names, row, strict=True)) for row in rows]
        return {"documents": self.n_documents, **self.figures, "labels": labels}

    def _columns(self) -> tuple[str, Any, dict[str, Any]]:
        return "label", self.classes, self.by_label

    def confusion_frame(self) -> pd.DataFrame:
        """Return a pandas table of what becomes of each label: documents that rightly or wrongly get it, or do not."""
        import pandas as pd

        present, given, right, _ = self._sums[len(COUNTS) :].reshape(4, -1).astype(np.int64)
        found = {"true_positives": right, "false_negatives": present - right, "false_positives": given - right}
        return pd.DataFrame(
            found | {"true_negatives": self.n_documents - present - given + right},
            index=pd.Index(self.classes, name="label"),
        )

    @cached_property
    def losses(self) -> np.ndarray:
        """Log-loss of each label of each document, shape (n_documents, n_labels)."""
        return np.asarray(np.logaddexp(0.0, np.where(self.members, -self.scores, self.scores)))

    @cached_property
    def errors(self) -> np.ndarray:
        """Documents that get a wrong label or lack one, the highest log-loss (the sum over labels) first."""
        rows = np.flatnonzero((self.given != self.members).any(axis=1))
        return rows[np.argsort(-self.losses[rows].sum(axis=1), kind="stable")]

    def wrong_labels(self, rows: np.ndarray) -> np.ndarray:
        """Return the position of the label that is most wrong of each of some errors."""
        return np.where((self.given != self.members)[rows], self.losses[rows], -1.0).argmax(axis=1)

    def errors_columns(self, rows: np.ndarray) -> dict[str, list[object]]:
        """Return columns about some errors: labels, predictions, log-loss, the most wrong label, its probability."""

        def named_labels(has: np.ndarray) -> list[object]:
            return [tuple(self.classes[row].tolist()) for row in has[rows]]

        wrong = self.wrong_labels(rows)
        return {
            "labels": named_labels(self.members),
            "predictions": named_labels(self.given),
            "log_loss": self.losses[rows].sum(axis=1).tolist(),
            "wrong_label": self.classes[wrong].tolist(),
            "probability": self.probabilities[rows, wrong].tolist(),
        }

    def errors_frame(self) -> pd.DataFrame:
        """Return the documents that get a wrong label or lack one, as a pandas table, the highest log-loss first.

        Its index is `positions`. The log-loss is the sum over labels; `wrong_label` is the one
        that is most wrong, and `probability` its own.
        """
        import pandas as pd

        return pd.DataFrame(
            self.errors_columns(self.errors), index=pd.Index(self.positions[self.errors], name="document")
        )

    @property
    def heading(self) -> str:
        """Documents and labels."""
        return f"{super().heading}, {counted(len(self.classes), 'label')}"

    def tables(self) -> list[Table]:
        """Return figures by label, the lowest F1 first."""
        columns = dict(
            zip(("precision", "recall", "F1", "documents", "threshold"), self.by_label.values(), strict=True)
        )
        present, given, right, _ = self._sums[len(COUNTS) :].reshape(4, -1)
        every = np.ones(len(self.classes), bool)
        return [by_class_table("label", self.classes, columns, present + given - 2.0 * right, every)]
