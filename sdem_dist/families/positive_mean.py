"""Families whose statistic is the value itself, with a positive mean: Poisson and exponential; Gamma priors."""

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from sdem_dist.families.family import Family
from sdem_dist.records import record

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
        return np.ones(1)

    @property
    def prior_weight(self) -> float:
        return self.alpha

    def statistics(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x, np.float64)

    def check(self, mu: np.ndarray) -> tuple[np.ndarray, int]:
        inside = np.maximum(mu, _SMALLEST)
        return inside, int(np.count_nonzero(inside != mu))

    def unfit(self, x: np.ndarray) -> np.ndarray:
        """Return what is negative or too large to be summed; weighted counts need not be whole."""
        return np.asarray(~(np.isnan(x) | ((x >= 0) & (x <= _LARGEST))).all(axis=-1))


@record
@dataclass(frozen=True)
class Exponential(PositiveMean):
    """Numbers from 0 on; T(x) = x, mu is the mean and theta minus the rate, ``-1 / mu``."""

    def to_natural(self, mu: np.ndarray) -> np.ndarray:
        """Return ``-1 / mu``."""
        return np.asarray(-1.0 / mu)

    def to_expectation(self, theta: np.ndarray) -> np.ndarray:
        """Return ``-1 / theta``."""
        return np.asarray(-1.0 / theta)

    def log_partition(self, theta: np.ndarray) -> np.ndarray:
        """Return ``-ln(-theta)``."""
        return np.asarray(-np.log(-theta[..., 0]))

    def posterior_of_theta(self, mu: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shape, rate = weight + 1.0, weight * mu[..., 0]
        log_volume = gammaln(shape) - shape * np.log(rate)
        return -(shape / rate)[..., None], np.log(rate) - digamma(shape), log_volume

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(rng.exponential(-1.0 / theta))


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
        return np.asarray(rng.poisson(np.exp(theta)), np.float64)
