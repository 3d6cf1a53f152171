"""The multinomial family in counts: one probability vector per column of a word-major table."""

from __future__ import annotations

import numpy as np


def to_natural(mu: np.ndarray) -> np.ndarray:
    """Return natural parameters ``ln(mu_w / sum_w mu_w)`` from unnormalised expectation parameters.

    Parameters
    ----------
    mu : ndarray of shape (n_words, n_classes), float64
        Expected counts, not negative; a zero becomes -inf.

    Returns
    -------
    ndarray of shape (n_words, n_classes), float64
        Log-probabilities of the words in each class: ``theta`` with log-partition 0.
    """
    with np.errstate(divide="ignore"):
        return np.log(mu) - np.log(mu.sum(axis=0))


def to_expectation(theta: np.ndarray) -> np.ndarray:
    """Return the mean counts of one word drawn: the gradient of the log-partition at `theta`."""
    return np.exp(theta - log_partition(theta))


def log_partition(theta: np.ndarray) -> np.ndarray:
    """Return ``ln sum_w exp(theta_w)`` of each class."""
    top = theta.max(axis=0)
    return np.asarray(top + np.log(np.exp(theta - top).sum(axis=0)))


def check(mu: np.ndarray) -> tuple[np.ndarray, int]:
    """Project expected counts into the closure of S: negative counts become zero.

    The prior gamma, added before any logarithm, keeps them off the boundary (Masegosa 2014, section 3.2).

    Returns
    -------
    mu : ndarray
        The same array where nothing was negative.
    n_changed : int
        How many counts were negative.
    """
    below = mu < 0.0
    n_changed = int(np.count_nonzero(below))
    return (np.where(below, 0.0, mu) if n_changed else mu), n_changed
