"""Spaces of values for a search, and samplers of settings: a grid, random draws, or Optuna."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, ParameterSampler

from sdem_dist.counted import nearest
from sdem_dist.estimators import parameters
from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.selection.trials import Metric, Trial
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    import optuna

Params: TypeAlias = "dict[str, Any]"
Space: TypeAlias = "Mapping[str, Any] | Sequence[Mapping[str, Any]]"  # lists of values, or objects with ``rvs``
Grid: TypeAlias = "dict[str, list[Any]]"

_DISCRIMINATIVE: list[Grid] = [
    {"loss": ["hinge"], "weighting": ["tfidf", "log"], "norm": [7.0, 10.0, 14.0], "step": [0.1, 0.2, 0.4]},
    {"loss": ["ncll"], "weighting": ["tfidf", "log"], "norm": [7.0, 10.0, 14.0], "step": [0.5, 1.0, 2.0]},
]
_RARE: Grid = {"min_df": [1, 2]}
_BOTH: Grid = {
    "vectorizer": [VectorizerSettings(features="words+characters")],
    "norm": [7.0, 10.0, 14.0],
}  # for raw text
_COUNTING: Grid = {"loss": ["nll"], "alpha": [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]}
DEFAULTS: dict[str, list[Grid]] = {
    "MultinomialNB": [*[{**space, **_RARE} for space in _DISCRIMINATIVE], _BOTH, _COUNTING],
    "ManyClassNB": [{"step": [0.1, 0.2, 0.4]}, _COUNTING],
    "MultiLabelNB": [*_DISCRIMINATIVE, _BOTH],
    "BernoulliNB": [{"loss": ["ncll", "hinge", "nll"], "alpha": [0.1, 1.0]}],
    "PoissonNB": [{"loss": ["ncll", "hinge", "nll"]}],
    "CategoricalNB": [{"loss": ["ncll", "hinge", "nll"], "alpha": [0.1, 1.0, 10.0]}],
    "GaussianNB": [{"loss": ["ncll", "hinge", "nll"]}],
    "MixedNB": [{"loss": ["ncll", "hinge", "nll"]}],
    "LDAClassifier": [{"loss": ["ncll", "nll"], "n_components": [2, 4, 8]}],
    "SdemMixtureClassifier": [{"loss": ["ncll", "hinge"], "n_components": [2, 4]}],
    "EMMixtureClassifier": [{"n_components": [1, 2, 4, 8]}],
    "MultiplicativeMixtureClassifier": [{"n_components": [1, 2, 4]}],
    "SupervisedLDAClassifier": [{"n_components": [10, 20, 50]}],
    "SupervisedLDARegressor": [{"n_components": [10, 20, 50]}],
    "LatentDirichletAllocation": [{"n_components": [5, 10, 20, 50]}],
    "MultinomialMixture": [{"n_components": [2, 5, 10, 20]}],
    "KMeans": [{"n_clusters": [2, 5, 10, 20]}],
    "Mixture": [{"n_components": [2, 5, 10, 20]}],
    "GaussianMixture": [{"n_components": [2, 5, 10, 20]}],
    "GaussianRegressor": [{"loss": ["ncll", "nll"]}],
}
N_TRIALS = 17  # default number of settings to draw from a space with distributions
TURN = 8  # settings that Optuna proposes before it receives their scores
REPEATS = 50  # after this many repeated proposals in a row, a setting is drawn at random
MAX_DRAWS = 64  # most draws per requested setting, before spaces are considered exhausted
EDGE = 1e-6  # probability at either end of a distribution that Optuna does not propose


def default_space(
    estimator: EngineEstimator, *, weighted: bool = False, orders: int = 1, raw: bool = False
) -> list[Grid]:
    """Return the default space, without parameters that the estimator sets.

    `weighted`: documents are not counts. `orders`: longest n-grams of the corpus. `raw`: documents are texts.
    """
    name = type(estimator).__name__
    if name not in DEFAULTS:
        raise ValueError(
            f"{name} has no default space: pass values to try (space={{NAME: [A, B]}}, --space NAME=A,B); "
            f"valid parameters: {', '.join(estimator.get_params(deep=False))}"
        )
    values, defaults = estimator.get_params(deep=False), type(estimator)().get_params(deep=False)
    usable = values.keys() - (("weighting", "norm", "min_df") if weighted else ())
    known = [space for space in DEFAULTS[name] if raw or "vectorizer" not in space]
    spaces = [{key: tried for key, tried in space.items() if key in usable} for space in known]
    if orders > 1 and "ngram_range" in values:
        spaces = [{**space, "ngram_range": [(1, n) for n in range(1, orders + 1)]} for space in spaces]
    changed = {key for space in spaces for key in space if values[key] != defaults[key]}
    if values.get("steps") == "paper":  # steps of the paper ignore `step`
        changed.add("step")
    if "loss" in changed:
        of_loss = [space for space in spaces if values["loss"] in space.get("loss", [defaults["loss"]])]
        # Values of `step` suit one loss only; if the loss is an object, no space matches it.
        spaces = of_loss or [{key: tried for key, tried in spaces[0].items() if key != "step"}]
    spaces = [space for space in spaces if not ("vectorizer" in space and "vectorizer" in changed)]
    return [{key: tried for key, tried in space.items() if key not in changed} for space in spaces]


def checked_spaces(estimator: EngineEstimator, space: Space) -> list[dict[str, Any]]:
    """Return the spaces as a list of dicts; ValueError for an invalid space, parameter or value."""
    parts = [space] if isinstance(space, Mapping) else space
    if isinstance(parts, str) or not all(isinstance(part, Mapping) for part in parts):
        raise ValueError(f"space must be a dict of parameters and values to try, or a list of dicts, got {space!r}")
    spaces = [dict(part) for part in parts]
    parameters.check(estimator)
    names = estimator.get_params(deep=False)
    for part in spaces:
        for name, values in part.items():
            if name not in names:
                raise ValueError(f"Unknown parameter {name!r}. {nearest(name, names)}Valid: {', '.join(names)}")
            if hasattr(values, "rvs"):
                continue
            if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
                raise ValueError(f"the values of {name} must be a list or a distribution with rvs, got {values!r}")
            if not len(values):
                raise ValueError(f"{name} has no values to try")
            for value in values:
                try:
                    parameters.check(clone(estimator).set_params(**{name: value}))
                except ValueError as error:
                    raise ValueError(f"values of {name}: {error}") from error
    return spaces


class Sampler:
    """Returns settings in turns (here a single one); the first is the default, ``{}``. `n_trials`: most settings."""

    def __init__(self, settings: list[Params]) -> None:
        self._settings, self.n_trials = settings, len(settings)

    def ask(self) -> list[Params]:
        """Return the settings of the next turn; an empty list at the end."""
        settings, self._settings = self._settings, []
        return settings

    def tell(self, trials: list[Trial], metric: Metric) -> None:
        """Receive the scores of a turn's settings."""


