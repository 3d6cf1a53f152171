"""Documents as kernels take them: NamedTuples of CSR arrays."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sdem_dist.interrupts import check
from sdem_dist.kernels.jit import jit

SECOND = 5e8
"""What a run of documents may cost."""


class Counted(NamedTuple):
    """Documents that are scored."""

    data: np.ndarray
    """Counts or weights of words, shape (n_nonzeros,)."""
    indices: np.ndarray
    """Rows of a table of words, shape (n_nonzeros,), unsigned integers."""
    indptr: np.ndarray
    """Shape (n_documents + 1,), int64."""


class Visited(NamedTuple):
    """Labelled documents, and the order in which they are visited."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    labels: np.ndarray
    """Shape (n_documents,), int32."""
    weights: np.ndarray
    """Shape (n_documents,), float64."""
    order: np.ndarray
    """Documents, int64."""


def runs(costs: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the first document and the first after it of runs that a kernel takes one at a time.

    An interrupt is heard between compiled calls only, so none may take over a second or two. A document is never cut.

    `costs`: shape (n_documents,), nanoseconds, about. Raises KeyboardInterrupt: this thread is to end.
    """
    if 0.0 < costs.sum() < SECOND:  # the usual case, and quickly checked
        check()
        yield 0, len(costs)
        return
    starts = np.flatnonzero(np.diff(np.floor(np.cumsum(costs) / SECOND), prepend=-1.0))
    for run in pairwise([*starts.tolist(), len(costs)]):
        check()
        yield run


@jit
def measured(documents, n_words):
    """Return each document's sum of entries, and the most distinct words of one; check that the table has all words.

    The pass goes in stored order: it also brings the documents into cache before they are visited at random.
    """
    data, indices, indptr = documents.data, documents.indices, documents.indptr
    lengths = np.zeros(indptr.size - 1)
    longest, beyond = 0, 0
    for d in range(lengths.size):
        longest = max(longest, indptr[d + 1] - indptr[d])
        for j in range(indptr[d], indptr[d + 1]):
            lengths[d] += data[j]
            beyond |= indices[j] >= n_words
    if beyond:
        raise IndexError("a document has a word beyond the table of words")
    return lengths, longest
