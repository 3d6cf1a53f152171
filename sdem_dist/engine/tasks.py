"""What runs on workers: module-level pure functions of (learner, corpus, state, place), safe to run twice."""

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from sdem_dist.byte_cache import prepared_cache, set_budget
from sdem_dist.compat import compile_target
from sdem_dist.documents import CorpusLike
from sdem_dist.engine.plan import LANES_COMBINED, reduce
from sdem_dist.errors import DocumentError, SdemError, reraise_interrupt
from sdem_dist.learners.protocol import Lane, WideLearner

AnyWideLearner: TypeAlias = WideLearner[Any, Any, Any]
"""Only the learner looks into its states, statistics and prepared documents; wide if the plan has several blocks."""
Value = TypeVar("Value")


class TaskTiming(NamedTuple):
    """What one task did."""

    lane: int  # first lane, or -1 for a task that only merged
    n_lanes: int
    n_documents: int
    worker: str  # host and process
    read: float = 0.0  # seconds of reading and verifying documents, partly while others are mapped
    prepare: float = 0.0  # seconds of preparing them for the learner
    map: float = 0.0  # seconds of the learner's statistics
    merge: float = 0.0  # seconds of combining statistics and updating the state


class TaskResult(NamedTuple):
    """A result, and what the tasks behind it took, back to the state before."""

    value: Any
    timings: tuple[TaskTiming, ...] = ()


def task_timing(seconds: Mapping[str, float], lanes: Sequence[Lane] = ()) -> TaskTiming:
    n_documents = sum(lane.stop - lane.start for lane in lanes)
    first = lanes[0].lane if lanes else -1
    return TaskTiming(first, len(lanes), n_documents, f"{socket.gethostname()}:{os.getpid()}", **seconds)


