"""Sources as blocks of records without labels: the text of each document, and what stands beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sdem_dist.errors import IngestError
from sdem_dist.text.bad_lines import LineGate
from sdem_dist.text.compressed import plain_suffix
from sdem_dist.text.sources import LINES, LINES_OR_TSV, NUMERIC_FORMATS, SUFFIXES, Reading, read_columns
from sdem_dist.text.texts import Columns, Records

if TYPE_CHECKING:
    import pyarrow


def listed(column: list[object] | pyarrow.Array) -> list[object]:
    """Return a column of records as a list."""
    if isinstance(column, list):
        return column
    numbers = str(column.type) in ("int64", "double") and not column.null_count
    found: list[object] = column.to_numpy().tolist() if numbers else column.to_pylist()  # the first is much faster
    return found


def records_format(source: Path, reading: Reading) -> str:
    """Return how a source is read: one of the formats that `sdem_dist.text.sources` reads, or `LINES`, or `LINES_OR_TSV`.

    Raises
    ------
    IngestError
        It holds numbers, or one JSON document, or its format and its kind do not go together.
    """
    suffix = plain_suffix(source)
    form = reading.format or ("folder" if source.is_dir() else SUFFIXES.get(suffix, LINES))
    if reading.format is None and (form == LINES or suffix == ".txt"):
        form = LINES_OR_TSV if reading.text is None and reading.id is None else LINES
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
        What happens to a line that is not a document.
    block_documents : int
        Documents of a block at most.
    keep : bool
        Keep all columns, and not the ids alone.

    Raises
    ------
    IngestError
        The source is missing, cannot be read, or has no such column.
    """
    columns = Columns(reading.text, None, reading.id, labelled=False, keep=keep)
    return read_columns(source, records_format(source, reading), columns, reading.encoding, gate, block_documents)
