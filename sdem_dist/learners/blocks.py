"""Cutting the states and statistics of models of words by vocabulary: each block is the state of a smaller vocabulary.

A block holds the rows of some neighbouring words and their sums; what does not belong to words (class counts, gamma, t)
is in every block alike, since every block's update computes it from the same numbers.
"""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from sdem_dist.learners.word_statistics import SdemStatistics
from sdem_dist.models.word_counts import SdemState


def bounds(n_features: int, block: int, n_blocks: int) -> tuple[int, int]:
    """Return the first word of a block and the first after it."""
    return n_features * block // n_blocks, n_features * (block + 1) // n_blocks


def of_statistics(statistics: SdemStatistics, first: int, last: int) -> SdemStatistics:
    """Return the statistics of the words ``first:last``, numbered from `first`."""
    inside = (statistics.words >= first) & (statistics.words < last)
    return statistics._replace(
        words=statistics.words[inside] - np.uint32(first),
        rows=statistics.rows[inside],
        met=statistics.met[inside],
        entries=statistics.entries[inside],
    )


def of_state(state: SdemState, first: int, last: int) -> SdemState:
    """Return the block of the words ``first:last`` of a whole state."""
    words = state.words[first:last].copy()
    return state._replace(words=words, totals=words.sum(axis=0))


def joined(blocks: Sequence[SdemState]) -> SdemState:
    """Return the blocks as one state without copying a row: its table is a tuple of the blocks' tables."""
    if len(blocks) == 1:
        return blocks[0]
    tables = cast(np.ndarray, tuple(b.words for b in blocks))  # only `rows_of` may read it
    return blocks[0]._replace(words=tables, totals=np.sum([b.totals for b in blocks], axis=0))


def whole(n_features: int, n_blocks: int, get: Callable[[int], SdemState]) -> SdemState:
    """Return a whole state; ``get(block)`` is called block by block, so that no second copy of all rows exists."""
    block = get(0)
    if n_blocks == 1:
        return block
    words = np.empty((n_features, *block.words.shape[1:]))
    rest, totals = block._replace(words=words), np.zeros_like(block.totals)
    for number in range(n_blocks):
        if number:
            del block  # before the next comes
            block = get(number)
        first, last = bounds(n_features, number, n_blocks)
        words[first:last] = block.words
        totals += block.totals
    return rest._replace(totals=totals)
