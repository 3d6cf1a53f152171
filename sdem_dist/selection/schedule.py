"""Which settings of a search go on, and how far: successive halving, Hyperband's brackets, budgets of epochs and of seconds."""

import logging
import math
import sys
import time
from collections.abc import Mapping
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

    `halving`: let the worse half go after epochs 1, 2, 4 and 8; or, by brackets, some settings not before epoch 2, 4,
    8 or 16.
    `max_epochs`: of a setting; None: as many as it has. `seed`: decides the brackets of settings.
    `total_epochs`: of all settings together. `seconds`: for all, from `started` on.
    `used`: epochs of the settings of earlier turns.
    """

    metric: Metric
    halving: bool | str
    max_epochs: int | None
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

    def _left(self, trials: list[Trial]) -> int:
        """Return how many epochs are left for the settings of a turn under way."""
        if self.total_epochs is None:
            return sys.maxsize
        return self.total_epochs - self.used - sum(trial.trained for trial in trials)

    def room(self, n: int) -> int:
        """Return how many of `n` new settings the budget of epochs has room for."""
        return n if self.total_epochs is None else max(0, min(n, self.total_epochs - self.used))

    def begin(self, trials: list[Trial]) -> None:
        """Deal the settings of a turn to brackets."""
        if self.halving != BRACKETS:
            return
        sizes = bracket_sizes(max(trial.most_epochs for trial in trials))
        shares = np.cumsum(sizes) / sum(sizes)
        ranks = np.random.default_rng(self.seed).permutation(len(trials))
        for trial, rank in zip(trials, ranks.tolist(), strict=True):
            trial.bracket = int(np.searchsorted(shares, (rank + 0.5) / len(trials)))

    @property
    def looks_on(self) -> bool:
        """Whether settings are compared before they have had all of their epochs."""
        return bool(self.halving) or self.total_epochs is not None

    def goal(self, trial: Trial, trials: list[Trial], epoch: int) -> int:
        """Return how far a setting of a turn is trained at once, where settings are compared after epochs 1, 2, 4, 8...

        That is `epoch`, one of these, or all of its epochs: where twice `epoch` is more, so that training anew each time costs
        at most twice as much, and where nothing is decided then. A setting of a later bracket has 0 before that begins; the
        default is scored from the first epoch on.
        """
        if not self.looks_on:
            return trial.most_epochs
        rivals = trials
        if self.total_epochs is None:
            if trial.number and epoch < (1 << trial.bracket):
                return 0
            rivals = [other for other in trials if other.bracket == trial.bracket]
        if sum(other.alive for other in rivals) == 1:
            return min(trial.most_epochs, trial.trained + self._left(trials))
        return epoch if 2 * epoch <= trial.most_epochs else trial.most_epochs

    def ended_epoch(self, trials: list[Trial], epoch: int) -> None:
        """Let settings go after an epoch, from 1."""
        self.halve(trials, epoch)
        self.keep_within_budget(trials, dict.fromkeys((trial.number for trial in trials), 1), epoch)

    def halve(self, trials: list[Trial], epoch: int) -> None:
        """Let the worse half go, where it is time."""
        if self.halving:
            for bracket in sorted({trial.bracket for trial in trials}):
                own = [trial for trial in trials if trial.bracket == bracket]
                keep = kept_after(epoch, len(own), 1 << bracket)
                if keep is not None:
                    let_go(ranked(own, self.metric)[keep:], epoch)

    def keep_within_budget(self, trials: list[Trial], asked: Mapping[int, int], epoch: int) -> None:
        """Let go those for which no epochs are left, when each alive asks for so many more; the last may get fewer."""
        if self.total_epochs is None:
            return
        left = self._left(trials)
        alive = sorted((trial for trial in ranked(trials, self.metric) if trial.alive), key=lambda t: t.number != 0)
        for trial in alive:
            if left <= 0:
                trial.alive, trial.dropped = False, epoch
            elif asked[trial.number] > left:
                trial.most_epochs = trial.trained + left
            left -= asked[trial.number]

    def ended_turn(self, trials: list[Trial]) -> None:
        """Take note of what a turn has used."""
        self.used += sum(trial.trained for trial in trials)


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
