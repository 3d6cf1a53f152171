"""Loops over one row of class values, over sets of rows named by their word, and over weights of entries."""

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline
from sdem_dist.kernels.vectors import log

OFTEN = 65_535  # occurrences from which on words count as equally frequent


# Rows are passed as views: with the index taken once and the scalars in registers, the class loops vectorise.
@jit_inline
def add_row(factor, row, out):
    for k in range(out.size):
        out[k] += factor * row[k]


@jit_inline
def add_rows_at(factors, positions, table, out):
    """``out += sum_j factors[j] * table[positions[j]]``: four rows for one pass over `out`."""
    aligned = factors.size - factors.size % 4
    for j in range(0, aligned, 4):
        c0, c1, c2, c3 = factors[j], factors[j + 1], factors[j + 2], factors[j + 3]
        row0, row1 = table[positions[j]], table[positions[j + 1]]
        row2, row3 = table[positions[j + 2]], table[positions[j + 3]]
        for k in range(out.size):
            out[k] += c0 * row0[k] + c1 * row1[k] + c2 * row2[k] + c3 * row3[k]
    for j in range(aligned, factors.size):
        add_row(factors[j], table[positions[j]], out)


@jit_inline
def copy_row(row, out):
    for k in range(out.size):
        out[k] = row[k]


@jit_inline
def clip_row(row, totals):
    """Set negative counts of a row to zero and keep the totals the sum of the rows (the check step)."""
    for k in range(row.size):
        below = min(row[k], 0.0)
        totals[k] -= below
        row[k] -= below


@jit
def column_sums(table):
    """Return the sum of each column of a table, float64."""
    sums = np.zeros(table.shape[1])
    for i in range(table.shape[0]):
        add_row(1.0, table[i], sums)
    return sums


@jit
def mark_words(words, number):
    """Set ``number[w]`` to 1 for every word; `number` has shape (n_features,), uint32."""
    for i in range(words.size):
        number[words[i]] = 1


@jit
def number_words(number):
    """Turn the marks of `mark_words` into positions; return the marked words, ascending: shape (n_words,), uint32."""
    n_words = np.uint32(0)
    for w in range(number.size):
        n_words += number[w]
    words = np.empty(n_words, np.uint32)
    n_words = np.uint32(0)
    for w in range(number.size):
        if number[w]:
            words[n_words] = w
            number[w] = n_words
            n_words += np.uint32(1)
    return words


@jit
def count_words(indices, number):
    """Add to ``number[w]``, uint32 of shape (n_features,), how often each word occurs."""
    for i in range(indices.size):
        number[indices[i]] += np.uint32(1)


@jit
def number_by_frequency(number):
    """Turn the counts of `count_words` into positions by falling frequency, up to `OFTEN`; return the words, uint32."""
    often = np.int64(0)
    for w in range(number.size):
        often = max(often, np.int64(number[w]))
    often = min(often, np.int64(OFTEN))
    starts = np.zeros(often + 2, np.int64)
    for w in range(number.size):
        if number[w]:
            starts[often - min(number[w], often) + 1] += 1
    for c in range(often + 1):
        starts[c + 1] += starts[c]
    words = np.empty(starts[often + 1], np.uint32)
    for w in range(number.size):
        if number[w]:
            c = often - min(number[w], often)
            words[starts[c]], number[w] = w, starts[c]
            starts[c] += 1
    return words


@jit
def renumber(indices, number, out):
    """Write the position of each entry's word into `out`, unsigned integers."""
    for i in range(indices.size):
        out[i] = number[indices[i]]


COUNTS, LOG, BINARY, TFIDF = 0, 1, 2, 3
FORMS = {"counts": COUNTS, "log": LOG, "binary": BINARY, "tfidf": TFIDF}


SMALL = 256  # counts below it are looked up


@jit_inline
def _weight(count, form):
    if form == TFIDF:
        return max(1.0 + log(count), 0.0) if count > 0.0 else 0.0
    if form == LOG:
        return log(1.0 + count)
    if form == BINARY:
        return 1.0 if count > 0.0 else 0.0
    return count


@jit
def weigh(data, indices, indptr, factors, form, norm, scale, out):
    """Turn the entries of documents into weights.

    `factors`: float32 of shape (n_features,), of each column; 0 leaves it out.
    `form`: `COUNTS`: x. `LOG`: ln(1 + x). `BINARY`: 1. `TFIDF`: 1 + ln x, at least 0.
    `norm`: Euclidean length of each document; 0: every entry is multiplied by `scale` instead.
    `out`: ndarray of float32, overwritten, as long as `data`.
    """
    small = np.empty(SMALL)
    for whole in range(SMALL):
        small[whole] = _weight(float(whole), form)
    for d in range(indptr.size - 1):
        square = 0.0
        for j in range(indptr[d], indptr[d + 1]):
            count = np.float64(data[j])
            whole = int(count)
            x = small[whole] if whole < SMALL and whole == count else _weight(count, form)
            x *= factors[indices[j]]
            out[j] = x
            square += x * x
        factor = scale
        if norm > 0.0:
            factor = norm / np.sqrt(square) if square > 0.0 else 0.0
        if factor != 1.0:
            for j in range(indptr[d], indptr[d + 1]):
                out[j] *= factor
