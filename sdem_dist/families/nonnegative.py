"""Families of nonnegative numbers: categories, counts, waiting times."""

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, expit, gammaln, logit

from sdem_dist.families.family import Family
from sdem_dist.records import record

_MARGIN = 1e-10  # least probability or mean
_LARGEST = 1e100


@record
class Categorical(Family):
    """Values 0 to ``n_categories - 1``; T(x) is the one-hot vector of categories 1, 2, ..., and 0 for category 0.

    Theta is ``ln(p_c / p_0)``, and the log-partition is ``ln(1 + sum_c exp(theta_c))``.

    Attributes
    ----------
    n_categories : int
        Two or more.
    alpha : float
        Pseudo-count of each category.
    """

    n_categories: int
    alpha: float = 1.0
    length = 1  # sum of the counts

    @property
    def n_statistics(self) -> int:
        return self.n_categories - 1

    @property
    def centre(self) -> np.ndarray:
        return np.full(self.n_statistics, self.length / self.n_categories)

    @property
    def prior_weight(self) -> float:
        return self.alpha * self.n_categories / self.length

    def statistics(self, x: np.ndarray) -> np.ndarray:
        """Return the one-hot vectors of categories 1, 2, ...; zeros for category 0 and for a missing value."""
        return np.asarray(x == np.arange(1, self.n_categories), np.float64)

    def _probabilities(self, mu: np.ndarray) -> np.ndarray:
        p = mu / self.length
        return np.concatenate([1.0 - p.sum(axis=-1, keepdims=True), p], axis=-1)

    def to_natural(self, mu: np.ndarray) -> np.ndarray:
        p = self._probabilities(mu)
        return np.asarray(np.log(p[..., 1:]) - np.log(p[..., :1]))

    def _log_sum(self, theta: np.ndarray) -> np.ndarray:
        top = np.maximum(theta.max(axis=-1), 0.0)
        return np.asarray(top + np.log(np.exp(-top) + np.exp(theta - top[..., None]).sum(axis=-1)))

    def to_expectation(self, theta: np.ndarray) -> np.ndarray:
        return np.asarray(self.length * np.exp(theta - self._log_sum(theta)[..., None]))

    def log_partition(self, theta: np.ndarray) -> np.ndarray:
        return np.asarray(self.length * self._log_sum(theta))

    def check(self, mu: np.ndarray) -> tuple[np.ndarray, int]:
        """Return mu with all probabilities at least `_MARGIN`, and how many points were outside S."""
        p = self._probabilities(mu)
        # Half of the margin, so that a projected point is inside despite rounding.
        outside = np.asarray(p < _MARGIN / 2).any(axis=-1)
        spare = np.maximum(p - _MARGIN, 0.0)
        inside = _MARGIN + spare * (1.0 - _MARGIN * self.n_categories) / spare.sum(axis=-1, keepdims=True)
        return np.where(np.expand_dims(outside, -1), self.length * inside[..., 1:], mu), int(outside.sum())

    def unfit(self, x: np.ndarray) -> np.ndarray:
        valid = (x >= 0) & (x < self.n_categories) & (x == np.floor(x))
        return np.asarray(~(np.isnan(x) | valid).all(axis=-1))

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        p = self._probabilities(self.to_expectation(theta))
        drawn = (p.cumsum(axis=-1) < rng.random(p.shape[:-1])[..., None]).sum(axis=-1)
        return np.asarray(np.minimum(drawn, self.n_categories - 1), np.float64)[..., None]


