"""Settings that a search tries, and the progress of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.fitting.defaults import IMPROVEMENT
from sdem_dist.label_scores import probabilities
from sdem_dist.selection import label_metrics
from sdem_dist.selection.metrics import greater_is_better, measured, name_of, temperature_of, tempered
from sdem_dist.selection.predicted import Metric, Predicted
from sdem_dist.selection.shares import SHARED, shares

MONITOR = "log-loss"
"""The metric that decides whether another epoch is worth its time."""
LEAST_EPOCHS = 3
"""Epochs before which a setting is not done: on small folds, one without a gain at the start is chance."""
LATE = "the time was over"
"""The error of a setting whose training the time of a search did not allow."""


class Training(NamedTuple):
    """What training a setting on all but each fold led to."""

    n_epochs: int
    """How far it came. A last pass over held-out documents is not counted; what only counts needs one epoch."""
    goes_on: bool
    """It came as far as it was asked to."""
    scores: dict[str, np.ndarray]
    """Each metric of each fold, by name."""
    found: Predicted | None = None
    temperature: float = 1.0
    error: str = ""
    """Why it could not be trained."""


@dataclass(repr=False)
class Trial:
    """One setting.

    Attributes
    ----------
    number : int
    params : dict
        What differs from the estimator that is tuned.
    decides : tuple of str
        Fields of the learner that the folds decide: the temperature, or temperatures and thresholds of labels.
    most_epochs : int
        1 of what only counts.
    fixed : bool
        It runs for `most_epochs`, whatever they gain, and its scores are those after the last.
    alive : bool
        It goes on with another epoch.
    n_epochs : int
        Epochs that its best scores took.
    epochs : list of dict
        After each epoch that was scored its number, the metrics, means over folds, and side by side the temperature.
    scores : dict of str to ndarray of shape (n_folds,)
        The metrics of each fold, at their best epoch.
    temperature : float
    found : Predicted or None
        What its folds say of the documents they have not seen.
    seconds : float
    dropped : int or None
        The epoch after which others were better; None: it ended by itself.
    bracket : int
        See `Schedule`.
    error : str
        Why it cannot be trained; empty: it can.
    """

    number: int
    params: dict[str, Any]
    most_epochs: int
    fixed: bool = False
    alive: bool = True
    n_epochs: int = 0
    epochs: list[dict[str, float]] = field(default_factory=list)
    scores: dict[str, np.ndarray] = field(default_factory=dict)
    temperature: float = 1.0
    found: Predicted | None = None
    seconds: float = 0.0
    dropped: int | None = None
    bracket: int = 0
    error: str = ""
    decides: tuple[str, ...] = ()

    def __repr__(self) -> str:
        scores = (
            ", ".join(f"{name} {of.mean():.4f}" for name, of in self.scores.items()) or self.error or "no score yet"
        )
        return f"Trial({self.number}, {self.params}, {counted(self.n_epochs, 'epoch')}: {scores})"

    @property
    def trained(self) -> int:
        """Epochs that it has been trained for."""
        return int(self.epochs[-1]["epoch"]) if self.epochs else 0

    @property
    def decided(self) -> dict[str, Any]:
        """What the folds decide of the learner, by the names of its fields."""
        if self.found is None or not self.decides:
            return {}
        if self.found.members is None:
            return {"temperature": self.temperature}
        decisions = label_metrics.decisions_of_all(self.found)
        return {name: tuple(getattr(decisions, name).tolist()) for name in self.decides}

    @property
    def proba(self) -> np.ndarray:
        """What the folds say of the classes of each document, or of its labels, shape (n_documents, n_classes)."""
        assert self.found is not None
        if self.found.members is not None:
            return probabilities(self.found.scores / label_metrics.decisions_of_all(self.found).temperatures)
        return np.asarray(np.exp(tempered(self.found.scores, self.temperature if self.decides else 1.0)))

    def score(self, metric: Metric) -> float:
        """Return what it is chosen by: larger is better, -inf where it could not be trained."""
        return score_of(self.scores, metric)

    def ended_epoch(self, found: Predicted, metrics: tuple[Metric, ...]) -> None:
        """Record the folds' scores after one more epoch; from the third on, one without a gain of 1 % is the last."""
        temperature = temperature_of(found, self.temperature) if "temperature" in self.decides else 1.0
        scores = measured(found, temperature, metrics)
        means = {name: float(np.mean(values)) for name, values in scores.items()}
        self.epochs.append({"epoch": len(self.epochs) + 1, **means, "temperature": temperature})
        before = self.epochs[self.n_epochs - 1][MONITOR] if self.n_epochs else np.inf
        may_end = not self.fixed and len(self.epochs) >= LEAST_EPOCHS
        ends = may_end and not means[MONITOR] < (1.0 - IMPROVEMENT) * before
        self.alive = not ends and len(self.epochs) < self.most_epochs
        if self.n_epochs and not self.fixed and not means[MONITOR] < before:  # an epoch that gained a little is taken
            return
        self.n_epochs, self.scores, self.temperature, self.found = len(self.epochs), scores, temperature, found

    def was_trained(self, training: Training, metric: Metric) -> None:
        """Record one more training from the start; results after fewer epochs stay if they are better by a metric."""
        self.error = training.error
        self.alive = training.goes_on and training.n_epochs < self.most_epochs
        if self.error:
            return
        before, earlier = self.score(metric), self.n_epochs
        if training.n_epochs > self.trained:
            means = {name: float(values.mean()) for name, values in training.scores.items()}
            self.epochs.append({"epoch": training.n_epochs, **means})
        if self.fixed or not earlier or score_of(training.scores, metric) > before:
            self.n_epochs, self.scores = training.n_epochs, training.scores
            self.found, self.temperature = training.found, training.temperature


