"""The second pass of an ingest: counted blocks come back from disk with the columns and weights of the corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.text.counting import numbers_path
from sdem_dist.text.spill import block_path, load_block

if TYPE_CHECKING:
    import scipy.sparse as sp

Batch = tuple["sp.csr_matrix", np.ndarray | None, np.ndarray, np.ndarray | None]


@dataclass(frozen=True)
class ColumnMap:
    """How a block's columns become those of the corpus.

    Attributes
    ----------
    n_features : int
    of_numbers : ndarray of int64, or None
        Column of every numbered term, -1 for none; None if the numbers of terms are columns already.
    own_terms : bool
        Blocks have terms of their own, and files with their numbers.
    offset : int
        Without terms of their own: the column that becomes 0.
    """

    n_features: int
    of_numbers: np.ndarray | None = None
    own_terms: bool = True
    offset: int = 0

    def of_block(self, folder: Path, block: int, n_columns: int) -> np.ndarray:
        """Return the corpus's column for each of the block's columns, int64, -1 for those left out."""
        if not self.own_terms:
            columns = np.arange(n_columns, dtype=np.int64) - self.offset
            columns[columns >= self.n_features] = -1
            return columns
        numbers = np.load(numbers_path(folder, block), allow_pickle=False)
        if self.of_numbers is None:
            return np.asarray(numbers)
        return np.asarray(self.of_numbers[numbers])


@dataclass(frozen=True)
class SecondPass:
    """Everything needed to read the counted blocks again.

    Attributes
    ----------
    folder : Path
    n_blocks : int
    columns : ColumnMap
    classes : ndarray of object, or of float64
        The corpus's name of the class of every code that the first pass gave, or the target that it stands for.
    whole : bool
        The counts are whole numbers.
    """

    folder: Path
    n_blocks: int
    columns: ColumnMap
    classes: np.ndarray
    whole: bool

    def batches(self, held_out: bool, wrote: Callable[[Batch], None]) -> Iterator[Batch]:
        """Yield (matrix, class names, positions in the source, targets) of the documents held out, or of the others."""
        first = 0
        for number in range(self.n_blocks):
            block = load_block(block_path(self.folder, number))
            rows = np.flatnonzero(block.held_out == held_out)
            ids, first = first + rows, first + len(block.labels)
            if len(rows) == 0:
                continue
            counts = block.counts if len(rows) == len(block.labels) else block.counts[rows]
            columns = self.columns.of_block(self.folder, number, counts.shape[1])
            counts = remap(counts, columns, self.columns.n_features)
            counts.data = counts.data.astype(np.int64 if self.whole else np.float32)
            given = self.classes[block.labels[rows]]
            batch = (counts, None, ids, given) if given.dtype.kind == "f" else (counts, given, ids, None)
            wrote(batch)
            yield batch


def remap(counts: sp.csr_matrix, columns: np.ndarray, n_features: int) -> sp.csr_matrix:
    """Return `counts` with column ``j`` moved to ``columns[j]`` and left out where that is negative."""
    import scipy.sparse as sp

    moved = columns[counts.indices]
    kept = moved >= 0
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64)])[counts.indptr]
    result = sp.csr_matrix((counts.data[kept], moved[kept], indptr), shape=(counts.shape[0], n_features))
    result.sort_indices()
    return result
