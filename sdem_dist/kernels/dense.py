"""Products of dense rows with small tables; the bits depend on the numbers alone.

BLAS splits products over its threads, and with their number changes the last bits; limiting it is up to the process.
"""

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline


@jit_inline
def _add_to_two(a, b, rows, out_a, out_b):
    """``out_a += a @ rows`` and ``out_b += b @ rows`` of four rows; scalars and views are taken once, to vectorise."""
    a0, a1, a2, a3, b0, b1, b2, b3 = a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]
    row0, row1, row2, row3 = rows[0], rows[1], rows[2], rows[3]
    for j in range(out_a.size):
        out_a[j] += a0 * row0[j] + a1 * row1[j] + a2 * row2[j] + a3 * row3[j]
        out_b[j] += b0 * row0[j] + b1 * row1[j] + b2 * row2[j] + b3 * row3[j]


@jit_inline
def _add(a, row, out):
    for j in range(out.size):
        out[j] += a * row[j]


@jit
def row_products(X, table, out):
    """Write ``X @ table`` into `out`, all float32 or all float64."""
    n, d = X.shape
    fours = d - d % 4
    out[:] = 0
    spare = np.zeros(out.shape[1], out.dtype)
    for i in range(0, n, 2):
        # The last of an odd number is done as if it had a neighbour: no row's bits depend on its place.
        last = min(i + 1, n - 1)
        x, z, out_x, out_z = X[i], X[last], out[i], out[last] if last > i else spare
        for f in range(0, fours, 4):
            _add_to_two(x[f : f + 4], z[f : f + 4], table[f : f + 4], out_x, out_z)
        for f in range(fours, d):
            _add(x[f], table[f], out_x)
            _add(z[f], table[f], out_z)


@jit
def add_transposed_products(X, R, out):
    """Add ``X.T @ R`` to `out`, float64, in blocks of 512 rows, which are added up in the dtype of X and R."""
    n, d = X.shape
    block = np.empty((d, R.shape[1]), X.dtype)
    for first in range(0, n, 512):
        stop = min(first + 512, n)
        fours = first + (stop - first) // 4 * 4
        block[:] = 0
        for i in range(first, fours, 4):
            x, rows = X[i : i + 4], R[i : i + 4]
            pairs = d - d % 2
            for f in range(0, pairs, 2):
                _add_to_two(x[:, f], x[:, f + 1], rows, block[f], block[f + 1])
            for f in range(pairs, d):
                for j in range(i, i + 4):
                    _add(X[j, f], R[j], block[f])
        for i in range(fours, stop):
            for f in range(d):
                _add(X[i, f], R[i], block[f])
        out += block


@jit
def normalise_rows(logits, added, factors, logs):
    """Turn logits plus `added` into their softmax times factors (shape (n,)), in place; `logs`: ln sums.

    NumPy is slow where rows have only a few columns.
    """
    for i in range(logits.shape[0]):
        row, top, total = logits[i], -np.inf, 0.0
        for j in range(row.size):
            row[j] += added[j]
            top = max(top, row[j])
        for j in range(row.size):
            row[j] = np.exp(row[j] - top)
            total += row[j]
        logs[i] = np.log(total) + top
        scale = factors[i] / total
        for j in range(row.size):
            row[j] *= scale
