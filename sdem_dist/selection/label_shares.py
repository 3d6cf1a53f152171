"""What each document adds to a figure of several labels, so that two settings can be compared document by document."""

import numpy as np

from sdem_dist.label_scores import probabilities
from sdem_dist.selection.label_metrics import decisions_by_fold
from sdem_dist.selection.predicted import Predicted

SHARED = ("micro-F1", "macro-F1", "Hamming-loss")
"""Metrics of `label_metrics.LABELS` that are no mean of what documents have anyway."""


def shares(found: Predicted, rows: np.ndarray, metric: str) -> np.ndarray:
    """Return numbers of some documents whose mean by weight is the metric over all of them.

    F1 is a ratio of sums. Its numbers are those of its linear part at the sums (the delta method), which is what its
    standard error needs.

    `found`: of several labels. `rows`: shape (n,), positions of documents with a weight above zero.
    `metric`: one of `SHARED`.
    """
    assert found.members is not None
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
