"""The Poisson family: counts without an upper bound."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from sdem_dist.families.positive_mean import PositiveMean
from sdem_dist.records import record


@record
@dataclass(frozen=True)
class Poisson(PositiveMean):
    """Counts 0, 1, 2, ..., or weights in their place; T(x) = x, mu is the mean and theta its logarithm."""

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

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a count."""
        return np.asarray(rng.poisson(np.exp(theta)), np.float64)
