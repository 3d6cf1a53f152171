"""Cutting the states and statistics of sdEM by vocabulary: each block is the state of a smaller vocabulary.

A block holds the rows of some neighbouring words and their sums; what does not belong to words (class counts, gamma, t)
is in every block alike, since every block's update computes it from the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sdem_dist.learners.word_counts import SdemState, SdemStatistics

Table = np.ndarray | tuple[np.ndarray, ...]
"""Rows of all words: one array, or consecutive arrays."""


def bounds(n_features: int, block: int, n_blocks: int) -> tuple[int, int]:
    """Return the first word of a block and the first after it."""
    return n_features * block // n_blocks, n_features * (block + 1) // n_blocks


def of_statistics(statistics: SdemStatistics, first: int, last: int) -> SdemStatistics:
    """Return the statistics of the words ``first:last``, numbered from `first`."""
    a, b = np.searchsorted(statistics.words, (first, last))
    return statistics._replace(
        words=statistics.words[a:b] - np.uint32(first), rows=statistics.rows[a:b], met=statistics.met[a:b]
    )


def of_state(state: SdemState, first: int, last: int) -> SdemState:
    """Return the block of the words ``first:last`` of a whole state."""
    words = state.words[first:last].copy()
    return state._replace(words=words, totals=words.sum(axis=0), mean_words=state.mean_words[first:last].copy())


def joined(blocks: Sequence[SdemState]) -> SdemState:
    """Return the blocks as one state without copying a row: its tables are tuples of the blocks' tables."""
    if len(blocks) == 1:
        return blocks[0]
    return blocks[0]._replace(
        words=tuple(b.words for b in blocks),
        totals=np.sum([b.totals for b in blocks], axis=0),
        mean_words=tuple(b.mean_words for b in blocks),
    )


def whole(n_features: int, n_blocks: int, get: Callable[[int], SdemState]) -> SdemState:
    """Return a whole state; ``get(block)`` is called block by block, so that no second copy of all rows exists."""
    block = get(0)
    words = np.empty((n_features, *block.words.shape[1:]))
    means = np.empty((n_features, *block.mean_words.shape[1:]) if len(block.mean_words) else block.mean_words.shape)
    rest, totals = block._replace(words=words, mean_words=means), np.zeros_like(block.totals)
    for number in range(n_blocks):
        if number:
            del block  # before the next comes
            block = get(number)
        first, last = bounds(n_features, number, n_blocks)
        words[first:last] = block.words
        totals += block.totals
        if len(block.mean_words):
            means[first:last] = block.mean_words
    return rest._replace(totals=totals)


def take(table: Table, words: np.ndarray | slice) -> np.ndarray:
    """Return the rows of some words, ascending, or of a slice of one array."""
    if isinstance(table, np.ndarray):
        return table[words]
    if isinstance(words, slice):
        return np.concatenate(table)[words]
    return np.concatenate([part[chosen] for part, chosen in split(table, words)])


def split(table: Table, words: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return each array of a table with those of `words`, ascending, that it holds, numbered from its first."""
    if isinstance(table, np.ndarray):
        return [(table, words)]
    starts = np.cumsum([0, *(len(part) for part in table)])
    cuts = np.searchsorted(words, starts)
    return [(part, words[cuts[i] : cuts[i + 1]] - words.dtype.type(starts[i])) for i, part in enumerate(table)]


def column_sums(table: Table) -> np.ndarray:
    """Return the sums over all words, shape (n_classes,)."""
    parts = (table,) if isinstance(table, np.ndarray) else table
    return np.asarray(np.sum([part.sum(axis=0) for part in parts], axis=0))
