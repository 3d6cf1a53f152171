"""Rows of different lengths, one after another in one array."""

from sdem_dist.kernels.jit import jit


@jit
def gather(source, offsets, order, size, starts, out):
    """Copy rows.

    `source`, `out`: ndarray of uint8, row ``r`` is ``source[size * offsets[r]:size * offsets[r + 1]]``.
    `offsets`, `order`: ndarray of int64, where rows begin and the last ends, and which of them are copied.
    `size`: bytes of an element. `starts`: ndarray of int64, row ``order[i]`` goes to ``out[size * starts[i]:]``.
    """
    for i in range(order.size):
        row = order[i]
        part = source[size * offsets[row] : size * offsets[row + 1]]
        target = out[size * starts[i] : size * starts[i] + part.size]
        for j in range(part.size):
            target[j] = part[j]


@jit
def add_each(counts, places):
    """Add 1 to ``counts[place]`` for every place."""
    for place in places:
        counts[place] += 1
