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

TASKS_A_WORKER = 2  # in a round: one that ends early takes up what another has left
# Long beside a task's messages, short for people who wait for news of rounds. 0: every round goes to all workers.
SHORT_TASK = 0.25  # seconds that one task of whole rounds should take
FORGOTTEN = 0.8  # from round to round, what is left of the seconds that a long reading took
SCORED_DOCUMENTS = 16_384  # documents that one task scores, about
SCORES_ADDED = 16  # sums of scores that are added at once; it shapes them, and so their bits
AnyWideLearner: TypeAlias = WideLearner[Any, Any, Any]  # only it looks into states, statistics and prepared documents
MakeBlock: TypeAlias = Callable[[int, int], Any]  # takes the number of a block and of all blocks
ScoredRanges: TypeAlias = tuple[float, list[tuple[int, int]]]  # affinity of a task, and the ranges that it scores
_compiled: set[object] = set()  # what `kernels_of` says of the learners that this process has run


class TaskTiming(NamedTuple):
    """What one task did."""

    lane: int = -1  # first lane; a task that only merged has none
    n_lanes: int = 0
    n_documents: int = 0
    worker: str = ""  # host and process
    read: float = 0.0  # seconds of reading and verifying documents, partly while others are mapped
    prepare: float = 0.0  # seconds of preparing them for the learner
    map: float = 0.0  # seconds of the learner's statistics
    merge: float = 0.0  # seconds of combining statistics and updating the state


class TaskResult(NamedTuple):
    """A result, and what the tasks behind it took, back to the state before."""

    value: Any
    timings: tuple[TaskTiming, ...] = ()


Blocks: TypeAlias = list[Handle[TaskResult]]  # a state, block by block


