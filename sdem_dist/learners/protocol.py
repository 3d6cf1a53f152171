"""What a learner is to the engine: a handful of pure functions over arrays, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from sdem_dist.documents import Documents

State = TypeVar("State")
Statistics = TypeVar("Statistics")
Prepared = TypeVar("Prepared")


@dataclass(frozen=True, slots=True)
class Lane:
    """The documents that one task of a round processes, and its place in the run.

    Attributes
    ----------
    epoch, round, lane : int
        Place in the run, from 0; together with the learner's seed they key every random number of the lane.
    start, stop : int
        Positions of its documents in the corpus.
    round_documents : int
        Documents of all lanes of the round.
    """

    epoch: int
    round: int
    lane: int
    start: int
    stop: int
    round_documents: int


class LocalDocuments(NamedTuple):
    """Documents whose words are renumbered compactly, so that a lane's tables are small and stay in cache."""

    documents: Documents
    """`indices` are positions in `words`; labels and weights are present."""
    words: np.ndarray
    """Shape (n_words,), uint32, ascending: the words of the corpus that occur."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.documents.nbytes + self.words.nbytes


class Learner(Protocol[State, Statistics, Prepared]):
    """Pure functions that the engine composes; states and statistics are NamedTuples of arrays and floats."""

    @property
    def cache_key(self) -> str:
        """Name what `prepare` depends on: prepared documents are shared between learners of one key."""

    def init(self) -> State:
        """Return the state before the first document."""

    def prepare(self, documents: Any) -> Prepared:
        """Return documents as `map` and `evaluate` want them; done once a lane, then cached."""

    def map(self, state: State, documents: Prepared, lane: Lane) -> Statistics:
        """Return the statistics of one lane at the broadcast state: on a worker, no I/O, no hidden state."""

    def combine(self, parts: Sequence[Statistics]) -> Statistics:
        """Return the statistics of several sets of lanes together; associative up to rounding."""

    def update(self, state: State, statistics: Statistics) -> State:
        """Return the next state: step in the expectation parameters, check, M-step."""

    def evaluate(self, state: State, batches: Iterable[Prepared]) -> np.ndarray:
        """Return sums over batches of prepared documents of what a history records, see `sdem_dist.evaluation`."""

    def metrics(self, sums: np.ndarray) -> dict[str, float]:
        """Return what people read, from the sums of `evaluate` over all documents."""


class WideLearner(Learner[State, Statistics, Prepared], Protocol[State, Statistics, Prepared]):
    """What a learner has besides, for plans that cut the vocabulary into ``n_blocks > 1`` blocks.

    `combine` and `update` then see blocks of statistics and states; `map` and `evaluate` see what `joined` returns.
    """

    def initial_block(self, block: int, n_blocks: int) -> State:
        """Return one block of ``init()``."""

    def block_of_state(self, state: State, block: int, n_blocks: int) -> State:
        """Return one block of a whole state."""

    def block_of_statistics(self, statistics: Statistics, block: int, n_blocks: int) -> Statistics:
        """Return what one block's update needs of statistics."""

    def joined(self, states: Sequence[State]) -> State:
        """Return blocks as one state without copying them."""

    def whole(self, n_blocks: int, get: Callable[[int], State]) -> State:
        """Return a state in one piece from ``get(block)``, asked for one at a time."""
