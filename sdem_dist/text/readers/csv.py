"""Tables of delimited text, with a header or without, by Arrow's reader."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.text.files import is_utf8_name, line_blocks
from sdem_dist.text.texts import ROLES, Columns, RecordBatch, Texts, texts_of_binary, texts_of_bytes
from sdem_dist.text.validation import NoLabelError, Problems, not_unicode

if TYPE_CHECKING:
    import pyarrow

DELIMITERS = ",;\t|"
MAX_PIECE = 1 << 26  # bytes; no record is longer
UNIT = "record"


def read_csv(
    path: Path,
    encoding: str,
    columns: Columns,
    block_documents: int,
    delimiter: str | None = None,
    header: bool = True,
) -> Iterator[RecordBatch]:
    """Yield the records of a table; blank lines are passed over, and numbers count records, the header too.

    `delimiter`: None: what stands between the names in the header.
    `header`: whether the first record has the names of columns; if not, columns are numbers from 0.
    Raises IngestError: a column is missing, or a record is longer than `MAX_PIECE`.
    """
    import pyarrow
    import pyarrow.csv

    stream = _Stream(path, encoding)
    names, delimiter = _first_record(path, stream, delimiter, header)
    if not header and len(names) == 2 and columns.text is None and columns.label is None:
        columns = replace(columns, label=0, text=1)
    wanted = column_positions(path, names, columns)
    read = [*map(str, range(len(names)) if columns.keep else sorted({i for some in wanted.values() for i in some}))]
    invalid: dict[int, str] = {}  # why records do not fit the header, by their numbers

    def skip(row: pyarrow.csv.InvalidRow) -> str:
        invalid[row.number + header] = f"{row.actual_columns} fields under a header of {len(names)}"
        return "skip"

    def take_invalid(before: int) -> dict[int, str]:
        return {number: invalid.pop(number) for number in list(invalid) if number < before}

    if stream.is_empty:
        return
    number, last = 1 + header, None
    try:
        batches = pyarrow.csv.open_csv(
            pyarrow.PythonFile(stream, mode="r"),
            pyarrow.csv.ReadOptions(use_threads=False, block_size=1 << 30, column_names=[*map(str, range(len(names)))]),
            pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip),
            pyarrow.csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(read, pyarrow.binary()),
                strings_can_be_null=False,
                include_columns=read,
            ),
        )
        for batch in batches:
            for first in range(0, batch.num_rows, block_documents):
                last = batch.slice(first, block_documents)
                numbers = np.arange(number, number + last.num_rows + len(invalid))
                numbers = numbers[~np.isin(numbers, list(invalid))][: last.num_rows]
                number = int(numbers[-1]) + 1
                records = _record_batch(last, names, wanted, columns, numbers, escaped=not is_utf8_name(encoding))
                records.invalid = take_invalid(number)
                yield records
    except pyarrow.ArrowInvalid as error:
        if "Empty CSV" not in str(error):
            raise IngestError(f"{path}, after record {number - 1:,}: {error}; is a quote not closed?") from error
    yield RecordBatch([texts_of_bytes([])], {}, np.zeros(0, int), UNIT, invalid=take_invalid(1 << 62))
    if stream.n_quotes % 2 and last is not None and any(b"\n" in column[-1].as_py() for column in last.columns):
        raise IngestError(f"{path}, {UNIT} {number - 1:,}: a quote is not closed before the end of the file")


class _Stream:
    """The bytes of a file in UTF-8, whole lines at a time, as Arrow reads them."""

    def __init__(self, path: Path, encoding: str) -> None:
        self._blocks = (block.raw[: block.size] for block in line_blocks(path, encoding))
        self.first = next(self._blocks, b"")
        self.n_quotes = self.first.count(b'"')
        self.closed = False

    @property
    def is_empty(self) -> bool:
        """Nothing but blank lines is left."""
        while not self.first.strip(b"\r\n"):
            if not (block := next(self._blocks, b"")):
                return True
            self.first = block
            self.n_quotes += block.count(b'"')
        return False

    def read(self, size: int) -> bytes:
        """Return the next bytes; where a quote is open at the end of a block, those of more blocks."""
        pieces = [self.first or next(self._blocks, b"")]
        if not self.first:
            self.n_quotes += pieces[0].count(b'"')
        self.first = b""
        while self.n_quotes % 2 and sum(map(len, pieces)) < MAX_PIECE and (piece := next(self._blocks, b"")):
            pieces.append(piece)
            self.n_quotes += piece.count(b'"')
        return b"".join(pieces)

    def close(self) -> None:
        """Do nothing: the file is closed at its end."""


def _first_record(path: Path, stream: _Stream, delimiter: str | None, header: bool) -> tuple[list[str], str]:
    """Return the names of the columns, which are taken from the stream, and what stands between them."""
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii()):
        raise IngestError(f"{path}: the delimiter is one ASCII character, such as ';', not {delimiter!r}")
    text = stream.first.decode("utf-8", "surrogateescape")
    best: tuple[list[str], str, int] = [], delimiter or ",", 0
    for candidate in DELIMITERS if delimiter is None else delimiter:
        rows = io.StringIO(text, newline="")
        names = next(csv.reader(rows, delimiter=candidate), [])
        if not best[0] or (len(best[0]) == 1 and len(names) > 1):
            best = names, candidate, rows.tell()
    names, candidate, end = best
    if not header:
        return [str(i) for i in range(len(names))], candidate
    stream.first = stream.first[len(text[:end].encode("utf-8", "surrogateescape")) :]
    return names, candidate


def _record_batch(
    batch: pyarrow.RecordBatch,
    names: list[str],
    wanted: dict[str, list[int]],
    columns: Columns,
    numbers: np.ndarray,
    *,
    escaped: bool,
) -> RecordBatch:
    roles: dict[str, list[object] | Texts | pyarrow.Array] = {
        role: texts_of_binary(batch.column(str(places[0]))) for role, places in wanted.items() if role in ROLES[1:]
    }
    texts = [texts_of_binary(batch.column(str(place))) for place in wanted["text"]]
    if "label" in wanted:
        roles["label"] = batch.column(str(wanted["label"][0])).to_pylist()
    record_batch = RecordBatch(list(texts), roles, numbers, UNIT, escaped=escaped)
    for i, name in enumerate(names if columns.keep else ()):
        record_batch.beside[name] = _strings(batch.column(str(i)), record_batch.problems)
    return record_batch


def _strings(column: pyarrow.Array, problems: Problems) -> pyarrow.Array:
    """Return a column of bytes as strings, and note what is none."""
    import pyarrow

    try:
        return column.cast(pyarrow.string())
    except pyarrow.ArrowInvalid:
        values = [value.decode("utf-8", "surrogateescape") for value in column.to_pylist()]
    for row, value in enumerate(values):
        if (problem := not_unicode(value)) is not None:
            problems.setdefault(row, (f"the record has {problem}", IngestError))
    return pyarrow.array([value.encode("utf-8", "replace").decode() for value in values])


def column_positions(path: Path, names: list[str], columns: Columns) -> dict[str, list[int]]:
    """Return where the columns stand: those of "text", and one of each of `ROLES` that is read.

    Raises IngestError: one of them is missing, or stands there twice, or any does that is kept.
    """
    if not names:
        raise IngestError(f"{path}, line 1: there are no names of columns; is the file empty?")
    text = columns.texts
    if len(text) == 1 and str(text[0]) not in names and "," in str(text[0]):
        text = tuple(str(text[0]).split(","))
    wanted = {role: [str(columns.of(role))] for role in ROLES if columns.of(role) is not None}
    wanted["text"] = list(map(str, text))
    for role, some in wanted.items():
        for name in some:
            if names.count(name) != 1:
                times = "no column" if name not in names else "more than one column"
                kind = NoLabelError if role == "label" and name not in names else IngestError
                options = "--label and --text" if columns.labelled else "--text (and --id)"
                raise kind(
                    f"{path}, line 1: there is {times} {name!r}; the columns are {', '.join(map(repr, names))}. Choose with "
                    f"{options if role in ('label', 'text', 'id') else f'--{role}'}"
                )
    if columns.keep and (twice := [name for name in names if names.count(name) > 1]):
        raise IngestError(f"{path}: there is more than one column {twice[0]!r}: rename one of them")
    return {role: [names.index(name) for name in some] for role, some in wanted.items()}
