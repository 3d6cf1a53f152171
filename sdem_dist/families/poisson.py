"""The Poisson family: counts without an upper bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from sdem_dist.families.family import Family

_SMALLEST = 1e-10


@dataclass(frozen=True)
class Poisson(Family):
    """Counts 0, 1, 2, ..., or weights in their place; T(x) = x, mu is the mean and theta its logarithm.

    Attributes
    ----------
    alpha : float
        Observations of the count 1 that the conjugate Gamma prior stands for.
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
        """Return the count."""
        return np.asarray(x, np.float64)

    def log_base(self, x: np.ndarray) -> np.ndarray:
        """Return ``-ln x!``."""
        return np.asarray(-gammaln(x[..., 0] + 1.0))

    def to_natural(self, mu: np.ndarray) -> np.ndarray:
        """Return ``ln mu``."""
        return np.asarray(np.log(mu))

    def to_expectation(self, theta: np.ndarray) -> np.ndarray:
        """Return ``exp(theta)``."""
        return np.asarray(np.exp(theta))

    def log_partition(self, theta: np.ndarray) -> np.ndarray:
        """Return ``exp(theta)``."""
        return np.asarray(np.exp(theta[..., 0]))

    def check(self, mu: np.ndarray) -> tuple[np.ndarray, int]:
        """Keep means positive."""
        inside = np.maximum(mu, _SMALLEST)
        return inside, int(np.count_nonzero(inside != mu))

    def unfit(self, x: np.ndarray) -> np.ndarray:
        """Return what is negative or infinite; weighted counts need not be whole."""
        return np.asarray(~(np.isnan(x) | ((x >= 0) & (x < np.inf))).all(axis=-1))

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a count."""
        return np.asarray(rng.poisson(np.exp(theta)), np.float64)
