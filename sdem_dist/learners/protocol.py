"""The interface of learners to the engine: a few pure functions over arrays."""

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

    epoch: int  # with `round`, `lane` (from 0) and the learner's seed, the key of all random numbers of the lane
    round: int
    lane: int
    start: int
    stop: int  # its documents have the positions from `start` to `stop` in the corpus
    round_documents: int  # number of documents in all lanes of the round


class Learner(Protocol[State, Statistics, Prepared]):
    """A frozen dataclass of settings, with pure functions that the engine composes; see `testing.check_learner`."""

    @property
    def cache_key(self) -> str: ...  # all that `prepare` depends on: learners with equal keys share prepared documents
    @property
    def state_type(self) -> Callable[..., State]: ...  # the NamedTuple of states
    def state_fields(self) -> Mapping[str, Field]: ...  # shapes and bounds of a state's arrays, in order
    def check_state(self, state: State) -> None: ...  # raise ValueError for errors that fields cannot express
    def init(self) -> State: ...  # the state before the first document
    # Converts documents, sparse or dense, for `map` and `evaluate`; runs once per lane, then results are cached.
    def prepare(self, documents: Any) -> Prepared: ...
    # Returns the statistics of one lane at the broadcast state; runs on a worker, without I/O or hidden state.
    def map(self, state: State, documents: Prepared, lane: Lane) -> Statistics: ...
    def combine(self, parts: Sequence[Statistics]) -> Statistics: ...  # the sum over lanes; associative up to rounding
    def update(self, state: State, statistics: Statistics) -> State: ...  # step in mu, check, M-step
    # Returns sums over batches of prepared documents, from which metrics are computed, see `sdem_dist.evaluation`.
    def evaluate(self, state: State, batches: Iterable[Prepared]) -> np.ndarray: ...
    def metrics(self, sums: np.ndarray) -> dict[str, float]: ...  # by name, from the sums of all documents


class ModelLearner(Learner[State, Statistics, Prepared], Protocol[State, Statistics, Prepared]):
    """A learner whose states are models, which predict and are saved in files."""

    @property
    def width(self) -> int: ...  # number of columns of the documents
    @property
    def n_labels(self) -> int: ...  # number of classes in labels
    def parameters(self, state: State) -> Any: ...  # parameters for prediction, such as natural parameters (M-step)


AnyLearner: TypeAlias = Learner[Any, Any, Any]  # Any: only the learner looks into its states and statistics
AnyModelLearner: TypeAlias = ModelLearner[Any, Any, Any]


class WideLearner(Learner[State, Statistics, Prepared], Protocol[State, Statistics, Prepared]):
    """A learner of wide models, whose vocabulary is cut into blocks: `combine` and `update` receive single blocks."""

    def initial_block(self, block: int, n_blocks: int) -> State: ...  # one block of ``init()``
    def block_of_state(self, state: State, block: int, n_blocks: int) -> State: ...
    # Returns the part of statistics that the update of one block needs.
    def block_of_statistics(self, statistics: Statistics, block: int, n_blocks: int) -> Statistics: ...
    def joined(self, states: Sequence[State]) -> State: ...  # a view of blocks for `map` and `evaluate`
    # Returns an undivided state from ``get(block)``, called for one block at a time.
    def gathered(self, n_blocks: int, get: Callable[[int], State]) -> State: ...


def restored_state(learner: Learner[State, Statistics, Prepared], arrays: Mapping[str, np.ndarray]) -> State:
    """Return a state from arrays by name (0-d arrays become floats); ValueError names an invalid array."""
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
