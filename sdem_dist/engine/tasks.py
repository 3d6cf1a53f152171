"""What runs on workers: module-level pure functions of (learner, corpus, state, place), safe to run twice."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from sdem_dist.byte_cache import prepared_cache, set_budget
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.engine.blame import blamed
from sdem_dist.engine.checkpoint import Saved
from sdem_dist.engine.tree import LEAVES, reduce
from sdem_dist.learners.protocol import Lane, Learner, WideLearner

# Never shut down by tasks: joining a thread from wherever an unfinished generator happens to be closed can deadlock.
_readers = ThreadPoolExecutor(thread_name_prefix="sdem-read-ahead")


class CorpusLike(Protocol):
    """What tasks need of a corpus: `sdem_dist.corpus.Corpus` on disk or `MemoryCorpus` in this process."""

    @property
    def cache_key(self) -> str:
        """Name the content: equal keys mean equal documents."""

    def read(self, start: int, stop: int) -> Documents | DenseDocuments:
        """Return the documents at stored positions ``start:stop``."""

    def place(self, document: int) -> str:
        """Return where the document at a stored position is, for people."""


class Work(NamedTuple):
    """What one task did."""

    lane: int
    """First lane, or -1 for a task that only merged."""
    n_lanes: int
    n_documents: int
    worker: str
    """Host and process."""
    read: float = 0.0
    """Seconds of reading and verifying documents, partly while others are mapped."""
    prepare: float = 0.0
    """Seconds of preparing them for the learner."""
    map: float = 0.0
    """Seconds of the learner's statistics."""
    merge: float = 0.0
    """Seconds of combining statistics and updating the state."""


class Timed(NamedTuple):
    """A result and the work behind it, back to the state before."""

    value: Any
    work: tuple[Work, ...] = ()


