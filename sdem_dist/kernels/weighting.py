"""From counts of words to weights, document by document."""

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline
from sdem_dist.kernels.logarithm import log

COUNTS, LOG, BINARY, TFIDF = 0, 1, 2, 3
FORMS = {"counts": COUNTS, "log": LOG, "binary": BINARY, "tfidf": TFIDF}


SMALL = 256
"""Counts below it are looked up."""


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

    `data`, `indices`, `indptr`: CSR arrays of the documents.
    `factors`: float32 of shape (n_features,), of each column; 0 leaves it out.
    `form`: `COUNTS`: x. `LOG`: ln(1 + x). `BINARY`: 1. `TFIDF`: 1 + ln x, at least 0.
    `norm`: Euclidean length of each document; 0 leaves it as it is.
    `scale`: multiplies every entry of documents that keep their length.
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
