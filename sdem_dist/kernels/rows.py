"""Loops over one row of class values, and over sets of rows named by their word."""

from __future__ import annotations

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline
from sdem_dist.kernels.logarithm import log


# Rows are passed as views: with the index taken once and the scalars in registers, the class loops vectorise.
@jit_inline
def add_row(factor, row, out):  # type: ignore[no-untyped-def]
    """``out += factor * row``."""
    for k in range(out.size):
        out[k] += factor * row[k]


@jit_inline
def copy_row(row, out):  # type: ignore[no-untyped-def]
    """``out = row``."""
    for k in range(out.size):
        out[k] = row[k]


@jit_inline
def clip_row(row, totals):  # type: ignore[no-untyped-def]
    """Set negative counts of a row to zero and keep the totals the sum of the rows (the check step)."""
    for k in range(row.size):
        below = min(row[k], 0.0)
        totals[k] -= below
        row[k] -= below


@jit_inline
def log_row(row, shift, out):  # type: ignore[no-untyped-def]
    """``out = ln(row + shift)``."""
    for k in range(out.size):
        out[k] = log(row[k] + shift)


@jit
def local_words(indices, n_features):  # type: ignore[no-untyped-def]
    """Renumber the words of some documents compactly.

    Parameters
    ----------
    indices : ndarray of shape (n_nonzeros,), integers below `n_features`
    n_features : int

    Returns
    -------
    words : ndarray of shape (n_words,), uint32
        The words that occur, ascending.
    local : ndarray of shape (n_nonzeros,), uint32
        Position of each entry's word in `words`.
    """
    number = np.zeros(n_features, np.uint32)
    for i in range(indices.size):
        number[indices[i]] = 1
    n_words = np.uint32(0)
    for w in range(n_features):
        n_words += number[w]
    words = np.empty(n_words, np.uint32)
    n_words = np.uint32(0)
    for w in range(n_features):
        if number[w]:
            words[n_words] = w
            number[w] = n_words
            n_words += np.uint32(1)
    local = np.empty(indices.size, np.uint32)
    for i in range(indices.size):
        local[i] = number[indices[i]]
    return words, local


@jit
def add_rows(words_a, rows_a, words_b, rows_b):  # type: ignore[no-untyped-def]
    """Add two sets of rows, each with its ascending words.

    Parameters
    ----------
    words_a, words_b : ndarray of shape (n_a,), (n_b,), uint32, ascending
    rows_a, rows_b : ndarray of shape (n_a, width), (n_b, width), float64

    Returns
    -------
    words : ndarray of shape (n_union,), uint32, ascending
    rows : ndarray of shape (n_union, width), float64
        ``a + b`` where both have the word, the row itself where one has.
    """
    width = rows_a.shape[1]
    words = np.empty(words_a.size + words_b.size, np.uint32)
    rows = np.empty((words.size, width))
    a = b = n = 0
    while a < words_a.size or b < words_b.size:
        first = b >= words_b.size or (a < words_a.size and words_a[a] <= words_b[b])
        second = a >= words_a.size or (b < words_b.size and words_b[b] <= words_a[a])
        out = rows[n]
        if first and second:
            words[n] = words_a[a]
            copy_row(rows_a[a], out)
            add_row(1.0, rows_b[b], out)
            a += 1
            b += 1
        elif first:
            words[n] = words_a[a]
            copy_row(rows_a[a], out)
            a += 1
        else:
            words[n] = words_b[b]
            copy_row(rows_b[b], out)
            b += 1
        n += 1
    return words[:n].copy(), rows[:n].copy()