def score_of(scores: Mapping[str, np.ndarray], metric: Metric) -> float:
    """Return the mean of a metric over folds, the other way round if less is better; -inf where there is none."""
    values = scores.get(name_of(metric))
    if values is None or not np.isfinite(mean := float(np.mean(values))):
        return -np.inf
    return mean if greater_is_better(metric) else -mean


def used(found: Predicted) -> np.ndarray:
    """Return the positions of the documents that count: those with a label and a weight above zero."""
    return np.flatnonzero((found.labels >= 0) & (found.weights > 0))


def by_document(trial: Trial, metric: str) -> np.ndarray:
    """Return what each document that counts adds to a metric over all of them, which is the mean by weight.

    `metric`: "accuracy", "log-loss" or one of `sdem_dist.selection.shares.SHARED`.
    """
    found = trial.found
    assert found is not None
    rows = used(found)
    if metric in SHARED:
        return shares(found, rows, metric)
    if found.members is not None:
        of = label_metrics.all_right if metric == "accuracy" else label_metrics.losses
        return of(found)[rows]
    if metric == "accuracy":
        return np.asarray(found.scores[rows].argmax(axis=1) == found.labels[rows], np.float64)
    log_proba = tempered(found.scores[rows], trial.temperature if trial.decides else 1.0)
    return np.minimum(-log_proba[np.arange(len(rows)), found.labels[rows]], 1e3)


def mean_and_error(values: np.ndarray, weights: np.ndarray, ddof: int = 0) -> tuple[float, float]:
    """Return the mean by weight and its standard error; NaN where the documents count for no more than `ddof` in all.

    Documents of unequal weights count as ``sum(w)^2 / sum(w^2)`` equal ones (Kish).
    """
    shares = weights / weights.sum()
    mean = float(shares @ values)
    n = 1.0 / float(shares @ shares)
    if n - ddof < 1e-9:
        return mean, float("nan")
    return mean, float(np.sqrt(shares @ (values - mean) ** 2 / (n - ddof)))


def accuracy_lost(trial: Trial, default: Trial, n_trials: int) -> tuple[float, float]:
    """Return how much less accurate a setting is than the default over documents, and a lower bound of that.

    With 95 % the bound holds for all of `n_trials` settings at once (Bonferroni). Zeros where nothing is known.
    """
    if trial.found is None or default.found is None:
        return 0.0, 0.0
    weights = trial.found.weights[used(trial.found)]
    if not len(weights):
        return 0.0, 0.0
    lost, error = mean_and_error(by_document(default, "accuracy") - by_document(trial, "accuracy"), weights)
    return lost, lost - NormalDist().inv_cdf(1.0 - 0.05 / n_trials) * error


def less_accurate(trial: Trial, default: Trial, n_trials: int) -> bool:
    """Whether a setting has a lower accuracy than the default by more than chance."""
    return accuracy_lost(trial, default, n_trials)[1] > 0.0


def best_of(trials: list[Trial], metric: Metric) -> Trial:
    """Return the best setting; of equals the default, or else the one with the lowest log-loss, or else the first.

    By log-loss, settings that are clearly less accurate than the first one, the default, are passed over: a few
    documents, such as those of rare classes, decide a log-loss.

    Raises ValueError: none could be trained.
    """
    in_order = ranked(trials, metric)
    if in_order[0].score(metric) == -np.inf:
        raise ValueError(f"no setting could be trained; the first says: {trials[0].error or 'its score is not finite'}")
    if metric != MONITOR:
        return in_order[0]
    return next(trial for trial in in_order if not less_accurate(trial, trials[0], len(trials)))


def ranked(trials: list[Trial], metric: Metric) -> list[Trial]:
    """Return settings, the best first; of equals the default, then those with the lowest log-loss."""
    return sorted(trials, key=lambda of: (-of.score(metric), of.number > 0, -of.score(MONITOR), of.number))


def epochs_of(params: Mapping[str, object], most: int) -> tuple[int, bool]:
    """Return how many epochs a setting has at most, and whether it has them in any case."""
    given = params.get("n_epochs")
    if params.get("loss") == "nll":  # counts once
        return 1, True
    return (int(given), True) if isinstance(given, int | np.integer) else (most, False)
