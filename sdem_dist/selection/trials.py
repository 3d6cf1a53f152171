"""Settings that a search tries, what their folds say, and which of them go on and win."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sdem_dist.selection.metrics import (
    PER_DOCUMENT,
    Metric,
    Predictions,
    joined,
    mean_and_error,
    name_of,
    per_document,
    sign_of,
)

FINALISTS = 3
"""Settings that no halving drops: where so few are left, the rest costs little, and one fold is chance."""
LATE = "the time was over"
"""The error of a setting whose first training the time of a search did not allow."""
EQUAL = 1e-9
"""Relative difference up to which scores are equal."""


@dataclass(frozen=True)
class FoldScores:
    scores: dict[str, float]
    predictions: Predictions | None  # of classifiers alone
    seconds: float
    error: str = ""  # why the model cannot be trained


@dataclass(repr=False)
class Trial:
    """One setting, and its scores on the folds."""

    number: int  # 0 is the default
    params: dict[str, Any]  # what differs from the estimator that is tuned
    folds: list[FoldScores] = field(default_factory=list)  # those that it was trained without, in their order
    dropped: int | None = None  # after how many folds other settings were better; None: it went on
    error: str = ""  # why it cannot be trained

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {of.mean():.4f}" for name, of in self.scores.items())
        return f"Trial({self.number}, {self.params}: {scores or self.error or 'no score yet'})"

    @property
    def goes_on(self) -> bool:
        return self.dropped is None and not self.error

    @property
    def scores(self) -> dict[str, np.ndarray]:
        """Each metric of each fold, by name."""
        names = self.folds[0].scores if self.folds else ()
        return {name: np.array([fold.scores[name] for fold in self.folds]) for name in names}

    @property
    def seconds(self) -> float:
        return sum(fold.seconds for fold in self.folds)

    @property
    def predictions(self) -> Predictions | None:
        """Predictions of all documents that its models were not trained on; None if there are none."""
        parts = [fold.predictions for fold in self.folds]
        complete = [part for part in parts if part is not None]
        return joined(complete) if complete and len(complete) == len(parts) else None

    def score(self, metric: Metric, n_folds: int | None = None) -> float:
        """Return the mean over the first folds, larger is better; -inf where there is none."""
        values = [fold.scores.get(name_of(metric), np.nan) for fold in self.folds[:n_folds]]
        mean = float(np.mean(values)) if values else np.nan
        return sign_of(metric) * mean if np.isfinite(mean) else -np.inf


def drop_worse_half(trials: Sequence[Trial], metric: Metric) -> None:
    """Drop the worse half of the settings that go on (successive halving, whose resource is the number of folds).

    The default stays in any case, and so does what is as good as a setting that stays.
    """
    candidates = sorted((trial for trial in trials if trial.goes_on), key=lambda trial: -trial.score(metric))
    n_stay = max(FINALISTS, (len(candidates) + 1) // 2)
    for trial in candidates[n_stay:]:
        if trial.number and not math.isclose(trial.score(metric), candidates[n_stay - 1].score(metric), rel_tol=EQUAL):
            trial.dropped = len(trial.folds)
            trial.folds = [replace(fold, predictions=None) for fold in trial.folds]  # they may be large


def ranked(trials: Sequence[Trial], metric: Metric) -> list[Trial]:
    """Return settings, the best first: those with more folds, then by the mean over the folds that all of these have.

    Of equals the default is first, then those with the lowest log-loss.
    """
    n_common = min((len(trial.folds) for trial in trials if trial.goes_on and trial.folds), default=0)

    def key(trial: Trial) -> tuple[float, ...]:
        n = min(n_common, len(trial.folds))
        return -n, -trial.score(metric, n), trial.number > 0, -trial.score("log-loss", n), trial.number

    return sorted(trials, key=key)


def best_of(trials: Sequence[Trial], metric: Metric) -> Trial:
    """Return the best setting: the first one, the default, unless another is clearly better.

    Clearly: by more than a standard error of the difference. By log-loss it may not be less accurate, either: a few
    documents, such as those of rare classes, decide a log-loss.

    Raises ValueError: none could be trained.
    """
    default, in_order = trials[0], ranked(trials, metric)
    if in_order[0].score(metric) == -np.inf:
        raise ValueError(f"no setting could be trained; the first says: {default.error or 'its score is not finite'}")
    return next((trial for trial in in_order if trial is default or is_better(trial, default, metric)), default)


def is_better(trial: Trial, default: Trial, metric: Metric) -> bool:
    """Whether a setting is clearly better than the default, see `best_of`."""
    if default.score(metric) == -np.inf:
        return trial.score(metric) > -np.inf
    gain, error = gain_of(trial, default, metric)
    if not gain > np.nan_to_num(error):
        return False
    return metric != "log-loss" or trial.predictions is None or gain_of(trial, default, "accuracy")[0] >= 0.0


def gain_of(trial: Trial, default: Trial, metric: Metric) -> tuple[float, float]:
    """Return by how much a setting is better than the default, and the standard error of that.

    Document by document where the metric is a mean over documents, else fold by fold; NaN of one fold.
    """
    both = trial.predictions, default.predictions
    if metric in PER_DOCUMENT and both[0] is not None and both[1] is not None:
        first, second = both[0].counted, both[1].counted
        _, *rows = np.intersect1d(first.rows, second.rows, assume_unique=True, return_indices=True)
        if len(rows[0]):
            first, second = first.rows_at(rows[0]), second.rows_at(rows[1])
            difference = per_document(str(metric), first) - per_document(str(metric), second)
            return mean_and_error(sign_of(metric) * difference, first.weights)
    n = min(len(trial.folds), len(default.folds))
    after, before = (of.scores.get(name_of(metric), np.full(n, np.nan))[:n] for of in (trial, default))
    return mean_and_error(sign_of(metric) * (after - before), np.ones(n)) if n else (np.nan, np.nan)


def results_of(trials: Sequence[Trial], metric: Metric, n_splits: int) -> dict[str, Any]:
    """Return scikit-learn's `cv_results_`: columns with an entry for each setting; more is better."""
    n, name = len(trials), name_of(metric)
    scores = np.full((n, n_splits), np.nan)
    for row, trial in zip(scores, trials, strict=True):
        row[: len(trial.folds)] = sign_of(metric) * trial.scores.get(name, np.nan)
    columns: dict[str, Any] = {"params": [dict(trial.params) for trial in trials]}
    for param in dict.fromkeys(param for trial in trials for param in trial.params):
        values = np.empty(n, object)
        values[:] = [trial.params.get(param) for trial in trials]
        columns[f"param_{param}"] = np.ma.MaskedArray(values, mask=[param not in trial.params for trial in trials])
    columns |= {f"split{i}_test_score": scores[:, i] for i in range(n_splits)}
    places = {trial.number: place for place, trial in enumerate(ranked(trials, metric), 1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # settings without a score
        columns |= {"mean_test_score": np.nanmean(scores, axis=1), "std_test_score": np.nanstd(scores, axis=1)}
    columns["rank_test_score"] = np.array([places[trial.number] for trial in trials], np.int32)
    for other in dict.fromkeys(other for trial in trials for other in trial.scores):
        means = [trial.scores[other].mean() if other in trial.scores else np.nan for trial in trials]
        columns[f"mean_{other}"] = np.array(means)
    return columns | {
        "n_folds": np.array([len(trial.folds) for trial in trials]),
        "seconds": np.array([trial.seconds for trial in trials]),
        "dropped_after": [trial.dropped for trial in trials],
        "error": [trial.error for trial in trials],
    }


def described(params: dict[str, Any]) -> str:
    return ", ".join(f"{name}={shortened(value)}" for name, value in params.items()) or "the default"


def shortened(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
