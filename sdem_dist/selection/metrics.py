"""Predictions of documents that their models have not seen, and the metrics that decide a search."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from reprlib import repr as brief
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sdem_dist.label_scores import probabilities

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator

Metric: TypeAlias = "str | Callable[[np.ndarray, np.ndarray], float]"
"""A name, or a function of labels and probabilities whose value should be large."""
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
CLASS_METRICS = ("log-loss", "accuracy", "macro-F1", "perplexity")
LABEL_METRICS = ("micro-F1", "macro-F1", "accuracy", "Hamming-loss", "log-loss")
"""Of several labels per document. Accuracy is of documents all of whose labels are right."""
BY_MODEL = ("R2", "perplexity", "distance")
"""Metrics that need the model, not only what it predicts of each document."""
LARGEST_LOSS = 1e3
"""Log-loss of a document at most: one of probability 0 does not make a mean infinite."""


@dataclass(frozen=True)
class Predictions:
    """Predictions of documents by models that were not trained on them.

    Attributes
    ----------
    rows : ndarray of shape (n_documents,)
        Positions of the documents in their corpus.
    scores : ndarray of shape (n_documents, n_classes), float32
        ln p(y | d), or the log-odds of each label.
    labels : ndarray of shape (n_documents,)
        Positions of the classes, or of sets of labels; -1 where there is none.
    weights : ndarray of shape (n_documents,)
    members, chosen : ndarray of shape (n_documents, n_labels), bool, or None
        Which labels documents have, and which are predicted, where there may be several.
    """

    rows: np.ndarray
    scores: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    members: np.ndarray | None = None
    chosen: np.ndarray | None = None

    @property
    def proba(self) -> np.ndarray:
        scores = self.scores.astype(np.float64)
        return np.exp(scores) if self.members is None else probabilities(scores)

    @property
    def counted(self) -> Predictions:
        """Those of documents with a label and a weight above zero."""
        return self.rows_at(np.flatnonzero((self.labels >= 0) & (self.weights > 0)))

    def rows_at(self, positions: np.ndarray) -> Predictions:
        return Predictions(*(None if column is None else column[positions] for column in vars(self).values()))  # type: ignore[arg-type]


def joined(parts: Sequence[Predictions]) -> Predictions:
    """Return the predictions of several folds, in the order of their documents."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    predictions = Predictions(*(None if of[0] is None else np.concatenate(of) for of in columns))  # type: ignore[arg-type]
    return predictions.rows_at(np.argsort(predictions.rows, kind="stable"))


def measure(metric: Metric, predictions: Predictions) -> float:
    """Return a metric of predictions; NaN where no document counts.

    Raises TypeError: a metric of one's own returns no number.
    """
    counted = predictions.counted
    if not len(counted.rows):
        return float("nan")
    if callable(metric):
        labels = counted.labels if counted.members is None else counted.members.astype(np.int64)
        value = np.asarray(metric(labels, counted.proba))
        if value.ndim or value.dtype.kind not in "biuf":
            raise TypeError(f"the metric {name_of(metric)} has to return a number, and returned {brief(value[()])}")
        return float(value)
    return float(np.average(per_document(metric, counted), weights=counted.weights))


def per_document(metric: str, predictions: Predictions) -> np.ndarray:
    """Return numbers of documents whose mean by weight is the metric: two settings are compared document by document.

    F1 is a ratio of sums. Its numbers are those of its linear part at the sums (the delta method), which is what its
    standard error needs.

    `predictions`: of documents that count.
    """
    scores, labels = predictions.scores, predictions.labels
    present, chosen, weights = predictions.members, predictions.chosen, predictions.weights
    if present is None or chosen is None:
        if metric == "log-loss":
            own = scores[np.arange(len(labels)), labels].astype(np.float64)
            return np.minimum(-np.nan_to_num(own, nan=-LARGEST_LOSS), LARGEST_LOSS)
        best = scores.argmax(axis=1)
        return (best == labels).astype(np.float64) if metric == "accuracy" else _class_f1(labels, best, weights, scores)
    if metric == "log-loss":
        odds = scores.astype(np.float64)
        return np.asarray(np.logaddexp(0.0, np.where(present, -odds, odds)).mean(axis=1))
    if metric == "accuracy":
        return (chosen == present).all(axis=1).astype(np.float64)
    if metric == "Hamming-loss":
        return np.asarray((present != chosen).mean(axis=1))
    return _label_f1(present, chosen, weights, pooled=metric == "micro-F1")


