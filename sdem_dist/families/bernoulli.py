"""The Bernoulli family: 0 or 1."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from sdem_dist.families.family import Family
from sdem_dist.records import record

_MARGIN = 1e-10


@record
@dataclass(frozen=True)
class Bernoulli(Family):
    """Values 0 and 1; T(x) = x, mu is the probability of 1 and theta its logit.

    Attributes
    ----------
    alpha : float
        Pseudo-count of each of the two values.
    threshold : float or None
        Take any number, as 1 where it is above the threshold and as 0 elsewhere.
    """

    alpha: float = 1.0
    threshold: float | None = None

    @property
    def centre(self) -> np.ndarray:
        """One half."""
        return np.array([0.5])

    @property
    def prior_weight(self) -> float:
        """Both pseudo-counts."""
        return 2.0 * self.alpha

    def statistics(self, x: np.ndarray) -> np.ndarray:
        """Return the value, or whether it is above the threshold."""
        return np.asarray(x if self.threshold is None else x > self.threshold, np.float64)

    def to_natural(self, mu: np.ndarray) -> np.ndarray:
        """Return ``ln(mu / (1 - mu))``."""
        return np.asarray(logit(mu))

    def to_expectation(self, theta: np.ndarray) -> np.ndarray:
        """Return ``1 / (1 + exp(-theta))``."""
        return np.asarray(expit(theta))

    def log_partition(self, theta: np.ndarray) -> np.ndarray:
        """Return ``ln(1 + exp(theta))``."""
        return np.asarray(np.logaddexp(0.0, theta[..., 0]))

    def check(self, mu: np.ndarray) -> tuple[np.ndarray, int]:
        """Keep probabilities off 0 and 1."""
        inside = np.clip(mu, _MARGIN, 1.0 - _MARGIN)
        return inside, int(np.count_nonzero(inside != mu))

    def unfit(self, x: np.ndarray) -> np.ndarray:
        """Return what is neither 0 nor 1; with a threshold, infinities."""
        if self.threshold is not None:
            return np.asarray(np.isinf(x).any(axis=-1))
        return np.asarray(~(np.isnan(x) | (x == 0) | (x == 1)).all(axis=-1))

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw 0 or 1."""
        return np.asarray(rng.random(theta.shape) < expit(theta), np.float64)
