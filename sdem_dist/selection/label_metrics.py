"""How well folds find several labels of a document; the decisions of a fold are learned from the other folds."""

from collections.abc import Callable, Mapping

import numpy as np

from sdem_dist.label_scores import (
    COUNTS,
    Decisions,
    best_thresholds,
    decisions_of,
    finish,
    fitted,
    fitting_sums,
    label_sums,
    probabilities,
)
from sdem_dist.selection.predicted import Metric, Predicted, score_by

TEMPERATURES, THRESHOLDS = "temperatures", "thresholds"
"""What folds may decide of labels: fields of learners, and of `Decisions`."""
LABELS = ("micro-F1", "macro-F1", "accuracy", "Hamming-loss", "log-loss")
"""Metrics of several labels per document. Accuracy is of documents all of whose labels are right."""
_NAMED = {"micro-F1": "micro_f1", "macro-F1": "macro_f1", "accuracy": "accuracy", "log-loss": "label_log_loss"}
"""What `label_scores.finish` calls them."""


def decisions_of_all(found: Predicted) -> Decisions:
    """Return the temperatures and thresholds that all folds together ask for: those of a model of all documents."""
    return _learned(found, list(_sums_by_fold(found).values()))


def decisions_by_fold(found: Predicted) -> dict[int, Decisions]:
    """Return what the other folds ask for, for each fold; held-out documents are one fold, and ask for themselves."""
    sums = _sums_by_fold(found)
    return {
        fold: _learned(found, [own for other, own in sums.items() if other != fold or len(sums) == 1]) for fold in sums
    }


def _sums_by_fold(found: Predicted) -> dict[int, np.ndarray]:
    assert found.members is not None
    sums = {}
    for fold in np.unique(found.folds).tolist():
        rows = found.folds == fold
        part = found.scores[rows].astype(np.float64), found.members[rows], found.weights[rows]
        sums[fold] = fitting_sums(*part) if found.decides and part[2].any() else np.zeros(0)
    return sums


def _learned(found: Predicted, parts: list[np.ndarray]) -> Decisions:
    n_labels, there = found.scores.shape[1], [part for part in parts if len(part)]
    if not there:
        return decisions_of(n_labels)
    total = np.sum(there, axis=0)
    if TEMPERATURES in found.decides:
        return fitted(total, n_labels)[0]
    return Decisions(np.ones(n_labels), best_thresholds(total, np.ones(n_labels)))


def measured_labels(
    found: Predicted, metrics: tuple[Metric, ...], decisions: Mapping[int, Decisions] | None = None
) -> list[list[float]]:
    """Return each metric of each fold.

    `found`: of several labels.
    `metrics`: names of `LABELS`; a function takes which labels documents have, and their probabilities, both of shape
    (n_documents, n_labels).
    `decisions`: None: those of `decisions_by_fold`.
    """
    decisions = decisions_by_fold(found) if decisions is None else decisions
    return [[_measure(metric, found, fold, of) for fold, of in decisions.items()] for metric in metrics]


def _measure(metric: Metric, found: Predicted, fold: int, decisions: Decisions) -> float:
    assert found.members is not None
    rows = np.flatnonzero((found.folds == fold) & (found.weights > 0))
    if not len(rows):
        return float("nan")
    odds, members, weights = found.scores[rows].astype(np.float64), found.members[rows], found.weights[rows]
    if callable(metric):
        return score_by(metric, members, probabilities(odds / decisions.temperatures))
    sums = label_sums(odds, members, weights, decisions)
    if metric == "Hamming-loss":
        present, given, right, _ = sums[len(COUNTS) :].reshape(4, -1)
        return float((present + given - 2.0 * right).sum() / (sums[0] * members.shape[1]))
    return finish(sums)[_NAMED[metric]]


def all_right(found: Predicted) -> np.ndarray:
    """Return 1 for each document whose labels its fold's model predicts exactly, else 0."""
    return _by_document(
        found, lambda odds, members, of: ((probabilities(odds) >= of.thresholds) == members).all(axis=1)
    )


def losses(found: Predicted) -> np.ndarray:
    """Return the log-loss of each document, the mean over labels."""
    return _by_document(found, lambda odds, members, of: np.logaddexp(0.0, np.where(members, -odds, odds)).mean(axis=1))


def _by_document(found: Predicted, function: Callable[[np.ndarray, np.ndarray, Decisions], np.ndarray]) -> np.ndarray:
    assert found.members is not None
    values = np.zeros(len(found.folds))
    for fold, decisions in decisions_by_fold(found).items():
        rows = np.flatnonzero(found.folds == fold)
        odds = found.scores[rows].astype(np.float64) / decisions.temperatures
        values[rows] = function(odds, found.members[rows] > 0, decisions)
    return values
