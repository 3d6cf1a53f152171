"""Gaussian families: of single columns, and of several columns with a covariance matrix."""

import numpy as np
from scipy.special import digamma, gammaln

from sdem_dist.families.family import Family
from sdem_dist.records import record

_SMALLEST = 1e-10  # smallest variance, or eigenvalue of the covariance, relative to ``1 + mean ** 2``
LARGEST = 1e100  # largest absolute value in a column, so that sums of squares are finite


@record
class Gaussian(Family):
    """Real numbers; T(x) = (x, x^2), theta = (m / v, -1 / 2v) for mean m and variance v.

    Attributes
    ----------
    smoothing : float or tuple of float
        Added to the variance of the generative fit: one number, or one for each variable.
    alpha : float
        Weight of the conjugate Normal-Gamma prior, as a number of observations with mean 0 and variance 1.
    """

    smoothing: float | tuple[float, ...] = 0.0
    alpha: float = 0.0
    n_statistics = 2  # the value and its square
    standardised = True

    @property
    def centre(self) -> np.ndarray:
        return np.array([0.0, 1.0])

    @property
    def prior_weight(self) -> float:
        return self.alpha

    def statistics(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate([x, x * x], axis=-1)

    def log_base(self, x: np.ndarray) -> np.ndarray:
        return np.full(x.shape[:-1], -0.5 * np.log(2.0 * np.pi))

    def to_natural(self, mu: np.ndarray) -> np.ndarray:
        variance = mu[..., 1] - mu[..., 0] ** 2
        return np.stack([mu[..., 0] / variance, -0.5 / variance], axis=-1)

    def to_expectation(self, theta: np.ndarray) -> np.ndarray:
        variance = -0.5 / theta[..., 1]
        mean = theta[..., 0] * variance
        return np.stack([mean, mean**2 + variance], axis=-1)

    def log_partition(self, theta: np.ndarray) -> np.ndarray:
        return np.asarray(-0.25 * theta[..., 0] ** 2 / theta[..., 1] - 0.5 * np.log(-2.0 * theta[..., 1]))

    def check(self, mu: np.ndarray) -> tuple[np.ndarray, int]:
        square = mu[..., 0] ** 2
        smallest = _SMALLEST * (1.0 + square)
        outside = mu[..., 1] - square < 0.5 * smallest  # half, so that a projected point is inside despite rounding
        second = np.where(outside, square + smallest, mu[..., 1])
        return np.stack([mu[..., 0], second], axis=-1), int(outside.sum())

    def lifted(self, mu: np.ndarray, least: np.ndarray) -> np.ndarray:
        return np.stack([mu[..., 0], np.maximum(mu[..., 1], mu[..., 0] ** 2 + least)], axis=-1)

    def unfit(self, x: np.ndarray) -> np.ndarray:
        return np.asarray((np.abs(x) > LARGEST).any(axis=-1))

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        variance = -0.5 / theta[..., 1:]
        return np.asarray(theta[..., :1] * variance + np.sqrt(variance) * rng.standard_normal(variance.shape))

    def posterior_of_theta(self, mu: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return expectations under a Normal-Gamma posterior of mean and precision; ln Z is for a density in theta."""
        mean = mu[..., 0]
        shape, rate = 0.5 * weight + 1.5, 0.5 * weight * (mu[..., 1] - mean**2)
        precision, log_precision = shape / rate, digamma(shape) - np.log(rate)
        theta = np.stack([mean * precision, -0.5 * precision], axis=-1)
        partition = 0.5 * (1.0 / weight + mean**2 * precision - log_precision)
        log_volume = -np.log(2.0) + 0.5 * np.log(2.0 * np.pi / weight) + gammaln(shape) - shape * np.log(rate)
        return theta, partition, log_volume

    def posterior_mean(self, totals: np.ndarray, weight: np.ndarray) -> np.ndarray:
        mu = super().posterior_mean(totals, weight)
        mu[..., 1] += self.smoothing
        return mu


@record
class GaussianFull(Family):
    """Vectors; T(x) = x and the products ``x_i x_j``, i <= j, row by row of the upper triangle.

    With mean m and precision P, theta is ``P m``, then ``-P_ii / 2`` and, off the diagonal, ``-P_ij``.

    Attributes
    ----------
    n_columns : int
        Length of the vectors.
    alpha : float
        Weight of the conjugate Normal-Wishart prior, as a number of observations with mean 0 and covariance I.
    """

    n_columns: int
    alpha: float = 0.0
    standardised = True

    @property
    def width(self) -> int:
        return self.n_columns

    @property
    def n_statistics(self) -> int:
        return self.n_columns + self.n_columns * (self.n_columns + 1) // 2

    @property
    def prior_weight(self) -> float:
        return self.alpha

    @property
    def centre(self) -> np.ndarray:
        return self.from_moments(np.zeros(self.n_columns), np.eye(self.n_columns))

    @property
    def _upper(self) -> tuple[np.ndarray, np.ndarray]:
        return np.triu_indices(self.n_columns)

    @property
    def _halves(self) -> np.ndarray:
        return np.where(np.equal(*self._upper), 0.5, 1.0)

    def from_moments(self, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        products = covariance + mean[..., :, None] * mean[..., None, :]
        return np.concatenate([mean, products[(..., *self._upper)]], axis=-1)

    def to_moments(self, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean, shape (..., n_columns), and the covariance, shape (..., n_columns, n_columns)."""
        mean = mu[..., : self.n_columns]
        return mean, self._matrix(mu[..., self.n_columns :]) - mean[..., :, None] * mean[..., None, :]

    def _matrix(self, triangle: np.ndarray) -> np.ndarray:
        rows, columns = self._upper
        matrix = np.empty((*triangle.shape[:-1], self.n_columns, self.n_columns))
        matrix[..., rows, columns] = triangle
        matrix[..., columns, rows] = triangle
        return matrix

    def statistics(self, x: np.ndarray) -> np.ndarray:
        rows, columns = self._upper
        return np.concatenate([x, x[..., rows] * x[..., columns]], axis=-1)

    def log_base(self, x: np.ndarray) -> np.ndarray:
        return np.full(x.shape[:-1], -0.5 * self.n_columns * np.log(2.0 * np.pi))

    def to_natural(self, mu: np.ndarray) -> np.ndarray:
        mean, covariance = self.to_moments(mu)
        precision = np.linalg.inv(covariance)
        linear = (precision @ mean[..., None])[..., 0]
        return np.concatenate([linear, -precision[(..., *self._upper)] * self._halves], axis=-1)

    def _moments_of(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        covariance = np.linalg.inv(self._matrix(-theta[..., self.n_columns :] / self._halves))
        return (covariance @ theta[..., : self.n_columns, None])[..., 0], covariance

    def to_expectation(self, theta: np.ndarray) -> np.ndarray:
        return self.from_moments(*self._moments_of(theta))

    def log_partition(self, theta: np.ndarray) -> np.ndarray:
        mean, covariance = self._moments_of(theta)
        squares = 0.5 * (theta[..., : self.n_columns] * mean).sum(axis=-1)
        return np.asarray(squares + 0.5 * np.linalg.slogdet(covariance)[1])

    def check(self, mu: np.ndarray) -> tuple[np.ndarray, int]:
        """Return mu with positive eigenvalues of the covariance, and how many points were outside S."""
        mean, covariance = self.to_moments(mu)
        values, vectors = np.linalg.eigh(covariance)
        squares = 1.0 + (mean**2).sum(axis=-1, keepdims=True)
        smallest = _SMALLEST * (squares + np.abs(values).max(axis=-1, keepdims=True))
        outside = (values < 0.5 * smallest).any(axis=-1)  # half, as in `Gaussian.check`
        raised = np.einsum("...ij,...j,...kj->...ik", vectors, np.maximum(values, smallest), vectors)
        return np.where(outside[..., None], self.from_moments(mean, raised), mu), int(outside.sum())

    def unfit(self, x: np.ndarray) -> np.ndarray:
        return np.asarray((np.abs(x) > LARGEST).any(axis=-1))

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        mean, covariance = self._moments_of(theta)
        noise = np.linalg.cholesky(covariance) @ rng.standard_normal(mean.shape)[..., None]
        return np.asarray(mean + noise[..., 0])
