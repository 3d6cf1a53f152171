"""Sources as blocks of records: the text of each document, and what stands beside it."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sdem_dist.errors import IngestError
from sdem_dist.text.bad_lines import LineGate, not_unicode
from sdem_dist.text.compressed import plain_suffix
from sdem_dist.text.decoded import open_text
from sdem_dist.text.formats.csv_table import LARGEST_FIELD, column_positions
from sdem_dist.text.formats.plain_lines import read_plain_lines
from sdem_dist.text.sources import LINES, NUMERIC_FORMATS, SUFFIXES, Reading, column_number
from sdem_dist.text.texts import BLOCK_CHARACTERS, Texts, texts_of_arrow, texts_of_strings

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Records:
    """Consecutive documents of a source.

    Attributes
    ----------
    texts : Texts
    columns : dict of str to list or pyarrow.Array
        What stands beside the texts, where it is kept; a value for each text. Sources that have types give arrays.
    ids : list, or None
        The ids of the documents, where a column of them was named.
    """

    texts: Texts
    columns: dict[str, list[object] | pyarrow.Array] = field(default_factory=dict)
    ids: list[object] | None = None


def listed(column: list[object] | pyarrow.Array) -> list[object]:
    """Return a column of records as a list."""
    found: list[object] = column if isinstance(column, list) else column.to_pylist()
    return found


def records_format(source: Path, reading: Reading) -> str:
    """Return how a source is read: `LINES`, or one of the formats that `sdem_dist.text.sources` reads.

    Raises
    ------
    IngestError
        It holds numbers, or one JSON document, or its format and its kind do not go together.
    """
    suffix = plain_suffix(source)
    form = reading.format or ("folder" if source.is_dir() else SUFFIXES.get(suffix, LINES))
    if suffix == ".txt" and reading.format is None:
        form = LINES
    if form in NUMERIC_FORMATS:
        raise IngestError(
            f"{source} is {form}, which holds numbers: make a corpus of it (sdem ingest {source} NAME.zarr "
            "--vocabulary-from CORPUS, the one of the training), and give that"
        )
    if suffix == ".json" and reading.format is None:
        raise IngestError(f"{source} is json: write an object a line into a .jsonl file, or the texts into a .txt file")
    if (form == "folder") != source.is_dir():
        raise IngestError(f"{source} is {'a folder' if source.is_dir() else 'a file'}, which is not read as {form!r}")
    return form


def read_records(
    source: Path, reading: Reading, gate: LineGate, block_documents: int, *, keep: bool
) -> Iterator[Records]:
    """Yield the documents of a source of text, in order.

    Parameters
    ----------
    source : Path
        ``-`` is standard input.
    reading : Reading
        Labels play no part: their column is like any other.
    gate : LineGate
        What happens to a line that is no document.
    block_documents : int
        Documents of a block at most.
    keep : bool
        Keep all columns, and not the ids alone.

    Raises
    ------
    IngestError
        The source is missing, cannot be read, or has no such column.
    """
    form = records_format(source, reading)
    if form in (LINES, "tsv"):
        text = column_number(source, reading.text)
        text = 1 if form == "tsv" and text is None else text
        if text is None and reading.id is not None:
            raise IngestError(
                f"{source}: --id names a column of the lines, so name that of the text, too (--text NUMBER)"
            )
        if text is None or not (keep or reading.id is not None):
            alone = form == "tsv" and reading.text is None
            blocks = read_plain_lines(
                source, reading.encoding, text, block_documents, gate, n_columns=2 if alone else None
            )
            yield from map(Records, blocks)
            return
        yield from _in_blocks(_tab_lines(source, reading, gate, text), block_documents, keep)
        return
    column, ids = str("text" if reading.text is None else reading.text), None if reading.id is None else str(reading.id)
    if form == "parquet":
        yield from _parquet(source, column, ids, gate, block_documents, keep)
        return
    if form == "folder":
        rows = _files(source, reading.encoding, gate)
    elif form == "csv":
        rows = _csv(source, column, ids, reading.encoding, gate, keep)
    else:
        rows = _json_lines(source, column, ids, reading.encoding, gate)
    yield from _in_blocks(rows, block_documents, keep)


_CHOICES = "--text (and --id)"
Row = tuple[str, Mapping[str, object], object]
"""A text, what stands beside it, and its id, or None."""


def _in_blocks(rows: Iterator[Row], block_documents: int, keep: bool) -> Iterator[Records]:
    """Yield rows in blocks of at most so many, and of some megabytes; all rows of a block have the same columns."""
    names: tuple[str, ...] | None = None
    while True:
        texts, columns, ids, size = [], [], [], 0
        for text, beside, id_ in islice(rows, block_documents):
            texts.append(text)
            ids.append(id_)
            if keep:
                columns.append(beside)
            size += len(text)
            if size >= BLOCK_CHARACTERS:
                break
        if not texts:
            return
        if names is None:  # fields may be missing here and there
            names = tuple({name: None for beside in columns for name in beside})
        for beside in columns:
            if odd := beside.keys() - set(names):
                raise IngestError(
                    f"a record has the field {sorted(odd)[0]!r}, which none of the first {block_documents:,} has: give it "
                    "to one of them, with null"
                )
        kept: dict[str, list[object] | pyarrow.Array] = {name: [row.get(name) for row in columns] for name in names}
        yield Records(texts_of_strings(texts), kept, None if ids[0] is None else ids)


def _tab_lines(source: Path, reading: Reading, gate: LineGate, text: int) -> Iterator[Row]:
    ids = column_number(source, reading.id)
    with open_text(source, reading.encoding, newline="\n") as stream:
        n_columns = 2 if reading.text is None else None
        for number, line in enumerate(stream, 1):
            line = line.rstrip("\r\n")
            if "\t" not in line and not line.strip():
                continue
            columns = line.split("\t")
            if (problem := not_unicode(line)) is not None:
                gate.refuse(source, number, f"the line has {problem}")
            elif n_columns is not None and len(columns) != n_columns:
                many = "there is" if reading.text is None and n_columns == 2 else "the first has"
                gate.refuse(
                    source, number, f"{len(columns)} columns, where {many} {n_columns}; choose with --text NUMBER"
                )
            elif not all(-len(columns) <= wanted < len(columns) for wanted in (text, ids or 0)):
                gate.refuse(source, number, f"there is no column {max(text, ids or 0)}: the line has {len(columns)}")
            else:
                n_columns = len(columns)
                named = {f"column_{i}": value for i, value in enumerate(columns)}
                yield columns[text], named, None if ids is None else columns[ids]


def _csv(source: Path, text: str, ids: str | None, encoding: str, gate: LineGate, keep: bool) -> Iterator[Row]:
    csv.field_size_limit(max(csv.field_size_limit(), LARGEST_FIELD))
    with open_text(source, encoding, newline="") as stream:
        records = csv.reader(stream, strict=True)
        try:
            header = next(records, [])
        except csv.Error as error:
            raise IngestError(f"{source}, line 1: the header is not CSV: {error}") from error
        place, *ids_place = column_positions(source, header, text, *([] if ids is None else [ids]), options=_CHOICES)
        if keep:
            _refuse_twice(source, header)
        while True:
            line = records.line_num + 1
            try:
                fields = next(records)
            except StopIteration:
                return
            except csv.Error as error:
                gate.refuse(source, line, f"not CSV: {error}")
                continue
            if not fields:
                continue
            if len(fields) != len(header):
                gate.refuse(source, line, f"{len(fields)} fields under a header of {len(header)}")
            elif (problem := next(filter(None, map(not_unicode, fields)), None)) is not None:
                gate.refuse(source, line, f"the record has {problem}")
            else:
                yield fields[place], dict(zip(header, fields, strict=True)), fields[ids_place[0]] if ids_place else None


def _refuse_twice(source: Path, names: list[str]) -> None:
    """Raise IngestError where two columns of a table have one name: one of them would be lost."""
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise IngestError(f"{source}: there is more than one column {twice[0]!r}: rename one of them")


def _json_lines(source: Path, text: str, ids: str | None, encoding: str, gate: LineGate) -> Iterator[Row]:
    from sdem_dist.text.formats.json_lines import json_objects

    for number, found in json_objects(source, encoding, gate):
        words = found.get(text)
        if not isinstance(words, str):
            present = ", ".join(repr(k) for k in found) or "none"
            gate.refuse(source, number, f"field {text!r} holds no text; the fields are {present} (--text)")
        elif ids is not None and not isinstance(found.get(ids), str | int):
            gate.refuse(source, number, f"field {ids!r} holds no id: a text, or a whole number")
        elif (problem := not_unicode(words)) is not None:
            gate.refuse(source, number, f"the text has {problem}")
        elif ids is not None and (problem := not_unicode(str(found[ids]))) is not None:
            gate.refuse(source, number, f"the id has {problem}")
        elif (problem := next(filter(None, map(not_unicode, found)), None)) is not None:
            gate.refuse(source, number, f"the name of a field has {problem}")
        else:
            yield words, found, None if ids is None else found[ids]


def _files(folder: Path, encoding: str, gate: LineGate) -> Iterator[Row]:
    from sdem_dist.text.formats.folder import decoded_file, files_below

    for file in files_below(folder):
        text = decoded_file(file, encoding, gate)
        if text is not None:
            yield text, {"file": str(file.relative_to(folder))}, None


def _parquet(
    source: Path, text: str, ids: str | None, gate: LineGate, block_documents: int, keep: bool
) -> Iterator[Records]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(source) as file:
            names, wanted = file.schema_arrow.names, list(dict.fromkeys([text] if ids is None else [text, ids]))
            column_positions(source, names, *wanted, options=_CHOICES)
            if keep:
                _refuse_twice(source, names)
            first = 0
            for batch in file.iter_batches(batch_size=block_documents, columns=names if keep else wanted):
                valid, found = _valid_texts(source, text, first, batch, gate)
                first += batch.num_rows
                kept = {name: valid.column(name) for name in names if keep}
                yield Records(found, kept, None if ids is None else valid.column(ids).to_pylist())
    except FileNotFoundError as error:
        raise IngestError(f"{source}: there is no such file") from error
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise IngestError(f"{source} cannot be read as Parquet: {error}") from error


def _valid_texts(
    source: Path, text: str, first: int, batch: pyarrow.RecordBatch, gate: LineGate
) -> tuple[pyarrow.RecordBatch, Texts]:
    """Return those rows of a batch that have a text, and their texts."""
    there = batch.column(text).is_valid()
    for row, valid in enumerate(there.to_pylist() if batch.column(text).null_count else ()):
        if not valid:
            gate.refuse(source, first + row + 1, f"column {text!r} holds no text", "row")
    batch = batch.filter(there)
    found = texts_of_arrow(batch.column(text))
    if found is None:
        raise IngestError(f"{source}: column {text!r} holds {batch.column(text).type}, not texts (--text)")
    return batch, found