def timed(seconds: dict[str, float], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that adds the time it takes to the seconds of a name."""

    def run(*args: Any) -> Any:
        started = time.perf_counter()
        result = function(*args)
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - started
        return result

    return run


@cache
def _read_ahead(process: int) -> ThreadPoolExecutor:
    """Return this process's threads that read ahead; never shut down, as joining one can deadlock in a generator."""
    return ThreadPoolExecutor(thread_name_prefix="sdem-read-ahead")


class TaskInput(NamedTuple):
    """Where tasks find documents, prepared for a learner, and how many bytes of them a process may keep."""

    learner: AnyWideLearner
    corpus: CorpusLike
    cache_bytes: int

    def state(self, blocks: Sequence[TaskResult]) -> Any:
        return blocks[0].value if len(blocks) == 1 else self.learner.joined([b.value for b in blocks])

    def prepared(self, spans: Sequence[tuple[int, int]], seconds: dict[str, float]) -> Iterator[Any]:
        """Yield prepared documents, from the cache or from the corpus; the next are read while these are at work."""
        shard_cache.resize(self.cache_bytes // 4)  # of several runs in a process, the budget of the latest task holds
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
    """Return what decides which kernels a learner runs: its type, and those of what it is composed of."""
    parts = getattr(type(value), "__dataclass_fields__", ())  # sooner than by `dataclasses.fields`
    return (type(value), *(kernels_of(getattr(value, name)) for name in parts))


def compile_kernels(inputs: TaskInput, n_blocks: int) -> str:
    """Run a learner of this kind on one document, once a process, to compile it; return the `compile_target`."""
    learner, lane = inputs.learner, Lane(0, 0, 0, 0, 1, 1)
    if (kind := kernels_of(learner)) not in _compiled:
        blocks = [start_block(learner, None, b, n_blocks) for b in range(n_blocks)]
        state = inputs.state(blocks)
        with naming_bad_document(inputs, state, [lane]):
            documents = learner.prepare(inputs.corpus.read(0, 1))
            learner.evaluate(state, [documents])  # first: a process beside this one begins with what maps
            part = TaskResult([learner.map(state, documents, lane)] * 2)
            needed = part if n_blocks == 1 else block_of(learner, part, 0, n_blocks)
            combine(learner, 1, needed, state=blocks[0])
        _compiled.add(kind)
    return compile_target()


def start_block(learner: AnyWideLearner, make: MakeBlock | None, block: int, n_blocks: int) -> TaskResult:
    """Return a block of the state at which rounds begin, made where it is needed: initial, or by `make`."""
    if make is not None:
        return TaskResult(make(block, n_blocks))
    return TaskResult(learner.init() if n_blocks == 1 else learner.initial_block(block, n_blocks))


def map_lanes(inputs: TaskInput, lanes: Sequence[Lane], summed: bool, *blocks: TaskResult) -> TaskResult:
    """Return a bundle's statistics: a list of its one sum if `summed`, or each lane's; see `reduce`."""
    seconds, state, learner = dict[str, float](), inputs.state(blocks), inputs.learner
    documents = inputs.prepared([(lane.start, lane.stop) for lane in lanes], seconds)
    timed_map, timed_combine = timed(seconds, "map", learner.map), timed(seconds, "merge", learner.combine)
    leaves = (timed_map(state, next(documents), lane) for lane in lanes)
    with naming_bad_document(inputs, state, lanes):
        parts = [reduce(leaves, timed_combine, LANES_COMBINED)] if summed else list(leaves)
    n_documents, worker = sum(lane.stop - lane.start for lane in lanes), f"{socket.gethostname()}:{os.getpid()}"
    return TaskResult(parts, (TaskTiming(lanes[0].lane, len(lanes), n_documents, worker, **seconds),))


def block_of(learner: AnyWideLearner, part: TaskResult, block: int, n_blocks: int) -> TaskResult:
    """Return the statistics that one block needs, so that only these travel; timings come with the first block."""
    needed = [learner.block_of_statistics(s, block, n_blocks) for s in part.value]
    return TaskResult(needed, () if block else part.timings)


def combine(learner: AnyWideLearner, at_once: int, *parts: TaskResult, state: TaskResult | None = None) -> TaskResult:
    """Return the sum of neighbouring parts, see `reduce`; with `state` the next state, of all sums of a round."""
    started = time.perf_counter()
    value = reduce((item for part in parts for item in part.value), learner.combine, at_once)
    value = [value] if state is None else learner.update(state.value, value)
    own = TaskTiming(merge=time.perf_counter() - started)
    return TaskResult(value, (*(timing for part in parts for timing in part.timings), own))


def update(learner: AnyWideLearner, state: TaskResult, *parts: TaskResult) -> TaskResult:
    return combine(learner, 1, *parts, state=state)


def run_rounds(inputs: TaskInput, rounds: Sequence[Sequence[Lane]], state: TaskResult) -> TaskResult:
    """Return the state after rounds, all lanes of each in this task; their timings follow in order, two a round."""
    timings: list[TaskTiming] = []
    for lanes in rounds:
        state = combine(inputs.learner, 1, map_lanes(inputs, lanes, True, state), state=state)
        timings += state.timings
    return TaskResult(state.value, tuple(timings))


@contextmanager
def naming_bad_document(inputs: TaskInput, state: Any, lanes: Sequence[Lane]) -> Iterator[None]:
    """Raise DocumentError, with the first document that fails alone, for errors not of storage or this package."""
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
                raise  # a storage error has no document to blame
            except Exception:  # noqa: BLE001  any: it is the same that brought us here
                return True
            return False

        if (lane := next(filter(fails, lanes), None)) is None:
            raise  # of `combine`, say: no document is to blame
        while lane.stop - lane.start > 1:
            middle = (lane.start + lane.stop) // 2
            halves = replace(lane, stop=middle), replace(lane, start=middle)
            if (half := next(filter(fails, halves), None)) is None:
                break
            lane = half
        what = corpus.place(lane.start)
        if lane.stop - lane.start > 1:
            what = f"documents from {what} to {corpus.place(lane.stop - 1)}"
        where = f"in lane {lane.lane} of round {lane.round} of epoch {lane.epoch}, counted from 0"
        raise DocumentError(f"{what} cannot be trained on: {type(error).__name__}: {error} ({where})") from error


def blocks_from_driver(executor: Executor, n_blocks: int, get: Callable[[int], Any]) -> Blocks:
    """Send ``get(block)``, one after the other, so that the driver has no more than one."""
    handles: Blocks = []
    for b in range(n_blocks):
        handles.append(executor.put(TaskResult(get(b))))
        executor.result(executor.submit(getattr, handles[-1], "timings"))  # when it is there; the value stays there
    return handles


class TaskSizes:
    """How many lanes, by powers of two, make a task, and how many rounds; neither changes a bit.

    Where all work of a round, reading and preparing too, takes one worker less than the round took all of them, most of
    that was messages: then one task runs whole rounds, as many as fit into `SHORT_TASK` seconds.
    """

    def __init__(self, plan: Plan, executor: Executor) -> None:
        self._plan, self._executor, self._n_rounds = plan, executor, 1  # its workers may come and go
        self._load_seconds = 0.0  # of a round, what reading and preparing took lately
        self._shared_seconds = 0.0  # what the last round took that was dealt out to all workers
        self._work_seconds = float("inf")  # what one worker needs for a round

    def measured(self, n_rounds: int, timings: Sequence[TaskTiming], seconds: float) -> None:
        """Record what the tasks of `n_rounds` rounds took, and how long the driver waited for them."""
        n_documents = sum(t.n_documents for t in timings) / n_rounds
        # Rounds of the first epoch may grow: seconds are those of a full one.
        growth = max(1.0, self._plan.n_documents / self._plan.n_rounds / max(1.0, n_documents))
        load = growth * sum(t.read + t.prepare for t in timings) / n_rounds
        # Caches make it short, but one worker would have to read what is in those of others: it is forgotten slowly.
        self._load_seconds = max(load, FORGOTTEN * self._load_seconds)
        self._work_seconds = growth * sum(t.map + t.merge for t in timings) / n_rounds + self._load_seconds
        # Where workers shared a round, none has all of its documents: one alone begins with a single round.
        most = max(self._n_rounds, 2 * n_rounds)
        if sum(t.n_lanes > 0 for t in timings) > n_rounds:
            self._shared_seconds, most = seconds, 1
        self._n_rounds = max(1, min(most, int(SHORT_TASK / max(self._work_seconds, 1e-6))))

    def lanes_and_rounds(self) -> tuple[int, int]:
        n_lanes = self._plan.n_lanes
        # Threads of this process need no messages that could be saved.
        if self._executor.max_pending_rounds > 0 and self._plan.n_blocks == 1:
            longest = SHORT_TASK if n_lanes == 1 else min(SHORT_TASK, self._shared_seconds)
            if self._work_seconds < longest:
                return 1 << (n_lanes - 1).bit_length(), self._n_rounds
        return 1 << max(1, n_lanes // (TASKS_A_WORKER * self._executor.n_workers)).bit_length() - 1, 1


def submit_rounds(
    inputs: TaskInput, plan: Plan, executor: Executor, blocks: Blocks, rounds: Sequence[Sequence[Lane]], bundle: int
) -> Blocks:
    """Submit the tasks of a round, or of several that are one task each; return the state's blocks after it.

    ``M = ceil(L / b)`` tasks map L lanes in bundles of b. Those of fewer than 4 lanes are not sums yet: ``ceil(L / 4)``
    tasks make them.  For each of B blocks, sums are merged by 4 while more than 4 are left (by 16 while more than 64),
    in a task each, and one task updates; with more than one block, ``M B`` tasks cut first.
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
        while len(parts) > 4:  # few are merged on the workers that have them, many in fewer tasks
            parts = merged(parts, 16 if len(parts) > 64 else 4, 1)
        # Blocks ask for workers of their own, or one might end up with all of them.
        after.append(submit(update, learner, block, *parts, affinity=b / n if n > 1 else None))
    return after


def ranges_to_score(n_documents: int) -> list[ScoredRanges]:
    starts = range(0, n_documents, SCORED_DOCUMENTS)
    return [(start / n_documents, [(start, min(start + SCORED_DOCUMENTS, n_documents))]) for start in starts]


def ranges_of_plan(plan: Plan) -> list[ScoredRanges]:
    """Return what tasks score of the training corpus: the ranges that lanes have cached, where they were mapped."""
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
