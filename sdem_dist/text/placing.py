"""The second pass of an ingest: counted documents get the columns of the corpus, and their places in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.corpus.collect import collect
from sdem_dist.corpus.labels import column_of
from sdem_dist.corpus.manifest import ClassLabel, LabelSet, index_dtype
from sdem_dist.corpus.publishing import MEMORY_LIMIT
from sdem_dist.corpus.rows import Canonical
from sdem_dist.corpus.shuffle import SortedDocuments
from sdem_dist.documents import offsets_of
from sdem_dist.storage.encoding import JsonObject, decode_strings
from sdem_dist.storage.kept import SUMMARY, at_hand, once
from sdem_dist.storage.threads import in_threads
from sdem_dist.text.counters import CsrCounts, arranged
from sdem_dist.text.counting import Beside, Tally, block_path, load_block
from sdem_dist.text.terms import TermColumns
from sdem_dist.text.validation import NONE

if TYPE_CHECKING:
    import scipy.sparse as sp

MAX_RUNS = 2  # runs whose columns are in memory at a time
ColumnsOf = Callable[[int], np.ndarray]
"""Returns the column of every node of a run, -1 for those left out, int32."""


@dataclass(frozen=True)
class Placing:
    n_features: int
    offset: int  # of numbers: the column that becomes 0
    whole: bool  # the counts are whole numbers
    classes: tuple[tuple[str, ClassLabel | LabelSet], ...] | None  # the corpus's class for each label; None for targets
    seed: int | None  # of the order of documents; None keeps that of the sources
    held_out: bool  # of the documents held out, or of the others


@dataclass
class SecondPass:
    """Reads the counted blocks of a part of the sources again.

    `labels`: the labels of the part, by their codes.
    `columns_of`: knows the columns of runs; None: columns are known.
    `first`: position of the part's first document in the sources.
    `n_jobs`: threads.
    """

    folder: Path
    n_blocks: int
    labels: list[str]
    placing: Placing
    columns_of: ColumnsOf | None = None
    first: int = 0
    n_jobs: int | None = 1
    n_empty: int = 0
    _rows: list[np.ndarray] = field(default_factory=list)
    _latest: dict[int, np.ndarray] = field(default_factory=dict)

    def documents(self, file: Path, first: int, wrote: Callable[[int], None]) -> SortedDocuments:
        """Return the documents; `first` is the position in the corpus, before it is shuffled, of the first of them.

        `file`: holds documents beyond some memory. `wrote`: is called with the number of the next documents.
        """
        classes = self.placing.classes
        return collect(
            self._batches(wrote),
            file,
            MEMORY_LIMIT,
            [name for _, name in classes or ()] or None,
            None if self.placing.whole else True,
            seed=self.placing.seed,
            unlabelled=NONE,
            first=first,
        )

    @property
    def rows(self) -> np.ndarray:
        """Positions in the part of the documents, once they have been read."""
        return np.concatenate(self._rows)

    def _batches(self, wrote: Callable[[int], None]) -> Iterator[tuple[Any, ...]]:
        if self.placing.classes is None:
            classes = np.array(self.labels, np.float64)
        else:
            named: dict[str, ClassLabel | LabelSet] = {NONE: NONE, **dict(self.placing.classes)}
            classes = column_of([named[label] for label in self.labels])
        first = 0
        with closing(in_threads(range(self.n_blocks), lambda: self._block, self.n_jobs)) as blocks:
            for beside, rows, counts in blocks:
                positions, first = first + rows, first + len(beside.labels)
                if not len(rows):
                    continue
                self._rows.append(positions)
                self.n_empty += int(np.count_nonzero(np.diff(counts.indptr) == 0))
                of_rows = classes[beside.labels[rows]]
                labels, targets = (None, of_rows) if of_rows.dtype.kind == "f" else (of_rows, None)
                ids = self.first + positions
                if beside.id_offsets is not None:
                    ids = np.array(decode_strings(beside.ids, beside.id_offsets), object)[rows]
                wrote(len(rows))
                weights, groups = (None if c is None else c[rows] for c in (beside.weights, beside.groups))
                yield counts, labels, ids, targets, weights, groups
        self._latest.clear()

    def _block(self, number: int) -> tuple[Beside, np.ndarray, sp.csr_matrix | Canonical]:
        """Return what stands beside a block, which of its documents are wanted, and their counts."""
        block, placing = load_block(block_path(self.folder, number)), self.placing
        chosen = block.beside.held_out == placing.held_out
        rows, counts, width = np.flatnonzero(chosen), block.counts, placing.n_features
        if len(rows) < len(chosen):
            sizes = np.diff(counts.indptr)
            entries = np.repeat(chosen, sizes)
            counts = CsrCounts(offsets_of(sizes[rows]), counts.nodes[entries], counts.counts[entries])
        if block.run is not None:
            counts = arranged([counts], self._columns_of(block.run), counts.counts.dtype)
        elif placing.offset or block.n_columns > width:
            moved = counts.nodes.astype(np.int64) - placing.offset
            inside = (moved >= 0) & (moved < width)
            counts = CsrCounts(offsets_of(inside)[counts.indptr], moved[inside], counts.counts[inside])
        if placing.whole and counts.counts.dtype.kind == "u":
            dtype = index_dtype(width)
            indices = counts.nodes.view(dtype) if dtype.itemsize == 4 else counts.nodes.astype(dtype)
            return block.beside, rows, Canonical(counts.counts, indices, counts.indptr, width)
        data = counts.counts if placing.whole else counts.counts.astype(np.float32)
        return block.beside, rows, CsrCounts(counts.indptr, counts.nodes, data).matrix(width)

    def _columns_of(self, run: int) -> np.ndarray:
        assert self.columns_of is not None
        if (columns := self._latest.get(run)) is None:
            columns = self.columns_of(run)
            if len(self._latest) > MAX_RUNS:
                self._latest.clear()
            self._latest[run] = columns
        return columns


def place_split(
    counts: Path, folder: Path, placing: Placing, terms: TermColumns | None, first: tuple[int, int]
) -> JsonObject:
    """Write the documents of a split, whose counts lie in a folder, in the order of the corpus; return what they are.

    `first`: position of the first of them in the sources, and in the part of them that the corpus holds.
    """

    def placed(partial_folder: Path) -> JsonObject:
        with at_hand(counts) as here:
            summary = json.loads((here / SUMMARY).read_text(encoding="utf-8"))
            tally = Tally(**summary["tally"])
            columns = None if terms is None else replace(terms, folder=here).of_run
            second = SecondPass(here, tally.n_blocks, list(tally.classes), placing, columns, first[0])
            documents = second.documents(partial_folder / "unsorted", first[1], lambda n: None)
            written = documents.write_rows(partial_folder)
        (partial_folder / "unsorted").unlink(missing_ok=True)
        return {**written, "n_empty": second.n_empty}

    return once(folder, placed)
