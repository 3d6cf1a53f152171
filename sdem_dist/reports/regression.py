"""How far predicted numbers are from the targets."""

from __future__ import annotations

import numpy as np

from sdem_dist.reports.report import Columns, ErrorReport


class RegressionReport(ErrorReport):
    """Figures of a regressor over documents whose targets are known: R2, MSE, its root, MAE and the mean error (bias).

    Errors are all documents, the largest first.

    Parameters
    ----------
    targets, predictions : ndarray of shape (n_documents, n_targets), float64
    positions : ndarray of shape (n_documents,), int64
        Which of the documents given each one is.
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
        return {
            f"{name}_{k}" if len(self.names) > 1 else name: values[rows, k].tolist()
            for k in self.names
            for name, values in columns.items()
        }
