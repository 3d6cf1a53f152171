"""Documents in CSR: sums, products with word-major tables, runs between interrupts, copies of rows."""

from collections.abc import Iterator
from itertools import pairwise
from threading import Event
from typing import NamedTuple

import numpy as np

from sdem_dist.errors import of_thread
from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.parts import empty, larger, zeros
from sdem_dist.kernels.rows import add_row, add_rows_at

SECOND = 5e8  # largest cost of a run of documents, in estimated nanoseconds
NO_TARGETS = np.zeros((1, 0), np.uint8)


def unsigned(indices: np.ndarray) -> np.ndarray:
    """Return word numbers as uint32, the only dtype of compiled kernels: a view of writable int32, else converted."""
    is_view = indices.dtype == np.int32 and indices.flags.writeable
    return indices.view(np.uint32) if is_view else indices.astype(np.uint32, copy=False)


@jit
def row_sums(data, indptr):
    """Return the sum of each document's entries, float64."""
    sums = empty(indptr.size - 1)
    for d in range(sums.size):
        sums[d] = 0.0
        for j in range(indptr[d], indptr[d + 1]):
            sums[d] += data[j]
    return sums


@jit
def column_sums(data, indices, indptr, weights, n_columns):
    """Return the sum of each word's entries, weighted by document: shape (n_columns,), float64."""
    sums = zeros(n_columns)
    for d in range(weights.size):
        for j in range(indptr[d], indptr[d + 1]):
            sums[indices[j]] += data[j] * weights[d]
    return sums


@jit
def weighed_squares(data, indices, indptr, factors):
    """Return ``sum_j x_j^2`` and ``sum_j x_j^2 factors[j]`` of each document, float64; `factors`: one per word."""
    squares, shares = empty(indptr.size - 1), empty(indptr.size - 1)
    for d in range(squares.size):
        squares[d], shares[d] = 0.0, 0.0
        for j in range(indptr[d], indptr[d + 1]):
            square = np.float64(data[j]) * np.float64(data[j])
            squares[d] += square
            shares[d] += square * factors[indices[j]]
    return squares, shares


@jit
def add_scores(data, indices, indptr, table, out):
    """Add ``sum_j data[j] * table[indices[j]]`` to each document's row of `out`, float64 as the table."""
    for d in range(indptr.size - 1):
        start, stop = indptr[d], indptr[d + 1]
        add_rows_at(data[start:stop], indices[start:stop], table, out[d])


@jit
def add_statistics(data, indices, indptr, loss_weights, out):
    """Add each document's counts times its loss weights (one per column) to its words' rows of `out`, all float64."""
    for d in range(indptr.size - 1):
        for j in range(indptr[d], indptr[d + 1]):
            add_row(data[j], loss_weights[d], out[indices[j]])


class Counted(NamedTuple):
    """Documents for scoring."""

    data: np.ndarray  # Counts or weights of words, shape (n_nonzeros,)
    indices: np.ndarray  # Rows of a table of words, shape (n_nonzeros,), unsigned integers
    indptr: np.ndarray  # shape (n_documents + 1,), int64


class Visited(NamedTuple):
    """Documents with labels, weights and targets, and the order of visits."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    labels: np.ndarray  # shape (n_documents,), int32; -1: no label
    weights: np.ndarray  # shape (n_documents,), float64
    order: np.ndarray  # Positions of the documents to visit, int64
    targets: np.ndarray = NO_TARGETS  # shape (n_documents, n_targets): float64; or uint8, 1 if it has the label


def check_stop_event() -> None:
    """Raise KeyboardInterrupt if this thread's `stop` event is set; call this between compiled calls."""
    stop: Event | None = getattr(of_thread, "stop", None)
    if stop is not None and stop.is_set():
        raise KeyboardInterrupt


def runs(costs: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield ranges (start, stop) of documents, each for one call of a kernel.

    Interrupts are checked only between compiled calls, so a call may take a second or two. `costs`: nanoseconds.
    """
    if 0.0 < costs.sum() < SECOND:  # fast path for the usual case
        check_stop_event()
        yield 0, len(costs)
        return
    starts = np.flatnonzero(np.diff(np.floor(np.cumsum(costs) / SECOND), prepend=-1.0))
    for run in pairwise([*starts.tolist(), len(costs)]):
        check_stop_event()
        yield run


@jit
def measured(documents, n_words):
    """Return each document's sum of entries, and the largest number of distinct words; IndexError for unknown words."""
    data, indices, indptr = documents.data, documents.indices, documents.indptr
    lengths = zeros(indptr.size - 1)
    longest, beyond = 0, 0
    for d in range(lengths.size):
        longest = larger(longest, indptr[d + 1] - indptr[d])
        for j in range(indptr[d], indptr[d + 1]):
            lengths[d] += data[j]
            beyond |= indices[j] >= n_words
    if beyond:
        raise IndexError("a document contains a word index outside the vocabulary")
    return lengths, longest


@jit
def gather(source, begins, ends, places, out):
    """Copy ``source[begins[i]:ends[i]]`` to ``out[places[i]:]``, bytes."""
    for i in range(begins.size):
        part = source[begins[i] : ends[i]]
        target = out[places[i] : places[i] + part.size]
        for j in range(part.size):
            target[j] = part[j]


@jit
def deal_groups(order, starts, classes, counts, totals, k):
    """Return the fold of each group; in `order`, each group gets the fold for the most even classes and sizes.

    `classes`, `counts`: classes and numbers of documents of group ``g``, at ``starts[g]:starts[g + 1]``. `totals`:
    documents of each class. `k`: number of folds. The chosen fold minimises the sum of the folds' squared shares.
    """
    folds = empty(order.size, np.int16)
    held, sizes = zeros((k, totals.size)), zeros(k)
    total = float(totals.sum())
    for group in order:
        size = 0.0
        for e in range(starts[group], starts[group + 1]):
            size += counts[e]
        best, least = 0, np.inf
        for fold in range(k):
            cost = sizes[fold] * size / (total * total)
            for e in range(starts[group], starts[group + 1]):
                n = float(totals[classes[e]])
                cost += held[fold, classes[e]] * counts[e] / (n * n)
            if cost < least:
                best, least = fold, cost
        folds[group] = best
        sizes[best] += size
        for e in range(starts[group], starts[group + 1]):
            held[best, classes[e]] += counts[e]
    return folds
