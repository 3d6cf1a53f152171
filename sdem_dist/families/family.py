"""Interface of exponential families, and methods that they share."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from sdem_dist.errors import ModelError


@dataclass(frozen=True)
class Family(ABC):
    """Distributions ``p(x) = h(x) exp(<T(x), theta> - A(theta))`` of a variable x of `width` columns.

    Values are float64 arrays of shape (..., width), statistics and parameters of shape (..., n_statistics), for any
    number of independent variables at once. The statistics are minimal: none is an affine function of the others, so
    theta and ``mu = E[T(x)]`` determine each other. A subclass is a frozen dataclass whose fields are numbers. Check it
    with `sdem_dist.testing.check_family`.
    """

    standardised = False  # whether a learner may shift and scale the columns, since the family is closed under both

    @property
    def width(self) -> int:
        return 1

    @property
    def n_statistics(self) -> int:
        """Number of statistics in T(x)."""
        return 1

    @property
    @abstractmethod
    def centre(self) -> np.ndarray:
        """Shape (n_statistics,): the mean of the conjugate prior, an interior point of S."""

    @property
    def prior_weight(self) -> float:
        """Weight nu of the conjugate prior, in observations; its alpha is ``nu * centre`` (Assumption 2)."""
        return 0.0

    @abstractmethod
    def statistics(self, x: np.ndarray) -> np.ndarray:
        """Return T(x)."""

    def log_base(self, x: np.ndarray) -> np.ndarray:
        """Return ln h(x), of the shape of `x` without its last axis."""
        return np.zeros(x.shape[:-1])

    @abstractmethod
    def to_natural(self, mu: np.ndarray) -> np.ndarray:
        """Return theta(mu), in closed form (equation 3)."""

    @abstractmethod
    def to_expectation(self, theta: np.ndarray) -> np.ndarray:
        """Return mu, the gradient of the log-partition (equation 1)."""

    @abstractmethod
    def log_partition(self, theta: np.ndarray) -> np.ndarray:
        """Return A(theta), of the shape of `theta` without its last axis."""

    @abstractmethod
    def check(self, mu: np.ndarray) -> tuple[np.ndarray, int]:
        """Return mu projected into the interior of S, and how many points were outside S (section 3.2)."""

    def lifted(self, mu: np.ndarray, least: np.ndarray) -> np.ndarray:
        """Return mu with variances raised to at least `least`, shape (...) (Masegosa 2014, section 4.1)."""
        return mu

    @abstractmethod
    def unfit(self, x: np.ndarray) -> np.ndarray:
        """Return the mask of values that the family does not support; it supports NaN, a missing value."""

    @abstractmethod
    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw one value of each variable."""

    def posterior_mean(self, totals: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the mu of the generative fit to the observations of the prior and the data.

        `totals`: shape (..., n_statistics), sums of the statistics. `weight`: shape (...), number of observations.
        Without observations and without a prior, mu is the centre.
        """
        weight = np.asarray(weight, np.float64)[..., None]
        nu = np.where((weight == 0) & (self.prior_weight == 0), 1.0, self.prior_weight)
        return np.asarray((totals + nu * self.centre) / (weight + nu))

    def posterior_of_theta(self, mu: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return E[theta], E[A(theta)], ln Z of the conjugate posterior ``exp(weight (<mu, theta> - A(theta))) / Z``.

        `mu`: inside S. `weight`: shape (...), positive, the weight of `mu` in observations.
        """
        raise ModelError(
            f"em='variational' needs the posterior of the parameters, which {type(self).__name__} does not have: "
            "use em='soft', or implement posterior_of_theta in a custom family"
        )

    def log_density(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return ln p(x); the shapes of `theta` and `x` are broadcast."""
        return np.asarray((theta * self.statistics(x)).sum(axis=-1) - self.log_partition(theta) + self.log_base(x))

    def divergence(self, mu: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return the Kullback-Leibler divergence KL(mu || other) of each variable, nonnegative."""
        a, b = self.to_natural(mu), self.to_natural(other)
        divergence = (mu * (a - b)).sum(axis=-1) - self.log_partition(a) + self.log_partition(b)
        return np.asarray(np.maximum(divergence, 0.0))
