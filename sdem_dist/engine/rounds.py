"""Rounds and scorings as tasks: pure functions of (learner, corpus, state, place), safe to run twice."""

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sdem_dist.compat import compile_target
from sdem_dist.documents import CorpusLike, prepared_cache, shard_cache
from sdem_dist.engine.executor import Executor, Handle
from sdem_dist.engine.plan import LANES_COMBINED, Plan, reduce
from sdem_dist.errors import DocumentError, SdemError, reraise_interrupt
from sdem_dist.learners.protocol import Lane, WideLearner

TASKS_A_WORKER = 2  # tasks per worker and round, so that a fast worker can take over tasks of a slow one
# Long compared to the messages of a task, short enough for progress bars. 0: all workers share every round.
SHORT_TASK = 0.25  # seconds that one task of whole rounds should take
FORGOTTEN = 0.8  # factor per round by which the remembered seconds of reading decay
SCORED_DOCUMENTS = 16_384  # approximate number of documents that one task scores
SCORES_ADDED = 16  # sums of scores that are added at once; affects the bits
AnyWideLearner: TypeAlias = WideLearner[Any, Any, Any]  # Any: only the learner looks into states, statistics, documents
MakeBlock: TypeAlias = Callable[[int, int], Any]  # (number of a block, number of blocks) -> this block of the state
ScoredRanges: TypeAlias = tuple[float, list[tuple[int, int]]]  # affinity of a task, and the ranges that it scores
_compiled: set[object] = set()  # the `kernels_of` of learners that this process has compiled


class TaskTiming(NamedTuple):
    """The work of one task, and its seconds."""

    lane: int = -1  # first lane; -1 for a task that only merged
    n_lanes: int = 0
    n_documents: int = 0
    worker: str = ""  # host and process
    read: float = 0.0  # seconds for reading and verifying documents, partly while others are mapped
    prepare: float = 0.0  # seconds for preparing documents for the learner
    map: float = 0.0  # seconds for computing statistics
    merge: float = 0.0  # seconds for combining statistics and updating the state


class TaskResult(NamedTuple):
    """A result, and the timings of all tasks that led to it from the state before."""

    value: Any
    timings: tuple[TaskTiming, ...] = ()


Blocks: TypeAlias = list[Handle[TaskResult]]  # a state, block by block


