"""The multinomial family: count vectors of one known sum."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from sdem_dist.families.categorical import Categorical
from sdem_dist.records import record


@record
@dataclass(frozen=True)
class Multinomial(Categorical):
    """Vectors of counts with one known sum; T(x) is the counts but the first, which the others determine.

    Attributes
    ----------
    n_categories : int
        Length of the vectors.
    alpha : float
        Pseudo-count of each category.
    length : int
        What the counts sum to.
    """

    length: int = 1

    @property
    def width(self) -> int:
        """A column for each category."""
        return self.n_categories

    @property
    def trials(self) -> int:
        """The length."""
        return self.length

    def statistics(self, x: np.ndarray) -> np.ndarray:
        """Return the counts but the first."""
        return np.asarray(x[..., 1:], np.float64)

    def log_base(self, x: np.ndarray) -> np.ndarray:
        """Return the logarithm of the multinomial coefficient."""
        return np.asarray(gammaln(self.length + 1.0) - gammaln(x + 1.0).sum(axis=-1))

    def unfit(self, x: np.ndarray) -> np.ndarray:
        """Return vectors that are not counts of that sum."""
        counts = ((x >= 0) & (x == np.floor(x))).all(axis=-1) & (x.sum(axis=-1) == self.length)
        return np.asarray(~(np.isnan(x).any(axis=-1) | counts))

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a vector of counts."""
        return np.asarray(rng.multinomial(self.length, self._probabilities(self.to_expectation(theta))), np.float64)
