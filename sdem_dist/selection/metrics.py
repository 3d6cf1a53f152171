"""Predictions of documents that their models have not seen, and the metrics that decide a search."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from reprlib import repr as brief
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from sklearn.metrics import f1_score

from sdem_dist.label_scores import probabilities

if TYPE_CHECKING:
    from sdem_dist.estimators.base import EngineEstimator

Metric: TypeAlias = "str | Callable[[np.ndarray, np.ndarray], float]"
"""A name, or a function of labels and probabilities whose value should be large."""
CLASS_METRICS = ("log-loss", "accuracy", "macro-F1", "perplexity")
LABEL_METRICS = ("micro-F1", "macro-F1", "accuracy", "Hamming-loss", "log-loss")
"""Of several labels per document. Accuracy is of documents all of whose labels are right."""
BY_MODEL = ("R2", "perplexity", "distance")
"""Metrics that need the model, not only what it predicts of each document."""
LOW_IS_GOOD = ("log-loss", "Hamming-loss", "perplexity", "distance")
PER_DOCUMENT = ("log-loss", "accuracy", "Hamming-loss")
"""Means over documents, by which two settings are compared document by document."""
METRICS = tuple(dict.fromkeys([*CLASS_METRICS, *LABEL_METRICS, *BY_MODEL]))
LARGEST_LOSS = 1e3
"""Log-loss of a document at most: one of probability 0 does not make a mean infinite."""


@dataclass(frozen=True)
class Predictions:
    """Predictions of documents by models that were not trained on them."""

    rows: np.ndarray  # shape (n_documents,): positions in the corpus
    scores: np.ndarray  # shape (n_documents, n_classes), float32: ln p(y | d), or the log-odds of each label
    labels: np.ndarray  # shape (n_documents,): positions of classes, or of sets of labels; -1 where there is none
    weights: np.ndarray  # shape (n_documents,)
    members: np.ndarray | None = None  # shape (n_documents, n_labels), bool: which of several labels documents have
    chosen: np.ndarray | None = None  # likewise: which are predicted

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
    p = predictions.counted
    if not len(p.rows):
        return float("nan")
    if callable(metric):
        value = np.asarray(metric(p.labels if p.members is None else p.members.astype(np.int64), p.proba))
        if value.ndim or value.dtype.kind not in "biuf":
            raise TypeError(f"the metric {name_of(metric)} has to return a number, and returned {brief(value[()])}")
        return float(value)
    if metric in PER_DOCUMENT:
        return float(np.average(per_document(metric, p), weights=p.weights))
    y, predicted = (p.labels, p.scores.argmax(axis=1)) if p.members is None else (p.members, p.chosen)
    average = metric.removesuffix("-F1")
    # Classes that nobody has, neither truly nor by prediction, do not count.
    f1 = f1_score(y, predicted, average=average, sample_weight=p.weights, zero_division=np.nan)
    return float(np.nan_to_num(f1))


def per_document(metric: str, predictions: Predictions) -> np.ndarray:
    """Return one number a document, whose mean by weight is the metric, one of `PER_DOCUMENT`."""
    scores, labels = predictions.scores, predictions.labels
    present, chosen = predictions.members, predictions.chosen
    if present is None or chosen is None:
        if metric == "accuracy":
            return (scores.argmax(axis=1) == labels).astype(np.float64)
        own = scores[np.arange(len(labels)), labels].astype(np.float64)
        return np.minimum(-np.nan_to_num(own, nan=-LARGEST_LOSS), LARGEST_LOSS)
    if metric == "accuracy":
        return (chosen == present).all(axis=1).astype(np.float64)
    if metric == "Hamming-loss":
        return np.asarray((present != chosen).mean(axis=1))
    odds = scores.astype(np.float64)
    return np.asarray(np.logaddexp(0.0, np.where(present, -odds, odds)).mean(axis=1))


def mean_and_error(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the mean by weight and its standard error; NaN where there are not two documents' worth of weight.

    Documents of unequal weights count as ``sum(w)^2 / sum(w^2)`` equal ones (Kish).
    """
    shares = weights / weights.sum()
    mean, n = float(shares @ values), 1.0 / float(shares @ shares)
    if n - 1.0 < 1e-9:
        return mean, float("nan")
    return mean, float(np.sqrt(shares @ (values - mean) ** 2 / (n - 1.0)))


def metric_of(estimator: EngineEstimator, metric: Metric | None, several: bool = False) -> Metric:
    """Return a metric, or the default one for None; raise ValueError if the estimator does not have it.

    `several`: documents have several labels.
    """
    target = estimator.spec.target
    names: tuple[str, ...] = ("distance",) if "distance" in estimator.spec.shown else ("perplexity",)
    if target in ("labels", "numbers"):
        names = ("R2",) if target == "numbers" else LABEL_METRICS if several else CLASS_METRICS
    if callable(metric) and target != "labels":
        raise ValueError("a metric of your own takes labels and probabilities, which only classifiers have")
    if isinstance(metric, str) and metric not in names:
        what = " of several labels per document" if several else ""
        raise ValueError(f"{type(estimator).__name__} has no {metric}{what}: choose {' or '.join(names)}")
    return names[0] if metric is None else metric


def check_metric(metric: object) -> None:
    """Raise ValueError unless it is a known metric, or a function; warn of one whose name says that less is better."""
    if callable(metric) and (name := name_of(metric)).endswith(("_loss", "_error")):
        warnings.warn(
            f"of a metric of your own more is better, and {name} sounds as if less were: pass lambda y, p: -{name}(y, p), "
            "or a function of another name",
            stacklevel=4,
        )
    if not callable(metric) and metric not in METRICS:
        raise ValueError(f"metric must be one of {', '.join(METRICS)} or a function, got {metric!r}")


def sign_of(metric: Metric) -> float:
    """Return 1 where large values are good, else -1."""
    return -1.0 if metric in LOW_IS_GOOD else 1.0


def name_of(metric: Metric) -> str:
    if not callable(metric):
        return metric
    name = str(getattr(metric, "__name__", "score"))
    return "score" if name == "<lambda>" else name
