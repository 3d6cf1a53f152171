"""Sources cut into splits, each for one task to read: line ranges, row groups, groups of files, or whole files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sdem_dist.errors import IngestError
from sdem_dist.storage.urls import for_a_reader
from sdem_dist.text.files import COMPRESSIONS, is_utf8_name
from sdem_dist.text.readers.folder import LabelledFile, files_of, read_folder
from sdem_dist.text.readers.lines import are_whole_lines, read_lines
from sdem_dist.text.sources import (
    BLOCK_DOCUMENTS,
    LINES,
    LINES_OR_TSV,
    Reading,
    source_format,
)
from sdem_dist.text.texts import RecordBatch, Records, texts_of_strings
from sdem_dist.text.validation import RowValidator

INGEST_BYTES = 1 << 23  # about what one task of an ingest reads at most, where a source can be cut
N_SPLITS, MIN_BYTES = 16, 1 << 22
"""Few sources are cut into this many splits, unless these get smaller than that: few large ones are uneven work."""
PREDICT_BYTES = 1 << 21  # about what one task of a prediction reads: little, so that workers end together


@dataclass(frozen=True)
class InputSplit:
    """Consecutive documents of one source, which one task reads."""

    source: Path
    form: str
    reading: Reading
    keep: bool | tuple[str, ...] = False
    """Whether all columns stand beside the texts; or their names, those of the source's first documents."""
    block_documents: int = BLOCK_DOCUMENTS  # of a block at most
    part: tuple[int, int] | None = None  # first and last + 1 of its bytes (lines) or row groups (Parquet); None: all
    files: tuple[LabelledFile, ...] | None = None  # those of a folder
    size: int | None = None
    changed: int | None = None
    """`size` and `changed`: bytes of the file, and when it was last changed, in nanoseconds; of files of a folder a
    number of both. None: it can be read only once."""
    named: Path | None = None  # what the user calls the source, where `source` is absolute

    @property
    def name(self) -> str:
        """A name of its content, for files."""
        content = repr((str(self.source.absolute()), self.size, self.changed, self.part))
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def read(self, gate: RowValidator) -> Iterator[Records]:
        """Yield its documents, in order.

        Raises IngestError: the file is not the one that was cut, so that parts of two would be mixed; or it cannot be
        read.
        """
        gate.named = None if self.named is None else (self.source, self.named)
        gate.start = 0 if self.part is None or self.form == "parquet" else self.part[0]
        self._check()
        for batch in self._batches(gate):
            records = gate.check(self.source, batch)
            if len(records.texts):
                yield records
        self._check()

    def _batches(self, gate: RowValidator) -> Iterator[RecordBatch]:
        source, reading, size, keep = self.source, self.reading, self.block_documents, bool(self.keep)
        if self.form == "csv" or (self.form == "tsv" and reading.header):
            from sdem_dist.text.readers.tables import read_csv

            if self.form == "tsv" and reading.delimiter is None:
                reading = replace(reading, delimiter="\t")
            return read_csv(source, reading, size, keep=keep)
        if self.form == "jsonl":
            from sdem_dist.text.readers.json_lines import read_json_lines

            return read_json_lines(source, reading, size, self.part, keep=self.keep)
        if self.form == "parquet":
            from sdem_dist.text.readers.tables import read_parquet

            return read_parquet(source, reading, size, self.part, keep=keep)
        if self.form == "folder":
            files = files_of(source, gate, labelled=reading.labelled) if self.files is None else self.files
            return read_folder(source, reading, gate, size, files, keep=keep)
        whole = None if self.form == LINES_OR_TSV else self.form == LINES
        return read_lines(source, reading, size, self.part, whole=whole, keep=self.keep)

    def _check(self) -> None:
        if self.part is not None and self.size is not None:
            status = self.source.stat() if self.source.is_file() else None
            if status is None or (status.st_size, status.st_mtime_ns) != (self.size, self.changed):
                raise IngestError(
                    f"{self.source} was changed while it was read: begin again, with a file that nobody writes to"
                )

    def elsewhere(self) -> InputSplit:
        """Return the same for a process in another working folder, whose warnings nobody sees."""
        files = None if self.files is None else tuple((label, file.absolute()) for label, file in self.files)
        split = _with_known_form(self)
        return replace(split, source=self.source.absolute(), files=files, named=self.source)

    def belongs_to_driver(self, *, alone: bool) -> bool:
        """Whether one worker should not answer it: it is a whole file, the only one or large or of unknown size."""
        return self.part is None and self.files is None and (alone or self.size is None or self.size > PREDICT_BYTES)


def _with_known_form(split: InputSplit) -> InputSplit:
    if split.form != LINES_OR_TSV:
        return split
    return replace(split, form=LINES if are_whole_lines(split.source, split.reading.encoding) else "tsv")


