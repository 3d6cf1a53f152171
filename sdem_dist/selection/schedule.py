"""Which settings go on, and how far: successive halving, Hyperband's brackets, budgets of epochs and of seconds."""

import logging
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.engine.events import Callback, Event
from sdem_dist.selection.predicted import Metric
from sdem_dist.selection.trials import Trial, ranked

_log = logging.getLogger(__name__)
BRACKETS, AUTO = "brackets", "auto"
EQUAL = 1e-9
"""Relative difference up to which scores are equal."""
SHARE = 3
"""Epochs per setting, on average, where halving begins after epoch 1; budgets are planned with it."""


class TimeOver(Exception):
    """The time of a search is over, in the midst of a fit."""


@dataclass
class Schedule:
    """Decides which settings go on after an epoch.

    `halving`: let the worse half go after epochs 1, 2, 4 and 8; or, by brackets, some settings not before epoch 2, 4,
    8 or 16. `apart`: settings are fitted one after the other, anew each time; they are compared after 2 epochs at
    first, or an eighth of all: models of batch learners begin as the generative fit, so that after one epoch many are
    still alike. `max_epochs`: of a setting; None: as many as it has. `seed`: decides the brackets of settings.
    `total_epochs`: of all settings together. `seconds`: for all, from `started` on.
    `used`: epochs of the settings of earlier turns. `own`: those of the default, once it is trained; a budget first
    pays for these. `first`: the epoch after which settings of the turn are first compared. `timed_out`: the time was
    over.
    """

    metric: Metric
    halving: bool | str
    max_epochs: int | None
    seed: int
    total_epochs: int | None = None
    seconds: float | None = None
    started: float = field(default_factory=time.perf_counter)
    used: int = 0
    apart: bool = False
    own: int = 0
    first: int = 1
    timed_out: bool = False

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return time.perf_counter() - self.started

    def over(self, done: int, what: str) -> bool:
        """Return whether the time is over after some epochs, or settings; if so, log it."""
        if self.seconds is None or not done or self.elapsed <= self.seconds:
            return False
        if not self.timed_out:
            _log.warning("the search ends after %s: its time is over", counted(done, what))
        self.timed_out = True
        return True

    def watch(self, done: int) -> list[Callback]:
        """Return callbacks of a fit that end it by `TimeOver`, where some settings are done."""

        def look(_: Event) -> None:
            if self.over(done, "setting"):
                raise TimeOver

        return [] if self.seconds is None else [look]

    def left(self, trials: list[Trial]) -> int:
        """Return how many epochs are left for the settings of a turn under way."""
        if self.total_epochs is None:
            return sys.maxsize
        return self.total_epochs - self.used - sum(trial.trained for trial in trials)

    def room(self, n: int) -> int:
        """Return how many of `n` new settings the budget of epochs has room for."""
        if self.total_epochs is None:
            return n
        if not self.used:  # the default learns alone
            return 1
        least = min(SHARE * self.first, self.max_epochs or sys.maxsize)
        each = least if self.halving else max(self.own, least)
        return max(0, min(n, (self.total_epochs - self.used) // each))

    def begin(self, trials: list[Trial]) -> None:
        """Decide when settings of a turn are compared, and deal them to brackets."""
        most = max(trial.most_epochs for trial in trials)
        self.first = max(2, math.ceil(most / 8)) if self.apart else 1
        if self.halving != BRACKETS:
            return
        sizes = bracket_sizes(max(1, most // self.first))
        shares = np.cumsum(sizes) / sum(sizes)
        ranks = np.random.default_rng(self.seed).permutation(len(trials))
        for trial, rank in zip(trials, ranks.tolist(), strict=True):
            trial.bracket = int(np.searchsorted(shares, (rank + 0.5) / len(trials)))

    @property
    def looks_on(self) -> bool:
        """Whether settings are compared before they have had all of their epochs."""
        return bool(self.halving) or self.total_epochs is not None

    def goal(self, trial: Trial, trials: list[Trial], epoch: int) -> int:
        """Return how far a setting of a turn is trained at once, where settings are compared after some epochs.

        That is `epoch`, one of these, or all of its epochs: where twice `epoch` is more, so that training anew each
        time costs at most twice as much, and where nothing is decided then. A setting of a later bracket has 0 before
        that begins; the default is scored from the first epoch on.
        """
        rest = sum(other.most_epochs - other.trained for other in trials if other.alive)
        if not self.halving and rest <= self.left(trials):
            return trial.most_epochs
        rivals = trials
        if self.total_epochs is None:
            if trial.number and epoch < (self.first << trial.bracket):
                return 0
            rivals = [other for other in trials if other.bracket == trial.bracket]
        if sum(other.alive for other in rivals) == 1:
            return min(trial.most_epochs, trial.trained + self.left(trials))
        return epoch if 2 * epoch <= trial.most_epochs else trial.most_epochs

    def ended_epoch(self, trials: list[Trial], epoch: int) -> None:
        """Stop settings after an epoch, from 1."""
        self.halve(trials, epoch)
        self.keep_within_budget(trials, dict.fromkeys((trial.number for trial in trials), 1), epoch)

    def halve(self, trials: list[Trial], epoch: int) -> None:
        """Stop the worse half if it is time."""
        if self.halving:
            for bracket in sorted({trial.bracket for trial in trials}):
                own = [trial for trial in trials if trial.bracket == bracket]
                keep = kept_after(epoch, len(own), self.first << bracket)
                if keep is not None:
                    let_go(worse(own, keep, self.metric), epoch)

    def keep_within_budget(self, trials: list[Trial], asked: Mapping[int, int], epoch: int) -> None:
        """Stop settings for which no epochs are left when each remaining one asks for more; the last may get fewer."""
        if self.total_epochs is None:
            return
        left = self.left(trials)
        alive = sorted((trial for trial in ranked(trials, self.metric) if trial.alive), key=lambda t: t.number != 0)
        for trial in alive:
            if left <= 0:
                trial.alive, trial.dropped = False, trial.trained or epoch
            elif asked[trial.number] > left:
                trial.most_epochs = trial.trained + left
            left -= asked[trial.number]

    def ended_turn(self, trials: list[Trial]) -> None:
        """Record the epochs that a turn has used."""
        used = sum(trial.trained for trial in trials)
        self.used, self.own = self.used + used, self.own or max(1, used)


def worse(trials: list[Trial], keep: int, metric: Metric) -> list[Trial]:
    """Return settings outside the best `keep` whose score is worse than that of every setting that goes on."""
    in_order = ranked(trials, metric)
    scores = [of.score(metric) for i, of in enumerate(in_order) if (i < keep or not of.number) and of.dropped is None]
    return [
        trial
        for trial in in_order[keep:]
        if not any(math.isclose(trial.score(metric), score, rel_tol=EQUAL) for score in scores)
    ]


def let_go(trials: list[Trial], epoch: int) -> None:
    """Stop settings; the first of all, which the winner is compared with, always goes on."""
    for trial in trials:
        if trial.alive and trial.number:
            trial.alive, trial.dropped = False, epoch


def kept_after(epoch: int, n_trials: int, first: int = 1) -> int | None:
    """Return how many settings go on after an epoch, from 1: half after `first`, twice that...; None: all that went on.

    Settings that ended by themselves are counted.
    """
    times, left = divmod(epoch, first)
    if left or not times or times & (times - 1):
        return None
    return max(1, n_trials >> times.bit_length())


def bracket_sizes(max_epochs: int) -> list[int]:
    """Return the settings of Hyperband's brackets, those that are halved first at the front.

    Bracket s is halved after epochs 2**s, 2**(s + 1), ..., so that all have about the same cost
    (Li et al. 2018, Algorithm 1, with eta = 2).
    """
    last = max_epochs.bit_length() - 1
    return [math.ceil((last + 1) / (s + 1) * 2**s) for s in range(last, -1, -1)]
