"""Predictions by folds' models for documents that they have not seen, and the type of metrics."""

from collections.abc import Callable
from reprlib import repr as brief
from typing import NamedTuple

import numpy as np

Metric = str | Callable[[np.ndarray, np.ndarray], float]
"""A name, or a function of labels and probabilities whose value should be large."""


class Predicted(NamedTuple):
    """Predictions of documents that the models were not trained on."""

    scores: np.ndarray
    """ln p(y | d) at temperature 1, shape (n_documents, n_classes); of several labels the log-odds of each."""
    labels: np.ndarray
    """Positions of the classes, or of sets of labels, shape (n_documents,); -1 where there is none."""
    weights: np.ndarray
    """Shape (n_documents,)."""
    folds: np.ndarray
    """Shape (n_documents,)."""
    log_likelihood: np.ndarray | None = None
    """ln p(d), shape (n_documents,)."""
    lengths: np.ndarray | None = None
    """Words, shape (n_documents,)."""
    members: np.ndarray | None = None
    """Which labels documents have, where they may have several: zeros and ones of shape (n_documents, n_labels)."""
    decides: tuple[str, ...] = ()
    """What folds learn of labels from each other, see `sdem_dist.selection.label_metrics`."""


def score_by(metric: Callable[[np.ndarray, np.ndarray], float], labels: np.ndarray, proba: np.ndarray) -> float:
    """Return what a metric of one's own says; raise TypeError if it is no number."""
    value = np.asarray(metric(labels, proba))
    if value.ndim or value.dtype.kind not in "biuf":
        name = getattr(metric, "__name__", "of your own")
        raise TypeError(f"the metric {name} has to return a number, and returned {brief(value[()])}")
    return float(value)
