"""Which settings of a search go on: successive halving, Hyperband's brackets, and budgets of epochs and of seconds."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass, field

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.selection.predicted import Metric
from sdem_dist.selection.trials import Trial, ranked

_log = logging.getLogger(__name__)
BRACKETS = "brackets"


@dataclass
class Schedule:
    """Decides which settings go on after an epoch.

    Attributes
    ----------
    metric : str or callable
    halving : bool or "brackets"
        Let the worse half go after epochs 1, 2, 4 and 8; or, by brackets, some settings not before epoch 2, 4, 8 or 16.
    max_epochs : int
        Of a setting.
    seed : int
        Decides the brackets of settings.
    total_epochs : int or None
        Of all settings together.
    seconds : float or None
        For all, from `started` on.
    used : int
        Epochs of the settings of earlier turns.
    """

    metric: Metric
    halving: bool | str
    max_epochs: int
    seed: int
    total_epochs: int | None = None
    seconds: float | None = None
    started: float = field(default_factory=time.perf_counter)
    used: int = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return time.perf_counter() - self.started

    def over(self, done: int, what: str) -> bool:
        """Return whether the time is over after some epochs, or settings, and say so."""
        if self.seconds is None or not done or self.elapsed <= self.seconds:
            return False
        _log.warning("the search ends after %s: its time is over", counted(done, what))
        return True

    def room(self, n: int) -> int:
        """Return how many of `n` new settings the budget of epochs has room for."""
        return n if self.total_epochs is None else max(0, min(n, self.total_epochs - self.used))

    def begin(self, trials: list[Trial]) -> None:
        """Deal the settings of a turn to brackets."""
        if self.halving != BRACKETS:
            return
        shares = np.cumsum(bracket_sizes(self.max_epochs)) / sum(bracket_sizes(self.max_epochs))
        ranks = np.random.default_rng(self.seed).permutation(len(trials))
        for trial, rank in zip(trials, ranks.tolist(), strict=True):
            trial.bracket = int(np.searchsorted(shares, (rank + 0.5) / len(trials)))

    def ended_epoch(self, trials: list[Trial], epoch: int) -> None:
        """Let settings go after an epoch, from 1."""
        if self.halving:
            for bracket in sorted({trial.bracket for trial in trials}):
                own = [trial for trial in trials if trial.bracket == bracket]
                keep = kept_after(epoch, len(own), 1 << bracket)
                if keep is not None:
                    let_go(ranked(own, self.metric)[keep:], epoch)
        if self.total_epochs is not None:
            left = self.total_epochs - self.used - sum(len(trial.epochs) for trial in trials)
            alive = sorted((trial for trial in ranked(trials, self.metric) if trial.alive), key=lambda t: t.number != 0)
            for trial in alive[max(0, left) :]:
                trial.alive, trial.dropped = False, epoch

    def ended_turn(self, trials: list[Trial]) -> None:
        """Take note of what a turn has used."""
        self.used += sum(len(trial.epochs) for trial in trials)


def let_go(trials: list[Trial], epoch: int) -> None:
    """Stop settings; the first of all, which the winner is compared with, always goes on."""
    for trial in trials:
        if trial.alive and trial.number:
            trial.alive, trial.dropped = False, epoch


def kept_after(epoch: int, n_trials: int, first: int = 1) -> int | None:
    """Return how many settings go on after an epoch, from 1: half after epochs 1, 2, 4, 8...; None: all that went on.

    Settings that ended by themselves are counted. In a bracket, nothing is dropped before epoch `first`.
    """
    if epoch & (epoch - 1) or epoch < first:
        return None
    return max(1, n_trials >> (epoch // first).bit_length())


def bracket_sizes(max_epochs: int) -> list[int]:
    """Return the settings of Hyperband's brackets, those that are halved first at the front.

    Bracket s is halved after epochs 2**s, 2**(s + 1), ..., so that all have about the same cost
    (Li et al. 2018, Algorithm 1, with eta = 2).
    """
    last = max_epochs.bit_length() - 1
    return [math.ceil((last + 1) / (s + 1) * 2**s) for s in range(last, -1, -1)]
