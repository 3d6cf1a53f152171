"""The exponential family of waiting times: positive numbers whose density falls from 0 on."""

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from sdem_dist.families.positive_mean import PositiveMean
from sdem_dist.records import record


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
        """Return expectations under a Gamma posterior of the rate."""
        shape, rate = weight + 1.0, weight * mu[..., 0]
        log_volume = gammaln(shape) - shape * np.log(rate)
        return -(shape / rate)[..., None], np.log(rate) - digamma(shape), log_volume

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a waiting time."""
        return np.asarray(rng.exponential(-1.0 / theta))
