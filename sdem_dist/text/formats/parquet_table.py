"""Parquet files, read some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.kernels.lines import is_utf8
from sdem_dist.storage.places import for_a_reader
from sdem_dist.text.formats.csv_table import column_positions
from sdem_dist.text.texts import Columns, Records, Texts, is_text, texts_of_arrow
from sdem_dist.text.validation import RowValidator

if TYPE_CHECKING:
    import pyarrow

ROWS_AT_A_TIME = 1 << 14


def read_parquet(
    path: Path, gate: RowValidator, columns: Columns, block_documents: int, groups: tuple[int, int] | None = None
) -> Iterator[Records]:
    """Yield the documents of rows, from the columns of these names; with `groups` those of some row groups only.

    A text that is null is an empty one.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(for_a_reader(path)) as file:
            names = file.schema_arrow.names
            wanted = column_positions(path, names, columns)
            first, stop = groups or (0, file.num_row_groups)
            row, size = (
                sum(file.metadata.row_group(i).num_rows for i in range(first)),
                min(block_documents, ROWS_AT_A_TIME),
            )
            read = names if columns.keep else list(dict.fromkeys(names[i] for i in wanted))
            for batch in file.iter_batches(batch_size=size, row_groups=range(first, stop), columns=read):
                yield _documents(path, row, batch, gate, columns)
                row += batch.num_rows
    except FileNotFoundError as error:
        raise IngestError(f"{path}: there is no such file") from error
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise IngestError(f"{path} cannot be read as Parquet: {error}") from error


def _documents(path: Path, first: int, batch: pyarrow.RecordBatch, gate: RowValidator, columns: Columns) -> Records:
    label, text, id_ = columns.names
    column = batch.column(text)
    column = column.dictionary_decode() if hasattr(column, "dictionary_decode") else column
    column = column.cast("string") if str(column.type) == "null" else column
    found = texts_of_arrow(column.fill_null("") if column.null_count and is_text(column.type) else column)
    wrong = [] if found is not None else column.to_pylist()
    names: dict[object, str] = {}
    kept, accepted = [], []
    for i, raw in enumerate([None] * len(batch) if label is None else batch.column(label).to_pylist()):
        if found is None:
            gate.reject(path, first + i + 1, f"the text in column {text!r} is {wrong[i]!r:.60}, not a string", "row")
            continue
        name = names.get(raw) if type(raw) is str else None
        if label is not None and name is None:
            name = gate.label(path, first + i + 1, raw, "row")
            if name is None:
                continue
            if type(raw) is str:
                names[raw] = name
        kept.append(i)
        if name is not None:
            accepted.append(name)
    if found is None:
        return Records(Texts(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)))
    if len(found) and not is_utf8(found.data, int(found.starts[0]), int(found.stops[-1])):
        rows = f"{first + 1} to {first + len(found)}"
        raise IngestError(f"{path} cannot be read as Parquet: a text among rows {rows} is not UTF-8")
    beside = batch
    if len(kept) < len(batch) and (columns.keep or id_ is not None):
        beside = batch.take(np.array(kept, np.int64))
    ids = None if id_ is None else beside.column(id_).to_pylist()
    values = dict(zip(beside.schema.names, beside.columns, strict=True)) if columns.keep else {}
    return Records(Texts(found.data, found.starts[kept], found.stops[kept]), accepted, ids, values)