def sampler_of(name: str, estimator: EngineEstimator, space: Space, n_trials: int | None, seed: int) -> Sampler:
    """Return the sampler: of a whole grid if `n_trials` permits, otherwise of random draws or of Optuna."""
    spaces = checked_spaces(estimator, space)
    drawn = [any(hasattr(values, "rvs") for values in part.values()) for part in spaces]

    def distinct(settings: Iterable[Params]) -> list[Params]:
        """Return the default and all other settings, without duplicates."""
        unique: dict[str, Params] = {}
        for params in [{}, *settings]:
            unique.setdefault(_key(estimator, params), dict(params))
        return list(unique.values())

    if not any(drawn):
        grid = distinct(params for part in spaces for params in ParameterGrid(part))
        if n_trials is None or len(grid) <= n_trials:
            return Sampler(grid)
    n_trials = n_trials or N_TRIALS
    n, settings = n_trials, list[Params]()
    while len(settings) < n_trials and n <= MAX_DRAWS * n_trials:
        settings = []
        for number, (part, has_distributions) in enumerate(zip(spaces, drawn, strict=True)):  # share evenly
            size = n // len(spaces) + (number < n % len(spaces))
            size = size if has_distributions else min(size, len(ParameterGrid(part)))
            settings += ParameterSampler(part, size, random_state=seed + number) if size else []
        settings = distinct(settings)
        n *= 2  # some draws were duplicates, or a grid is smaller than its share
    return (
        TPESampler(estimator, spaces, settings[:n_trials], seed) if name == "optuna" else Sampler(settings[:n_trials])
    )


