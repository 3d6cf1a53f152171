"""Settings that Optuna proposes by the scores so far."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.inputs.spec import Source
from sdem_dist.selection import default_loss
from sdem_dist.selection.predicted import Metric
from sdem_dist.selection.spaces import are_equal, spelled_out
from sdem_dist.selection.trials import Trial

if TYPE_CHECKING:
    import optuna


Point: TypeAlias = "dict[str, int | float]"
"""Values of Optuna's parameters: the number of a space, of a value in a list, or a quantile."""
TURN = 8
"""Settings that Optuna proposes at a time, which learn side by side; it learns from their scores before the next."""
REPEATS = 3
"""Proposals in a row that were given before, after which one that was not is drawn."""
DRAWS = 100
"""Draws in a row from a space with a distribution, after which it counts as empty if all were given before."""
LISTED = 1 << 20
"""Points of a space up to which all are gone through."""
EDGE = 1e-6
"""Share of a distribution at either end that is left out."""


@dataclass
class _Given:
    """A setting that was given, Optuna's trials that wait for its score, and the score, once it is known."""

    params: dict[str, object]
    whole: dict[str, object]
    waiting: list[optuna.Trial] = field(default_factory=list)
    score: float | None = None


class Proposed:
    """Settings that Optuna's tree of Parzen estimators proposes (Bergstra et al. 2011), after the estimator as it is.

    Values that are listed are categories; of a distribution a quantile is proposed. The same seed and scores lead to
    the same proposals. What comes to the same as an earlier proposal is not given again: Optuna is told the score of
    that one. After several such in a row a setting that was not given is drawn, and Optuna is told of it, too.

    `most`: settings that it gives, at most; `at_once`: at a time.
    """

    def __init__(
        self, estimator: EngineEstimator, spaces: Sequence[Mapping[str, Any]], n_trials: int, seed: int, source: Source
    ) -> None:
        try:
            import optuna
        except ImportError as error:
            raise ImportError('sampler="optuna" needs Optuna: pip install "sdem_dist[optuna]"') from error
        self._spaces, self._optuna = spaces, optuna
        self._estimator, self._source = estimator, source
        self._parameters = estimator.get_params(deep=False)
        self._given = [_Given(own, self._whole(own)) for own in default_loss.names_of_default(estimator)]
        n_trials = n_trials if any(spaces) else 1  # nothing varies
        self.most, self.at_once, self._asked = n_trials, min(TURN, n_trials), 0
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        startup = max(1, min(TURN - 1, n_trials // 3))
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._draws = _Draws(spaces, np.random.default_rng(seed))

    def ask(self, n: int) -> list[dict[str, object]]:
        """Return the next settings; the first of all is the estimator as it is."""
        self._look()
        asked: list[dict[str, object]] = []
        for number in range(self._asked, self._asked + min(n, self.at_once, self.most - self._asked)):
            found = self._new() if number else {}
            if found is None:
                self.most = number
                break
            asked.append(found)
        self._asked += len(asked)
        return asked

    def _look(self) -> None:
        """See whether the estimator has changed, since its loss was settled: settings may now come to the same."""
        now = self._estimator.get_params(deep=False)
        if not are_equal(now, self._parameters):
            self._parameters = now
            for given in self._given:
                given.whole = self._whole(given.params)

    def _whole(self, params: dict[str, object]) -> dict[str, object]:
        return spelled_out(self._estimator, params, self._source)

    def _equal(self, whole: dict[str, object]) -> _Given | None:
        """Return what was given and comes to the same."""
        return next((given for given in self._given if are_equal(whole, given.whole)), None)

    def _new(self) -> dict[str, object] | None:
        """Return a setting that was not given before; None: there are no more."""
        for _ in range(REPEATS):
            trial = self._study.ask()
            params = _setting(self._spaces, trial)
            if (equal := self._equal(whole := self._whole(params))) is None:
                self._given.append(_Given(params, whole, [trial]))
                return params
            equal.waiting.append(trial)
            self._pass_on(equal)
        for point in islice(self._draws, self._draws.most):
            fixed = self._optuna.trial.FixedTrial(point)
            params = _setting(self._spaces, fixed)
            if self._equal(whole := self._whole(params)) is None:
                self._study.enqueue_trial(point)
                trial = self._study.ask()
                _setting(self._spaces, trial)
                self._given.append(_Given(params, whole, [trial]))
                return params
        return None

    def tell(self, trials: list[Trial], metric: Metric) -> None:
        """Tell Optuna the scores, and which settings could not be trained."""
        self._look()
        for trial in trials:
            names = [trial.params] if trial.params else default_loss.names_of_default(self._estimator)
            wholes = [self._whole(name) for name in names]
            for given in self._given:
                if any(are_equal(whole, given.whole) for whole in wholes):
                    given.score = trial.score(metric)
                    self._pass_on(given)

    def _pass_on(self, given: _Given) -> None:
        """Tell Optuna the score of a setting for all of its proposals, where it is known."""
        if given.score is None:
            return
        failed = self._optuna.trial.TrialState.FAIL
        for trial in given.waiting:
            self._study.tell(trial, **({"state": failed} if given.score == -np.inf else {"values": given.score}))
        given.waiting = []


def _setting(spaces: Sequence[Mapping[str, Any]], trial: optuna.Trial | optuna.trial.FixedTrial) -> dict[str, object]:
    """Return the setting that a trial proposes."""
    which = trial.suggest_categorical("space", list(range(len(spaces)))) if len(spaces) > 1 else 0
    found: dict[str, object] = {}
    for name, values in spaces[which].items():
        if hasattr(values, "rvs"):
            if not hasattr(values, "ppf"):
                raise ValueError(f"{name}: Optuna needs a distribution with quantiles (ppf), such as scipy's")
            value = float(values.ppf(trial.suggest_float(f"{which} {name}", EDGE, 1.0 - EDGE)))
            found[name] = int(value) if hasattr(values, "pmf") else value
        else:
            found[name] = values[trial.suggest_categorical(f"{which} {name}", list(range(len(values))))]
    return found


class _Draws:
    """Points of the spaces in random order, from each space in turn, as distributions have them; of lists each once.

    `most`: draws after which nothing new is expected.
    """

    def __init__(self, spaces: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> None:
        self._rng, self._left, self.most = rng, list[Iterator[Point]](), 0
        for which, space in enumerate(spaces):
            axes = {f"{which} {name}": _axis(values) for name, values in space.items()}
            listed = {name: axis for name, axis in axes.items() if axis is not None}
            size = math.prod(map(len, listed.values()))
            own: Point = {"space": which} if len(spaces) > 1 else {}
            whole = len(listed) == len(axes) and size <= LISTED
            self.most += size if whole else DRAWS
            chances = reduce(np.multiply.outer, map(_chances, space.values()), np.ones(())) if whole else None
            self._left.append(self._some(own, space, which) if chances is None else self._each(own, listed, chances))

    def __iter__(self) -> Iterator[Point]:
        """Yield the points that are left."""
        while self._left:
            points = self._left.pop(0)
            if (found := next(points, None)) is not None:
                self._left.append(points)
                yield found

    def _each(self, own: Point, axes: Mapping[str, Sequence[int | float]], chances: np.ndarray) -> Iterator[Point]:
        # The order of draws without replacement: the shortest of exponential times, whose rates are the chances.
        for number in np.argsort(self._rng.exponential(size=chances.size) / chances.ravel()):
            where = np.unravel_index(number, chances.shape)
            yield own | {name: axis[i] for (name, axis), i in zip(axes.items(), where, strict=True)}

    def _some(self, own: Point, space: Mapping[str, Any], which: int) -> Iterator[Point]:
        while True:
            drawn = self._rng.uniform(EDGE, 1.0 - EDGE, len(space)).tolist()
            yield own | {
                f"{which} {name}": chance if hasattr(values, "rvs") else int(chance * len(values))
                for (name, values), chance in zip(space.items(), drawn, strict=True)
            }


def _chances(values: Any) -> np.ndarray:
    """Return the chance of each value of `_axis`, where there are such."""
    if not hasattr(values, "rvs"):
        return np.full(len(values), 1.0 / len(values))
    found: np.ndarray = values.pmf(_numbers(values))
    return found[found > 0]


def _numbers(values: Any) -> np.ndarray:
    """Return the whole numbers between the edges of a distribution."""
    return np.arange(values.ppf(EDGE), values.ppf(1.0 - EDGE) + 1)


def _axis(values: Any) -> Sequence[int | float] | None:
    """Return what Optuna may propose for a parameter: numbers of listed values, or a quantile of each whole number.

    None: any quantile.
    """
    if not hasattr(values, "rvs"):
        return range(len(values))
    if not hasattr(values, "pmf") or not hasattr(values, "ppf"):
        return None
    # A quantile near 1 of a heavy tail may take for ever.
    if values.cdf(values.ppf(EDGE) + LISTED) < 1.0 - EDGE:
        return None
    numbers = _numbers(values)
    middles = np.clip(values.cdf(numbers) - 0.5 * values.pmf(numbers), EDGE, 1.0 - EDGE)
    return list(map(float, middles[values.pmf(numbers) > 0]))
