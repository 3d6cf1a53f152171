"""Counts in CSR: joined, in small dtypes, sorted by columns."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sdem_dist.documents import offsets_of
from sdem_dist.kernels.spelling import arrange


class CsrCounts(NamedTuple):
    """Counts in CSR, with dtypes int64, int32, any; `nodes` are sorted columns, or nodes of a trie in any order."""

    indptr: np.ndarray
    nodes: np.ndarray
    counts: np.ndarray


def joined(parts: Sequence[CsrCounts]) -> CsrCounts:
    if len(parts) == 1:
        return parts[0]
    ends = offsets_of([len(part.nodes) for part in parts])
    indptr = [np.zeros(1, np.int64), *(part.indptr[1:] + end for part, end in zip(parts, ends, strict=False))]
    nodes, counts = ([np.zeros(0, np.int32), *(part[i] for part in parts)] for i in (1, 2))
    return CsrCounts(np.concatenate(indptr), np.concatenate(nodes), np.concatenate(counts))


def narrowed(counts: CsrCounts) -> CsrCounts:
    """Return integer counts in the smallest dtype, which halves files and memory, or better."""
    if counts.counts.dtype.kind == "f":
        return counts
    return counts._replace(counts=counts.counts.astype(np.min_scalar_type(int(counts.counts.max(initial=0)))))


def arranged(kinds: Sequence[tuple[Sequence[CsrCounts], np.ndarray]], width: int, dtype: type | np.dtype) -> CsrCounts:
    """Return documents with nodes replaced by columns below `width`, ascending; negative columns are dropped.

    `kinds`: for one or two kinds of columns, consecutive parts of the same documents, and the column of every node.
    """
    parts = [(part, *other_kind) for part, *other_kind in zip(*(of_kind for of_kind, _ in kinds), strict=True)]
    n = sum(len(counts.nodes) for part in parts for counts in part)
    n_documents = sum(len(counts.indptr) - 1 for counts, *_ in parts)
    indptr, indices, counts = np.zeros(n_documents + 1, np.int64), np.empty(n, np.int32), np.empty(n, dtype)
    row = entry = 0
    for of_kinds in parts:
        rows = slice(row, row + len(of_kinds[0].indptr))
        first, *second = (
            (part.indptr, part.nodes, part.counts.astype(np.int32, copy=False), columns)
            for part, (_, columns) in zip(of_kinds, kinds, strict=True)
        )
        # always two kinds, of the same types, so that the kernel is compiled once
        both = first, *(second or [(np.zeros_like(first[0]), first[1][:0], first[2][:0], first[3])])
        sums = np.empty(sum(len(part.nodes) for part in of_kinds), np.int32)
        n_entries = arrange(both, width, (indptr[rows], indices[entry:], sums))
        counts[entry : entry + n_entries] = sums[:n_entries]
        indptr[rows] += entry
        row, entry = rows.stop - 1, entry + n_entries
    return CsrCounts(indptr, indices[:entry], counts[:entry])
