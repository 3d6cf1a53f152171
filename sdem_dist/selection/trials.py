"""Settings that a search tries, and the progress of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sdem_dist.fitting.training_time import IMPROVEMENT
from sdem_dist.selection.metrics import Metric, Predicted, greater_is_better, measured, name_of, temperature_of

MONITOR = "log-loss"
"""What tells whether another epoch is worth its time."""


@dataclass
class Trial:
    """One setting.

    Attributes
    ----------
    number : int
    params : dict
        What differs from the estimator that is tuned.
    most_epochs : int
        1 of what only counts.
    fixed : bool
        It runs for `most_epochs`, whatever they gain.
    alive : bool
        It goes on with another epoch.
    n_epochs : int
        Epochs that its best scores took.
    epochs : list of dict
        After each epoch the metrics, means over folds, and the temperature.
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

    def score(self, metric: Metric) -> float:
        """Return what it is chosen by: larger is better, -inf where it could not be trained."""
        values = self.scores.get(name_of(metric))
        if values is None or not np.isfinite(mean := float(np.mean(values))):
            return -np.inf
        return mean if greater_is_better(metric) else -mean

    def ended_epoch(self, found: Predicted, metrics: tuple[Metric, ...], calibrate: bool) -> None:
        """Take note of the folds' scores after one more epoch; without a gain the epochs end here."""
        temperature = temperature_of(found, self.temperature) if calibrate else 1.0
        scores = measured(found, temperature, metrics)
        means = {name: float(np.mean(values)) for name, values in scores.items()}
        self.epochs.append({"epoch": len(self.epochs) + 1, **means, "temperature": temperature})
        before = self.epochs[self.n_epochs - 1][MONITOR] if self.n_epochs else np.inf
        if self.n_epochs and not self.fixed and not means[MONITOR] < (1.0 - IMPROVEMENT) * before:
            self.alive = False
            return
        self.alive = len(self.epochs) < self.most_epochs
        self.n_epochs, self.scores, self.temperature, self.found = len(self.epochs), scores, temperature, found


def best_of(trials: list[Trial], metric: Metric) -> Trial:
    """Return the best setting; of equals the first.

    Raises
    ------
    ValueError
        None could be trained.
    """
    best = max(trials, key=lambda trial: (trial.score(metric), -trial.number))
    if best.score(metric) == -np.inf:
        raise ValueError(f"no setting could be trained; the first says: {trials[0].error or 'its score is not finite'}")
    return best


def epochs_of(params: Mapping[str, object], most: int) -> tuple[int, bool]:
    """Return how many epochs a setting has at most, and whether it has them in any case."""
    given = params.get("n_epochs")
    if params.get("loss") == "nll":  # counts once
        return 1, True
    return (int(given), True) if isinstance(given, int | np.integer) else (most, False)
