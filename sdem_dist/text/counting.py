"""The two passes of an ingest: count documents into files; then map terms to columns and collect the documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from safetensors.numpy import load, save

from sdem_dist.corpus import open_corpus
from sdem_dist.corpus.collect import collect
from sdem_dist.corpus.counts import CsrCounts, arranged, joined, narrowed
from sdem_dist.corpus.folds import group_hashes
from sdem_dist.corpus.labels import column_of
from sdem_dist.corpus.manifest import ClassLabel, LabelSet
from sdem_dist.corpus.shuffle import GOLDEN, SortedDocuments, mixed
from sdem_dist.corpus.writer import MEMORY_LIMIT
from sdem_dist.documents import offsets_of
from sdem_dist.errors import IngestError
from sdem_dist.storage.encoding import JsonObject, decode_strings, encode_strings
from sdem_dist.storage.jobs import driver_folder, in_threads, n_cores, once
from sdem_dist.text.sources import BLOCK_BYTES, Reading
from sdem_dist.text.splits import InputSplit
from sdem_dist.text.terms import Runs, TermColumns
from sdem_dist.text.texts import NONE, Records, RowValidator, Texts, pieces
from sdem_dist.text.transform import TextTransformer, matrix_of
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    import scipy.sparse as sp

Progress = Callable[[str, int, int | None], None]  # arguments: stage, processed documents, total if known
Block = dict[str, np.ndarray]
"""Counted documents: the arrays of a `CsrCounts` per kind of columns, under their names followed by the kind's number;
their nodes are terms of a run, or columns of the corpus. "numbers": the number of columns, then the run of each kind.
One entry per document: "labels" (codes in the order of `Tally.classes`) and "held_out"; "weights", "groups" (hashes)
and "ids" if the source has them."""
_SPLIT_BITS = 40  # a split has fewer than 2**40 documents
MAX_RUNS = 3  # runs whose columns are in memory at once
Columns = Sequence[Callable[[int], np.ndarray]]
"""One function per kind of columns: it maps a run to the column of each node, int32, -1 for dropped terms. Empty if the
counts have columns already."""


def save_block(path: Path, block: Block) -> None:
    path.write_bytes(save(block))


@dataclass
class Tally:
    n_blocks: int = 0
    n_documents: int = 0
    n_held_out: int = 0
    n_training: int = 0  # documents for the vocabulary: not held out, with a positive weight
    classes: dict[str, int] = field(default_factory=dict)  # code of each class name, in the order of first occurrence
    n_columns: int = 0  # columns of hashing, or the highest column of numeric sources plus one
    first_column: int = np.iinfo(np.int64).max  # lowest column of numeric sources; a large number before the first
    integral: bool = True  # all values are integers

    def add(self, records: Records, held_out: np.ndarray, trains: np.ndarray) -> None:
        counts = len(held_out), int(held_out.sum()), int(trains.sum())
        part, matrix = Tally(1, *counts, dict.fromkeys(records.labels, 0)), records.matrix
        if matrix is not None:
            part.integral, part.n_columns = bool((matrix.data == np.floor(matrix.data)).all()), matrix.shape[1]
            if matrix.nnz:
                part.first_column = int(matrix.indices.min())
        self.merge(part)

    def merge(self, part: Tally) -> None:
        for name in ("n_blocks", "n_documents", "n_held_out", "n_training"):
            setattr(self, name, getattr(self, name) + getattr(part, name))
        for label in part.classes:
            self.classes.setdefault(label, len(self.classes))
        self.n_columns = max(self.n_columns, part.n_columns)
        self.first_column = min(self.first_column, part.first_column)
        self.integral = self.integral and part.integral


@dataclass(frozen=True)
class Part:
    """Counted documents: of all sources, or of one split."""

    folder: Path
    tally: Tally
    start: int = 0  # position of its first document in the sources
    first_runs: Sequence[int] = (0, 0)  # per kind of columns: position of its first run among the runs of all parts
    runs: Sequence[Sequence[Sequence[int]]] = ()  # for each kind of columns: its runs in files, see `Runs.write_all`


@dataclass(frozen=True)
class Counting:
    settings: VectorizerSettings
    reading: Reading
    on_error: Literal["raise", "skip"]
    known_classes: frozenset[str] | None
    targets: bool
    reference: str | None  # corpus whose vocabulary is used
    reference_uid: str | None
    block_documents: int
    held_out: float
    random_state: int
    keep_text: bool
    n_jobs: int | None  # 1 in tasks

    @property
    def learns(self) -> bool:
        return self.settings.kind == "count" and self.reference is None

    @property
    def tallies(self) -> bool:
        """Whether terms may be dropped: documents are held out, or have weights, or the vocabulary has limits."""
        return self.held_out > 0 or self.reading.weight is not None or self.settings.chooses_terms

    def gate(self) -> RowValidator:
        separator, unlabelled = self.reading.label_separator, self.reading.missing_label
        return RowValidator(self.on_error, self.known_classes, self.targets, separator=separator, unlabelled=unlabelled)


@lru_cache(2)
def _transformer(path: str, uid: str | None) -> TextTransformer:
    """Return the transformer of a corpus; `uid` is a part of the cache key, since a path may be overwritten."""
    corpus = open_corpus(path)
    return TextTransformer(VectorizerSettings.from_json(corpus.header.vectorizer or {}), corpus.vocabulary() or [])


def count_documents(
    counting: Counting, splits: Iterable[InputSplit], folder: Path, gate: RowValidator, progress: Progress
) -> tuple[Tally, list[Runs], Texts | None]:
    """Count the documents of splits into blocks in `folder`, in threads; return tally, runs of terms, stored texts."""
    settings, tally, transformer = counting.settings, Tally(n_columns=counting.settings.n_features or 0), None
    n_jobs, spool, sizes = counting.n_jobs or n_cores(), folder / "texts", [np.zeros(0, np.int64)]
    options: dict[str, Any] = {"n_jobs": n_jobs, "tallies": counting.tallies}
    runs = [Runs(folder, part, kind, **options) for kind, part in enumerate(settings.parts) if counting.learns]
    if settings.kind == "hashing":
        transformer = TextTransformer(settings)
    elif counting.reference is not None and settings.kind == "count":
        transformer = _transformer(counting.reference, counting.reference_uid)
    # bounds the terms that a block can add
    most_bytes = BLOCK_BYTES // sum(part.ngram_range[1] - part.ngram_range[0] + 1 for part in settings.parts)
    seed = mixed(np.array([counting.random_state % 2**64], np.uint64))

    def jobs() -> Iterator[tuple[Path, Records, Block, np.ndarray]]:
        for split in splits:
            row = (split.number << _SPLIT_BITS) + 1
            for records in split.read(gate):
                for first, stop in pieces(records.texts.sizes, most_bytes):
                    n = stop - first
                    piece = records if n == len(records.texts) else records.take(np.arange(first, stop))
                    # SplitMix64 of seed, split and position: the choice does not depend on blocks and processes
                    bits = mixed(np.arange(row, row + n, dtype=np.uint64) * GOLDEN + seed)
                    held_out = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 < counting.held_out
                    trains = ~held_out if piece.weights is None else ~held_out & (piece.weights > 0)
                    row += n
                    if counting.keep_text:
                        sizes.append(piece.texts.sizes)
                        with spool.open("ab") as file:
                            file.writelines(piece.texts.encoded())
                    path = folder / f"block-{tally.n_blocks:06d}"
                    tally.add(piece, held_out, trains)
                    labels = np.fromiter(map(tally.classes.__getitem__, piece.labels), np.int32, n)
                    yield path, piece, {"labels": labels, "held_out": held_out}, trains

    def count(job: tuple[Path, Records, Block, np.ndarray]) -> int:
        path, records, block, trains = job
        numbers, kinds = [0], list[CsrCounts]()
        for of_kind in runs:
            number, counter = of_kind.counter()
            numbers.append(number)
            kinds.append(joined(counter.parts(records.texts, trains)))
        if not runs:
            matrix: Any = records.matrix if transformer is None else transformer.counts(records.texts)
            kinds, numbers = [CsrCounts(matrix.indptr, matrix.indices, matrix.data)], [matrix.shape[1], -1]
        for kind, counts in enumerate(kinds):
            block |= {f"{name}{kind}": values for name, values in narrowed(counts)._asdict().items()}
        block["numbers"] = np.array(numbers)
        if records.weights is not None:
            block["weights"] = records.weights
        if records.groups is not None:
            block["groups"] = group_hashes(records.groups)
        if records.ids is not None:
            block["ids"], block["id_offsets"] = encode_strings(list(map(str, records.ids)))
        save_block(path, block)
        return len(trains)

    done = 0
    # closed on any error, so that no thread writes into a folder during its removal
    with closing(in_threads(count, jobs(), n_jobs)) as counted:
        for n_documents in counted:
            done += n_documents
            progress("counting", done, None)
    if not counting.keep_text:
        return tally, runs, None
    offsets = offsets_of(np.concatenate(sizes))
    data = np.memmap(spool, np.uint8, "r") if offsets[-1] else np.zeros(0, np.uint8)
    return tally, runs, Texts(data, offsets[:-1], offsets[1:])


def count_split(counting: Counting, scratch: Path, split: InputSplit) -> JsonObject | IngestError:
    """Task: count the documents of a split and write its terms; an `IngestError` is returned, not raised."""
    folder_name = f"counts-{split.number}-{split.name}"

    def counted(folder: Path) -> JsonObject:
        gate = counting.gate()
        tally, runs, _ = count_documents(counting, [split], folder, gate, lambda *_: None)
        return {
            "folder": folder_name,
            "tally": asdict(tally),
            "of_text": {} if counting.targets else {name: gate.texts.get(name, True) for name in tally.classes},
            "skipped": gate.skipped,
            "examples": gate.examples,
            "runs": [of_kind.write_all() for of_kind in runs],
        }

    try:
        return once(scratch / folder_name, counted)
    except IngestError as error:
        return error


@dataclass(frozen=True)
class Placing:
    n_features: int
    offset: int  # for numeric sources: the column that becomes column 0
    integral: bool  # the counts are integers
    classes: tuple[tuple[str, ClassLabel | LabelSet], ...] | None  # (class name, label in the corpus); None for targets
    seed: int | None  # seed for the order of documents; None: the order of the sources
    held_out: bool  # select the held-out documents; False: select all other documents
    n_jobs: int | None


def placed_documents(
    part: Part, placing: Placing, columns: Columns, start: int, file: Path, progress: Callable[[int], None]
) -> tuple[SortedDocuments, np.ndarray, int]:
    """Return the selected documents of a part, their positions in it, and the number of empty documents.

    `start`: position of the first document in the unshuffled corpus; `file`: for documents that exceed the memory.
    """
    if placing.classes is None:
        classes = np.array(list(part.tally.classes), np.float64)
    else:
        named: dict[str, ClassLabel | LabelSet] = {NONE: NONE, **dict(placing.classes)}
        classes = column_of([named[label] for label in part.tally.classes])
    width, positions, n_empty = placing.n_features, list[np.ndarray](), 0
    columns_of = [lru_cache(MAX_RUNS)(of_kind) for of_kind in columns]

    def place(number: int) -> tuple[Block, np.ndarray, sp.csr_matrix]:
        block = load((part.folder / f"block-{number:06d}").read_bytes())
        kinds, (n_columns, *of_kinds) = list[CsrCounts](), block["numbers"].tolist()
        chosen = block["held_out"] == placing.held_out
        rows = np.flatnonzero(chosen)
        for kind in range(len(of_kinds)):
            counts = CsrCounts(*(block[f"{name}{kind}"] for name in CsrCounts._fields))
            if len(rows) < len(chosen):
                sizes = np.diff(counts.indptr)
                entries = np.repeat(chosen, sizes)
                counts = CsrCounts(offsets_of(sizes[rows]), counts.nodes[entries], counts.counts[entries])
            kinds.append(counts)
        counts = kinds[0]
        if columns_of:
            arrays = [of_kind(run) for of_kind, run in zip(columns_of, of_kinds, strict=True)]
            dtype = np.result_type(*(of_kind.counts for of_kind in kinds))
            counts = arranged([([of_kind], array) for of_kind, array in zip(kinds, arrays, strict=True)], width, dtype)
        elif placing.offset or n_columns > width:
            moved = counts.nodes.astype(np.int64) - placing.offset
            inside = (moved >= 0) & (moved < width)
            counts = CsrCounts(offsets_of(inside)[counts.indptr], moved[inside], counts.counts[inside])
        if not placing.integral:
            counts = counts._replace(counts=counts.counts.astype(np.float32))
        return block, rows, matrix_of(counts, width)

    def batches() -> Iterator[tuple[Any, ...]]:
        nonlocal n_empty
        n_before = 0
        with closing(in_threads(place, range(part.tally.n_blocks), placing.n_jobs)) as blocks:
            for block, rows, counts in blocks:
                positions.append(n_before + rows)
                n_before += len(block["labels"])
                if not len(rows):
                    continue
                n_empty += int(np.count_nonzero(np.diff(counts.indptr) == 0))
                of_rows, ids = classes[block["labels"][rows]], part.start + positions[-1]
                labels, targets = (None, of_rows) if of_rows.dtype.kind == "f" else (of_rows, None)
                if "ids" in block:
                    ids = np.array(decode_strings(block["ids"], block["id_offsets"]), object)[rows]
                progress(len(rows))
                weights, groups = (block[name][rows] if name in block else None for name in ("weights", "groups"))
                yield counts, labels, ids, targets, weights, groups

    names, weighted = [name for _, name in placing.classes or ()] or None, None if placing.integral else True
    options = dict[str, Any](seed=placing.seed, unlabelled=NONE, first=start)
    documents = collect(batches(), file, MEMORY_LIMIT, names, weighted, **options)
    return documents, np.concatenate(positions), n_empty


def place_split(part: Part, folder: Path, placing: Placing, terms: Sequence[TermColumns], start: int) -> JsonObject:
    def placed(partial_folder: Path) -> JsonObject:
        with driver_folder(part.folder) as here:
            columns, file = [replace(of_kind, folder=here) for of_kind in terms], partial_folder / "unsorted"
            own = replace(part, folder=here)
            documents, _, n_empty = placed_documents(own, placing, columns, start, file, lambda n: None)
            written = documents.write_rows(partial_folder)
        file.unlink(missing_ok=True)
        return {**written, "n_empty": n_empty}

    return once(folder, placed)
