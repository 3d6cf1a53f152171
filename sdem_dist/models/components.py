"""Latent components: each belongs to a class, and a class scores with the sum of its components."""

from __future__ import annotations

import numpy as np


def starts_of(owners: tuple[int, ...]) -> np.ndarray:
    """Return the first component of each class; `owners`, the classes of the components, ascend and leave none out."""
    return np.searchsorted(np.asarray(owners), np.arange(owners[-1] + 1))


def by_class(scores: np.ndarray, owners: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return what classes score, and the posteriors of their components.

    Parameters
    ----------
    scores : ndarray of shape (n, n_components)
        ``ln p(z, y, x)``.
    owners : tuple of int

    Returns
    -------
    scores : ndarray of shape (n, n_classes)
        ``ln p(y, x) = ln sum_z p(z, y, x)``.
    posteriors : ndarray of shape (n, n_components)
        ``p(z | y, x)`` for the class y of each component; zeros for a class of score -inf.
    """
    starts = starts_of(owners)
    top = np.maximum.reduceat(scores, starts, axis=1)
    top = np.where(np.isneginf(top), 0.0, top)
    posteriors = np.exp(scores - top[:, owners])
    totals = np.add.reduceat(posteriors, starts, axis=1)
    posteriors /= np.where(totals > 0, totals, 1.0)[:, owners]
    with np.errstate(divide="ignore"):
        return top + np.log(totals), posteriors
