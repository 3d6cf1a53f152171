"""Plans and stages: which documents are processed when, what is evaluated, and when a stage ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from sdem_dist.documents import CorpusLike
from sdem_dist.learners.protocol import AnyLearner, Lane, Learner, Prepared, State, Statistics

History = list[dict[str, float]]  # one entry an epoch
LANES_COMBINED = 4  # neighbouring lanes whose statistics are combined at once; part of the bits
Part = TypeVar("Part")


@dataclass(frozen=True)
class Plan:
    """Epochs cut into rounds, rounds into lanes.

    The corpus is cut into ``n_lanes`` strips, a lane each, and a strip into ``n_rounds`` ranges, visited in an order
    drawn with the seed and the epoch. So what a worker has read and prepared for a lane serves again. Rounds of the
    first epoch may grow: its first is halved `growth` times (3: into ``1/8, 1/8, 1/4, 1/2`` of it), and ranges are
    visited as they are stored: lanes that begin at the prior learn much, and the same, of few documents.
    """

    n_documents: int
    n_epochs: int
    n_rounds: int  # an epoch, without the halves of the first
    n_lanes: int  # a round
    seed: int
    growth: int = 0  # how often the first round of the first epoch is halved; each halving adds a round
    n_blocks: int = 1  # parts of the vocabulary that are reduced and updated apart, for learners of wide models
    first: int = 0  # number of the first epoch, for a run that goes on from an earlier run's state

    def rounds(self, epoch: int) -> int:
        return self.n_rounds + (self.growth if epoch + self.first == 0 else 0)

    def number(self, epoch: int, round_: int) -> int:
        return epoch * self.n_rounds + round_ + (self.rounds(0) - self.n_rounds if epoch else 0)

    def place(self, number: int) -> tuple[int, int]:
        """Return the epoch and the round before which there are `number` rounds."""
        growth = self.rounds(0) - self.n_rounds
        return divmod(number - growth, self.n_rounds) if number >= self.rounds(0) else (0, number)

    def range(self, lane: int, number: int, growth: int = 0) -> tuple[int, int]:
        """Return (start, stop) of one of a lane's ranges, of which the first is halved; empty if documents are few."""
        strip = self.n_rounds << growth  # in units of the smallest range
        # Ranges begin at 0, 1, 2, 4, ..., 2**growth, and then at multiples of that.
        begins = [((n - growth) << growth if n > growth else (1 << n) >> 1) for n in (number, number + 1)]
        start, stop = (self.n_documents * (lane * strip + begin) // (strip * self.n_lanes) for begin in begins)
        return start, stop

    @lru_cache(maxsize=4)  # noqa: B019  a plan is small, and rounds may be many
    def order(self, epoch: int) -> np.ndarray:
        """Return which range each lane visits in each round of an epoch that does not grow: (n_rounds, n_lanes)."""
        # A counter block of its own, so that no lane draws the same numbers.
        bits = np.random.Philox(key=np.array([self.seed, epoch], np.uint64), counter=1 << 64)
        ranges = np.tile(np.arange(self.n_rounds), (self.n_lanes, 1))
        return np.random.Generator(bits).permuted(ranges, axis=1).T

    def lanes(self, epoch: int, round_: int) -> list[Lane]:
        growth, epoch = self.rounds(epoch) - self.n_rounds, epoch + self.first
        numbers = [round_] * self.n_lanes if growth else self.order(epoch)[round_].tolist()
        spans = [self.range(lane, number, growth) for lane, number in enumerate(numbers)]
        documents = sum(stop - start for start, stop in spans)
        return [Lane(epoch, round_, k, start, stop, documents) for k, (start, stop) in enumerate(spans) if stop > start]


def reduce(items: Iterable[Part], combine: Callable[[Sequence[Part]], Part], at_once: int = 1) -> Part:
    """Return the sum of neighbours, few of which are alive at once; `at_once`: 1 where items are sums of lanes already.

    Its shape, and so its bits, depend on the number of lanes only: `LANES_COMBINED` neighbours are combined at once,
    their sums by pairs. A task may have any aligned power of two of them: one part alone is never combined.
    """
    # Left to right like a binary counter.  A function that calls itself would be part of a cycle, and whole states
    # that it refers to would be kept until the garbage collector runs.
    iterator = iter(items)
    trees: list[tuple[int, Part]] = []
    while neighbours := list(islice(iterator, at_once)):
        size, part = 1, combine(neighbours) if len(neighbours) > 1 else neighbours[0]
        del neighbours
        while trees and trees[-1][0] == size:
            part = combine([trees.pop()[1], part])
            size *= 2
        trees.append((size, part))
        del part
    total = trees.pop()[1]
    while trees:
        total = combine([trees.pop()[1], total])
    return total


class MadeByWorkers(NamedTuple, Generic[State]):
    """A start that workers make themselves from a little data: nothing as wide as the model is sent."""

    block: Callable[[int, int], State]  # takes the number of a block and of all blocks, returns that block of the state


@dataclass(frozen=True, eq=False)
class Stage(Generic[State, Statistics, Prepared]):
    """A learner that runs over documents for some epochs."""

    name: str  # for people: "survey", "start 3 of 10", "train"
    learner: Learner[State, Statistics, Prepared]  # a frozen dataclass: its fields tell one run from another
    plan: Plan
    # Where it starts; None: ``learner.init()``. A callable is only called where the stage has to begin.
    initial: State | Callable[[], State] | MadeByWorkers[State] | None = None
    corpus: CorpusLike | None = None  # None: that of the fit
    monitored: bool = False  # it sends an event for each epoch, and its history is that of the fit
    monitoring: Monitoring | None = None  # None: that of the fit where it is monitored; others are not evaluated
    reweighed: Callable[[CorpusLike], CorpusLike] | None = None  # makes validation documents as this stage's are


class StageResult(NamedTuple, Generic[State]):
    """What a stage gives."""

    state: State
    history: History


AnyStage: TypeAlias = Stage[Any, Any, Any]  # a stage; only its learner looks into its states and statistics
VALIDATION = "validation_"  # before the names of metrics of validation documents


@dataclass(frozen=True)
class Monitoring:
    """What is evaluated and when to stop."""

    every: int = 1  # evaluate whenever this many epochs have passed, and after the last; 0 never
    validation: CorpusLike | None = None  # evaluated too, its metrics prefixed with ``validation_``
    monitor: str = "ncll"  # metric of the validation corpus that has to fall
    patience: int | None = None  # evaluations without a new lowest value, after which that of the lowest is returned
    improvement: float = 0.0  # share by which a value has to be lower to be a new lowest
    training: bool = True  # evaluate the training documents too
    main_metrics: tuple[str, ...] = ()  # metrics to show while it runs, where there is room for few
    scorer: Callable[[AnyLearner], AnyLearner] = lambda learner: learner  # makes what scores the validation corpus

    def should_evaluate(self, epoch: int, n_epochs: int) -> bool:
        return self.every > 0 and (epoch == n_epochs - 1 or (epoch + 1) % self.every == 0)

    def is_best(self, history: History, best_epoch: int) -> bool:
        """Whether the last entry of a history is lower than that of the best epoch before it."""
        watched = f"{VALIDATION}{self.monitor}"
        if self.patience is None or watched not in history[-1]:
            return False
        return best_epoch < 0 or history[-1][watched] < (1.0 - self.improvement) * history[best_epoch][watched]

    def is_exhausted(self, history: History, best_epoch: int) -> bool:
        if self.patience is None or best_epoch < 0:
            return False
        return sum(f"{VALIDATION}{self.monitor}" in entry for entry in history[best_epoch + 1 :]) >= self.patience


NOT_EVALUATED = Monitoring(every=0)  # of a stage that is not monitored
