"""The first pass of an ingest: documents of a part of the sources are counted into files, with terms of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from sdem_dist.corpus import open_corpus
from sdem_dist.corpus.folds import group_hashes
from sdem_dist.corpus.shuffle import GOLDEN, mixed
from sdem_dist.documents import offsets_of
from sdem_dist.errors import IngestError
from sdem_dist.storage.encoding import JsonObject, encode_strings
from sdem_dist.storage.kept import once
from sdem_dist.storage.threads import in_threads
from sdem_dist.text.counters import CsrCounts, FixedCounter, HashingCounter, Vocabulary, joined
from sdem_dist.text.files import BLOCK_BYTES
from sdem_dist.text.readers.svmlight import read_svmlight
from sdem_dist.text.sources import MATRIX_DOCUMENTS, Reading
from sdem_dist.text.splits import InputSplit
from sdem_dist.text.terms import Runs, load_arrays, save_arrays
from sdem_dist.text.texts import Texts, pieces, sample_scripts
from sdem_dist.text.validation import RowValidator
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    import scipy.sparse as sp

Progress = Callable[[str, int, int | None], None]  # takes a stage, documents done, and documents in all where known
NumberedSplit = tuple[int, InputSplit]
_SPLIT_BITS = 40  # documents of a split are fewer than 2**40


def silent(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""


def held_out_mask(split: int, first: int, n_documents: int, fraction: float, random_state: int) -> np.ndarray:
    """Return whether each of the documents `first`, `first + 1`, ... of a split is held out, bool.

    SplitMix64's mixing of (random_state, split, position) gives 64 bits; the document is held out if, as a fraction of
    2**64, they are below `fraction`. So blocks of any size, in any process, choose the same documents.
    """
    start = (split << _SPLIT_BITS) + first
    positions = np.arange(start, start + n_documents, dtype=np.uint64)
    seed = mixed(np.array([random_state % 2**64], np.uint64))
    bits = mixed((positions + np.uint64(1)) * GOLDEN + seed)
    chosen: np.ndarray = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 < fraction
    return chosen


def _trains(held_out: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return which documents make the vocabulary: one of weight 0 counts nowhere."""
    return ~held_out if weights is None else ~held_out & (weights > 0)


class Beside(NamedTuple):
    """What stands beside the counts of consecutive documents."""

    labels: np.ndarray  # shape (n_documents,), int32: codes of classes in the order in which the part has them
    held_out: np.ndarray  # shape (n_documents,), bool
    weights: np.ndarray | None = None  # shape (n_documents,), float64
    groups: np.ndarray | None = None  # shape (n_documents,), uint64: hashes of groups
    id_offsets: np.ndarray | None = None
    ids: np.ndarray = np.zeros(0, np.uint8)
    """`ids` and `id_offsets`: joined bytes of ids, and where each begins and the last ends."""


@dataclass(frozen=True)
class CountedBlock:
    counts: CsrCounts  # columns are the terms of a run, or those of the corpus
    n_columns: int
    run: int | None
    """`n_columns` and `run`: columns of the counts, and the number of the run; None: columns are known."""
    beside: Beside


def block_path(folder: Path, block: int) -> Path:
    return folder / f"block-{block:06d}"


def save_block(path: Path, block: CountedBlock) -> None:
    """Write a block, without pickle."""
    counts, values = block.counts, block.counts.counts
    if values.dtype.kind != "f" and len(values):  # the smallest dtype halves the files or better
        values = values.astype(np.min_scalar_type(int(values.max())))
    numbers = np.array([block.n_columns, -1 if block.run is None else block.run])
    columns = [np.zeros(0) if column is None else column for column in block.beside]
    save_arrays(path, numbers, counts.indptr, counts.nodes, values, *columns)


def load_block(path: Path) -> CountedBlock:
    (n_columns, run), *counts, labels, held_out, weights, groups, id_offsets, ids = load_arrays(path, 10)

    def optional(column: np.ndarray) -> np.ndarray | None:
        return column if len(column) else None

    beside = Beside(labels, held_out, optional(weights), optional(groups), optional(id_offsets), ids)
    return CountedBlock(CsrCounts(*counts), int(n_columns), None if run < 0 else int(run), beside)


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
        with self._path.open("ab") as file:
            file.writelines(texts.bytes_of(i) for i in range(len(texts)))
        self._sizes.append(texts.sizes)

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


