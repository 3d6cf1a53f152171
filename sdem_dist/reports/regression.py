"""How far predicted numbers are from the true ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdem_dist.glossary import metric
from sdem_dist.reports.report import Report, Table


@dataclass(frozen=True, repr=False)
class RegressionReport(Report):
    """Figures of a regressor over documents whose targets are known.

    Attributes
    ----------
    targets, predictions : ndarray of shape (n_documents, n_targets), float64
    positions : ndarray of shape (n_documents,), int64
        Which of the documents given each one is.
    """

    targets: np.ndarray
    predictions: np.ndarray
    positions: np.ndarray

    @property
    def by_target(self) -> dict[str, np.ndarray]:
        """Figures of each target: R2, mean squared error, its root, mean absolute error, and mean error."""
        from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

        mse = np.asarray(mean_squared_error(self.targets, self.predictions, multioutput="raw_values"))
        return {
            "r2": np.asarray(r2_score(self.targets, self.predictions, multioutput="raw_values")),
            "mse": mse,
            "rmse": np.sqrt(mse),
            "mae": np.asarray(mean_absolute_error(self.targets, self.predictions, multioutput="raw_values")),
            "bias": (self.predictions - self.targets).mean(axis=0),
        }

    @property
    def errors(self) -> np.ndarray:
        """Rows of the documents, the largest error first."""
        return np.argsort(-np.abs(self.predictions - self.targets).max(axis=1), kind="stable")

    @property
    def figures(self) -> dict[str, float]:
        """Means over targets by name."""
        return {name: float(values.mean()) for name, values in self.by_target.items()}

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as JSON can hold them."""
        by_target = {name: values.tolist() for name, values in self.by_target.items()}
        return {"documents": self.n_documents, **self.figures, "targets": by_target}

    def _columns(self) -> tuple[str, Any, dict[str, Any]]:
        return "target", range(self.targets.shape[1]), self.by_target

    def tables(self) -> list[Table]:
        """Return the figures by target."""
        n = self.targets.shape[1]
        heads = ("", *(f"target {i}" for i in range(n))) if n > 1 else ()
        return [Table(heads, [(metric(k).name, *(f"{v:.4g}" for v in of)) for k, of in self.by_target.items()])]

    def figure_table(self) -> Table:
        """Return nothing: the figures by target say it all."""
        return Table((), ())