def timed(seconds: dict[str, float], name: str, function: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function that adds the time it takes to the seconds of a name."""

    def run(*args: Any) -> Value:
        started = time.perf_counter()
        result = function(*args)
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - started
        return result

    return run


@cache
def _read_ahead(process: int) -> ThreadPoolExecutor:
    """Return the threads of this process that read ahead; a forked child has none of its parent's.

    Never shut down by tasks: joining a thread from wherever an unfinished generator happens to be closed can deadlock.
    """
    return ThreadPoolExecutor(thread_name_prefix="sdem-read-ahead")


class TaskInput(NamedTuple):
    """Where tasks find documents, prepared for a learner, and how many bytes of them a process may keep."""

    learner: AnyWideLearner
    corpus: CorpusLike
    cache_bytes: int

    def state(self, blocks: Sequence[TaskResult]) -> Any:
        """Return a state for the learner's `map` and `evaluate` from its blocks."""
        return blocks[0].value if len(blocks) == 1 else self.learner.joined([b.value for b in blocks])

    def prepared(self, spans: Sequence[tuple[int, int]], seconds: dict[str, float]) -> Iterator[Any]:
        """Yield prepared documents, from the cache or from the corpus; the next are read while these are at work."""
        set_budget(self.cache_bytes)  # of several runs in a process, that of the latest task holds
        names = self.corpus.cache_key, self.learner.cache_key
        read, prepare = timed(seconds, "read", self.corpus.read), timed(seconds, "prepare", self.learner.prepare)

        def load(start: int, stop: int) -> Any:
            return prepared_cache.get((*names, start, stop), lambda: prepare(read(start, stop)))

        prefetched: Future[Any] | None = None
        for i, span in enumerate(spans):
            documents = load(*span) if prefetched is None else prefetched.result()
            following = spans[i + 1 : i + 2]
            absent = bool(following) and (*names, *following[0]) not in prepared_cache
            prefetched = _read_ahead(os.getpid()).submit(load, *following[0]) if absent else None
            yield documents


_compiled: set[object] = set()


def kernels_of(value: object) -> object:
    """Return what decides which kernels a learner runs: its type, and those of what it is composed of."""
    parts = getattr(type(value), "__dataclass_fields__", ())  # sooner than by `dataclasses.fields`
    return (type(value), *(kernels_of(getattr(value, name)) for name in parts))


def compile_kernels(inputs: TaskInput, n_blocks: int) -> str:
    """Run a learner of this kind on one document, once a process, so that it is compiled before anything is timed.

    Returns what kernels are compiled for, see `sdem_dist.compat.compile_target`.
    """
    learner, corpus, lane = inputs.learner, inputs.corpus, Lane(0, 0, 0, 0, 1, 1)
    if (kind := kernels_of(learner)) not in _compiled:
        blocks = [TaskResult(initial_block(learner, b, n_blocks)) for b in range(n_blocks)]
        state = inputs.state(blocks)
        with naming_bad_document(learner, corpus, state, lane):
            documents = learner.prepare(corpus.read(0, 1))
            part = TaskResult([learner.map(state, documents, lane)] * 2)
            update(learner, blocks[0], part if n_blocks == 1 else block_of(learner, part, 0, n_blocks))
            learner.evaluate(state, [documents])
        _compiled.add(kind)
    return compile_target()


def initial_block(learner: AnyWideLearner, block: int, n_blocks: int) -> Any:
    """Return a block of the state before the first document."""
    return learner.init() if n_blocks == 1 else learner.initial_block(block, n_blocks)


def start_block(make: Callable[[int, int], Any], block: int, n_blocks: int) -> TaskResult:
    """Return a block of the state at which rounds begin, made where it is needed: initial, read, or a start's."""
    return TaskResult(make(block, n_blocks))


def map_lanes(inputs: TaskInput, lanes: Sequence[Lane], summed: bool, *blocks: TaskResult) -> TaskResult:
    """Return a bundle's statistics: a list of its one sum if `summed`, or each lane's; see `reduce`."""
    seconds, state, learner = dict[str, float](), inputs.state(blocks), inputs.learner
    documents = inputs.prepared([(lane.start, lane.stop) for lane in lanes], seconds)
    timed_map = timed(seconds, "map", learner.map)

    def leaf(lane: Lane) -> Any:
        with naming_bad_document(learner, inputs.corpus, state, lane):
            return timed_map(state, next(documents), lane)

    leaves = map(leaf, lanes)
    parts = [reduce(leaves, timed(seconds, "merge", learner.combine), LANES_COMBINED)] if summed else list(leaves)
    return TaskResult(parts, (task_timing(seconds, lanes),))


def block_of(learner: AnyWideLearner, part: TaskResult, block: int, n_blocks: int) -> TaskResult:
    """Return the statistics that one block needs, so that only these travel; timings come with the first block."""
    needed = [learner.block_of_statistics(s, block, n_blocks) for s in part.value]
    return TaskResult(needed, () if block else part.timings)


def combine(learner: AnyWideLearner, at_once: int, *parts: TaskResult, state: TaskResult | None = None) -> TaskResult:
    """Return the sum of neighbouring parts, whose values are lanes' statistics or sums: see `reduce` for `at_once`.

    `state`: then return the next state, of all sums of a round. Timings are those behind the parts and its own.
    """
    started = time.perf_counter()
    value = reduce((item for part in parts for item in part.value), learner.combine, at_once)
    value = [value] if state is None else learner.update(state.value, value)
    own = task_timing({"merge": time.perf_counter() - started})
    return TaskResult(value, (*(timing for part in parts for timing in part.timings), own))


def update(learner: AnyWideLearner, state: TaskResult, *parts: TaskResult) -> TaskResult:
    return combine(learner, 1, *parts, state=state)


def run_rounds(inputs: TaskInput, rounds: Sequence[Sequence[Lane]], state: TaskResult) -> TaskResult:
    """Return the state after rounds, all lanes of each in this task; their timings follow in order, two a round."""
    timings: list[TaskTiming] = []
    for lanes in rounds:
        state = update(inputs.learner, state, map_lanes(inputs, lanes, True, state))
        timings += state.timings
    return TaskResult(state.value, tuple(timings))


def timings_behind(block: TaskResult) -> tuple[TaskTiming, ...]:
    """Return what the rounds behind a block of a state took, without moving it to the driver."""
    return block.timings


def evaluate(inputs: TaskInput, ranges: Sequence[tuple[int, int]], *blocks: TaskResult) -> np.ndarray:
    """Return evaluation sums over ranges of documents."""
    return inputs.learner.evaluate(inputs.state(blocks), inputs.prepared(ranges, {}))


def add(*parts: np.ndarray) -> np.ndarray:
    return np.asarray(np.sum(np.stack(parts), axis=0))


@contextmanager
def naming_bad_document(learner: AnyWideLearner, corpus: CorpusLike, state: Any, lane: Lane) -> Iterator[None]:
    """Turn what goes wrong while a lane is prepared and mapped into a DocumentError.

    It names the first document that fails alone, found by halving; where no half fails alone, the first and last of
    those that fail together. Errors of the package, storage and memory pass: they are not the documents' fault.
    """
    try:
        with reraise_interrupt():
            yield
    except (SdemError, OSError, MemoryError):
        raise
    except Exception as error:

        def fails(start: int, stop: int) -> bool:
            try:
                learner.map(state, learner.prepare(corpus.read(start, stop)), replace(lane, start=start, stop=stop))
            except (SdemError, OSError, MemoryError):
                raise  # a storage error has no document to blame
            except Exception:  # noqa: BLE001  any: it is the same that brought us here
                return True
            return False

        start, stop = lane.start, lane.stop
        failing = (start, stop) if fails(start, stop) else None
        while failing and stop - start > 1:
            middle = (start + stop) // 2
            failing = next((half for half in ((start, middle), (middle, stop)) if fails(*half)), None)
            start, stop = failing or (start, stop)
        span = f"documents from {corpus.place(lane.start)} to {corpus.place(lane.stop - 1)} together"
        what = corpus.place(start) if failing else span
        raise DocumentError(
            f"{what} cannot be trained on: {type(error).__name__}: {error} (in lane {lane.lane} of round {lane.round} of "
            f"epoch {lane.epoch}, counted from 0)"
        ) from error
