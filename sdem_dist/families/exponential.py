"""The exponential family of waiting times: positive numbers whose density falls from 0 on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdem_dist.families.family import Family

_SMALLEST = 1e-10


@dataclass(frozen=True)
class Exponential(Family):
    """Numbers from 0 on; T(x) = x, mu is the mean and theta minus the rate, ``-1 / mu``.

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

    def to_natural(self, mu: np.ndarray) -> np.ndarray:
        """Return ``-1 / mu``."""
        return np.asarray(-1.0 / mu)

    def to_expectation(self, theta: np.ndarray) -> np.ndarray:
        """Return ``-1 / theta``."""
        return np.asarray(-1.0 / theta)

    def log_partition(self, theta: np.ndarray) -> np.ndarray:
        """Return ``-ln(-theta)``."""
        return np.asarray(-np.log(-theta[..., 0]))

    def check(self, mu: np.ndarray) -> tuple[np.ndarray, int]:
        """Keep means positive."""
        inside = np.maximum(mu, _SMALLEST)
        return inside, int(np.count_nonzero(inside != mu))

    def unfit(self, x: np.ndarray) -> np.ndarray:
        """Return what is negative or infinite."""
        return np.asarray(~(np.isnan(x) | ((x >= 0) & (x < np.inf))).all(axis=-1))

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a waiting time."""
        return np.asarray(rng.exponential(-1.0 / theta))
