"""The Gaussian family of several columns with full covariance."""

from dataclasses import dataclass

import numpy as np

from sdem_dist.families.family import Family
from sdem_dist.families.gaussian import LARGEST
from sdem_dist.records import record

_SMALLEST = 1e-10
"""Smallest eigenvalue of the covariance, next to ``1 + |mean| ** 2``."""


@record
@dataclass(frozen=True)
class GaussianFull(Family):
    """Vectors; T(x) = x and the products ``x_i x_j``, i <= j, row by row of the upper triangle.

    With mean m and precision P, theta is ``P m``, then ``-P_ii / 2`` and, off the diagonal, ``-P_ij``.

    Attributes
    ----------
    n_columns : int
        Length of the vectors.
    alpha : float
        Observations of mean 0 and covariance I that the conjugate Normal-Wishart prior stands for.
    """

    n_columns: int
    alpha: float = 0.0

    standardised = True

    @property
    def width(self) -> int:
        """Length of the vectors."""
        return self.n_columns

    @property
    def n_statistics(self) -> int:
        """The vector and the upper triangle of its products."""
        return self.n_columns + self.n_columns * (self.n_columns + 1) // 2

    @property
    def prior_weight(self) -> float:
        """The pseudo-observations."""
        return self.alpha

    @property
    def centre(self) -> np.ndarray:
        """Mean 0, covariance I."""
        return self.from_moments(np.zeros(self.n_columns), np.eye(self.n_columns))

    @property
    def _upper(self) -> tuple[np.ndarray, np.ndarray]:
        return np.triu_indices(self.n_columns)

    def from_moments(self, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """Return mu of a mean and a covariance."""
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

    @property
    def _halves(self) -> np.ndarray:
        rows, columns = self._upper
        return np.where(rows == columns, 0.5, 1.0)

    def statistics(self, x: np.ndarray) -> np.ndarray:
        """Return the vector and the upper triangle of its products."""
        rows, columns = self._upper
        return np.concatenate([x, x[..., rows] * x[..., columns]], axis=-1)

    def log_base(self, x: np.ndarray) -> np.ndarray:
        """Return ``-n_columns ln(2 pi) / 2``."""
        return np.full(x.shape[:-1], -0.5 * self.n_columns * np.log(2.0 * np.pi))

    def to_natural(self, mu: np.ndarray) -> np.ndarray:
        """Return ``P m`` and the upper triangle of -P, its diagonal halved."""
        mean, covariance = self.to_moments(mu)
        precision = np.linalg.inv(covariance)
        linear = (precision @ mean[..., None])[..., 0]
        return np.concatenate([linear, -precision[(..., *self._upper)] * self._halves], axis=-1)

    def _moments_of(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        covariance = np.linalg.inv(self._matrix(-theta[..., self.n_columns :] / self._halves))
        return (covariance @ theta[..., : self.n_columns, None])[..., 0], covariance

    def to_expectation(self, theta: np.ndarray) -> np.ndarray:
        """Return the means of the vector and of its products."""
        return self.from_moments(*self._moments_of(theta))

    def log_partition(self, theta: np.ndarray) -> np.ndarray:
        """Return ``(m' P m + ln det covariance) / 2``."""
        mean, covariance = self._moments_of(theta)
        return np.asarray(
            0.5 * (theta[..., : self.n_columns] * mean).sum(axis=-1) + 0.5 * np.linalg.slogdet(covariance)[1]
        )

    def check(self, mu: np.ndarray) -> tuple[np.ndarray, int]:
        """Keep the eigenvalues of the covariance positive."""
        mean, covariance = self.to_moments(mu)
        values, vectors = np.linalg.eigh(covariance)
        smallest = _SMALLEST * (
            1.0 + (mean**2).sum(axis=-1, keepdims=True) + np.abs(values).max(axis=-1, keepdims=True)
        )
        outside = (values < 0.5 * smallest).any(
            axis=-1
        )  # half, so that rounding does not put a projected point outside
        raised = np.einsum("...ij,...j,...kj->...ik", vectors, np.maximum(values, smallest), vectors)
        return np.where(outside[..., None], self.from_moments(mean, raised), mu), int(outside.sum())

    def unfit(self, x: np.ndarray) -> np.ndarray:
        """Return vectors that hold what is too large to be squared."""
        return np.asarray((np.abs(x) > LARGEST).any(axis=-1))

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a vector."""
        mean, covariance = self._moments_of(theta)
        noise = np.linalg.cholesky(covariance) @ rng.standard_normal(mean.shape)[..., None]
        return np.asarray(mean + noise[..., 0])
