"""What families of numbers from 0 on share whose statistic is the number itself: a positive mean with a Gamma prior."""

from dataclasses import dataclass

import numpy as np

from sdem_dist.families.family import Family

_SMALLEST, _LARGEST = 1e-10, 1e100


@dataclass(frozen=True)
class PositiveMean(Family):
    """T(x) = x, and mu is the mean.

    Attributes
    ----------
    alpha : float
        Observations of the value 1 that the conjugate Gamma prior stands for.
    """

    alpha: float = 1.0

    @property
    def centre(self) -> np.ndarray:
        """The mean 1."""
        return np.ones(1)

    @property
    def prior_weight(self) -> float:
        """The pseudo-observations."""
        return self.alpha

    def statistics(self, x: np.ndarray) -> np.ndarray:
        """Return the value."""
        return np.asarray(x, np.float64)

    def check(self, mu: np.ndarray) -> tuple[np.ndarray, int]:
        """Keep means positive."""
        inside = np.maximum(mu, _SMALLEST)
        return inside, int(np.count_nonzero(inside != mu))

    def unfit(self, x: np.ndarray) -> np.ndarray:
        """Return what is negative or too large to be summed; weighted counts need not be whole."""
        return np.asarray(~(np.isnan(x) | ((x >= 0) & (x <= _LARGEST))).all(axis=-1))
