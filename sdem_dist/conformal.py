"""Sets of classes that hold the right one as often as promised: split conformal prediction, class by class.

A document's score under a class is one minus the class's probability. The set of a document has each class whose score
is not above a quantile of the scores of held-out documents of that class under it (Vovk 2012, Mondrian predictors;
Sadinle et al. 2019). If new documents of a class are exchangeable with those, the set has their class with at least the
probability asked for, whatever the model.
"""

from collections.abc import Sequence
from numbers import Real

import numpy as np


def scores_by_class(probabilities: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """Return the scores of documents under their own class, sorted: for each class an array.

    Parameters
    ----------
    probabilities : ndarray of shape (n_documents, n_classes)
    labels : ndarray of shape (n_documents,), integers
        Those below 0 are of no class.
    """
    return [np.sort(1.0 - probabilities[labels == k, k]) for k in range(probabilities.shape[1])]


def thresholds(scores: Sequence[np.ndarray], coverage: float) -> np.ndarray:
    """Return the largest score with which each class is in a set, shape (n_classes,), float64.

    Where a class has too few documents it is infinite, so that the class is in every set: coverage c needs at least
    c / (1 - c) of them, nine for 0.9.

    Raises
    ------
    ValueError
        `coverage` is not between 0 and 1.
    """
    if not (isinstance(coverage, Real) and 0.0 < coverage < 1.0):
        raise ValueError(f"coverage is a share between 0 and 1, not {coverage!r}")
    found = np.full(len(scores), np.inf)
    for k, of_class in enumerate(scores):
        rank = int(np.ceil((len(of_class) + 1) * coverage - 1e-9))
        if 1 <= rank <= len(of_class):
            found[k] = of_class[rank - 1]
    return found


def sets(probabilities: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return which classes are in the set of each document, bool of shape (n_documents, n_classes)."""
    return np.asarray(1.0 - probabilities <= most)
