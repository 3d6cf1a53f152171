"""Where a search gets its settings: a list that is fixed at the start, or Optuna, which learns from scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sdem_dist.estimators.base import EngineEstimator
from sdem_dist.inputs.spec import Source
from sdem_dist.selection import default_loss
from sdem_dist.selection.predicted import Metric
from sdem_dist.selection.spaces import Space, are_equal, checked_spaces, settings, spelled_out
from sdem_dist.selection.trials import Trial

if TYPE_CHECKING:
    import optuna


SAMPLERS = ("random", "optuna")
TURN = 8
"""Settings that Optuna proposes at a time, which learn side by side; it learns from their scores before the next."""
REPEATS = 100
"""Proposals in a row that have been tried, after which there are no others."""


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


class Proposed:
    """Settings that Optuna's tree of Parzen estimators proposes (Bergstra et al. 2011), after the estimator as it is.

    Values that are listed are categories; of a distribution a quantile is proposed. The same seed and scores lead to
    the same proposals. What comes to the same as an earlier proposal is not given again.
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
        self._seen = [spelled_out(estimator, chosen, source) for chosen in default_loss.names_of_default(estimator)]
        n_trials = n_trials if any(spaces) else 1  # nothing varies
        self.most, self.at_once, self._given = n_trials, min(TURN, n_trials), 0
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        startup = max(1, min(TURN - 1, n_trials // 3))
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._asked: dict[int, optuna.Trial] = {}

    def ask(self, n: int) -> list[dict[str, object]]:
        """Return the next settings; the first of all is the estimator as it is."""
        n = min(n, self.at_once, self.most - self._given)
        asked: list[dict[str, object]] = []
        for number in range(self._given, self._given + n):
            if not number:
                asked.append({})
                continue
            if (found := self._new()) is None:
                self.most = number
                break
            self._asked[number], chosen = found
            asked.append(chosen)
        self._given += len(asked)
        return asked

    def _new(self) -> tuple[optuna.Trial, dict[str, object]] | None:
        """Return a setting that was not given before; None: there seem to be no more."""
        for _ in range(REPEATS):
            trial = self._study.ask()
            chosen = self._chosen(trial)
            whole = spelled_out(self._estimator, chosen, self._source)
            if not any(are_equal(whole, other) for other in self._seen):
                self._seen.append(whole)
                return trial, chosen
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        return None

    def _chosen(self, trial: optuna.Trial) -> dict[str, object]:
        which = trial.suggest_categorical("space", list(range(len(self._spaces)))) if len(self._spaces) > 1 else 0
        found: dict[str, object] = {}
        for name, values in self._spaces[which].items():
            if hasattr(values, "rvs"):
                if not hasattr(values, "ppf"):
                    raise ValueError(f"{name}: Optuna needs a distribution with quantiles (ppf), such as scipy's")
                value = float(values.ppf(trial.suggest_float(f"{which} {name}", 1e-6, 1.0 - 1e-6)))
                found[name] = int(value) if hasattr(values, "pmf") else value
            else:
                found[name] = values[trial.suggest_categorical(f"{which} {name}", list(range(len(values))))]
        return found

    def tell(self, trials: list[Trial], metric: Metric) -> None:
        """Tell Optuna the scores, and which settings could not be trained."""
        for trial in trials:
            if (asked := self._asked.pop(trial.number, None)) is None:
                continue
            score = trial.score(metric)
            failed = self._optuna.trial.TrialState.FAIL
            self._study.tell(asked, **({"state": failed} if score == -float("inf") else {"values": score}))


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
    return Proposed(estimator, checked_spaces(estimator, space), n_trials or 1, seed, source)
