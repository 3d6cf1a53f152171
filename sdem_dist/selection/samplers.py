"""Where a search gets its settings: a grid, draws that are fixed at the start, or Optuna, which learns from scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import ParameterGrid, ParameterSampler

from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.selection.metrics import Metric
from sdem_dist.selection.spaces import Space, checked_spaces
from sdem_dist.selection.trials import Trial

if TYPE_CHECKING:
    import optuna

Params = dict[str, Any]
Spaces = Sequence[Mapping[str, Any]]
SAMPLERS = ("random", "optuna")
N_TRIALS = 17
"""Settings that are drawn from a space with distributions where no number is given."""
TURN = 8
"""Settings that Optuna proposes before it is told their scores."""
REPEATS = 50
"""Proposals in a row that were made before, after which a setting is drawn instead."""
MAX_DRAWS = 64
"""Draws for each setting that is wanted, after which spaces count as empty."""
EDGE = 1e-6
"""Share of a distribution at either end that Optuna leaves out."""


class Sampler:
    """Gives settings in turns, here all in one; the first is the default, ``{}``. `n_trials`: how many, at most."""

    def __init__(self, settings: list[Params]) -> None:
        self._settings, self.n_trials = settings, len(settings)

    def ask(self) -> list[Params]:
        """Return the settings of the next turn; none: there are no more."""
        settings, self._settings = self._settings, []
        return settings

    def tell(self, trials: list[Trial], metric: Metric) -> None:
        """Learn from the scores of the settings of a turn."""


def sampler_of(name: str, estimator: EngineEstimator, space: Space, n_trials: int | None, seed: int) -> Sampler:
    """Return what gives the settings: a whole grid if `n_trials` allow, else draws by random numbers or Optuna.

    Raises ValueError: the space names parameters that the estimator does not have, or holds no values.
    Raises ImportError: Optuna is not installed.
    """
    spaces, defaults = checked_spaces(estimator, space), estimator.get_params(deep=False)
    if not any(_has_distributions(part) for part in spaces):
        grid = _distinct(defaults, [params for part in spaces for params in ParameterGrid(_lists(part))])
        if n_trials is None or len(grid) <= n_trials:
            return Sampler(grid)
    n_trials = n_trials or N_TRIALS
    if name == "optuna":
        return TPESampler(defaults, spaces, n_trials, seed)
    n = n_trials
    while len(settings := _distinct(defaults, _draws(spaces, n, seed))) < n_trials and n < MAX_DRAWS * n_trials:
        n *= 2  # a small space has no more, or a draw is the default
    return Sampler(settings[:n_trials])


def _has_distributions(space: Mapping[str, Any]) -> bool:
    return any(hasattr(values, "rvs") for values in space.values())


def _lists(space: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in space.items()}


def _draws(spaces: Spaces, n: int, seed: int) -> list[Params]:
    """Draw settings from each space in turn, so that none goes short."""
    settings: list[Params] = []
    for number, part in enumerate(spaces):
        size = n // len(spaces) + (number < n % len(spaces))
        if not _has_distributions(part):
            size = min(size, len(ParameterGrid(_lists(part))))
        settings += ParameterSampler(part, size, random_state=seed + number) if size else []
    return settings


def _distinct(defaults: Params, settings: list[Params]) -> list[Params]:
    """Return the default, and the settings that differ from it and from each other."""
    distinct: dict[str, Params] = {}
    for params in [{}, *settings]:
        distinct.setdefault(_key(defaults, params), dict(params))
    return list(distinct.values())


def _key(defaults: Params, params: Params) -> str:
    """Return a text that is the same for settings that are equal."""
    values = sorted({**defaults, **params}.items())
    return repr([(name, v.tolist() if isinstance(v, np.ndarray) else v) for name, v in values])


class TPESampler(Sampler):
    """Settings that Optuna's tree of Parzen estimators proposes (Bergstra et al. 2011), after the default.

    Values in lists are categories; of a distribution a quantile is proposed. The same seed and scores lead to the same
    proposals. What was proposed before is not tried again: Optuna is told the score of then.
    """

    def __init__(self, defaults: Params, spaces: Spaces, n_trials: int, seed: int) -> None:
        try:
            import optuna
        except ImportError as error:
            raise ImportError('sampler="optuna" needs Optuna: pip install "sdem_dist[optuna]"') from error
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._failed = optuna.trial.TrialState.FAIL
        startup = max(1, min(TURN - 1, n_trials // 3))
        tpe = optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup)
        self._study = optuna.create_study(direction="maximize", sampler=tpe)
        self._defaults, self._spaces, self._seed = defaults, spaces, seed
        self._scores: dict[str, float | None] = {_key(defaults, {}): None}  # of all settings; None: not known yet
        self._waiting: list[tuple[str, optuna.Trial]] = []
        self.n_trials, self._n_proposed = n_trials, 0

    def ask(self) -> list[Params]:
        """Return the settings of the next turn; the first of all is the default."""
        turn: list[Params] = [] if self._n_proposed else [{}]
        while len(turn) < min(TURN, self.n_trials - self._n_proposed):
            params = self._new()
            if params is None:
                self.n_trials = self._n_proposed + len(turn)
                break
            turn.append(params)
        self._n_proposed += len(turn)
        return turn

    def _new(self) -> Params | None:
        for _ in range(REPEATS):
            trial = self._study.ask()
            params = _suggested(self._spaces, trial)
            key = _key(self._defaults, params)
            self._waiting.append((key, trial))
            if key not in self._scores:
                self._scores[key] = None
                return params
            self._pass_scores_on()
        for params in _draws(self._spaces, len(self._spaces) * (len(self._scores) + REPEATS), self._seed):
            if (key := _key(self._defaults, params)) not in self._scores:
                self._scores[key] = None
                return params
        return None

    def tell(self, trials: list[Trial], metric: Metric) -> None:
        """Tell Optuna the scores, and which settings could not be trained."""
        self._scores |= {_key(self._defaults, trial.params): trial.score(metric) for trial in trials}
        self._pass_scores_on()

    def _pass_scores_on(self) -> None:
        waiting, self._waiting = self._waiting, []
        for key, trial in waiting:
            score = self._scores[key]
            if score is None:
                self._waiting.append((key, trial))
            elif score == -np.inf:
                self._study.tell(trial, state=self._failed)
            else:
                self._study.tell(trial, score)


def _suggested(spaces: Spaces, trial: optuna.Trial) -> Params:
    """Return the setting that one of Optuna's trials stands for."""
    which = trial.suggest_categorical("space", list(range(len(spaces)))) if len(spaces) > 1 else 0
    params: Params = {}
    for name, values in spaces[which].items():
        if hasattr(values, "rvs"):
            if not hasattr(values, "ppf"):
                raise ValueError(f"{name}: Optuna needs a distribution with quantiles (ppf), such as scipy's")
            value = float(values.ppf(trial.suggest_float(f"{which} {name}", EDGE, 1.0 - EDGE)))
            params[name] = int(value) if hasattr(values, "pmf") else value
        else:
            params[name] = values[trial.suggest_categorical(f"{which} {name}", list(range(len(values))))]
    return params
