"""How well several labels per document are found, label by label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.label_scores import COUNTS, Decisions, finish, label_sums, probabilities
from sdem_dist.reports.report import ByClassReport, Columns

if TYPE_CHECKING:
    import pandas as pd


class LabelReport(ByClassReport):
    """Figures of a classifier of several labels over documents whose labels are known.

    Errors are the documents that get a wrong label or lack one, the highest log-loss (the sum over labels) first.

    `classes`: shape (n_labels,).
    `members`: shape (n_documents, n_labels), bool: which document has which label.
    `scores`: shape (n_documents, n_labels), float64: log-odds of each label.
    `thresholds`: shape (n_labels,): the probability from which on a document gets a label.
    `positions`: shape (n_documents,), int64: which of the documents given each one is.
    """

    kind, kinds = "label", "labels"

    def __init__(
        self,
        classes: np.ndarray,
        members: np.ndarray,
        scores: np.ndarray,
        thresholds: np.ndarray,
        positions: np.ndarray,
    ) -> None:
        self.members, self.probabilities = members, probabilities(scores)
        self.predictions = self.probabilities >= thresholds
        self.losses = np.logaddexp(0.0, np.where(members, -scores, scores))  # shape (n_documents, n_labels)
        sums = label_sums(scores, members, np.ones(len(members)), Decisions(np.ones(len(classes)), thresholds))
        counts = sums[len(COUNTS) :].reshape(4, -1)[:3].astype(np.int64)
        super().__init__(positions, finish(sums), classes, counts)
        self.columns = {**self.columns, "threshold": thresholds}
        rows = np.flatnonzero((self.predictions != members).any(axis=1))
        self.errors = rows[np.argsort(-self.losses[rows].sum(axis=1), kind="stable")]

    def confusion_frame(self) -> pd.DataFrame:
        """Return a pandas table of what becomes of each label: documents that rightly or wrongly get it, or do not."""
        import pandas as pd

        present, predicted, right = self.counts
        cells = {"true_positives": right, "false_negatives": present - right, "false_positives": predicted - right}
        cells["true_negatives"] = self.n_documents - present - predicted + right
        return pd.DataFrame(cells, index=pd.Index(self.classes, name="label"))

    def wrong_labels(self, rows: np.ndarray) -> np.ndarray:
        """Return the position of the label that is most wrong of each of some errors."""
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

    def explained(self, rows: np.ndarray) -> dict[str, Any]:
        return {"of_labels": self.wrong_labels(rows)}

    @property
    def heading(self) -> str:
        return f"{super().heading}, {counted(len(self.classes), 'label')}"
