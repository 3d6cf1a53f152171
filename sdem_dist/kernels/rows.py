"""Sums of rows, numbering and weighting of words, dense products, softmax of rows."""

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline
from sdem_dist.kernels.parts import empty, larger, smaller, zeros
from sdem_dist.kernels.vectors import log

OFTEN = 65_535  # words with at least this number of occurrences count as equally frequent
COUNTS, LOG, BINARY, TFIDF = 0, 1, 2, 3
FORMS = {"counts": COUNTS, "log": LOG, "binary": BINARY, "tfidf": TFIDF}
SMALL = 256  # weights of smaller counts are in a lookup table


# Rows are passed as views: the index is computed once, scalars are in registers, and loops over classes vectorise.
@jit_inline
def add_row(factor, row, out):
    for k in range(out.size):
        out[k] += factor * row[k]


@jit_inline
def add_rows_at(factors, positions, table, out):
    """``out += sum_j factors[j] * table[positions[j]]``, four rows per pass over `out`."""
    aligned = factors.size - factors.size % 4
    for j in range(0, aligned, 4):
        c0, c1, c2, c3 = factors[j], factors[j + 1], factors[j + 2], factors[j + 3]
        row0, row1 = table[positions[j]], table[positions[j + 1]]
        row2, row3 = table[positions[j + 2]], table[positions[j + 3]]
        for k in range(out.size):
            out[k] += c0 * row0[k] + c1 * row1[k] + c2 * row2[k] + c3 * row3[k]
    for j in range(aligned, factors.size):
        add_row(factors[j], table[positions[j]], out)


@jit
def add_rows_to(out, places, rows):
    """``out[places[i]] += rows[i]``, float64."""
    for i in range(places.size):
        add_row(1.0, rows[i], out[places[i]])


@jit_inline
def copy_row(row, out):
    for k in range(out.size):
        out[k] = row[k]


@jit
def column_sums(table):
    """Return the sum of each column of a table, float64."""
    sums = zeros(table.shape[1])
    for i in range(table.shape[0]):
        add_row(1.0, table[i], sums)
    return sums


@jit
def number_words(indices, number, often, out):
    """Return the words that occur, by falling frequency (capped at `often`); write each entry's new number to `out`.

    `number`: zeros of shape (n_features,), overwritten. All are uint32.
    """
    for i in range(indices.size):
        number[indices[i]] += 1
    starts = zeros(often + 2, np.int64)
    for w in range(number.size):
        if number[w]:
            starts[often - smaller(np.int64(number[w]), often) + 1] += 1
    for c in range(often + 1):
        starts[c + 1] += starts[c]
    words = empty(starts[often + 1], np.uint32)
    for w in range(number.size):
        if number[w]:
            c = often - smaller(np.int64(number[w]), often)
            words[starts[c]], number[w] = w, starts[c]
            starts[c] += 1
    for i in range(indices.size):
        out[i] = number[indices[i]]
    return words


@jit_inline
def _weight(count, form):
    if form == COUNTS:
        return count
    if form == BINARY or (form == TFIDF and count <= 0.0):
        return 1.0 if count > 0.0 else 0.0
    logarithm = log(count if form == TFIDF else 1.0 + count)
    return logarithm if form == LOG else larger(1.0 + logarithm, 0.0)


@jit
def weigh(data, indices, indptr, factors, form, norm, scale, boundary, out):
    """Turn the entries of documents into weights.

    `factors`: factor of each column, float32 of shape (n_features,); 0 drops the column.
    `form`: `COUNTS`: x. `LOG`: ln(1 + x). `BINARY`: 1. `TFIDF`: 1 + ln x, at least 0.
    `norm`: Euclidean length of each document; 0: every entry is multiplied by `scale` instead.
    `boundary`: columns before and after it are normalised separately, each to `norm`; 0: all columns together.
    `out`: float32, as long as `data`, overwritten.
    """
    small = empty(SMALL)
    for whole in range(SMALL):
        small[whole] = _weight(float(whole), form)
    d, j = 0, indptr[0]
    while d < indptr.size - 1:
        start, square = j, 0.0
        before = j < indptr[d + 1] and indices[j] < boundary
        while j < indptr[d + 1] and (not before or indices[j] < boundary):
            count = np.float64(data[j])
            whole = int(count)
            x = small[whole] if whole < SMALL and whole == count else _weight(count, form)
            x *= factors[indices[j]]
            out[j] = x
            square += x * x
            j += 1
        factor = scale
        if norm > 0.0:
            factor = norm / np.sqrt(square) if square > 0.0 else 0.0
        if factor != 1.0:
            for entry in range(start, j):
                out[entry] *= factor
        if j == indptr[d + 1]:
            d += 1


@jit_inline
def _add_to_two(a, b, rows, out_a, out_b):
    """``out_a += a @ rows`` and ``out_b += b @ rows`` for four rows; scalars and views are local, to vectorise."""
    a0, a1, a2, a3, b0, b1, b2, b3 = a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]
    row0, row1, row2, row3 = rows[0], rows[1], rows[2], rows[3]
    for j in range(out_a.size):
        out_a[j] += a0 * row0[j] + a1 * row1[j] + a2 * row2[j] + a3 * row3[j]
        out_b[j] += b0 * row0[j] + b1 * row1[j] + b2 * row2[j] + b3 * row3[j]


@jit
def row_products(X, table, out):
    """Write ``X @ table`` to `out`, all float32 or all float64; bits of BLAS would depend on the number of threads."""
    n, d = X.shape
    fours = d - d % 4
    out[:] = 0
    spare = zeros(out.shape[1], out.dtype)
    for i in range(0, n, 2):
        # The last row of an odd number is paired with itself, so that no row's bits depend on its position.
        last = smaller(i + 1, n - 1)
        x, z, out_x, out_z = X[i], X[last], out[i], out[last] if last > i else spare
        for f in range(0, fours, 4):
            _add_to_two(x[f : f + 4], z[f : f + 4], table[f : f + 4], out_x, out_z)
        for f in range(fours, d):
            add_row(x[f], table[f], out_x)
            add_row(z[f], table[f], out_z)


@jit
def add_transposed_products(X, R, out):
    """Add ``X.T @ R`` to `out`, float64; blocks of 512 rows are summed in the dtype of X and R."""
    n, d = X.shape
    block = empty((d, R.shape[1]), X.dtype)
    for first in range(0, n, 512):
        stop = smaller(first + 512, n)
        fours = first + (stop - first) // 4 * 4
        block[:] = 0
        for i in range(first, fours, 4):
            x, rows = X[i : i + 4], R[i : i + 4]
            pairs = d - d % 2
            for f in range(0, pairs, 2):
                _add_to_two(x[:, f], x[:, f + 1], rows, block[f], block[f + 1])
            for f in range(pairs, d):
                for j in range(i, i + 4):
                    add_row(X[j, f], R[j], block[f])
        for i in range(fours, stop):
            for f in range(d):
                add_row(X[i, f], R[i], block[f])
        out += block


@jit
def normalise_rows(logits, added, factors, logs):
    """Replace logits by the softmax of ``logits + added``, times `factors`, shape (n,); `logs`: ln of the sums."""
    # NumPy is slow for rows with few columns.
    for i in range(logits.shape[0]):
        row, top, total = logits[i], -np.inf, 0.0
        for j in range(row.size):
            row[j] += added[j]
            top = larger(top, row[j])
        for j in range(row.size):
            row[j] = np.exp(row[j] - top)
            total += row[j]
        logs[i] = np.log(total) + top
        scale = factors[i] / total
        for j in range(row.size):
            row[j] *= scale
