"""Tables by Arrow's readers: delimited text, with a header or without, and Parquet files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.storage.urls import for_a_reader
from sdem_dist.text.files import is_utf8_name, line_blocks
from sdem_dist.text.sources import Reading
from sdem_dist.text.texts import RecordBatch, texts_of_binary, texts_of_bytes
from sdem_dist.text.validation import NoLabelError, Problems, not_unicode

if TYPE_CHECKING:
    import pyarrow

DELIMITERS = ",;\t|"
MAX_RECORD_BYTES = 1 << 26  # bytes; no record is longer
PARQUET_ROWS = 1 << 14  # at a time


def read_csv(path: Path, reading: Reading, block_documents: int, *, keep: bool) -> Iterator[RecordBatch]:
    """Yield the records of a table; blank lines are passed over, and numbers count records, the header too."""
    import pyarrow
    import pyarrow.csv

    stream, header = _Stream(path, reading.encoding), reading.header is not False
    names, delimiter = _first_record(path, stream, reading)
    if not header and len(names) == 2 and reading.text is None and reading.label is None:
        reading = replace(reading, label=0 if reading.labelled else None, text=1)
    positions = _positions(path, names, reading, keep)
    columns = list(map(str, range(len(names)) if keep else sorted({i for some in positions.values() for i in some})))
    invalid: dict[int, str] = {}  # why records do not fit the header, by their numbers
    number, last = 1 + header, None

    def skip(row: pyarrow.csv.InvalidRow) -> str:
        invalid[row.number + header] = f"{row.actual_columns} fields under a header of {len(names)}"
        return "skip"

    while not stream.first.strip(b"\r\n"):
        stream.first = stream.next_block()
        if not stream.first:
            return
    try:
        batches = pyarrow.csv.open_csv(
            pyarrow.PythonFile(stream, mode="r"),
            pyarrow.csv.ReadOptions(use_threads=False, block_size=1 << 30, column_names=[*map(str, range(len(names)))]),
            pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip),
            pyarrow.csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(columns, pyarrow.binary()),
                strings_can_be_null=False,
                include_columns=columns,
            ),
        )
        for batch in batches:
            for first in range(0, batch.num_rows, block_documents):
                last = batch.slice(first, block_documents)
                numbers = np.arange(number, number + last.num_rows + len(invalid))
                numbers = numbers[~np.isin(numbers, list(invalid))][: last.num_rows]
                number = int(numbers[-1]) + 1
                of_role = {role: [last.column(str(i)) for i in some] for role, some in positions.items()}
                records = RecordBatch(list(map(texts_of_binary, of_role.pop("text"))), {}, numbers, "record")
                records.roles = {role: texts_of_binary(some[0]) for role, some in of_role.items()}
                if "label" in of_role:  # as bytes labels are found among those that have passed
                    records.roles["label"] = of_role["label"][0].to_pylist()
                records.escaped = not is_utf8_name(reading.encoding)
                if keep:
                    cells = zip(names, last.columns, strict=True)
                    records.beside = {name: _strings(column, records.problems) for name, column in cells}
                records.invalid = {n: invalid.pop(n) for n in list(invalid) if n < number}
                yield records
    except pyarrow.ArrowInvalid as error:
        if "Empty CSV" not in str(error):
            raise IngestError(f"{path}, after record {number - 1:,}: {error}; is a quote not closed?") from error
    yield RecordBatch([texts_of_bytes([])], {}, np.zeros(0, int), "record", invalid=invalid)
    if stream.n_quotes % 2 and last is not None and any(b"\n" in column[-1].as_py() for column in last.columns):
        raise IngestError(f"{path}, record {number - 1:,}: a quote is not closed before the end of the file")


class _Stream:
    """The bytes of a file in UTF-8 as Arrow reads them: whole lines at a time, or more where a quote is open."""

    closed = False

    def __init__(self, path: Path, encoding: str) -> None:
        self._blocks = (block.raw[: block.size] for block in line_blocks(path, encoding))
        self.n_quotes, self.first = 0, b""

    def next_block(self) -> bytes:
        block = next(self._blocks, b"")
        self.n_quotes += block.count(b'"')
        return block

    def read(self, size: int) -> bytes:
        blocks = [self.first or self.next_block()]
        self.first = b""
        while self.n_quotes % 2 and sum(map(len, blocks)) < MAX_RECORD_BYTES and (block := self.next_block()):
            blocks.append(block)
        return b"".join(blocks)

    def close(self) -> None:
        """Do nothing: the file is closed at its end."""


def _first_record(path: Path, stream: _Stream, reading: Reading) -> tuple[list[str], str]:
    """Return the names of the columns, which are taken from the stream, and what stands between them."""
    delimiters = DELIMITERS if reading.delimiter is None else reading.delimiter
    if reading.delimiter is not None and (len(delimiters) != 1 or not delimiters.isascii()):
        raise IngestError(f"{path}: the delimiter is one ASCII character, such as ';', not {reading.delimiter!r}")
    stream.first = stream.next_block()
    text = stream.first.decode("utf-8", "surrogateescape")
    names, delimiter, end = list[str](), delimiters[0], 0
    for candidate in delimiters:
        rows = io.StringIO(text, newline="")
        fields = next(csv.reader(rows, delimiter=candidate), [])
        if not names or (len(names) == 1 and len(fields) > 1):
            names, delimiter, end = fields, candidate, rows.tell()
    if reading.header is False:
        return [str(i) for i in range(len(names))], delimiter
    stream.first = stream.first[len(text[:end].encode("utf-8", "surrogateescape")) :]
    return names, delimiter


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


def read_parquet(
    path: Path, reading: Reading, block_documents: int, groups: tuple[int, int] | None = None, *, keep: bool
) -> Iterator[RecordBatch]:
    """Yield the rows of a file, or of some of its row groups; numbers count rows of the file."""
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(for_a_reader(path)) as file:
            names = file.schema_arrow.names
            positions = _positions(path, names, reading, keep)
            first, stop = groups or (0, file.num_row_groups)
            row = 1 + sum(file.metadata.row_group(i).num_rows for i in range(first))
            size = min(block_documents, PARQUET_ROWS)
            columns = names if keep else list(dict.fromkeys(names[i] for some in positions.values() for i in some))
            for batch in file.iter_batches(batch_size=size, row_groups=range(first, stop), columns=columns):
                of_role = {role: [batch.column(names[i]) for i in some] for role, some in positions.items()}
                texts = of_role.pop("text")
                beside = dict(zip(batch.schema.names, batch.columns, strict=True)) if keep else {}
                numbers = np.arange(row, row + batch.num_rows)
                row += batch.num_rows
                yield RecordBatch(texts, {role: some[0] for role, some in of_role.items()}, numbers, "row", beside)
    except FileNotFoundError as error:
        raise IngestError(f"{path}: there is no such file") from error
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise IngestError(f"{path} cannot be read as Parquet: {error}") from error


def _positions(path: Path, names: list[str], reading: Reading, keep: bool) -> dict[str, list[int]]:
    """Return where the columns stand: those of "text", and one of each other role that is read."""
    if not names:
        raise IngestError(f"{path}, line 1: there are no names of columns; is the file empty?")
    columns = {**{role: [name] for role, name in reading.roles.items()}, "text": reading.texts(names)}
    for role, name in ((role, name) for role, some in columns.items() for name in some):
        if names.count(name) == 1:
            continue
        times = "more than one column" if name in names else "no column"
        kind = NoLabelError if role == "label" and name not in names else IngestError
        options = "--label and --text" if reading.labelled else "--text (and --id)"
        raise kind(
            f"{path}, line 1: there is {times} {name!r}; the columns are {', '.join(map(repr, names))}. Choose with "
            f"{options if role in ('label', 'text', 'id') else f'--{role}'}"
        )
    if keep and (twice := [name for name in names if names.count(name) > 1]):
        raise IngestError(f"{path}: there is more than one column {twice[0]!r}: rename one of them")
    return {role: [names.index(name) for name in some] for role, some in columns.items()}