def _key(estimator: EngineEstimator, params: Params) -> str:
    """Return a text that is equal for settings with equal models: the NLL ignores some parameters."""
    model = clone(estimator).set_params(**params)
    values = model.get_params(deep=False)
    unused = model._unused_by_nll if values.get("loss") == "nll" and model.unlabelled is None else ()
    values = {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in values.items() if name not in unused}
    return repr(sorted(values.items()))


class TPESampler(Sampler):
    """Samples settings with Optuna's tree of Parzen estimators (Bergstra et al. 2011), after the default.

    Values of lists are categories; for a distribution, Optuna proposes a quantile. A repeated proposal is not tried
    again: Optuna receives the earlier score. After too many repeats, the next setting is taken from `drawn`.
    """

    def __init__(self, estimator: EngineEstimator, spaces: list[dict[str, Any]], drawn: list[Params], seed: int):
        try:
            import optuna
        except ImportError as error:
            raise ImportError('sampler="optuna" needs Optuna: pip install "sdem_dist[optuna]"') from error
        super().__init__(drawn)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        startup = max(1, min(TURN - 1, self.n_trials // 3))
        tpe = optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup)
        self._study = optuna.create_study(direction="maximize", sampler=tpe)
        self._failed, self._estimator, self._spaces = optuna.trial.TrialState.FAIL, estimator, spaces
        self._scores: dict[str, float | None] = {}  # of all settings so far; None: still being tried
        self._waiting: list[tuple[str, optuna.Trial]] = []

    def ask(self) -> list[Params]:
        turn, n_spaces = list[Params](), len(self._spaces)
        while len(turn) < TURN and len(self._scores) < self.n_trials:
            for _ in range(REPEATS if self._scores else 0):
                trial, params = self._study.ask(), dict[str, Any]()
                which = trial.suggest_categorical("space", list(range(n_spaces))) if n_spaces > 1 else 0
                for name, values in self._spaces[which].items():
                    if not hasattr(values, "rvs"):
                        params[name] = values[trial.suggest_categorical(f"{which} {name}", list(range(len(values))))]
                        continue
                    if not hasattr(values, "ppf"):
                        raise ValueError(f"{name}: Optuna needs a distribution with ppf, such as those of scipy.stats")
                    value = float(values.ppf(trial.suggest_float(f"{which} {name}", EDGE, 1.0 - EDGE)))
                    params[name] = int(value) if hasattr(values, "pmf") else value
                self._waiting.append((key := _key(self._estimator, params), trial))
                if key not in self._scores:
                    break
                self.tell([], "")
            else:  # no new proposal, or the first setting: the default is first in `_settings`
                keys = ((_key(self._estimator, params), params) for params in self._settings)
                key, params = next(pair for pair in keys if pair[0] not in self._scores)
            self._scores[key] = None
            turn.append(params)
        return turn

    def tell(self, trials: list[Trial], metric: Metric) -> None:
        self._scores |= {_key(self._estimator, trial.params): trial.score(metric) for trial in trials}
        known = [(trial, score) for key, trial in self._waiting if (score := self._scores[key]) is not None]
        self._waiting = [(key, trial) for key, trial in self._waiting if self._scores[key] is None]
        for trial, score in known:
            self._study.tell(trial, *([score] if score > -np.inf else [None, self._failed]))
