"""Where a search gets its settings: a grid, draws that are fixed at the start, or Optuna, which learns from scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

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
MOST_DRAWS = 64
"""Draws for each setting that is asked for, after which spaces count as empty."""
EDGE = 1e-6
"""Share of a distribution at either end that Optuna leaves out."""


class Sampler(Protocol):
    """Gives settings in turns; the first is the default, ``{}``. `n_trials`: how many in all, at most."""

    n_trials: int

    def ask(self) -> list[Params]:
        """Return the settings of the next turn; none: there are no more."""

    def tell(self, trials: list[Trial], metric: Metric) -> None:
        """Take the scores of the settings of a turn."""


def sampler_of(name: str, estimator: EngineEstimator, space: Space, n_trials: int | None, seed: int) -> Sampler:
    """Return what gives the settings: a whole grid if `n_trials` allow, else draws by random numbers or Optuna.

    Raises ValueError: the space names parameters that the estimator does not have, or holds no values.
    Raises ImportError: Optuna is asked for and not installed.
    """
    spaces, values = checked_spaces(estimator, space), estimator.get_params(deep=False)
    drawn = any(hasattr(of, "rvs") for part in spaces for of in part.values())
    grid = (
        [] if drawn else _distinct(values, [dict(params) for part in spaces for params in ParameterGrid(_lists(part))])
    )
    if not drawn and (n_trials is None or len(grid) <= n_trials):
        return Listed(grid)
    n_trials = n_trials or N_TRIALS
    if name == "optuna":
        return Proposed(values, spaces, n_trials, seed)
    n = n_trials
    while len(settings := _distinct(values, _draws(spaces, n, seed))) < n_trials and n < MOST_DRAWS * n_trials:
        n *= 2  # a small space has no more, or a draw is the default
    return Listed(settings[:n_trials])


def _lists(space: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in space.items()}


def _draws(spaces: Spaces, n: int, seed: int) -> list[Params]:
    """Draw settings from each space in turn, so that none goes short."""
    parts = []
    for number, part in enumerate(spaces):
        share = n // len(spaces) + (number < n % len(spaces))
        if not any(hasattr(values, "rvs") for values in part.values()):
            share = min(share, len(ParameterGrid(_lists(part))))
        parts += list(ParameterSampler(part, share, random_state=seed + number)) if share else []
    return [dict(params) for params in parts]


def _distinct(values: Params, settings: list[Params]) -> list[Params]:
    """Return the default, and the settings that differ from it and from each other."""
    distinct: dict[str, Params] = {}
    for params in [{}, *settings]:
        distinct.setdefault(_key(values, params), params)
    return list(distinct.values())


def _key(values: Params, params: Params) -> str:
    """Return what two settings have in common if they are equal."""
    parts = {**values, **params}
    return repr([(name, v.tolist() if isinstance(v, np.ndarray) else v) for name, v in sorted(parts.items())])


class Listed:
    """Settings that are known at the start, in one turn."""

    def __init__(self, settings: list[Params]) -> None:
        self._left, self.n_trials = settings, len(settings)

    def ask(self) -> list[Params]:
        """Return all settings, once."""
        settings, self._left = self._left, []
        return settings

    def tell(self, trials: list[Trial], metric: Metric) -> None:
        """Do nothing: all settings are known."""


@dataclass
class _Proposal:
    """A setting, Optuna's trials that wait for its score, and the score once it is known."""

    waiting: list[optuna.Trial] = field(default_factory=list)
    score: float | None = None


class Proposed:
    """Settings that Optuna's tree of Parzen estimators proposes (Bergstra et al. 2011), after the default.

    Values in lists are categories; of a distribution a quantile is proposed. The same seed and scores lead to the same
    proposals. What was proposed before is not tried again: Optuna is told the score of then.
    """

    def __init__(self, values: Params, spaces: Spaces, n_trials: int, seed: int) -> None:
        try:
            import optuna
        except ImportError as error:
            raise ImportError('sampler="optuna" needs Optuna: pip install "sdem_dist[optuna]"') from error
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._values, self._spaces, self._optuna, self._seed = values, spaces, optuna, seed
        startup = max(1, min(TURN - 1, n_trials // 3))
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._proposals = {_key(values, {}): _Proposal()}
        self.n_trials, self._n_asked = n_trials, 0

    def ask(self) -> list[Params]:
        """Return the settings of the next turn; the first of all is the default."""
        turn: list[Params] = [] if self._n_asked else [{}]
        while len(turn) < min(TURN, self.n_trials - self._n_asked):
            params = self._new()
            if params is None:
                self.n_trials = self._n_asked + len(turn)
                break
            turn.append(params)
        self._n_asked += len(turn)
        return turn

    def _new(self) -> Params | None:
        for _ in range(REPEATS):
            trial = self._study.ask()
            params = _proposed(self._spaces, trial)
            known = (key := _key(self._values, params)) in self._proposals
            proposal = self._proposals.setdefault(key, _Proposal())
            proposal.waiting.append(trial)
            if not known:
                return params
            self._tell(proposal)
        for params in _draws(self._spaces, len(self._spaces) * (len(self._proposals) + REPEATS), self._seed):
            if (key := _key(self._values, params)) not in self._proposals:
                self._proposals[key] = _Proposal()
                return params
        return None

    def tell(self, trials: list[Trial], metric: Metric) -> None:
        """Tell Optuna the scores, and which settings could not be trained."""
        for trial in trials:
            proposal = self._proposals[_key(self._values, trial.params)]
            proposal.score = trial.score(metric)
            self._tell(proposal)

    def _tell(self, proposal: _Proposal) -> None:
        if proposal.score is None:
            return
        failed = self._optuna.trial.TrialState.FAIL
        for trial in proposal.waiting:
            of = {"state": failed} if proposal.score == -np.inf else {"values": proposal.score}
            self._study.tell(trial, **of)  # type: ignore[arg-type]
        proposal.waiting = []


def _proposed(spaces: Spaces, trial: optuna.Trial) -> Params:
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
