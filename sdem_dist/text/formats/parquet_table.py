"""Parquet files, read some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sdem_dist.errors import IngestError
from sdem_dist.text.bad_lines import LineGate
from sdem_dist.text.formats.csv_table import column_positions

ROWS_AT_A_TIME = 2000


def read_parquet(path: Path, gate: LineGate, label: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of each row, from the columns of these names. Needs the package pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise IngestError(
            f"{path}: reading Parquet needs the package pyarrow; install it with pip install 'sdem_dist[parquet]'"
        ) from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            column_positions(path, file.schema_arrow.names, label, text)
            row = 0
            for batch in file.iter_batches(batch_size=ROWS_AT_A_TIME, columns=[label, text]):
                names, texts = batch.column(label).to_pylist(), batch.column(text).to_pylist()
                for raw, words in zip(names, texts, strict=True):
                    row += 1
                    if not isinstance(words, str):
                        gate.refuse(path, row, f"the text in column {text!r} is {words!r:.60}, not a string", "row")
                        continue
                    name = gate.label(path, row, raw, "row")
                    if name is not None:
                        yield name, words
    except FileNotFoundError as error:
        raise IngestError(f"{path}: there is no such file") from error
    except (pyarrow.ArrowException, OSError) as error:
        raise IngestError(f"{path} cannot be read as Parquet: {error}") from error
