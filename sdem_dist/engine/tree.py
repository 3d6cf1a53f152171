"""The shape of the reduction: it depends on the number of lanes only, and so do the bits.

Lanes are leaves.  `LEAVES` neighbours are combined at once, and what comes of them by pairs, level by level.  A task may
map or merge any aligned power of two of them: how lanes are bundled, and how many sums a task merges, changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

LEAVES = 16


def reduce(
    items: Sequence[Any], get: Callable[[Any], Any], combine: Callable[[Sequence[Any]], Any], at_once: int = 1
) -> Any:
    """Return the sum of neighbours, depth first: no more than a few parts are alive at once.

    Parameters
    ----------
    items : sequence, not empty
    get : callable
        Returns the statistics of an item.
    combine : callable
        Returns the statistics of several together.
    at_once : int
        `LEAVES` where items are lanes, 1 where they are sums of as many or more.
    """

    def subtree(start: int, size: int) -> Any:
        if size <= at_once:
            return combine([get(item) for item in items[start : start + size]])
        half = size // 2
        if start + half >= len(items):
            return subtree(start, half)
        return combine([subtree(start, half), subtree(start + half, half)])

    return subtree(0, max(at_once, 1 << (len(items) - 1).bit_length()))
