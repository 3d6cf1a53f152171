"""What runs on workers: module-level pure functions of (learner, corpus, state, place), safe to run twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from sdem_dist.byte_cache import ByteCache
from sdem_dist.documents import Documents
from sdem_dist.learners.protocol import Lane, Learner

TREE_ARITY = 16
process_cache = ByteCache(1 << 30)
"""Prepared documents kept between epochs, one cache a process."""


class CorpusLike(Protocol):
    """What tasks need of a corpus: `sdem_dist.corpus.Corpus` on disk or `MemoryCorpus` in this process."""

    @property
    def cache_key(self) -> str:
        """Name the content: equal keys mean equal documents."""

    def read(self, start: int, stop: int) -> Documents:
        """Return the documents at stored positions ``start:stop``."""


def _prepared(learner: Learner, corpus: CorpusLike, start: int, stop: int) -> Any:
    key = (corpus.cache_key, learner.cache_key, start, stop)
    return process_cache.get(key, lambda: learner.prepare(corpus.read(start, stop)))


def map_lanes(learner: Learner, corpus: CorpusLike, state: Any, lanes: Sequence[Lane]) -> Any:
    """Return the combined statistics of one or more lanes."""
    documents = (_prepared(learner, corpus, lane.start, lane.stop) for lane in lanes)
    return combine(learner, *(learner.map(state, d, lane) for d, lane in zip(documents, lanes, strict=True)))


def combine(learner: Learner, *parts: Any) -> Any:
    """Combine statistics in groups of neighbours: the shape, and so the bits, depend on their number only."""
    level = list(parts)
    while len(level) > 1:
        level = [learner.combine(level[i : i + TREE_ARITY]) for i in range(0, len(level), TREE_ARITY)]
    return level[0]


def update(learner: Learner, state: Any, *parts: Any) -> Any:
    """Return the next state, from statistics of which the last level of the tree is still to be combined."""
    return learner.update(state, combine(learner, *parts))


def evaluate(learner: Learner, corpus: CorpusLike, state: Any, ranges: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return evaluation sums over ranges of documents."""
    return learner.evaluate(state, (_prepared(learner, corpus, start, stop) for start, stop in ranges))


def add(*parts: np.ndarray) -> np.ndarray:
    """Add evaluation sums in the order given."""
    return np.asarray(np.sum(np.stack(parts), axis=0))
