"""How well several labels per document are found, label by label."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.label_scores import COUNTS, Decisions, finish, label_sums, probabilities
from sdem_dist.reports.report import ByClassReport, Columns

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class LabelReport(ByClassReport):
    """Figures of a classifier of several labels over documents whose labels are known.

    `classes`: shape (n_labels,).
    `members`: shape (n_documents, n_labels), bool: which document has which label.
    `scores`: shape (n_documents, n_labels), float64: log-odds of each label.
    `thresholds`: shape (n_labels,): the probability from which on a document gets a label.
    `positions`: shape (n_documents,), int64: which of the documents given each one is.
    """

    kind, kinds = "label", "labels"
    classes: np.ndarray
    members: np.ndarray
    scores: np.ndarray
    thresholds: np.ndarray
    positions: np.ndarray

    @cached_property
    def probabilities(self) -> np.ndarray:
        """p(label | document), shape (n_documents, n_labels)."""
        return probabilities(self.scores)

    @cached_property
    def predictions(self) -> np.ndarray:
        """Which document gets which label, bool of shape (n_documents, n_labels)."""
        return np.asarray(self.probabilities >= self.thresholds)

    @cached_property
    def _sums(self) -> np.ndarray:
        decisions = Decisions(np.ones(len(self.classes)), self.thresholds)
        return label_sums(self.scores, self.members, np.ones(self.n_documents), decisions)

    @property
    def figures(self) -> dict[str, float]:
        """Figures over all documents by name."""
        return finish(self._sums)

    @property
    def counts(self) -> np.ndarray:
        """Documents that have each label, that get it, and that get it rightly, shape (3, n_labels), int64."""
        return self._sums[len(COUNTS) :].reshape(4, -1)[:3].astype(np.int64)

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """Precision, recall, F1 and number of documents of each label; the probability from which on it is given."""
        return super().columns | {"threshold": self.thresholds}

    def confusion_frame(self) -> pd.DataFrame:
        """Return a pandas table of what becomes of each label: documents that rightly or wrongly get it, or do not."""
        import pandas as pd

        present, predicted, right = self.counts
        cells = {"true_positives": right, "false_negatives": present - right, "false_positives": predicted - right}
        cells["true_negatives"] = self.n_documents - present - predicted + right
        return pd.DataFrame(cells, index=pd.Index(self.classes, name="label"))

    @cached_property
    def losses(self) -> np.ndarray:
        """Log-loss of each label of each document, shape (n_documents, n_labels)."""
        return np.asarray(np.logaddexp(0.0, np.where(self.members, -self.scores, self.scores)))

    @cached_property
    def errors(self) -> np.ndarray:
        """Documents that get a wrong label or lack one, the highest log-loss (the sum over labels) first."""
        rows = np.flatnonzero((self.predictions != self.members).any(axis=1))
        return rows[np.argsort(-self.losses[rows].sum(axis=1), kind="stable")]

    def wrong_labels(self, rows: np.ndarray) -> np.ndarray:
        """Return the position of the label that is most wrong of each of some errors."""
        return np.where((self.predictions != self.members)[rows], self.losses[rows], -1.0).argmax(axis=1)

    def error_columns(self, rows: np.ndarray) -> Columns:
        """Return labels, predictions, log-loss (the sum over labels), the most wrong label, and its probability."""
        wrong = self.wrong_labels(rows)
        return {
            "labels": [tuple(self.classes[row].tolist()) for row in self.members[rows]],
            "predictions": [tuple(self.classes[row].tolist()) for row in self.predictions[rows]],
            "log_loss": self.losses[rows].sum(axis=1).tolist(),
            "wrong_label": self.classes[wrong].tolist(),
            "probability": self.probabilities[rows, wrong].tolist(),
        }

    def explained(self, rows: np.ndarray) -> dict[str, Any]:
        """Return which label of some errors is explained: the one that is most wrong."""
        return {"of_labels": self.wrong_labels(rows)}

    @property
    def heading(self) -> str:
        """Documents and labels."""
        return f"{super().heading}, {counted(len(self.classes), 'label')}"
