"""What runs on workers: module-level pure functions of (learner, corpus, state, place), safe to run twice."""

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

from sdem_dist.byte_cache import prepared_cache
from sdem_dist.compat import compile_target
from sdem_dist.documents import CorpusLike
from sdem_dist.engine.blame import blamed
from sdem_dist.engine.claims import Claim, claims
from sdem_dist.engine.saved import Saved
from sdem_dist.engine.tree import LEAVES, reduce
from sdem_dist.learners.protocol import Lane, Learner, Prepared, State, Statistics, WideLearner

Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")


class _Readers:
    """The threads of this process that read ahead.

    Never shut down by tasks: joining a thread from wherever an unfinished generator happens to be closed can deadlock.
    """

    def __init__(self) -> None:
        self.start()
        os.register_at_fork(after_in_child=self.start)  # a forked child has none of its parent's threads

    def start(self) -> None:
        self.pool = ThreadPoolExecutor(thread_name_prefix="sdem-read-ahead")


_readers = _Readers()


class Work(NamedTuple):
    """What one task did."""

    lane: int  # first lane, or -1 for a task that only merged
    n_lanes: int
    n_documents: int
    worker: str  # host and process
    read: float = 0.0  # seconds of reading and verifying documents, partly while others are mapped
    prepare: float = 0.0  # seconds of preparing them for the learner
    map: float = 0.0  # seconds of the learner's statistics
    merge: float = 0.0  # seconds of combining statistics and updating the state


class Timed(NamedTuple, Generic[Value]):
    """A result and the work behind it, back to the state before."""

    value: Value
    work: tuple[Work, ...] = ()


