"""The two passes of an ingest: sources are counted once onto disk, and come back with the columns of the corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sdem_dist.corpus.folds import group_hashes
from sdem_dist.corpus.manifest import index_dtype
from sdem_dist.corpus.rows import Canonical
from sdem_dist.corpus.spill import GOLDEN, mixed
from sdem_dist.documents import offsets_of
from sdem_dist.errors import IngestError
from sdem_dist.storage.encoding import decode_strings
from sdem_dist.storage.threads import in_threads
from sdem_dist.text.counters import CsrCounts, FixedCounter, HashingCounter, Vocabulary, arranged, csr, pieces
from sdem_dist.text.files import BLOCK_BYTES
from sdem_dist.text.runs import MATRIX, CountedBlock, Runs, block_path, load_arrays, load_block, save_arrays, save_block
from sdem_dist.text.texts import Records, ScriptSample, Texts, texts_of_strings
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    import scipy.sparse as sp


def held_out_mask(first: int, n_documents: int, fraction: float, random_state: int) -> np.ndarray:
    """Return whether each of the documents `first`, `first + 1`, ... is held out: bool of shape (n_documents,).

    SplitMix64's mixing of (random_state, position) gives 64 bits; the document is held out if, as a fraction of 2**64,
    they are below `fraction`. So blocks of any size, in any process, choose the same documents.
    """
    positions = np.arange(first, first + n_documents, dtype=np.uint64)
    seed = mixed(np.array([random_state % 2**64], np.uint64))
    bits = mixed((positions + np.uint64(1)) * GOLDEN + seed)
    chosen: np.ndarray = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 < fraction
    return chosen


_PART = 1 << 16


class TextSpool:
    """Collects the texts of an ingest in a file, and gives back those of any documents.

    Memory holds eight bytes a document.

    `path`: a file that does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sizes: list[np.ndarray] = []
        self._bounds: np.ndarray | None = None

    def add(self, texts: Texts) -> None:
        """Append texts, the next ones of the source."""
        with self._path.open("ab") as file:
            for first in range(0, len(texts), _PART):
                file.write(b"".join(texts.bytes_of(i) for i in range(first, min(first + _PART, len(texts)))))
        self._sizes.append(texts.stops - texts.starts)

    def save(self) -> None:
        """Write beside the file what `reopened` needs."""
        sizes = np.concatenate([np.zeros(0, np.int64), *self._sizes])
        save_arrays(self._path.with_suffix(".sizes"), sizes)

    @classmethod
    def reopened(cls, path: Path) -> TextSpool:
        """Return the texts of a file that `save` was called for."""
        kept = cls(path)
        kept._sizes = load_arrays(path.with_suffix(".sizes"), 1)
        return kept

    def strings(self, positions: np.ndarray) -> list[str]:
        """Return the texts at positions of the source."""
        return decode_strings(*self.at(positions))

    def places(self) -> dict[str, int]:
        """Return the position of each text, all of which are in memory then; IngestError where two are equal."""
        found: dict[str, int] = {}
        for place, text in enumerate(self.strings(np.arange(sum(map(len, self._sizes))))):
            if found.setdefault(text, place) != place:
                raise IngestError(f"two documents have the id {text!r}: with texts or groups, ids have to differ")
        return found

    def at(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the joined bytes of the texts at positions of the source, and their offsets: uint8 and int64."""
        if self._bounds is None:
            self._bounds = offsets_of(np.concatenate(self._sizes))
        starts, stops = self._bounds[positions], self._bounds[positions + 1]
        offsets = offsets_of(stops - starts)
        if not offsets[-1]:
            return np.zeros(0, np.uint8), offsets
        data = np.memmap(self._path, np.uint8, "r")
        joined = b"".join(data[a:b].tobytes() for a, b in zip(starts.tolist(), stops.tolist(), strict=True))
        return np.frombuffer(joined, np.uint8), offsets


Progress = Callable[[str, int, int | None], None]  # takes a stage, documents done, and documents in all where known


def silent(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""


@dataclass
class Tally:
    """What a first pass has seen so far."""

    n_blocks: int = 0
    n_documents: int = 0
    n_held_out: int = 0
    classes: dict[str, int] = field(default_factory=dict)  # code of every class name, in the order in which they came
    n_columns: int = 0
    first_column: int = np.iinfo(np.int64).max
    """`n_columns` and `first_column`: of numbers: one past the highest column met, and the lowest; 0 and a large number
    before any. `n_columns` is that of hashing, too."""
    whole: bool = True  # all values are whole numbers
    scripts: ScriptSample = field(default_factory=ScriptSample)

    @property
    def n_training(self) -> int:
        """Number of documents that are not held out."""
        return self.n_documents - self.n_held_out

    def take(self, labels: list[str], held_out: float, random_state: int) -> tuple[np.ndarray, np.ndarray]:
        """Give the next documents their places; return their labels' codes, int32, and which are held out, bool."""
        for label in dict.fromkeys(labels):
            self.classes.setdefault(label, len(self.classes))
        codes = np.fromiter(map(self.classes.__getitem__, labels), np.int32, len(labels))
        mask = held_out_mask(self.n_documents, len(labels), held_out, random_state)
        self.n_documents += len(labels)
        self.n_held_out += int(mask.sum())
        return codes, mask

    def add_columns(self, counts: sp.csr_matrix) -> None:
        """Record the columns of numbers."""
        self.n_columns = max(self.n_columns, counts.shape[1])
        if counts.nnz:
            self.first_column = min(self.first_column, int(counts.indices.min()))


@dataclass(frozen=True)
class TextJob:
    """One block to count: its documents, and the file that is to hold the result."""

    path: Path
    texts: Texts
    labels: np.ndarray
    first: int
    held_out: np.ndarray
    weights: np.ndarray | None


def count_text(
    blocks: Iterable[Records],
    folder: Path,
    settings: VectorizerSettings,
    terms: Runs | Vocabulary | None,
    held_out: float,
    random_state: int,
    n_jobs: int | None,
    progress: Progress,
    kept: TextSpool | None = None,
    kept_ids: TextSpool | None = None,
    groups: list[np.ndarray] | None = None,
) -> Tally:
    """Count the terms of text into files in `folder`.

    `kept`, `kept_ids`: where texts, and ids, are kept.
    `groups`: where the hashes of groups are kept.
    `terms`: learns the terms, or holds given ones; None for hashing.
    """
    tally = Tally(n_columns=settings.n_features or 0)

    # what a block can add to the terms is bounded
    size = BLOCK_BYTES // (settings.ngram_range[1] - settings.ngram_range[0] + 1)

    def jobs() -> Iterator[TextJob]:
        parts = ((block, *part) for block in blocks for part in pieces(block.texts, size))
        for number, (block, first, stop) in enumerate(parts):
            before = tally.n_documents
            tally.scripts.add(block.texts.part(first, stop))
            codes, mask = tally.take(block.labels[first:stop], held_out, random_state)
            if kept is not None:
                kept.add(block.texts.part(first, stop))
            if kept_ids is not None:
                kept_ids.add(texts_of_strings(list(map(str, (block.ids or [])[first:stop]))))
            if groups is not None:
                groups.append(group_hashes((block.groups or [])[first:stop]))
            weights = None if block.weights is None else block.weights[first:stop]
            yield TextJob(block_path(folder, number), block.texts.part(first, stop), codes, before, mask, weights)

    def worker() -> Callable[[TextJob], int]:
        if isinstance(terms, Runs):
            return _Learning(terms)
        return _Fixed(HashingCounter(settings) if terms is None else FixedCounter(terms))

    done = 0
    # closed at once if anything fails, so that no thread writes into a folder that is being removed
    with closing(in_threads(jobs(), worker, n_jobs)) as counted:
        for n_documents in counted:
            done += n_documents
            tally.n_blocks += 1
            progress("counting", done, None)
    return tally


class _Learning:
    """Counts blocks with the counter of a run, and goes on with a new one when that is full."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._run, self._counter = runs.begin()

    def __call__(self, job: TextJob) -> int:
        if self._runs.is_full(self._run):
            self._runs.write(self._run)
            self._run, self._counter = self._runs.begin()
        counts = self._counter.count(job.texts, ~job.held_out)
        save_block(job.path, CountedBlock(counts, 0, self._run, job.labels, job.first, job.weights))
        return len(job.texts)


class _Fixed:
    """Counts blocks by columns that are known."""

    def __init__(self, counter: FixedCounter | HashingCounter) -> None:
        self._counter = counter

    def __call__(self, job: TextJob) -> int:
        counts = self._counter.count(job.texts)
        save_block(job.path, replace(block_of_matrix(counts, job.labels, job.first), weights=job.weights))
        return len(job.texts)


def block_of_matrix(counts: sp.csr_matrix, labels: np.ndarray, first: int) -> CountedBlock:
    """Return documents whose columns are known."""
    return CountedBlock(CsrCounts(counts.indptr, counts.indices, counts.data), counts.shape[1], MATRIX, labels, first)


def count_matrices(
    blocks: Iterable[tuple[sp.csr_matrix, list[str]]],
    folder: Path,
    held_out: float,
    random_state: int,
    progress: Progress,
) -> Tally:
    """Copy blocks of numbers into files in `folder`, without explicit zeros and repeated columns."""
    tally = Tally()
    for counts, labels in blocks:
        counts.sum_duplicates()
        counts.eliminate_zeros()
        before = tally.n_documents
        codes, _ = tally.take(labels, held_out, random_state)
        tally.whole = tally.whole and bool((counts.data == np.floor(counts.data)).all())
        tally.add_columns(counts)
        save_block(block_path(folder, tally.n_blocks), block_of_matrix(counts, codes, before))
        tally.n_blocks += 1
        progress("counting", tally.n_documents, None)
    return tally


MOST_RUNS = 2  # runs whose columns are in memory at a time
Batch = tuple[
    "sp.csr_matrix | Canonical", np.ndarray | None, np.ndarray | list[str], np.ndarray | None, np.ndarray | None
]
Arranged = tuple[int, np.ndarray, np.ndarray, "sp.csr_matrix | Canonical", np.ndarray | None]


class RunColumns(Protocol):
    """What knows the column of every term of a run."""

    def columns(self, run: int) -> np.ndarray:
        """Return the column of every node of a run, -1 for those left out, int32."""


@dataclass(frozen=True)
class ColumnMap:
    """How a block's columns become those of the corpus."""

    n_features: int
    terms: RunColumns | None = None
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
    ids: TextSpool | None = None  # the ids of the documents; None: their positions in the source
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
            counts = CsrCounts(*arranged(counts, self._columns_of_run(block.run), self.columns.n_features))
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
            found = csr(CsrCounts(counts.indptr, counts.nodes, data), (len(rows), width))
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


def _some_rows(block: CountedBlock, rows: np.ndarray) -> CsrCounts:
    sizes = np.diff(block.counts.indptr)
    kept = np.zeros(len(sizes), bool)
    kept[rows] = True
    entries = np.repeat(kept, sizes)
    return CsrCounts(offsets_of(sizes[rows]), block.counts.nodes[entries], block.counts.counts[entries])


def _moved(counts: CsrCounts, columns: ColumnMap) -> CsrCounts:
    """Return counts with the column `offset` as the first, without those that the corpus has not."""
    moved = counts.nodes.astype(np.int64) - columns.offset
    kept = (moved >= 0) & (moved < columns.n_features)
    indptr = offsets_of(kept)[counts.indptr]
    return CsrCounts(indptr, moved[kept], counts.counts[kept])
