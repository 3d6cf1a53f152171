"""What each document adds to a metric of all documents, so that two settings can be compared document by document."""

import numpy as np

from sdem_dist.label_scores import probabilities
from sdem_dist.selection.label_metrics import decisions_by_fold
from sdem_dist.selection.predicted import Predicted

SHARED = ("micro-F1", "macro-F1", "Hamming-loss")
"""Metrics that are not plain means over documents."""


def shares(found: Predicted, rows: np.ndarray, metric: str) -> np.ndarray:
    """Return numbers of some documents whose mean by weight is the metric over all of them.

    F1 is a ratio of sums. Its numbers are those of its linear part at the sums (the delta method), which is what its
    standard error needs.

    `rows`: shape (n,), positions of documents with a weight above zero.
    `metric`: one of `SHARED`; of one label a document "macro-F1".
    """
    if found.members is None:
        return _of_classes(found, rows)
    present, given = found.members > 0, np.zeros(found.members.shape, bool)
    for fold, of in decisions_by_fold(found).items():
        inside = found.folds == fold
        given[inside] = probabilities(found.scores[inside].astype(np.float64) / of.temperatures) >= of.thresholds
    present, given = present[rows], given[rows]
    if metric == "Hamming-loss":
        return np.asarray((present != given).mean(axis=1))
    some = present.astype(np.float64) + given
    right = 2.0 * (present & given)
    if metric == "micro-F1":
        some, right = some.sum(axis=1, keepdims=True), right.sum(axis=1, keepdims=True)
    weights = found.weights[rows].astype(np.float64)
    means = weights @ some / weights.sum()
    some, right, means = some[:, means > 0], right[:, means > 0], means[means > 0]
    if not len(means):
        return np.zeros(len(rows))
    f1 = weights @ right / weights.sum() / means
    return np.asarray((f1 + (right - f1 * some) / means).mean(axis=1))


def _of_classes(found: Predicted, rows: np.ndarray) -> np.ndarray:
    """Return the shares in macro-F1 of documents of one label: without a table of documents and classes."""
    labels, said, weights = found.labels[rows], found.scores[rows].argmax(axis=1), found.weights[rows]
    right, n, k = labels == said, weights.sum(), found.scores.shape[1]
    means = (np.bincount(labels, weights, k) + np.bincount(said, weights, k)) / n
    seen = means > 0
    by_mean = np.divide(1.0, means, where=seen, out=np.zeros(k))
    f1 = 2.0 * np.bincount(labels, weights * right, k) / n * by_mean
    change = 2.0 * right * by_mean[labels] - (f1 * by_mean)[labels] - (f1 * by_mean)[said]
    return np.asarray(f1[seen].mean() + change / seen.sum())
