"""The metrics that decide a search: of predictions for documents that the models have not seen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist import calibration
from sdem_dist.evaluation import class_sums, macro_f1
from sdem_dist.selection.label_metrics import LABELS, measured_labels
from sdem_dist.selection.predicted import Metric, Predicted, score_by

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator

GREATER = {
    "accuracy": True,
    "micro-F1": True,
    "macro-F1": True,
    "R2": True,
    "log-loss": False,
    "Hamming-loss": False,
    "perplexity": False,
    "distance": False,
}
"""Whether more is better, by metric."""
CLASSES = ("log-loss", "accuracy", "macro-F1", "perplexity")
"""Those of classifiers."""


def metrics_of(estimator: EngineEstimator, several: bool = False) -> tuple[str, ...]:
    """Return the names of the metrics of an estimator, the default one first; `several`: labels a document."""
    target = estimator.spec.target
    if target == "labels":
        return LABELS if several else CLASSES
    if target == "numbers":
        return ("R2",)
    return ("distance",) if "distance" in estimator.spec.shown else ("perplexity",)


def metric_of(estimator: EngineEstimator, metric: Metric | None, several: bool = False) -> Metric:
    """Return a metric, or the default one for None; raise ValueError if the estimator does not have it.

    `several`: documents have several labels.
    """
    known = metrics_of(estimator, several)
    if callable(metric) and estimator.spec.target != "labels":
        raise ValueError("a metric of your own takes labels and probabilities, which only classifiers have")
    if isinstance(metric, str) and metric not in known:
        what = " of several labels per document" if several else ""
        raise ValueError(f"{type(estimator).__name__} has no {metric}{what}: choose {any_of(known)}")
    return known[0] if metric is None else metric


def any_of(names: Sequence[str]) -> str:
    """Return "a", "a or b", or "a, b or c"."""
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def check_metric(metric: object) -> None:
    """Raise ValueError unless it is a known metric, or a function; warn of one whose name says that less is better."""
    if callable(metric) and name_of(metric).endswith(("_loss", "_error")):
        name = name_of(metric)
        warnings.warn(
            f"of a metric of your own more is better, and {name} sounds as if less were: pass lambda y, p: -{name}(y, p), or a "
            "function of another name",
            stacklevel=4,
        )
    if not callable(metric) and metric not in GREATER:
        raise ValueError(f"metric must be one of {', '.join(GREATER)} or a function, got {metric!r}")


def greater_is_better(metric: Metric) -> bool:
    """Whether large values are good."""
    return callable(metric) or GREATER[metric]


def name_of(metric: Metric) -> str:
    """Return what people call a metric."""
    if not callable(metric):
        return metric
    name = str(getattr(metric, "__name__", "score"))
    return "score" if name == "<lambda>" else name


def temperature_of(found: Predicted, near: float = 1.0) -> float:
    """Return the temperature with the least log-loss over all folds; it is sought from `near` on."""
    used = (found.labels >= 0) & (found.weights > 0)
    if not used.any():
        return 1.0
    rows = slice(None) if used.all() else used
    scores = found.scores[rows]
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

    `temperature`: of probabilities; several labels have temperatures of their own.
    """
    if found.members is not None:
        of = measured_labels(found, metrics)
        return {name_of(metric): np.array(values) for metric, values in zip(metrics, of, strict=True)}
    log_proba = tempered(found.scores, temperature)
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
        return score_by(metric, labels, np.exp(of_rows))
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