@dataclass
class Tally:
    """What was counted of the sources, or of a part of them."""

    n_blocks: int = 0
    n_documents: int = 0
    n_held_out: int = 0
    n_training: int = 0  # neither held out nor of weight 0: these make the vocabulary
    classes: dict[str, int] = field(default_factory=dict)  # code of every class name, in the order in which they came
    n_columns: int = 0
    first_column: int = np.iinfo(np.int64).max
    """`n_columns` and `first_column`: of numbers: one past the highest column met, and the lowest; 0 and a large number
    before any. `n_columns` is that of hashing, too."""
    whole: bool = True  # all values are whole numbers
    scripts: list[int] = field(default_factory=lambda: [0, 0, 0])  # sums of `sample_scripts`

    def take(self, labels: list[str], held_out: np.ndarray, trains: np.ndarray) -> np.ndarray:
        """Count the next documents; return their labels' codes, int32."""
        for label in dict.fromkeys(labels):
            self.classes.setdefault(label, len(self.classes))
        self.n_documents += len(labels)
        self.n_held_out += int(held_out.sum())
        self.n_training += int(trains.sum())
        return np.fromiter(map(self.classes.__getitem__, labels), np.int32, len(labels))

    def merge(self, part: Tally) -> None:
        self.n_documents += part.n_documents
        self.n_held_out += part.n_held_out
        self.n_training += part.n_training
        for label in part.classes:
            self.classes.setdefault(label, len(self.classes))
        self.n_columns = max(self.n_columns, part.n_columns)
        self.first_column = min(self.first_column, part.first_column)
        self.whole = self.whole and part.whole
        self.scripts = (np.array(self.scripts) + part.scripts).tolist()


@dataclass(frozen=True)
class Counting:
    settings: VectorizerSettings
    reading: Reading
    numeric: bool  # the sources hold numbers
    on_error: Literal["raise", "skip"]
    known_classes: frozenset[str] | None
    targets: bool
    reference: str | None  # the corpus whose vocabulary is taken
    reference_uid: str | None
    block_documents: int
    held_out: float
    random_state: int

    @property
    def learns(self) -> bool:
        return self.settings.kind == "count" and self.reference is None

    def gate(self) -> RowValidator:
        """Return what decides about records, and has refused none yet."""
        separator, unlabelled = self.reading.label_separator, self.reading.missing_label
        return RowValidator(self.on_error, self.known_classes, self.targets, separator=separator, unlabelled=unlabelled)

    def mask(self, split: int, first: int, n_documents: int) -> np.ndarray:
        return held_out_mask(split, first, n_documents, self.held_out, self.random_state)


def _counter(counting: Counting) -> HashingCounter | FixedCounter | None:
    """Return a counter of terms whose columns are known."""
    if counting.settings.kind == "hashing":
        return HashingCounter(counting.settings)
    return None if counting.learns else FixedCounter(_vocabulary(str(counting.reference), counting.reference_uid))


@lru_cache(2)
def _vocabulary(path: str, uid: str | None) -> Vocabulary:
    """Return the vocabulary of a corpus; the uid tells it from another that took its place."""
    corpus = open_corpus(path)
    return Vocabulary.of(VectorizerSettings.from_json(corpus.header.vectorizer or {}), corpus.vocabulary() or [])


_TextJob = tuple[Path, Texts, Beside]  # one block to count, and the file that is to hold the result


