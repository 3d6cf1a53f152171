"""The Gaussian family of single columns; several of them side by side are a Gaussian with diagonal covariance."""

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from sdem_dist.families.family import Family
from sdem_dist.records import record

_SMALLEST = 1e-10
"""Smallest variance, next to ``1 + mean ** 2``."""
LARGEST = 1e100
"""Largest number that a column may hold, so that sums of squares stay finite."""


@record
@dataclass(frozen=True)
class Gaussian(Family):
    """Real numbers; T(x) = (x, x^2), theta = (m / v, -1 / 2v) for mean m and variance v.

    Attributes
    ----------
    smoothing : float or tuple of float
        Added to the variance of the generative fit: one number, or one for each of the variables side by side.
    alpha : float
        Observations of mean 0 and variance 1 that the conjugate Normal-Gamma prior stands for.
    """

    smoothing: float | tuple[float, ...] = 0.0
    alpha: float = 0.0

    n_statistics = 2  # the value and its square
    standardised = True

    @property
    def centre(self) -> np.ndarray:
        """Mean 0, variance 1."""
        return np.array([0.0, 1.0])

    @property
    def prior_weight(self) -> float:
        """The pseudo-observations."""
        return self.alpha

    def statistics(self, x: np.ndarray) -> np.ndarray:
        """Return the value and its square."""
        return np.concatenate([x, x * x], axis=-1)

    def log_base(self, x: np.ndarray) -> np.ndarray:
        """Return ``-ln(2 pi) / 2``."""
        return np.full(x.shape[:-1], -0.5 * np.log(2.0 * np.pi))

    def to_natural(self, mu: np.ndarray) -> np.ndarray:
        """Return ``(m / v, -1 / 2v)``."""
        variance = mu[..., 1] - mu[..., 0] ** 2
        return np.stack([mu[..., 0] / variance, -0.5 / variance], axis=-1)

    def to_expectation(self, theta: np.ndarray) -> np.ndarray:
        """Return ``(m, m^2 + v)``."""
        variance = -0.5 / theta[..., 1]
        mean = theta[..., 0] * variance
        return np.stack([mean, mean**2 + variance], axis=-1)

    def log_partition(self, theta: np.ndarray) -> np.ndarray:
        """Return ``m^2 / 2v + ln(v) / 2``."""
        return np.asarray(-0.25 * theta[..., 0] ** 2 / theta[..., 1] - 0.5 * np.log(-2.0 * theta[..., 1]))

    def check(self, mu: np.ndarray) -> tuple[np.ndarray, int]:
        """Keep variances positive."""
        square = mu[..., 0] ** 2
        smallest = _SMALLEST * (1.0 + square)
        outside = mu[..., 1] - square < 0.5 * smallest  # half, so that rounding does not put a projected point outside
        second = np.where(outside, square + smallest, mu[..., 1])
        return np.stack([mu[..., 0], second], axis=-1), int(outside.sum())

    def lifted(self, mu: np.ndarray, least: np.ndarray) -> np.ndarray:
        """Return mu with variances of at least `least`."""
        return np.stack([mu[..., 0], np.maximum(mu[..., 1], mu[..., 0] ** 2 + least)], axis=-1)

    def unfit(self, x: np.ndarray) -> np.ndarray:
        """Return what is too large to be squared."""
        return np.asarray((np.abs(x) > LARGEST).any(axis=-1))

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a number."""
        variance = -0.5 / theta[..., 1:]
        return np.asarray(theta[..., :1] * variance + np.sqrt(variance) * rng.standard_normal(variance.shape))

    def posterior_of_theta(self, mu: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return expectations under a Normal-Gamma posterior of mean and precision; its density is by theta."""
        mean = mu[..., 0]
        shape, rate = 0.5 * weight + 1.5, 0.5 * weight * (mu[..., 1] - mean**2)
        precision, log_precision = shape / rate, digamma(shape) - np.log(rate)
        theta = np.stack([mean * precision, -0.5 * precision], axis=-1)
        partition = 0.5 * (1.0 / weight + mean**2 * precision - log_precision)
        log_volume = -np.log(2.0) + 0.5 * np.log(2.0 * np.pi / weight) + gammaln(shape) - shape * np.log(rate)
        return theta, partition, log_volume

    def posterior_mean(self, totals: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the means of x and x^2, the latter with `smoothing` added."""
        mu = super().posterior_mean(totals, weight)
        mu[..., 1] += self.smoothing
        return mu