class _Watch:
    """Adds up seconds by what they were spent on."""

    def __init__(self) -> None:
        self.seconds = {"read": 0.0, "prepare": 0.0, "map": 0.0, "merge": 0.0}

    def __call__(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        started = time.perf_counter()
        result = function(*args)
        self.seconds[name] += time.perf_counter() - started
        return result

    def work(self, lanes: Sequence[Lane] = ()) -> Work:
        n_documents = sum(lane.stop - lane.start for lane in lanes)
        first = lanes[0].lane if lanes else -1
        return Work(first, len(lanes), n_documents, f"{socket.gethostname()}:{os.getpid()}", **self.seconds)


class Source(NamedTuple):
    """Where tasks find documents, and how much of them a process may keep."""

    learner: Learner
    corpus: CorpusLike
    cache_bytes: int

    def key(self, start: int, stop: int) -> tuple[str, str, int, int]:
        """Name prepared documents in the cache of a process."""
        return self.corpus.cache_key, self.learner.cache_key, start, stop

    def state(self, blocks: Sequence[Timed]) -> Any:
        """Return a state for the learner's `map` and `evaluate` from its blocks."""
        return (
            blocks[0].value if len(blocks) == 1 else cast(WideLearner, self.learner).joined([b.value for b in blocks])
        )

    def prepared(self, spans: Sequence[tuple[int, int]], watch: _Watch) -> Iterator[Any]:
        """Yield prepared documents, from the cache or from the corpus; the next are read while these are at work."""
        set_budget(self.cache_bytes)

        def load(start: int, stop: int) -> Any:
            def make() -> Any:
                return watch("prepare", self.learner.prepare, watch("read", self.corpus.read, start, stop))

            return prepared_cache.get(self.key(start, stop), make)

        coming: Future[Any] | None = None
        for i, span in enumerate(spans):
            documents = load(*span) if coming is None else coming.result()
            following = spans[i + 1 : i + 2]
            absent = bool(following) and self.key(*following[0]) not in prepared_cache
            coming = _readers.submit(load, *following[0]) if absent else None
            yield documents


_compiled: set[type] = set()


def compile_kernels(source: Source, n_blocks: int) -> None:
    """Run a learner of this kind on one document, once in a process, so that it is compiled before anything is timed."""
    if type(source.learner) in _compiled:
        return
    learner, corpus, lane = source.learner, source.corpus, Lane(0, 0, 0, 0, 1, 1)
    blocks = [initial_block(learner, b, n_blocks) for b in range(n_blocks)]
    state = source.state(blocks)
    with blamed(learner, corpus, state, lane):
        documents = learner.prepare(corpus.read(0, 1))
        part = Timed([learner.map(state, documents, lane)] * 2)
        update(learner, LEAVES, blocks[0], part if n_blocks == 1 else block_of(learner, part, 0, n_blocks))
        learner.evaluate(state, [documents])
    _compiled.add(type(learner))


def initial_block(learner: Learner, block: int, n_blocks: int) -> Timed:
    """Return a block of the state before the first document, made where it is needed."""
    return Timed(learner.init() if n_blocks == 1 else cast(WideLearner, learner).initial_block(block, n_blocks))


def saved_block(saved: Saved, block: int) -> Timed:
    """Return a block of a state from a checkpoint."""
    return Timed(saved.block(block))


def seen(saved: Saved) -> bool:
    """Whether this process sees a checkpoint."""
    return saved.seen


def map_lanes(source: Source, lanes: Sequence[Lane], whole: bool, *blocks: Timed) -> Timed:
    """Return the statistics of a bundle of lanes: a list of their one sum if `whole`, or of each, see `sdem_dist.engine.tree`."""
    watch, state = _Watch(), source.state(blocks)
    documents = source.prepared([(lane.start, lane.stop) for lane in lanes], watch)

    def leaf(lane: Lane) -> Any:
        with blamed(source.learner, source.corpus, state, lane):
            return watch("map", source.learner.map, state, next(documents), lane)

    def combine(parts: Sequence[Any]) -> Any:
        return watch("merge", source.learner.combine, parts)

    parts = [reduce(lanes, leaf, combine, LEAVES)] if whole else [leaf(lane) for lane in lanes]
    return Timed(parts, (watch.work(lanes),))


def block_of(learner: Learner, part: Timed, block: int, n_blocks: int) -> Timed:
    """Return what one block needs of statistics, so that only this travels; the work is told with the first block."""
    return Timed(
        [cast(WideLearner, learner).block_of_statistics(s, block, n_blocks) for s in part.value],
        () if block else part.work,
    )


def combine(learner: Learner, at_once: int, *parts: Timed) -> Timed:
    """Return the one sum of neighbouring parts, whose values are lanes' statistics or sums: see `reduce` for `at_once`."""
    watch = _Watch()
    combined = watch("merge", _sum, learner, at_once, parts)
    return Timed([combined], (*_works(parts), watch.work()))


def update(learner: Learner, at_once: int, state: Timed, *parts: Timed) -> Timed:
    """Return the next state from all statistics of a round, see `combine`."""
    watch = _Watch()
    new = watch("merge", lambda: learner.update(state.value, _sum(learner, at_once, parts)))
    return Timed(new, (*_works(parts), watch.work()))


def work_behind(block: Timed) -> tuple[Work, ...]:
    """Return the work of the round behind a block of a state, without moving it to the driver."""
    return block.work


def evaluate(source: Source, ranges: Sequence[tuple[int, int]], *blocks: Timed) -> np.ndarray:
    """Return evaluation sums over ranges of documents."""
    return source.learner.evaluate(source.state(blocks), source.prepared(ranges, _Watch()))


def add(*parts: np.ndarray) -> np.ndarray:
    """Add evaluation sums in the order given."""
    return np.asarray(np.sum(np.stack(parts), axis=0))


def _sum(learner: Learner, at_once: int, parts: Sequence[Timed]) -> Any:
    return reduce([item for part in parts for item in part.value], lambda item: item, learner.combine, at_once)


def _works(parts: Sequence[Timed]) -> list[Work]:
    return [work for part in parts for work in part.work]