def ingest_splits(
    sources: Iterable[Path], reading: Reading, gate: RowValidator, block_documents: int = BLOCK_DOCUMENTS
) -> Iterator[InputSplit]:
    """Yield the splits of sources, in order; where they are cut depends on the sources alone.

    `gate`: learns of files of a folder that are in no class.
    """
    forms = [(source, source_format(source, reading)) for source in sources]
    n_bytes = sum(source.stat().st_size for source, form in forms if form != "folder")
    size = min(INGEST_BYTES, max(MIN_BYTES, n_bytes // N_SPLITS)) if n_bytes else INGEST_BYTES
    for source, form in forms:
        split = InputSplit(source, form, reading, block_documents=block_documents)
        if form == "folder":
            yield from _of_folder(split, gate, size)
            continue
        status = source.stat()
        split = replace(split, size=status.st_size, changed=status.st_mtime_ns)
        can_be_cut = reading.id is None and form in ("tsv", "jsonl", "parquet")
        yield from _parts(split, size) if can_be_cut else [split]


def predict_splits(source: Path, reading: Reading, block_documents: int, *, keep: bool) -> Iterator[InputSplit]:
    """Yield the splits of a source of text without labels; where it is cut depends on the source alone.

    `source`: ``-`` is standard input.
    `reading`: labels play no part: their column is like any other.
    `keep`: keep all columns, and not the ids alone.
    Raises IngestError: the source is missing, cannot be read, or has no such column.
    """
    form = source_format(source, reading, predicted=True)
    split = InputSplit(source, form, reading.without_labels(), keep, block_documents)
    if split.form == "folder":
        yield from _of_folder(split, RowValidator("skip"), PREDICT_BYTES)
        return
    if source.is_file() and not str(source.absolute()).startswith(("/dev/fd/", "/dev/stdin", "/proc/")):
        status = source.stat()
        split = replace(split, size=status.st_size, changed=status.st_mtime_ns)
    if (split.size or 0) <= PREDICT_BYTES:
        yield split
        return
    split = _with_known_form(split)
    if keep and _is_of_lines(split):
        first = next(split.read(RowValidator("skip")), Records(texts_of_strings([])))
        split = replace(split, keep=tuple(first.columns) or True)
    yield from _parts(split, PREDICT_BYTES)


def _is_of_lines(split: InputSplit) -> bool:
    """Whether a source has a document a line, and can be read from the middle."""
    with_lines = split.form in (LINES, LINES_OR_TSV, "jsonl") or (split.form == "tsv" and not split.reading.header)
    return with_lines and split.source.suffix.lower() not in COMPRESSIONS and is_utf8_name(split.reading.encoding)


def _parts(split: InputSplit, size: int) -> Iterator[InputSplit]:
    """Yield the parts of a file of about `size` bytes, or the whole where it cannot be cut."""
    if (split.size or 0) <= size or not (_is_of_lines(split) or split.form == "parquet"):
        yield split
    elif split.form == "parquet":
        yield from (replace(split, part=part) for part in _row_groups(split.source, size))
    else:
        with split.source.open("rb") as file:
            start = 0
            while start < (split.size or 0):
                file.seek(min(start + size, split.size or 0))
                file.readline()
                yield replace(split, part=(start, file.tell()))
                start = file.tell()


def _row_groups(source: Path, size: int) -> Iterator[tuple[int, int] | None]:
    import pyarrow
    import pyarrow.parquet

    try:
        groups = pyarrow.parquet.read_metadata(for_a_reader(source))
    except (pyarrow.ArrowException, OSError):
        yield None  # its reader says what is wrong
        return
    first = held = 0
    for group in range(groups.num_row_groups):
        held += groups.row_group(group).total_byte_size
        if held >= size or group + 1 == groups.num_row_groups:
            yield first, group + 1
            first, held = group + 1, 0


def _of_folder(split: InputSplit, gate: RowValidator, size: int) -> Iterator[InputSplit]:
    """Yield groups of the files of a folder; one without files is one group, whose reader says what is wrong."""
    files, n_bytes, n_groups, identity = list[LabelledFile](), 0, 0, hashlib.sha256()

    def group() -> InputSplit:
        return replace(split, files=tuple(files), size=n_bytes, changed=int.from_bytes(identity.digest()[:8]))

    for label, file in files_of(split.source, gate, labelled=split.reading.labelled):
        status = file.stat()
        files.append((label, file))
        n_bytes += status.st_size
        identity.update(repr((str(file), status.st_size, status.st_mtime_ns)).encode("utf-8", "surrogatepass"))
        if n_bytes >= size:
            yield group()
            files, n_bytes, n_groups, identity = [], 0, n_groups + 1, hashlib.sha256()
    if files or not n_groups:
        yield group()
