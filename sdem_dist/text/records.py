"""Sources as blocks of records without labels: the text of each document, and what stands beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sdem_dist.errors import IngestError
from sdem_dist.text.files import plain_suffix
from sdem_dist.text.formats.folder import files_below
from sdem_dist.text.formats.tab_lines import whole_lines
from sdem_dist.text.sources import (
    LINES,
    LINES_OR_TSV,
    SUFFIXES,
    Reading,
    read_columns,
    refuse_no_documents,
)
from sdem_dist.text.stretches import in_plain_lines, parts_of
from sdem_dist.text.texts import Columns, Records, texts_of_strings
from sdem_dist.text.validation import RowValidator

if TYPE_CHECKING:
    import pyarrow

PIECE_BYTES = 1 << 21  # about what one task reads, where a source can be cut: little, so that workers end together


def listed(column: list[object] | pyarrow.Array) -> list[object]:
    """Return a column of records as a list."""
    if isinstance(column, list):
        return column
    numbers = str(column.type) in ("int64", "double") and not column.null_count
    found: list[object] = column.to_numpy().tolist() if numbers else column.to_pylist()  # the first is much faster
    return found


def records_format(source: Path, reading: Reading) -> str:
    """Return how a source is read: one of the formats that `sdem_dist.text.sources` reads, `LINES` or `LINES_OR_TSV`.

    Raises IngestError: it holds numbers, one JSON document, or no documents, or its format does not fit its kind.
    """
    refuse_no_documents(source)
    suffix = plain_suffix(source)
    form = reading.format or ("folder" if source.is_dir() else SUFFIXES.get(suffix, LINES))
    if reading.format is None and (form == LINES or suffix == ".txt"):
        form = LINES_OR_TSV if reading.text is None and reading.id is None else LINES
    if form == "svmlight":
        raise IngestError(
            f"{source} is {form}, which holds numbers: make a corpus of it (sdem ingest {source} NAME.zarr "
            "--vocabulary-from CORPUS, the one of the training), and give that"
        )
    if suffix == ".json" and reading.format is None:
        raise IngestError(
            f"{source} is json: write an object per line into a .jsonl file, or the texts into a .txt file"
        )
    if (form == "folder") != source.is_dir():
        raise IngestError(f"{source} is {'a folder' if source.is_dir() else 'a file'}, which is not read as {form!r}")
    return form


@dataclass(frozen=True)
class Piece:
    """What one task reads of a source."""

    source: Path
    form: str  # as `records_format`, but not `LINES_OR_TSV`, unless all is read
    columns: Columns
    encoding: str
    block_documents: int
    part: tuple[int, int] | None = None  # first and last + 1 of its bytes (lines) or row groups (Parquet); None: all
    files: tuple[Path, ...] | None = None  # those of a folder
    size: int | None = None
    changed: int | None = None
    """`size` and `changed`: bytes of the file, and when it was last changed, in nanoseconds; None of a folder, and of
    what can be read only once."""
    named: Path | None = None  # what the user calls the source, where `source` is absolute

    def read(self, gate: RowValidator) -> Iterator[Records]:
        """Yield its documents, in order.

        Raises IngestError: the file is not the one that was cut, so that parts of two would be mixed; or it cannot be
        read.
        """
        gate.named = None if self.named is None else (self.source, self.named)
        gate.start = 0 if self.part is None or self.form == "parquet" else self.part[0]
        self._check()
        yield from read_columns(
            self.source, self.form, self.columns, self.encoding, gate, self.block_documents, self.part, self.files
        )
        self._check()

    def _check(self) -> None:
        if self.part is not None and self.size is not None:
            there = self.source.stat() if self.source.is_file() else None
            if there is None or (there.st_size, there.st_mtime_ns) != (self.size, self.changed):
                raise IngestError(
                    f"{self.source} was changed while it was read: begin again, with a file that nobody writes to"
                )

    def elsewhere(self) -> Piece:
        """Return the same for a process in another working folder, whose warnings nobody sees."""
        files = None if self.files is None else tuple(file.absolute() for file in self.files)
        form = self.form
        if form == LINES_OR_TSV:
            form = LINES if whole_lines(self.source, self.encoding) else "tsv"
        return replace(self, source=self.source.absolute(), form=form, files=files, named=self.source)

    @property
    def whole(self) -> bool:
        """Whether it is the only piece of its source, and the source is not a folder."""
        return self.part is None and self.files is None

    @property
    def much(self) -> bool:
        """Whether one task should not answer the whole source alone: it is large, or its size is unknown."""
        return self.whole and (self.size is None or self.size > PIECE_BYTES)


def pieces_of(source: Path, reading: Reading, block_documents: int, *, keep: bool) -> Iterator[Piece]:
    """Yield what tasks read of a source of text; where it is cut depends on the source alone.

    `source`: ``-`` is standard input.
    `reading`: labels play no part: their column is like any other.
    `block_documents`: documents of a block at most.
    `keep`: keep all columns, and not the ids alone.
    Raises IngestError: the source is missing, cannot be read, or has no such column.
    """
    columns = Columns(reading.text, None, reading.id, labelled=False, keep=keep)
    piece = Piece(source, records_format(source, reading), columns, reading.encoding, block_documents)
    if piece.form == "folder":
        yield from _of_files(piece)
        return
    lines = piece.form in (LINES, LINES_OR_TSV, "tsv", "jsonl") and in_plain_lines(source, reading.encoding)
    if _is_lasting(source):
        there = source.stat()
        piece = replace(piece, size=there.st_size, changed=there.st_mtime_ns)
    n_bytes = piece.size or 0
    if n_bytes <= PIECE_BYTES or not (lines or piece.form == "parquet"):
        yield piece
        return
    if piece.form == LINES_OR_TSV:
        piece = replace(piece, form=LINES if whole_lines(source, reading.encoding) else "tsv")
    if lines and keep:
        first = next(piece.read(RowValidator("skip")), Records(texts_of_strings([])))
        piece = replace(piece, columns=replace(columns, known=tuple(first.columns)))
    for part in parts_of(source, n_bytes, PIECE_BYTES, lines=lines):
        yield replace(piece, part=part)


def _is_lasting(source: Path) -> bool:
    """Whether a source is a file that can be read more than once, and by other processes under the same name."""
    return source.is_file() and not str(source.absolute()).startswith(("/dev/fd/", "/dev/stdin", "/proc/"))


def _of_files(piece: Piece) -> Iterator[Piece]:
    """Yield groups of the files of a folder; one without files is one group, whose reader says what is wrong."""
    held, n_bytes, none = list[Path](), 0, True
    for file in files_below(piece.source):
        held.append(file)
        n_bytes += file.stat().st_size
        if n_bytes >= PIECE_BYTES:
            yield replace(piece, files=tuple(held))
            held, n_bytes, none = [], 0, False
    if held or none:
        yield replace(piece, files=tuple(held))


def read_records(
    source: Path, reading: Reading, gate: RowValidator, block_documents: int, *, keep: bool
) -> Iterator[Records]:
    """Yield the documents of a source of text, in order, as tasks that read `pieces_of` it do."""
    for piece in pieces_of(source, reading, block_documents, keep=keep):
        yield from piece.read(gate)
