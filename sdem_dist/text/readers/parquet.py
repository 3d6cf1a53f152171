"""Parquet files, read some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.storage.urls import for_a_reader
from sdem_dist.text.readers.csv import column_positions
from sdem_dist.text.texts import Columns, RecordBatch

ROWS_AT_A_TIME = 1 << 14


def read_parquet(
    path: Path, columns: Columns, block_documents: int, groups: tuple[int, int] | None = None
) -> Iterator[RecordBatch]:
    """Yield the rows of a file, or of some of its row groups; numbers count rows of the file."""
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(for_a_reader(path)) as file:
            names = file.schema_arrow.names
            wanted = column_positions(path, names, columns)
            first, stop = groups or (0, file.num_row_groups)
            row = 1 + sum(file.metadata.row_group(i).num_rows for i in range(first))
            size = min(block_documents, ROWS_AT_A_TIME)
            read = names if columns.keep else list(dict.fromkeys(names[i] for some in wanted.values() for i in some))
            for batch in file.iter_batches(batch_size=size, row_groups=range(first, stop), columns=read):
                chosen = {role: [batch.column(names[i]) for i in some] for role, some in wanted.items()}
                texts = chosen.pop("text")
                beside = dict(zip(batch.schema.names, batch.columns, strict=True)) if columns.keep else {}
                numbers = np.arange(row, row + batch.num_rows)
                row += batch.num_rows
                yield RecordBatch(texts, {role: some[0] for role, some in chosen.items()}, numbers, "row", beside)
    except FileNotFoundError as error:
        raise IngestError(f"{path}: there is no such file") from error
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise IngestError(f"{path} cannot be read as Parquet: {error}") from error
