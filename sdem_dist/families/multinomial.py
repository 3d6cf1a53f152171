"""The multinomial family: as a family of count vectors of one length, and as columns of a word-major table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from sdem_dist.families.categorical import Categorical


@dataclass(frozen=True)
class Multinomial(Categorical):
    """Vectors of counts with one known sum; T(x) is the counts but the first, which the others determine.

    Attributes
    ----------
    n_categories : int
        Length of the vectors.
    alpha : float
        Pseudo-count of each category.
    length : int
        What the counts sum to.
    """

    length: int = 1

    @property
    def width(self) -> int:
        """A column for each category."""
        return self.n_categories

    @property
    def trials(self) -> int:
        """The length."""
        return self.length

    def statistics(self, x: np.ndarray) -> np.ndarray:
        """Return the counts but the first."""
        return np.asarray(x[..., 1:], np.float64)

    def log_base(self, x: np.ndarray) -> np.ndarray:
        """Return the logarithm of the multinomial coefficient."""
        return np.asarray(gammaln(self.length + 1.0) - gammaln(x + 1.0).sum(axis=-1))

    def unfit(self, x: np.ndarray) -> np.ndarray:
        """Return vectors that are not counts of that sum."""
        counts = ((x >= 0) & (x == np.floor(x))).all(axis=-1) & (x.sum(axis=-1) == self.length)
        return np.asarray(~(np.isnan(x).any(axis=-1) | counts))

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a vector of counts."""
        return np.asarray(rng.multinomial(self.length, self._probabilities(self.to_expectation(theta))), np.float64)


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
