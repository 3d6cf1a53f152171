"""Products of documents with word-major tables."""

import numpy as np

from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.rows import add_row, add_rows_at


@jit
def row_sums(data, indptr):
    """Return the sum of each document's entries, float64."""
    sums = np.zeros(indptr.size - 1)
    for d in range(sums.size):
        for j in range(indptr[d], indptr[d + 1]):
            sums[d] += data[j]
    return sums


@jit
def row_squares(data, indptr):
    """Return the squared length of each document, float64."""
    squares = np.zeros(indptr.size - 1)
    for d in range(squares.size):
        for j in range(indptr[d], indptr[d + 1]):
            squares[d] += np.float64(data[j]) * np.float64(data[j])
    return squares


@jit
def column_sums(data, indices, indptr, weights, n_columns):
    """Return the sum of each word's entries, documents counting by their weights: shape (n_columns,), float64."""
    sums = np.zeros(n_columns)
    for d in range(weights.size):
        for j in range(indptr[d], indptr[d + 1]):
            sums[indices[j]] += data[j] * weights[d]
    return sums


@jit
def weighed_squares(data, indices, indptr, factors):
    """Return ``sum_j x_j^2`` and ``sum_j x_j^2 factors[j]`` of each document, float64; `factors` has one a word."""
    squares, shares = np.zeros(indptr.size - 1), np.zeros(indptr.size - 1)
    for d in range(squares.size):
        for j in range(indptr[d], indptr[d + 1]):
            square = np.float64(data[j]) * np.float64(data[j])
            squares[d] += square
            shares[d] += square * factors[indices[j]]
    return squares, shares


@jit
def add_scores(data, indices, indptr, table, out):
    """Add ``sum_j data[j] * table[indices[j]]`` to each document's row of `out`.

    `data`, `indices`, `indptr`: CSR arrays of the documents. `table`: float64 of shape (n_words, n_classes).
    `out`: float64 of shape (n_documents, n_classes), changed in place.
    """
    for d in range(indptr.size - 1):
        start, stop = indptr[d], indptr[d + 1]
        add_rows_at(data[start:stop], indices[start:stop], table, out[d])


@jit
def add_statistics(data, indices, indptr, loss_weights, out):
    """Add every document's counts, weighted by column, to the rows of its words.

    `data`, `indices`, `indptr`: CSR arrays of the documents.
    `loss_weights`: float64 of shape (n_documents, n_classes).
    `out`: float64 of shape (n_words, n_classes), changed in place.
    """
    for d in range(indptr.size - 1):
        for j in range(indptr[d], indptr[d + 1]):
            add_row(data[j], loss_weights[d], out[indices[j]])
