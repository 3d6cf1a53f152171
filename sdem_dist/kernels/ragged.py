"""Rows of different lengths, one after another in one array."""

from __future__ import annotations

from sdem_dist.kernels.jit import jit


@jit
def gather(source, offsets, order, size, out):
    """Copy rows one after another.

    Parameters
    ----------
    source, out : ndarray of uint8
        Row ``r`` is ``source[size * offsets[r]:size * offsets[r + 1]]``.
    offsets, order : ndarray of int64
        Where rows begin and the last ends, and which of them are copied.
    size : int
        Bytes of an element.
    """
    place = 0
    for row in order:
        part = source[size * offsets[row] : size * offsets[row + 1]]
        target = out[place : place + part.size]
        for i in range(part.size):
            target[i] = part[i]
        place += part.size


@jit
def add_each(counts, places):
    """Add 1 to ``counts[place]`` for every place."""
    for place in places:
        counts[place] += 1
