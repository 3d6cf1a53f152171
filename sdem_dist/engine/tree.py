"""The shape of the reduction: it depends on the number of lanes only, and so do the bits.

Lanes are leaves.  `LEAVES` neighbours are combined at once, and their sums by pairs, level by level.  A task may
map or merge any aligned power of two of them: how lanes are bundled, and how many sums a task merges, changes no bit.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

LEAVES = 4
Item = TypeVar("Item")
Part = TypeVar("Part")


def reduce(
    items: Sequence[Item], get: Callable[[Item], Part], combine: Callable[[Sequence[Part]], Part], at_once: int = 1
) -> Part:
    """Return the sum of neighbours, depth first: no more than a few parts are alive at once.

    `get`: returns the statistics of an item.
    `combine`: returns the statistics of several together. It is never called for one alone: how often that would happen
    depends on how lanes are bundled.
    `at_once`: `LEAVES` where items are lanes, 1 where they are sums of as many or more.
    """
    # Left to right like a binary counter.  A function that calls itself would be part of a cycle, and whole states
    # that it refers to would be kept until the garbage collector runs.
    trees: list[tuple[int, Part]] = []
    for start in range(0, len(items), at_once):
        neighbours = [get(item) for item in items[start : start + at_once]]
        size, part = 1, combine(neighbours) if len(neighbours) > 1 else neighbours[0]
        del neighbours
        while trees and trees[-1][0] == size:
            part = combine([trees.pop()[1], part])
            size *= 2
        trees.append((size, part))
        del part
    whole = trees.pop()[1]
    while trees:
        whole = combine([trees.pop()[1], whole])
    return whole