def timed(seconds: dict[str, float], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, wrapped to add the seconds of each call to ``seconds[name]``."""

    def run(*args: Any) -> Any:
        started = time.perf_counter()
        result = function(*args)
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - started
        return result

    return run


@cache
def _read_ahead(process: int) -> ThreadPoolExecutor:
    """Return this process's threads for reading ahead; never shut down: joining one in a generator can deadlock."""
    return ThreadPoolExecutor(thread_name_prefix="sdem-read-ahead")


class TaskInput(NamedTuple):
    """The source of documents for tasks: the learner that prepares them, the corpus, and the bytes to cache."""

    learner: AnyWideLearner
    corpus: CorpusLike
    cache_bytes: int

    def state(self, blocks: Sequence[TaskResult]) -> Any:
        return blocks[0].value if len(blocks) == 1 else self.learner.joined([b.value for b in blocks])

    def prepared(self, spans: Sequence[tuple[int, int]], seconds: dict[str, float]) -> Iterator[Any]:
        """Yield prepared documents of each span, from the cache or the corpus; the next span is read ahead."""
        shard_cache.resize(self.cache_bytes // 4)  # with several runs in a process, the latest task sets the budget
        prepared_cache.resize(self.cache_bytes - self.cache_bytes // 4)
        names = self.corpus.cache_key, self.learner.cache_key
        read, prepare = timed(seconds, "read", self.corpus.read), timed(seconds, "prepare", self.learner.prepare)

        def load(start: int, stop: int) -> Any:
            return prepared_cache.get((*names, start, stop), lambda: prepare(read(start, stop)))

        prefetched: Future[Any] | None = None
        for span, following in zip_longest(spans, spans[1:]):
            documents = load(*span) if prefetched is None else prefetched.result()
            absent = following is not None and (*names, *following) not in prepared_cache
            prefetched = _read_ahead(os.getpid()).submit(load, *following) if absent else None
            yield documents


def kernels_of(value: object) -> object:
    """Return a key of the kernels that a learner runs: its type, and recursively the types of its fields."""
    parts = getattr(type(value), "__dataclass_fields__", ())  # faster than `dataclasses.fields`
    return (type(value), *(kernels_of(getattr(value, name)) for name in parts))


def compile_kernels(inputs: TaskInput, n_blocks: int) -> str:
    """Compile the kernels of a learner, once per process, by a run on one document; return the `compile_target`."""
    learner, lane = inputs.learner, Lane(0, 0, 0, 0, 1, 1)
    if (kind := kernels_of(learner)) not in _compiled:
        blocks = [start_block(learner, None, b, n_blocks) for b in range(n_blocks)]
        state = inputs.state(blocks)
        with naming_bad_document(inputs, state, [lane]):
            documents = learner.prepare(inputs.corpus.read(0, 1))
            learner.evaluate(state, [documents])  # first: another process compiles `map` meanwhile
            part = TaskResult([learner.map(state, documents, lane)] * 2)
            needed = part if n_blocks == 1 else block_of(learner, part, 0, n_blocks)
            combine(learner, 1, needed, state=blocks[0])
        _compiled.add(kind)
    return compile_target()


def start_block(learner: AnyWideLearner, make: MakeBlock | None, block: int, n_blocks: int) -> TaskResult:
    """Return a block of the state before the first round: from `make`, or the learner's initial state."""
    if make is not None:
        return TaskResult(make(block, n_blocks))
    return TaskResult(learner.init() if n_blocks == 1 else learner.initial_block(block, n_blocks))


def map_lanes(inputs: TaskInput, lanes: Sequence[Lane], summed: bool, *blocks: TaskResult) -> TaskResult:
    """Return a list of the statistics of lanes: one sum (see `reduce`) if `summed`, else one entry per lane."""
    seconds, state, learner = dict[str, float](), inputs.state(blocks), inputs.learner
    documents = inputs.prepared([(lane.start, lane.stop) for lane in lanes], seconds)
    timed_map, timed_combine = timed(seconds, "map", learner.map), timed(seconds, "merge", learner.combine)
    leaves = (timed_map(state, next(documents), lane) for lane in lanes)
    with naming_bad_document(inputs, state, lanes):
        parts = [reduce(leaves, timed_combine, LANES_COMBINED)] if summed else list(leaves)
    n_documents, worker = sum(lane.stop - lane.start for lane in lanes), f"{socket.gethostname()}:{os.getpid()}"
    return TaskResult(parts, (TaskTiming(lanes[0].lane, len(lanes), n_documents, worker, **seconds),))


def block_of(learner: AnyWideLearner, part: TaskResult, block: int, n_blocks: int) -> TaskResult:
    """Return only the statistics that one block needs, to send less; the first block carries the timings."""
    needed = [learner.block_of_statistics(s, block, n_blocks) for s in part.value]
    return TaskResult(needed, () if block else part.timings)


def combine(learner: AnyWideLearner, at_once: int, *parts: TaskResult, state: TaskResult | None = None) -> TaskResult:
    """Return the sum of neighbouring parts, see `reduce`; or, from all parts of a round and `state`, the next state."""
    started = time.perf_counter()
    value = reduce((item for part in parts for item in part.value), learner.combine, at_once)
    value = [value] if state is None else learner.update(state.value, value)
    own = TaskTiming(merge=time.perf_counter() - started)
    return TaskResult(value, (*(timing for part in parts for timing in part.timings), own))


def update(learner: AnyWideLearner, state: TaskResult, *parts: TaskResult) -> TaskResult:
    return combine(learner, 1, *parts, state=state)


def run_rounds(inputs: TaskInput, rounds: Sequence[Sequence[Lane]], state: TaskResult) -> TaskResult:
    """Return the state after rounds whose lanes all run in this task, and two timings per round, in order."""
    timings: list[TaskTiming] = []
    for lanes in rounds:
        state = combine(inputs.learner, 1, map_lanes(inputs, lanes, True, state), state=state)
        timings += state.timings
    return TaskResult(state.value, tuple(timings))


@contextmanager
def naming_bad_document(inputs: TaskInput, state: Any, lanes: Sequence[Lane]) -> Iterator[None]:
    """Turn an error (not of storage, memory or this package) into a DocumentError for the document at fault."""
    try:
        with reraise_interrupt():
            yield
    except (SdemError, OSError, MemoryError):
        raise
    except Exception as error:
        learner, corpus = inputs.learner, inputs.corpus

        def fails(lane: Lane) -> bool:
            try:
                learner.map(state, learner.prepare(corpus.read(lane.start, lane.stop)), lane)
            except (SdemError, OSError, MemoryError):
                raise  # not the fault of a document
            except Exception:  # noqa: BLE001  the error being traced, whatever its type
                return True
            return False

        if (lane := next(filter(fails, lanes), None)) is None:
            raise  # no document is at fault: an error of `combine`, for example
        while lane.stop - lane.start > 1:
            middle = (lane.start + lane.stop) // 2
            halves = replace(lane, stop=middle), replace(lane, start=middle)
            if (half := next(filter(fails, halves), None)) is None:
                break
            lane = half
        what = corpus.place(lane.start)
        if lane.stop - lane.start > 1:
            what = f"documents from {what} to {corpus.place(lane.stop - 1)}"
        where = f"in lane {lane.lane} of round {lane.round} of epoch {lane.epoch}, counting from 0"
        raise DocumentError(f"{what} cannot be trained on: {type(error).__name__}: {error} ({where})") from error


def blocks_from_driver(executor: Executor, n_blocks: int, get: Callable[[int], Any]) -> Blocks:
    """Send ``get(block)`` for each block in turn, so that the driver never holds more than one."""
    handles: Blocks = []
    for b in range(n_blocks):
        handles.append(executor.put(TaskResult(get(b))))
        executor.result(executor.submit(getattr, handles[-1], "timings"))  # waits for its arrival, without fetching it
    return handles


class TaskSizes:
    """The number of lanes (a power of two) and of rounds per task; neither changes a bit of the model.

    If one worker could do all work of a round, with reading and preparing, in less time than all workers together took,
    most of that time was messages: then one task runs whole rounds, as many as fit into `SHORT_TASK` seconds.
    """

    def __init__(self, plan: Plan, executor: Executor) -> None:
        self._plan, self._executor, self._n_rounds = plan, executor, 1  # its number of workers may change
        self._load_seconds = 0.0  # of reading and preparing the documents of a round, lately
        self._shared_seconds = 0.0  # of the last round that all workers shared
        self._work_seconds = float("inf")  # that one worker would need for a round

    def measured(self, n_rounds: int, timings: Sequence[TaskTiming], seconds: float) -> None:
        """Record the timings of the tasks of `n_rounds` rounds, and the seconds that the driver waited for them."""
        n_documents = sum(t.n_documents for t in timings) / n_rounds
        # Rounds of the first epoch may be small: extrapolate to a full round.
        growth = max(1.0, self._plan.n_documents / self._plan.n_rounds / max(1.0, n_documents))
        load = growth * sum(t.read + t.prepare for t in timings) / n_rounds
        # Caches shorten it, but a single worker would have to read what others have cached: so it decays slowly.
        self._load_seconds = max(load, FORGOTTEN * self._load_seconds)
        self._work_seconds = growth * sum(t.map + t.merge for t in timings) / n_rounds + self._load_seconds
        # After a shared round, no worker has all documents cached: a single worker starts with one round per task.
        most = max(self._n_rounds, 2 * n_rounds)
        if sum(t.n_lanes > 0 for t in timings) > n_rounds:
            self._shared_seconds, most = seconds, 1
        self._n_rounds = max(1, min(most, int(SHORT_TASK / max(self._work_seconds, 1e-6))))

    def lanes_and_rounds(self) -> tuple[int, int]:
        n_lanes = self._plan.n_lanes
        # Threads of this process exchange no messages, so there are none to save.
        if self._executor.max_pending_rounds > 0 and self._plan.n_blocks == 1:
            longest = SHORT_TASK if n_lanes == 1 else min(SHORT_TASK, self._shared_seconds)
            if self._work_seconds < longest:
                return 1 << (n_lanes - 1).bit_length(), self._n_rounds
        return 1 << max(1, n_lanes // (TASKS_A_WORKER * self._executor.n_workers)).bit_length() - 1, 1


def submit_rounds(
    inputs: TaskInput, plan: Plan, executor: Executor, blocks: Blocks, rounds: Sequence[Sequence[Lane]], bundle: int
) -> Blocks:
    """Submit the tasks of a round, or one task for all `rounds` if a bundle holds a round; return the new blocks.

    ``M = ceil(L / b)`` tasks map L lanes in bundles of b. Bundles of fewer than 4 lanes are not summed while mapping,
    but by ``ceil(L / 4)`` tasks. For each of B blocks, tasks merge 4 sums each while more than 4 are left (16 while
    more than 64), and one task updates the block; if B > 1, ``M B`` tasks first cut the statistics into blocks.
    """
    lanes, learner, n, submit = rounds[0], inputs.learner, plan.n_blocks, executor.submit
    if len(lanes) <= bundle and n == 1:
        return [submit(run_rounds, inputs, rounds, *blocks, affinity=lanes[0].lane / plan.n_lanes)]

    def merged(parts: Blocks, fan_in: int, at_once: int) -> Blocks:
        return [submit(combine, learner, at_once, *parts[i : i + fan_in]) for i in range(0, len(parts), fan_in)]

    mapped = []
    for i in range(0, len(lanes), bundle):
        arguments = inputs, lanes[i : i + bundle], bundle >= LANES_COMBINED, *blocks
        mapped.append(submit(map_lanes, *arguments, affinity=lanes[i].lane / plan.n_lanes))
    after: Blocks = []
    for b, block in enumerate(blocks):
        parts = mapped if n == 1 else [submit(block_of, learner, part, b, n) for part in mapped]
        if bundle < LANES_COMBINED:
            parts = merged(parts, LANES_COMBINED // bundle, LANES_COMBINED)
        while len(parts) > 4:  # by 4 on workers that have parts; if there are many, by 16 in fewer tasks
            parts = merged(parts, 16 if len(parts) > 64 else 4, 1)
        # Each block prefers a different worker; otherwise one worker might end up with all blocks.
        after.append(submit(update, learner, block, *parts, affinity=b / n if n > 1 else None))
    return after


def ranges_to_score(n_documents: int) -> list[ScoredRanges]:
    starts = range(0, n_documents, SCORED_DOCUMENTS)
    return [(start / n_documents, [(start, min(start + SCORED_DOCUMENTS, n_documents))]) for start in starts]


def ranges_of_plan(plan: Plan) -> list[ScoredRanges]:
    """Return the training documents that each task scores: ranges of lanes, on workers that may have them cached."""
    lane_documents, groups = max(1, plan.n_documents // (plan.n_rounds * plan.n_lanes)), list[ScoredRanges]()
    lanes_a_task, size = (max(1, SCORED_DOCUMENTS // n) for n in (lane_documents * plan.n_rounds, lane_documents))
    for first in range(0, plan.n_lanes, lanes_a_task):
        lanes = range(first, min(first + lanes_a_task, plan.n_lanes))
        ranges = [r for k in lanes for n in range(plan.n_rounds) if (r := plan.range(k, n))[1] > r[0]]
        groups += [(first / plan.n_lanes, ranges[i : i + size]) for i in range(0, len(ranges), size)]
    return groups


def evaluation_sums(inputs: TaskInput, ranges: Sequence[tuple[int, int]], *blocks: TaskResult) -> np.ndarray:
    return inputs.learner.evaluate(inputs.state(blocks), inputs.prepared(ranges, {}))


def add(*parts: np.ndarray) -> np.ndarray:
    return np.asarray(np.sum(np.stack(parts), axis=0))


def evaluate(inputs: TaskInput, groups: Sequence[ScoredRanges], executor: Executor, blocks: Blocks) -> dict[str, float]:
    """Return the metrics of a state over documents, see the learner's `metrics`; a task scores each group."""
    parts = [executor.submit(evaluation_sums, inputs, ranges, *blocks, affinity=place) for place, ranges in groups]
    while len(parts) > SCORES_ADDED:
        parts = [executor.submit(add, *parts[i : i + SCORES_ADDED]) for i in range(0, len(parts), SCORES_ADDED)]
    return inputs.learner.metrics(add(*map(executor.result, parts)))
