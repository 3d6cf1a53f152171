"""The shape of the reduction: it depends on the number of lanes only, and so do the bits.

Lanes are leaves; neighbours are combined by `ARITY`, level by level, until at most `ARITY` are left, and these at last.
A task may compute any aligned power of two of leaves, as far as they can be combined alone: `bundle` leaves are
``bundle / ARITY**level`` subtrees of the highest level that fits.  How lanes are bundled changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

ARITY = 16


def level_of(bundle: int) -> int:
    """Return the level of the subtrees that a task of `bundle` leaves returns: leaves have level 0."""
    level = 0
    while bundle >= ARITY ** (level + 1):
        level += 1
    return level


def reduce(
    leaves: Sequence[Any], level: int, leaf: Callable[[Any], Any], combine: Callable[[Sequence[Any]], Any]
) -> list[Any]:
    """Return the subtrees of a level over some leaves, depth first: no more than a few parts are alive at once."""

    def subtree(start: int, size: int) -> Any:
        if size == 1:
            return leaf(leaves[start])
        step = size // ARITY
        return combine([subtree(i, step) for i in range(start, min(start + size, len(leaves)), step)])

    size = ARITY**level
    return [subtree(start, size) for start in range(0, len(leaves), size)]
