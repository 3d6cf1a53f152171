"""What a learner is to the engine: a handful of pure functions over arrays, and nothing else."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from sdem_dist.records import Field

State = TypeVar("State")
Statistics = TypeVar("Statistics")
Prepared = TypeVar("Prepared")


@dataclass(frozen=True, slots=True)
class Lane:
    """The documents that one task of a round processes, and its place in the run."""

    epoch: int  # it, `round` and `lane`, from 0, key every random number of the lane, together with the learner's seed
    round: int
    lane: int
    start: int
    stop: int  # `start` and `stop`: positions of its documents in the corpus
    round_documents: int  # documents of all lanes of the round


class Learner(Protocol[State, Statistics, Prepared]):
    """A frozen dataclass of settings, with pure functions that the engine composes; see `testing.check_learner`."""

    @property
    def cache_key(self) -> str: ...  # what `prepare` depends on: learners of one key share prepared documents
    @property
    def state_type(self) -> Callable[..., State]: ...  # the NamedTuple of states
    def state_fields(self) -> Mapping[str, Field]: ...  # what each array of a state is, in the order of its fields
    def check_state(self, state: State) -> None: ...  # raise ValueError for errors that fields cannot express
    def init(self) -> State: ...  # the state before the first document
    # Documents, sparse or dense as the learner takes them, as `map` and `evaluate` want them: once a lane, then cached.
    def prepare(self, documents: Any) -> Prepared: ...
    # The statistics of one lane at the broadcast state: on a worker, no I/O, no hidden state.
    def map(self, state: State, documents: Prepared, lane: Lane) -> Statistics: ...
    def combine(self, parts: Sequence[Statistics]) -> Statistics: ...  # of several lanes; associative up to rounding
    def update(self, state: State, statistics: Statistics) -> State: ...  # step in mu, check, M-step
    # Sums over batches of prepared documents of what a history records, see `sdem_dist.evaluation`.
    def evaluate(self, state: State, batches: Iterable[Prepared]) -> np.ndarray: ...
    def metrics(self, sums: np.ndarray) -> dict[str, float]: ...  # what people read, from the sums of all documents


class ModelLearner(Learner[State, Statistics, Prepared], Protocol[State, Statistics, Prepared]):
    """What a learner has besides, if its states are models, which predict and are kept in files."""

    @property
    def width(self) -> int: ...  # columns of the documents
    @property
    def n_labels(self) -> int: ...  # classes that documents are labelled with
    def parameters(self, state: State) -> Any: ...  # what predicts, such as natural parameters (M-step)


AnyLearner: TypeAlias = Learner[Any, Any, Any]  # A learner; only it looks into its states and statistics
AnyModelLearner: TypeAlias = ModelLearner[Any, Any, Any]  # the same of learners whose states are models


class WideLearner(Learner[State, Statistics, Prepared], Protocol[State, Statistics, Prepared]):
    """What a learner has besides where the vocabulary is cut into blocks, which `combine` and `update` then see."""

    def initial_block(self, block: int, n_blocks: int) -> State: ...  # one block of ``init()``
    def block_of_state(self, state: State, block: int, n_blocks: int) -> State: ...
    # What one block's update needs of statistics.
    def block_of_statistics(self, statistics: Statistics, block: int, n_blocks: int) -> Statistics: ...
    def joined(self, states: Sequence[State]) -> State: ...  # blocks, not copied, as `map` and `evaluate` see them
    # A state in one piece from ``get(block)``, one block at a time.
    def gathered(self, n_blocks: int, get: Callable[[int], State]) -> State: ...


def restored_state(learner: Learner[State, Statistics, Prepared], arrays: Mapping[str, np.ndarray]) -> State:
    """Return a state from arrays by name, floats where they have no axis; ValueError names an array that is unfit."""
    values: dict[str, np.ndarray | float] = {}
    for name, field in learner.state_fields().items():
        if name not in arrays:
            raise ValueError(f"array {name!r} is missing")
        value = np.asarray(arrays[name])
        field.check(name, value)
        values[name] = value if value.ndim else float(value)
    state = learner.state_type(**values)
    learner.check_state(state)
    return state