def count_text(
    counting: Counting,
    splits: Iterable[NumberedSplit],
    folder: Path,
    gate: RowValidator,
    runs: Runs | None,
    progress: Progress = silent,
    n_jobs: int | None = 1,
    spool: TextSpool | None = None,
) -> Tally:
    """Count the terms of text into files in `folder`; `runs` learns them, and `spool` takes the texts."""
    settings = counting.settings
    tally = Tally(n_columns=settings.n_features or 0)
    # what a block can add to the terms is bounded
    size = BLOCK_BYTES // (settings.ngram_range[1] - settings.ngram_range[0] + 1)

    def jobs() -> Iterator[_TextJob]:
        for number, split in splits:
            row = 0
            for records in split.read(gate):
                for first, stop in pieces(records.texts.sizes, size):
                    block = records.take(np.arange(first, stop))
                    tally.scripts = (tally.scripts + sample_scripts(block.texts)).tolist()
                    held_out = counting.mask(number, row, stop - first)
                    if spool is not None:
                        spool.add(block.texts)
                    ids, id_offsets = (
                        (np.zeros(0, np.uint8), None)
                        if block.ids is None
                        else encode_strings(list(map(str, block.ids)))
                    )
                    groups = None if block.groups is None else group_hashes(block.groups)
                    labels = tally.take(block.labels, held_out, _trains(held_out, block.weights))
                    beside = Beside(labels, held_out, block.weights, groups, id_offsets, ids)
                    yield block_path(folder, tally.n_blocks), block.texts, beside
                    tally.n_blocks += 1
                    row += stop - first

    def worker() -> Callable[[_TextJob], int]:
        run, counter = None, _counter(counting)

        def count(job: _TextJob) -> int:
            nonlocal run
            path, texts, beside = job
            if runs is not None:
                run, learning = runs.counter(run)
                counts = joined(learning.parts(texts, _trains(beside.held_out, beside.weights)))
                save_block(path, CountedBlock(counts, 0, run, beside))
            elif counter is not None:
                save_block(path, _block_of_matrix(counter.count(texts), beside))
            return len(texts)

        return count

    done = 0
    # closed at once if anything fails, so that no thread writes into a folder that is being removed
    with closing(in_threads(jobs(), worker, n_jobs)) as counted:
        for n_documents in counted:
            done += n_documents
            progress("counting", done, None)
    return tally


def _block_of_matrix(counts: sp.csr_matrix, beside: Beside) -> CountedBlock:
    return CountedBlock(CsrCounts(counts.indptr, counts.indices, counts.data), counts.shape[1], None, beside)


def count_matrices(
    counting: Counting,
    splits: Iterable[NumberedSplit],
    folder: Path,
    gate: RowValidator,
    progress: Progress = silent,
) -> Tally:
    """Copy rows of numbers into files in `folder`, without explicit zeros and repeated columns."""
    tally = Tally()
    for number, split in splits:
        row = 0
        for counts, labels in read_svmlight(split.source, gate, min(counting.block_documents, MATRIX_DOCUMENTS)):
            counts.sum_duplicates()
            counts.eliminate_zeros()
            held_out = counting.mask(number, row, len(labels))
            tally.whole = tally.whole and bool((counts.data == np.floor(counts.data)).all())
            tally.n_columns = max(tally.n_columns, counts.shape[1])
            if counts.nnz:
                tally.first_column = min(tally.first_column, int(counts.indices.min()))
            beside = Beside(tally.take(labels, held_out, ~held_out), held_out)
            save_block(block_path(folder, tally.n_blocks), _block_of_matrix(counts, beside))
            tally.n_blocks += 1
            row += len(labels)
            progress("counting", tally.n_documents, None)
    return tally


def counts_folder(scratch: Path, number: int, split: InputSplit) -> Path:
    return scratch / f"counts-{number}-{split.name}"


def count_split(counting: Counting, scratch: Path, number: int, split: InputSplit) -> JsonObject | IngestError:
    """Count the documents of a split, a task, and write down its terms; return what is known of it.

    A mistake in the source is returned, not raised.
    """

    def counted(folder: Path) -> JsonObject:
        gate, runs = counting.gate(), None
        if counting.numeric:
            tally = count_matrices(counting, [(number, split)], folder, gate)
        else:
            runs = Runs(folder, counting.settings) if counting.learns else None
            tally = count_text(counting, [(number, split)], folder, gate, runs)
        return {
            "tally": asdict(tally),
            "of_text": {} if counting.targets else {name: gate.texts.get(name, True) for name in tally.classes},
            "skipped": gate.skipped,
            "examples": gate.examples,
            "runs": [] if runs is None else runs.write_all(),
        }

    try:
        return once(counts_folder(scratch, number, split), counted)
    except IngestError as error:
        return error
