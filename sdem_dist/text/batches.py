"""The second pass of an ingest: counted blocks come back from disk with the columns and weights of the corpus."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.corpus.layout import index_dtype
from sdem_dist.corpus.rows import Canonical
from sdem_dist.offsets import offsets_of
from sdem_dist.storage.threads import in_threads
from sdem_dist.text.counters import arranged, csr
from sdem_dist.text.gram_tree import NodeCounts
from sdem_dist.text.held_out import held_out_mask
from sdem_dist.text.kept_texts import KeptTexts
from sdem_dist.text.spill import MATRIX, CountedBlock, block_path, load_block

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sdem_dist.text.runs import MergedTerms
    from sdem_dist.text.term_ranges import TermColumns

MOST_RUNS = 2  # runs whose columns are in memory at a time
Batch = tuple[
    "sp.csr_matrix | Canonical", np.ndarray | None, np.ndarray | list[str], np.ndarray | None, np.ndarray | None
]
Arranged = tuple[int, np.ndarray, np.ndarray, "sp.csr_matrix | Canonical", np.ndarray | None]


@dataclass(frozen=True)
class ColumnMap:
    """How a block's columns become those of the corpus."""

    n_features: int
    terms: "MergedTerms | TermColumns | None" = None
    """Knows the column of every term of a run; None if the columns of blocks are those of the corpus, or of numbers."""
    offset: int = 0  # of numbers: the column that becomes 0


@dataclass(frozen=True)
class SecondPass:
    """Everything needed to read the counted blocks again."""

    folder: Path
    n_blocks: int
    columns: ColumnMap
    classes: np.ndarray
    """Objects or float64: the corpus's name of the class of every code that the first pass gave, or the target that
    it stands for."""
    whole: bool  # the counts are whole numbers
    share_held_out: float
    random_state: int  # it and `share_held_out`: which documents are held out, see `held_out_mask`
    n_jobs: int | None = None  # threads that read blocks
    ids: KeptTexts | None = None  # the ids of the documents; None: their positions in the source
    first: int = 0  # position of the first of these documents in the source
    _latest: dict[int, np.ndarray] = field(default_factory=dict)

    def batches(self, held_out: bool, wrote: Callable[[Batch], None]) -> Iterator[Batch]:
        """Yield (matrix, class names, ids, targets, weights) of the documents held out, or of the others."""

        def arranged_rows() -> Callable[[int], Arranged]:
            return lambda number: self._block(number, held_out)

        first = 0
        with closing(in_threads(range(self.n_blocks), arranged_rows, self.n_jobs)) as blocks:
            for n_documents, rows, codes, counts, weights in blocks:
                ids, first = first + rows, first + n_documents
                if len(rows) == 0:
                    continue
                given = self.classes[codes]
                named = self.first + ids if self.ids is None else self.ids.strings(ids)
                labels, targets = (None, given) if given.dtype.kind == "f" else (given, None)
                batch = counts, labels, named, targets, weights
                wrote(batch)
                yield batch
        self._latest.clear()

    def _block(self, number: int, held_out: bool) -> Arranged:
        """Return a block's number of documents; of those held out, or others, positions, labels, counts, weights."""
        block = load_block(block_path(self.folder, number))
        first, n = self.first + block.first, len(block.labels)
        rows = np.flatnonzero(held_out_mask(first, n, self.share_held_out, self.random_state) == held_out)
        counts = block.counts if len(rows) == n else _some_rows(block, rows)
        if self.columns.terms is not None and block.run != MATRIX:
            counts = NodeCounts(*arranged(counts, self._columns_of_run(block.run), self.columns.n_features))
        elif self.columns.offset or block.n_columns > self.columns.n_features:
            counts = _moved(counts, self.columns)
        width, weights = self.columns.n_features, None if block.weights is None else block.weights[rows]
        found: sp.csr_matrix | Canonical
        if self.whole and counts.counts.dtype.kind == "u":
            dtype = index_dtype(width)
            indices = counts.nodes.view(dtype) if dtype.itemsize == 4 else counts.nodes.astype(dtype)
            found = Canonical(counts.counts, indices, counts.indptr, width)
        else:
            data = counts.counts if self.whole else counts.counts.astype(np.float32)
            found = csr(NodeCounts(counts.indptr, counts.nodes, data), (len(rows), width))
        return n, rows, block.labels[rows], found, weights

    def _columns_of_run(self, run: int) -> np.ndarray:
        assert self.columns.terms is not None
        columns = self._latest.get(run)
        if columns is None:
            columns = self.columns.terms.columns(run)
            if len(self._latest) > MOST_RUNS:
                self._latest.clear()
            self._latest[run] = columns
        return columns


def _some_rows(block: CountedBlock, rows: np.ndarray) -> NodeCounts:
    sizes = np.diff(block.counts.indptr)
    kept = np.zeros(len(sizes), bool)
    kept[rows] = True
    entries = np.repeat(kept, sizes)
    return NodeCounts(offsets_of(sizes[rows]), block.counts.nodes[entries], block.counts.counts[entries])


def _moved(counts: NodeCounts, columns: ColumnMap) -> NodeCounts:
    """Return counts with the column `offset` as the first, without those that the corpus has not."""
    moved = counts.nodes.astype(np.int64) - columns.offset
    kept = (moved >= 0) & (moved < columns.n_features)
    indptr = offsets_of(kept)[counts.indptr]
    return NodeCounts(indptr, moved[kept], counts.counts[kept])
