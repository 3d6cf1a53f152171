"""Sets of classes that hold the right one as often as promised: split conformal prediction, class by class.

A document's score under a class is one minus the class's probability. The set of a document has each class whose score
is not above a quantile of the scores of held-out documents of that class under it (Vovk 2012, Mondrian predictors;
Sadinle et al. 2019). If new documents of a class are exchangeable with those, the set has their class with at least the
probability asked for, whatever the model. Classes with few documents are taken together.
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

    Coverage c needs c / (1 - c) documents of a class, nine for 0.9. The classes that have fewer share one threshold, of
    their documents together: the sets of a share c of the new documents of these classes hold the right one. Where
    these are too few, too, it is infinite: then these classes are in every set.

    Raises
    ------
    ValueError
        `coverage` is not between 0 and 1.
    """
    if not (isinstance(coverage, Real) and 0.0 < coverage < 1.0):
        raise ValueError(f"coverage is a share between 0 and 1, not {coverage!r}")
    own = np.array([_quantile(of_class, coverage) for of_class in scores])
    few = np.isinf(own)
    if few.any():
        own[few] = _quantile(np.sort(np.concatenate([scores[k] for k in np.flatnonzero(few)])), coverage)
    return own


def _quantile(scores: np.ndarray, coverage: float) -> float:
    """Return the least of sorted scores that covers a new one with this probability; infinite if none does."""
    rank = int(np.ceil((len(scores) + 1) * coverage - 1e-9))
    return float(scores[rank - 1]) if 1 <= rank <= len(scores) else np.inf


def sets(probabilities: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return which classes are in the set of each document, bool of shape (n_documents, n_classes)."""
    return np.asarray(1.0 - probabilities <= most)