def _label_f1(present: np.ndarray, chosen: np.ndarray, weights: np.ndarray, *, pooled: bool) -> np.ndarray:
    either, right = present.astype(np.float64) + chosen, 2.0 * (present & chosen)
    if pooled:
        either, right = either.sum(axis=1, keepdims=True), right.sum(axis=1, keepdims=True)
    shares = weights / weights.sum()
    means = shares @ either
    either, right, means = either[:, means > 0], right[:, means > 0], means[means > 0]
    if not len(means):
        return np.zeros(len(weights))
    f1 = shares @ right / means
    return np.asarray((f1 + (right - f1 * either) / means).mean(axis=1))


def _class_f1(labels: np.ndarray, best: np.ndarray, weights: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return what documents of one label add to macro-F1, without a table of documents and classes."""
    right, n, k = labels == best, weights.sum(), scores.shape[1]
    means = (np.bincount(labels, weights, k) + np.bincount(best, weights, k)) / n
    occurs = means > 0
    by_mean = np.divide(1.0, means, where=occurs, out=np.zeros(k))
    f1 = 2.0 * np.bincount(labels, weights * right, k) / n * by_mean
    change = 2.0 * right * by_mean[labels] - (f1 * by_mean)[labels] - (f1 * by_mean)[best]
    return np.asarray(f1[occurs].mean() + change / occurs.sum())


def mean_and_error(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the mean by weight and its standard error; NaN where there are not two documents' worth of weight.

    Documents of unequal weights count as ``sum(w)^2 / sum(w^2)`` equal ones (Kish).
    """
    shares = weights / weights.sum()
    mean, n = float(shares @ values), 1.0 / float(shares @ shares)
    if n - 1.0 < 1e-9:
        return mean, float("nan")
    return mean, float(np.sqrt(shares @ (values - mean) ** 2 / (n - 1.0)))


def metrics_of(estimator: EngineEstimator, several: bool = False) -> tuple[str, ...]:
    """Return the names of the metrics of an estimator, the default one first; `several`: labels a document."""
    target = estimator.spec.target
    if target == "labels":
        return LABEL_METRICS if several else CLASS_METRICS
    if target == "numbers":
        return ("R2",)
    return ("distance",) if "distance" in estimator.spec.shown else ("perplexity",)


def metric_of(estimator: EngineEstimator, metric: Metric | None, several: bool = False) -> Metric:
    names = metrics_of(estimator, several)
    if callable(metric) and estimator.spec.target != "labels":
        raise ValueError("a metric of your own takes labels and probabilities, which only classifiers have")
    if isinstance(metric, str) and metric not in names:
        what = " of several labels per document" if several else ""
        choices = " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
        raise ValueError(f"{type(estimator).__name__} has no {metric}{what}: choose {choices}")
    return names[0] if metric is None else metric


def check_metric(metric: object) -> None:
    """Raise ValueError unless it is a known metric, or a function; warn of one whose name says that less is better."""
    if callable(metric) and name_of(metric).endswith(("_loss", "_error")):
        name = name_of(metric)
        warnings.warn(
            f"of a metric of your own more is better, and {name} sounds as if less were: pass lambda y, p: -{name}(y, p), "
            "or a function of another name",
            stacklevel=4,
        )
    if not callable(metric) and metric not in GREATER:
        raise ValueError(f"metric must be one of {', '.join(GREATER)} or a function, got {metric!r}")


def sign_of(metric: Metric) -> float:
    """Return 1 where large values are good, else -1."""
    return 1.0 if callable(metric) or GREATER[metric] else -1.0


def name_of(metric: Metric) -> str:
    if not callable(metric):
        return metric
    name = str(getattr(metric, "__name__", "score"))
    return "score" if name == "<lambda>" else name
