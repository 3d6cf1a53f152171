"""What a search is decided by: measures of predictions that folds make of documents they have not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sdem_dist import calibration
from sdem_dist.evaluation import class_sums, macro_f1

GREATER = {"accuracy": True, "macro-F1": True, "R2": True, "log-loss": False, "perplexity": False}
"""Whether more is better, by metric."""
CLASSES = ("log-loss", "accuracy", "macro-F1", "perplexity")
"""Those of classifiers."""
Metric = str | Callable[[np.ndarray, np.ndarray], float]
"""A name, or a function of labels and probabilities whose value should be large."""


class Predicted(NamedTuple):
    """Predictions of documents that the models were not trained on."""

    log_proba: np.ndarray
    """ln p(y | d) at temperature 1, shape (n_documents, n_classes)."""
    labels: np.ndarray
    """Positions of the classes, shape (n_documents,); -1 where there is none."""
    weights: np.ndarray
    """Shape (n_documents,)."""
    folds: np.ndarray
    """Shape (n_documents,)."""
    log_likelihood: np.ndarray | None = None
    """ln p(d), shape (n_documents,)."""
    lengths: np.ndarray | None = None
    """Words, shape (n_documents,)."""


def check_metric(metric: object) -> None:
    """Raise ValueError unless it is a metric that is known, or a function."""
    if not callable(metric) and metric not in GREATER:
        raise ValueError(f"metric must be one of {', '.join(GREATER)} or a function, got {metric!r}")


def greater_is_better(metric: Metric) -> bool:
    """Whether large values are good."""
    return callable(metric) or GREATER[metric]


def name_of(metric: Metric) -> str:
    """Return what people call a metric."""
    return getattr(metric, "__name__", "score") if callable(metric) else metric


def temperature_of(found: Predicted, near: float = 1.0) -> float:
    """Return the temperature with the least log-loss over all folds; it is sought from `near` on."""
    used = (found.labels >= 0) & (found.weights > 0)
    if not used.any():
        return 1.0
    rows = slice(None) if used.all() else used
    scores = found.log_proba[rows]
    if np.isnan(scores).any():
        scores = np.nan_to_num(scores, nan=0.0, neginf=-np.inf)
    return calibration.nearest_temperature(scores, found.labels[rows], found.weights[rows], near)


def log_sums(scores: np.ndarray) -> np.ndarray:
    """Return ln of the sums of exp over the columns, shape (n_documents, 1); -inf where all are."""
    top = scores.max(axis=1, keepdims=True, initial=-np.inf)
    top[~np.isfinite(top)] = 0.0
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(scores - top).sum(axis=1, keepdims=True)) + top)


def tempered(log_proba: np.ndarray, temperature: float) -> np.ndarray:
    """Return ln p(y | d) at a temperature, float64."""
    scores = log_proba.astype(np.float64) / temperature
    scores -= log_sums(scores)
    return scores


def measured(found: Predicted, temperature: float, metrics: tuple[Metric, ...]) -> dict[str, np.ndarray]:
    """Return each metric of each fold, by name.

    Parameters
    ----------
    found : Predicted
    temperature : float
        Of probabilities.
    metrics : tuple of str or callable
    """
    log_proba = tempered(found.log_proba, temperature)
    used = (found.labels >= 0) & (found.weights > 0)
    folds = np.unique(found.folds)
    parts = [np.flatnonzero(used & (found.folds == fold)) for fold in folds]
    return {
        name_of(metric): np.array([_measure(metric, found, log_proba, rows) for rows in parts]) for metric in metrics
    }


def _measure(metric: Metric, found: Predicted, log_proba: np.ndarray, rows: np.ndarray) -> float:
    labels, weights, of_rows = found.labels[rows], found.weights[rows], log_proba[rows]
    if not len(rows):
        return float("nan")
    if callable(metric):
        return float(metric(labels, np.exp(of_rows)))
    if metric == "log-loss":
        least = np.maximum(of_rows[np.arange(len(rows)), labels], -1e3)
        return float(-(weights * least).sum() / weights.sum())
    said = of_rows.argmax(axis=1)
    if metric == "accuracy":
        return float((weights * (said == labels)).sum() / weights.sum())
    if metric == "macro-F1":
        return macro_f1(class_sums(of_rows, labels, weights))
    assert metric == "perplexity"
    if found.log_likelihood is None or found.lengths is None:
        raise ValueError("this estimator has no perplexity: choose another metric")
    total = float(found.lengths[rows].sum())
    return float(np.exp(min(-float(found.log_likelihood[rows].sum()) / total, 700.0))) if total else float("nan")
