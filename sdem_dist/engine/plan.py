"""Plans and stages: the order of documents, the evaluation, and the end of a stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from sdem_dist.documents import CorpusLike
from sdem_dist.learners.protocol import AnyLearner, Lane, Learner, Prepared, State, Statistics

History = list[dict[str, float]]  # one entry per epoch
LANES_COMBINED = 4  # neighbouring lanes whose statistics are combined at once; affects the bits
Part = TypeVar("Part")


@dataclass(frozen=True)
class Plan:
    """Epochs cut into rounds, rounds into lanes.

    The corpus is cut into ``n_lanes`` strips, one per lane, and each strip into ``n_rounds`` ranges. Each epoch visits
    them in an order drawn from the seed and the epoch, so that a worker can reuse documents it has prepared for a lane.
    Rounds of the first epoch may grow: the first round is halved `growth` times (3: ``1/8, 1/8, 1/4, 1/2`` of it), and
    ranges are visited in stored order. From the prior, all lanes learn the same, and a few documents are enough for it.
    """

    n_documents: int
    n_epochs: int
    n_rounds: int  # rounds per epoch, without those that `growth` adds
    n_lanes: int  # lanes per round
    seed: int
    growth: int = 0  # times that the first round of the first epoch is halved; each halving adds a round
    n_blocks: int = 1  # blocks of the vocabulary, reduced and updated separately, for learners of wide models
    first: int = 0  # number of the first epoch, for a run that continues from the state of an earlier run

    def rounds(self, epoch: int) -> int:
        return self.n_rounds + (self.growth if epoch + self.first == 0 else 0)

    def number(self, epoch: int, round_: int) -> int:
        return epoch * self.n_rounds + round_ + (self.rounds(0) - self.n_rounds if epoch else 0)

    def place(self, number: int) -> tuple[int, int]:
        """Return the (epoch, round) that `number` rounds of the stage precede; the inverse of `number`."""
        growth = self.rounds(0) - self.n_rounds
        return divmod(number - growth, self.n_rounds) if number >= self.rounds(0) else (0, number)

    def range(self, lane: int, number: int, growth: int = 0) -> tuple[int, int]:
        """Return (start, stop) of a range of a lane; the first is halved `growth` times; empty if documents are few."""
        strip = self.n_rounds << growth  # in units of the smallest range
        # Ranges begin at 0, 1, 2, 4, ..., 2**growth, and then at multiples of 2**growth.
        begins = [((n - growth) << growth if n > growth else (1 << n) >> 1) for n in (number, number + 1)]
        start, stop = (self.n_documents * (lane * strip + begin) // (strip * self.n_lanes) for begin in begins)
        return start, stop

    @lru_cache(maxsize=4)  # noqa: B019  keeping a few plans alive is cheap; rounds may be many
    def order(self, epoch: int) -> np.ndarray:
        """Return the range that each lane visits in each round of an epoch without growth: (n_rounds, n_lanes)."""
        # The counter starts at a separate block, so that no lane draws the same numbers.
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
    """Return the combined items, few of which are alive at once; `at_once` is 1 if the items are already sums of lanes.

    The tree of sums, and thus its bits, depends only on the number of lanes: `LANES_COMBINED` neighbours are combined
    at once, their sums in pairs. A task may hold any aligned power of two of lanes: a single item is never combined.
    """
    # Sums are merged from left to right like a binary counter. A recursive closure would form a reference cycle, which
    # would keep whole states alive until the garbage collector runs.
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
    """An initial state that workers compute from little data, so that the driver sends nothing as wide as the model."""

    block: Callable[[int, int], State]  # (number of a block, number of blocks) -> this block of the state


@dataclass(frozen=True, eq=False)
class Stage(Generic[State, Statistics, Prepared]):
    """A learner, and the documents and epochs for which it is trained."""

    name: str  # for display: "survey", "start 3 of 10", "train"
    learner: Learner[State, Statistics, Prepared]  # a frozen dataclass: its fields are part of the run's identity
    plan: Plan
    # The initial state; None: ``learner.init()``. A callable is called only if no saved progress is loaded.
    initial: State | Callable[[], State] | MadeByWorkers[State] | None = None
    corpus: CorpusLike | None = None  # None: the corpus of the fit
    monitored: bool = False  # whether its history is the history of the fit, and its epochs are displayed
    monitoring: Monitoring | None = None  # None: the fit's, if monitored; otherwise no evaluation
    reweighed: Callable[[CorpusLike], CorpusLike] | None = None  # weights validation documents like the stage's own


class StageResult(NamedTuple, Generic[State]):
    """The result of a stage."""

    state: State
    history: History


AnyStage: TypeAlias = Stage[Any, Any, Any]  # Any: only its learner looks into its states and statistics
VALIDATION = "validation_"  # prefix of metrics of validation documents


@dataclass(frozen=True)
class Monitoring:
    """Which documents are evaluated when, and when to stop."""

    every: int = 1  # evaluate after each multiple of this many epochs, and after the last; 0: never
    validation: CorpusLike | None = None  # evaluated, too; its metrics have the prefix ``validation_``
    monitor: str = "ncll"  # metric of the validation corpus that has to fall
    patience: int | None = None  # stop after this many evaluations without a new lowest value; return the best state
    improvement: float = 0.0  # relative decrease that counts as a new lowest value
    training: bool = True  # evaluate the training documents, too
    main_metrics: tuple[str, ...] = ()  # the few metrics to show while the stage runs
    scorer: Callable[[AnyLearner], AnyLearner] = lambda learner: learner  # learner for the validation corpus

    def should_evaluate(self, epoch: int, n_epochs: int) -> bool:
        return self.every > 0 and (epoch == n_epochs - 1 or (epoch + 1) % self.every == 0)

    def is_best(self, history: History, best_epoch: int) -> bool:
        """Return whether the last entry of a history is lower than the entry of the best epoch so far."""
        watched = f"{VALIDATION}{self.monitor}"
        if self.patience is None or watched not in history[-1]:
            return False
        return best_epoch < 0 or history[-1][watched] < (1.0 - self.improvement) * history[best_epoch][watched]

    def is_exhausted(self, history: History, best_epoch: int) -> bool:
        if self.patience is None or best_epoch < 0:
            return False
        return sum(f"{VALIDATION}{self.monitor}" in entry for entry in history[best_epoch + 1 :]) >= self.patience


NOT_EVALUATED = Monitoring(every=0)  # for unmonitored stages