@record
class Multinomial(Categorical):
    """Vectors of counts with a fixed sum; T(x) is all counts except the first, which the other counts determine.

    Attributes
    ----------
    n_categories : int
        Length of the vectors.
    alpha : float
        Pseudo-count of each category.
    length : int
        Sum of the counts.
    """

    length: int = 1

    @property
    def width(self) -> int:
        return self.n_categories

    def statistics(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x[..., 1:], np.float64)

    def log_base(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(gammaln(self.length + 1.0) - gammaln(x + 1.0).sum(axis=-1))

    def unfit(self, x: np.ndarray) -> np.ndarray:
        counts = ((x >= 0) & (x == np.floor(x))).all(axis=-1) & (x.sum(axis=-1) == self.length)
        return np.asarray(~(np.isnan(x).any(axis=-1) | counts))

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(rng.multinomial(self.length, self._probabilities(self.to_expectation(theta))), np.float64)


@dataclass(frozen=True)
class Mean(Family):
    """Numbers with T(x) = x and mean mu; the conjugate prior counts as `alpha` observations of the centre."""

    alpha: float = 1.0
    largest = np.inf  # upper bound of the mean; 1 for a probability

    @property
    def centre(self) -> np.ndarray:
        return np.ones(1)

    @property
    def prior_weight(self) -> float:
        return self.alpha

    def statistics(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x, np.float64)

    def check(self, mu: np.ndarray) -> tuple[np.ndarray, int]:
        inside = np.clip(mu, _MARGIN, self.largest - _MARGIN)
        return inside, int(np.count_nonzero(inside != mu))

    def unfit(self, x: np.ndarray) -> np.ndarray:
        """Return the mask of negative and too large values; counts need not be integers, since they may be weighted."""
        return np.asarray(~(np.isnan(x) | ((x >= 0) & (x <= _LARGEST))).all(axis=-1))


@record
class Bernoulli(Mean):
    """Values 0 and 1; T(x) = x, mu is the probability of 1 and theta its logit.

    Attributes
    ----------
    alpha : float
        Pseudo-count of each of the two values.
    threshold : float or None
        Accept any number: values above the threshold become 1, other values 0.
    """

    threshold: float | None = None
    largest = 1.0

    @property
    def centre(self) -> np.ndarray:
        return np.array([0.5])

    @property
    def prior_weight(self) -> float:
        return 2.0 * self.alpha

    def statistics(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x if self.threshold is None else x > self.threshold, np.float64)

    def to_natural(self, mu: np.ndarray) -> np.ndarray:
        return np.asarray(logit(mu))

    def to_expectation(self, theta: np.ndarray) -> np.ndarray:
        return np.asarray(expit(theta))

    def log_partition(self, theta: np.ndarray) -> np.ndarray:
        return np.asarray(np.logaddexp(0.0, theta[..., 0]))

    def unfit(self, x: np.ndarray) -> np.ndarray:
        """Return the mask of values other than 0 and 1; with a threshold, of infinite values."""
        if self.threshold is not None:
            return np.asarray(np.isinf(x).any(axis=-1))
        return np.asarray(~(np.isnan(x) | (x == 0) | (x == 1)).all(axis=-1))

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(rng.random(theta.shape) < expit(theta), np.float64)


@record
class Exponential(Mean):
    """Nonnegative numbers; T(x) = x, mu is the mean, theta is ``-1 / mu``; `alpha`: observations of 1 in the prior."""

    def to_natural(self, mu: np.ndarray) -> np.ndarray:
        return np.asarray(-1.0 / mu)

    def to_expectation(self, theta: np.ndarray) -> np.ndarray:
        return np.asarray(-1.0 / theta)

    def log_partition(self, theta: np.ndarray) -> np.ndarray:
        return np.asarray(-np.log(-theta[..., 0]))

    def posterior_of_theta(self, mu: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shape, rate = weight + 1.0, weight * mu[..., 0]
        log_volume = gammaln(shape) - shape * np.log(rate)
        return -(shape / rate)[..., None], np.log(rate) - digamma(shape), log_volume

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(rng.exponential(-1.0 / theta))


@record
class Poisson(Mean):
    """Counts or weights; T(x) = x, mu is the mean, theta is ``ln mu``; `alpha`: observations of 1 in the prior."""

    def log_base(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(-gammaln(x[..., 0] + 1.0))

    def to_natural(self, mu: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(mu))

    def to_expectation(self, theta: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(theta))

    def log_partition(self, theta: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(theta[..., 0]))

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(rng.poisson(np.exp(theta)), np.float64)
