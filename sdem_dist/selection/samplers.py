"""Where a search gets its settings: a list that is fixed at the start, or Optuna, which learns from scores."""

from __future__ import annotations

from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.inputs.spec import Source
from sdem_dist.selection.predicted import Metric
from sdem_dist.selection.proposed import Proposed
from sdem_dist.selection.spaces import Space, checked_spaces, settings
from sdem_dist.selection.trials import Trial

SAMPLERS = ("random", "optuna")


class Listed:
    """Settings that are known at the start; `most` of them, and `at_once` at a time."""

    def __init__(self, found: list[dict[str, object]]) -> None:
        self._left, self.most, self.at_once = found, len(found), len(found)

    def ask(self, n: int) -> list[dict[str, object]]:
        """Return the next settings, `n` at most; none: there are no more."""
        asked, self._left = self._left[:n], self._left[n:]
        return asked

    def tell(self, trials: list[Trial], metric: Metric) -> None:
        """Do nothing: all settings are known."""


Sampler = Listed | Proposed


def sampler_of(
    name: str, estimator: EngineEstimator, space: Space, n_trials: int | None, seed: int, source: Source
) -> Sampler:
    """Return the sampler of the settings to try on a source.

    Raises ValueError: the space names parameters that the estimator does not have, or holds no values.
    Raises ImportError: Optuna is asked for and not installed.
    """
    if name == "random":
        return Listed(settings(estimator, space, n_trials, seed, source))
    spaces, most = checked_spaces(estimator, space), n_trials or 1
    if not any(hasattr(values, "rvs") for part in spaces for values in part.values()):
        most = len(settings(estimator, spaces, most, seed, source))  # the grid may have fewer
    return Proposed(estimator, spaces, most, seed, source)
