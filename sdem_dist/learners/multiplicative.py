"""Saul and Lee's multiplicative updates as a rule: a full pass, sums, one update (2001, section 4)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sdem_dist.errors import TrainingError
from sdem_dist.learners.sdem import At, SdEM
from sdem_dist.models.mixture import MixtureSums, MixtureWeights, MultiplicativeState, SortedDocuments, multiplied
from sdem_dist.records import record

GROWTH = 1.2
"""Factor of the exponents after a pass in which the likelihood did not fall."""
LARGEST_OF_WEIGHTS = 1.9
"""Bound of the factor of W's exponent, which is near 1 by itself."""
WEIGHTS_SHARE = 0.1
"""c / eta of joint updates: W has the exponent c / (eta + c)."""
ROUNDING = 1e-12
"""How much the likelihood per document may fall; more where logits are large or their dtype is coarse."""


@record
@dataclass(frozen=True)
class Multiplicative:
    """Multiplicative updates, which cannot lower the conditional likelihood.

    `eta`: largest sum of a row of features.
    `schedule`: "joint" or "alternate": update W and theta together with shared exponents, or in turn, see
    `sdem_dist.models.mixture.multiplied`.
    `accelerate`: multiply the exponents by a factor that grows while the likelihood does not fall; on a fall go to the
    plain update of the best point.
    """

    eta: float
    schedule: str = "joint"
    accelerate: bool = True

    local: ClassVar[bool] = False
    cache_key: ClassVar[str] = "whole"

    def __post_init__(self) -> None:
        if not 0.0 < self.eta < np.inf:
            raise ValueError(f"eta is a sum of a row, and {self.eta!r} is none")

    def map(self, sdem: SdEM[Any], state: MultiplicativeState, batch: SortedDocuments, at: At) -> Any:
        return sdem.model.expected(state, batch)

    def step(self, sdem: SdEM[Any], state: MultiplicativeState, sums: MixtureSums) -> MultiplicativeState:
        """Keep the point if its likelihood is no lower, and go on from there; else take the plain update of the best.

        Raises TrainingError: the likelihood fell after a plain update, by more than rounding.
        """
        fall, number = state.log_likelihood - sums.log_likelihood, len(state.path) + 1
        rounding = sums.weight * max(ROUNDING, 16.0 * float(np.finfo(sdem.model.dtype).eps) * sums.largest)
        if not np.isfinite(sums.log_likelihood) or (state.plain and fall > rounding):
            raise TrainingError(
                f"the conditional log-likelihood went from {state.log_likelihood:.17g} to {sums.log_likelihood:.17g} in "
                f"pass {number}, which the updates cannot do but by rounding: are the features finite and not negative, "
                f"and is no row's sum above eta = {self.eta:.17g}?"
            )
        if fall > 0 and not state.plain:
            path = np.append(state.path, state.log_likelihood / sums.weight)
            return state._replace(
                log_weights=state.plain_log_weights, theta=state.plain_theta, factor=1.0, plain=1.0, path=path
            )
        good = MixtureWeights(state.log_weights, state.theta)
        of_weights = WEIGHTS_SHARE / (1.0 + WEIGHTS_SHARE)
        of_theta = 1.0 / (self.eta * (1.0 + WEIGHTS_SHARE))
        if self.schedule == "alternate":
            of_weights, of_theta = (0.0, 1.0 / self.eta) if state.n_good % 2 else (1.0, 0.0)
        plain = multiplied(good, sums, of_weights, of_theta)
        factor, new = 1.0, plain
        if self.accelerate:
            factor = state.factor * GROWTH
            new = multiplied(good, sums, of_weights * min(factor, LARGEST_OF_WEIGHTS), of_theta * factor)
        path = np.append(state.path, sums.log_likelihood / sums.weight)
        return MultiplicativeState(
            *new, *good, *plain, sums.log_likelihood, factor, float(not self.accelerate), state.n_good + 1.0, path
        )
