"""Which documents are processed when, and in which order sums are added: never a matter of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from sdem_dist.learners.protocol import Lane

LANES_COMBINED = 4  # neighbouring lanes whose statistics are combined at once; part of the bits
Item = TypeVar("Item")
Part = TypeVar("Part")


@dataclass(frozen=True)
class Plan:
    """Epochs cut into rounds, rounds into lanes.

    The corpus is cut once into ``n_lanes`` contiguous strips, a lane each, and every strip into ``n_rounds`` ranges of
    (almost) equal length. In each epoch each lane visits its ranges in an order of its own, drawn with the seed and
    the epoch. So a lane keeps its documents, and what a worker has read and prepared serves again.

    Rounds of the first epoch may grow: its first round is halved `growth` times (into ``1/8, 1/8, 1/4, 1/2`` of it for
    3), and ranges are visited as they are stored.  Lanes that begin at the prior learn much from few documents, and all
    learn the same.  Later epochs have whole rounds, since each costs messages between processes.
    """

    n_documents: int
    n_epochs: int
    n_rounds: int
    n_lanes: int
    """`n_documents`, `n_epochs`, `n_rounds`, `n_lanes`: `n_rounds` an epoch, without the halves of the first;
    `n_lanes` a round."""
    seed: int
    growth: int = 0  # how often the first round of the first epoch is halved; each halving adds a round
    n_blocks: int = 1  # parts of the vocabulary that are reduced and updated apart, for learners of wide models
    first: int = 0
    """The number of the first epoch. A run that goes on from an earlier run's state visits documents in the order in
    which that run would have."""

    @property
    def steady(self) -> Plan:
        """The plan of a run that begins at a trained state: its rounds do not grow."""
        return replace(self, growth=0)

    def rounds(self, epoch: int) -> int:
        """Return the rounds of an epoch."""
        return self.n_rounds + self._growth(epoch)

    def number(self, epoch: int, round_: int) -> int:
        """Return how many rounds there are before one."""
        return epoch * self.n_rounds + round_ + (self._growth(0) if epoch else 0)

    def place(self, number: int) -> tuple[int, int]:
        """Return the epoch and the round before which there are `number` rounds."""
        if number < self.rounds(0):
            return 0, number
        return divmod(number - self._growth(0), self.n_rounds)

    def _growth(self, epoch: int) -> int:
        return self.growth if epoch + self.first == 0 else 0

    @property
    def lane_documents(self) -> int:
        """Return the documents of a lane in one round, rounded down."""
        return self.n_documents // (self.n_rounds * self.n_lanes)

    def range(self, lane: int, number: int, growth: int = 0) -> tuple[int, int]:
        """Return (start, stop) of one of a lane's ranges, of which the first is halved; empty if documents are few."""
        strip = self.n_rounds << growth  # in units of the smallest range
        first, after = (lane * strip + _units(n, growth) for n in (number, number + 1))
        return self.n_documents * first // (strip * self.n_lanes), self.n_documents * after // (strip * self.n_lanes)

    def ranges(self, lane: int) -> list[tuple[int, int]]:
        """Return (start, stop) of all ranges of a lane, in stored order."""
        return [self.range(lane, number) for number in range(self.n_rounds)]

    @lru_cache(maxsize=4)  # noqa: B019  a plan is small, and rounds may be many
    def order(self, epoch: int) -> np.ndarray:
        """Return which of its ranges each lane visits in each round of epochs that do not grow: (n_rounds, n_lanes)."""
        if self.n_rounds == 1:
            return np.zeros((1, self.n_lanes), np.intp)
        # A counter block of its own, so that no lane draws the same numbers.
        bits = np.random.Philox(key=np.array([self.seed, epoch], np.uint64), counter=1 << 64)
        ranges = np.tile(np.arange(self.n_rounds), (self.n_lanes, 1))
        return np.random.Generator(bits).permuted(ranges, axis=1).T

    def lanes(self, epoch: int, round_: int) -> list[Lane]:
        """Return the lanes of one round that have documents."""
        growth = self._growth(epoch)
        epoch += self.first
        if growth:
            spans = [self.range(lane, round_, growth) for lane in range(self.n_lanes)]
        else:
            spans = [self.range(lane, int(r)) for lane, r in enumerate(self.order(epoch)[round_])]
        documents = sum(stop - start for start, stop in spans)
        return [
            Lane(epoch, round_, lane, start, stop, documents)
            for lane, (start, stop) in enumerate(spans)
            if stop > start
        ]


def _units(number: int, growth: int) -> int:
    """Return where one of a strip's ranges begins."""
    if number > growth:
        return (number - growth) << growth
    return 1 << (number - 1) if number else 0


def cut(start: int, stop: int, longest: int) -> list[tuple[int, int]]:
    """Cut documents that are only scored into ranges of `longest` or fewer."""
    return [(first, min(first + longest, stop)) for first in range(start, stop, longest)]


def reduce(
    items: Sequence[Item], get: Callable[[Item], Part], combine: Callable[[Sequence[Part]], Part], at_once: int = 1
) -> Part:
    """Return the sum of neighbours, depth first: no more than a few parts are alive at once.

    The shape of the sum depends on the number of lanes only, and so do the bits: `LANES_COMBINED` neighbours are
    combined at once, and their sums by pairs, level by level. A task may map or merge any aligned power of two of them.

    `get`: returns the statistics of an item.
    `combine`: returns the statistics of several together. It is never called for one alone: how often that would happen
    depends on how lanes are bundled.
    `at_once`: `LANES_COMBINED` where items are lanes, 1 where they are sums of as many or more.
    """
    # Left to right like a binary counter.  A function that calls itself would be part of a cycle, and whole states
    # that it refers to would be kept until the garbage collector runs.
    trees: list[tuple[int, Part]] = []
    for start in range(0, len(items), at_once):
        neighbours = [get(item) for item in items[start : start + at_once]]
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