class _Watch:
    """Adds up seconds by what they were spent on."""

    def __init__(self) -> None:
        self.seconds = {"read": 0.0, "prepare": 0.0, "map": 0.0, "merge": 0.0}

    def __call__(
        self,
        name: str,
        function: Callable[Arguments, Value],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Value:
        started = time.perf_counter()
        result = function(*args, **kwargs)
        self.seconds[name] += time.perf_counter() - started
        return result

    def work(self, lanes: Sequence[Lane] = ()) -> Work:
        n_documents = sum(lane.stop - lane.start for lane in lanes)
        first = lanes[0].lane if lanes else -1
        return Work(first, len(lanes), n_documents, f"{socket.gethostname()}:{os.getpid()}", **self.seconds)


class Feed(NamedTuple, Generic[State, Statistics, Prepared]):
    """Where tasks find documents, prepared for a learner, and what the run leaves of a process to keep them."""

    learner: Learner[State, Statistics, Prepared]
    corpus: CorpusLike
    claim: Claim

    def state(self, blocks: Sequence[Timed[State]]) -> State:
        """Return a state for the learner's `map` and `evaluate` from its blocks."""
        return blocks[0].value if len(blocks) == 1 else wide(self.learner).joined([b.value for b in blocks])

    def prepared(self, spans: Sequence[tuple[int, int]], watch: _Watch) -> Iterator[Prepared]:
        """Yield prepared documents, from the cache or from the corpus; the next are read while these are at work."""
        claims.hold(self.claim)
        names = self.corpus.cache_key, self.learner.cache_key

        def load(start: int, stop: int) -> Prepared:
            def make() -> Prepared:
                return watch("prepare", self.learner.prepare, watch("read", self.corpus.read, start, stop))

            return prepared_cache.get((*names, start, stop), make)

        coming: Future[Prepared] | None = None
        for i, span in enumerate(spans):
            documents = load(*span) if coming is None else coming.result()
            following = spans[i + 1 : i + 2]
            absent = bool(following) and (*names, *following[0]) not in prepared_cache
            coming = _readers.pool.submit(load, *following[0]) if absent else None
            yield documents


def wide(learner: Learner[State, Statistics, Prepared]) -> WideLearner[State, Statistics, Prepared]:
    """Return a learner as what a plan of several blocks needs."""
    return cast(WideLearner[State, Statistics, Prepared], learner)


_compiled: set[object] = set()


def kernels_of(value: object) -> object:
    """Return what decides which kernels a learner runs: its type, and those of what it is composed of."""
    parts = getattr(type(value), "__dataclass_fields__", ())  # sooner than by `dataclasses.fields`
    return (type(value), *(kernels_of(getattr(value, name)) for name in parts))


def compile_kernels(feed: Feed[State, Statistics, Prepared], n_blocks: int) -> str:
    """Run a learner of this kind on one document, once a process, so that it is compiled before anything is timed.

    Returns what kernels are compiled for, see `sdem_dist.compat.compile_target`.
    """
    if (kind := kernels_of(feed.learner)) in _compiled:
        return compile_target()
    learner, corpus, lane = feed.learner, feed.corpus, Lane(0, 0, 0, 0, 1, 1)
    blocks = [initial_block(learner, b, n_blocks) for b in range(n_blocks)]
    state = feed.state(blocks)
    with blamed(learner, corpus, state, lane):
        documents = learner.prepare(corpus.read(0, 1))
        part = Timed([learner.map(state, documents, lane)] * 2)
        update(learner, LEAVES, blocks[0], part if n_blocks == 1 else block_of(learner, part, 0, n_blocks))
        learner.evaluate(state, [documents])
    _compiled.add(kind)
    return compile_target()


def initial_block(learner: Learner[State, Statistics, Prepared], block: int, n_blocks: int) -> Timed[State]:
    """Return a block of the state before the first document, made where it is needed."""
    return Timed(learner.init() if n_blocks == 1 else wide(learner).initial_block(block, n_blocks))


def made_block(make: Callable[[int, int], State], block: int, n_blocks: int) -> Timed[State]:
    """Return a block of a start that is not the learner's own."""
    return Timed(make(block, n_blocks))


def saved_block(saved: Saved[State], block: int) -> Timed[State]:
    """Return a block of a state from a checkpoint."""
    return Timed(saved.block(block))


def seen(saved: Saved[State]) -> bool:
    """Whether this process sees a checkpoint."""
    return saved.seen


def map_lanes(
    feed: Feed[State, Statistics, Prepared], lanes: Sequence[Lane], whole: bool, *blocks: Timed[State]
) -> Timed[list[Statistics]]:
    """Return a bundle's statistics: a list of its one sum if `whole`, or each lane's; see `sdem_dist.engine.tree`."""
    watch, state, learner = _Watch(), feed.state(blocks), feed.learner
    documents = feed.prepared([(lane.start, lane.stop) for lane in lanes], watch)

    def leaf(lane: Lane) -> Statistics:
        with blamed(learner, feed.corpus, state, lane):
            return watch("map", learner.map, state, next(documents), lane)

    def combine(parts: Sequence[Statistics]) -> Statistics:
        return watch("merge", learner.combine, parts)

    parts = [reduce(lanes, leaf, combine, LEAVES)] if whole else [leaf(lane) for lane in lanes]
    return Timed(parts, (watch.work(lanes),))


def block_of(
    learner: Learner[State, Statistics, Prepared], part: Timed[list[Statistics]], block: int, n_blocks: int
) -> Timed[list[Statistics]]:
    """Return the statistics that one block needs, so that only these travel; work is reported with the first block."""
    return Timed(
        [wide(learner).block_of_statistics(s, block, n_blocks) for s in part.value],
        () if block else part.work,
    )


def combine(
    learner: Learner[State, Statistics, Prepared], at_once: int, *parts: Timed[list[Statistics]]
) -> Timed[list[Statistics]]:
    """Return the sum of neighbouring parts, whose values are lanes' statistics or sums: see `reduce` for `at_once`."""
    watch = _Watch()
    combined = watch("merge", _sum, learner, at_once, parts)
    return Timed([combined], (*_works(parts), watch.work()))


def update(
    learner: Learner[State, Statistics, Prepared], at_once: int, state: Timed[State], *parts: Timed[list[Statistics]]
) -> Timed[State]:
    """Return the next state from all statistics of a round, see `combine`."""
    watch = _Watch()
    new = watch("merge", lambda: learner.update(state.value, _sum(learner, at_once, parts)))
    return Timed(new, (*_works(parts), watch.work()))


def run_rounds(
    feed: Feed[State, Statistics, Prepared], rounds: Sequence[Sequence[Lane]], whole: bool, state: Timed[State]
) -> Timed[State]:
    """Return the state after rounds of one bundle each, see `map_lanes` for `whole`; their work follows in order."""
    works: list[Work] = []
    for lanes in rounds:
        part = map_lanes(feed, lanes, whole, state)
        state = update(feed.learner, 1 if whole else LEAVES, state, part)
        works += state.work
    return Timed(state.value, tuple(works))


def work_behind(block: Timed[State]) -> tuple[Work, ...]:
    """Return the work of the rounds behind a block of a state, without moving it to the driver."""
    return block.work


def evaluate(
    feed: Feed[State, Statistics, Prepared], ranges: Sequence[tuple[int, int]], *blocks: Timed[State]
) -> np.ndarray:
    """Return evaluation sums over ranges of documents."""
    return feed.learner.evaluate(feed.state(blocks), feed.prepared(ranges, _Watch()))


def add(*parts: np.ndarray) -> np.ndarray:
    """Add evaluation sums in the order given."""
    return np.asarray(np.sum(np.stack(parts), axis=0))


def _sum(
    learner: Learner[State, Statistics, Prepared], at_once: int, parts: Sequence[Timed[list[Statistics]]]
) -> Statistics:
    return reduce([item for part in parts for item in part.value], lambda item: item, learner.combine, at_once)


def _works(parts: Sequence[Timed[Value]]) -> list[Work]:
    return [work for part in parts for work in part.work]
