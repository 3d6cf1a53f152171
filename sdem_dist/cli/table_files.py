"""Tables that are written a block at a time: TAB-separated, CSV, JSON Lines or Parquet by suffix."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import click

from sdem_dist.cli.answers import on_a_line
from sdem_dist.cli.outputs import check_output
from sdem_dist.cli.shown import visible
from sdem_dist.text.records import listed

Columns = dict[str, Any]
"""Names and values of consecutive rows: lists, or Arrow arrays, which say the type of what none of the rows may have."""


def write_table(path: Path, blocks: Iterator[Columns]) -> None:
    """Write a table; it appears under its name whole, or not at all.

    Parameters
    ----------
    path : Path
        Its suffix, see `FORMS`, says the format.
    blocks : iterator of dict
        All of the same columns.
    """
    from sdem_dist.storage.publish import publish_file

    write = FORMS[path.suffix.lower()]
    publish_file(path, lambda partial: write(partial, blocks))


def check_table(path: Path, inputs: Iterable[str | Path]) -> None:
    """Raise UsageError where no table can be written to a path, see `sdem_dist.cli.outputs.check_output`."""
    if path.suffix.lower() not in FORMS:
        raise click.UsageError(f"{path}: the suffix says the format, one of {', '.join(FORMS)}")
    check_output(path, inputs)


def _same(names: list[str], block: Columns) -> list[list[Any]]:
    """Return the values of a block, or raise UsageError where another source has other columns."""
    if list(block) != names:
        raise click.UsageError(
            f"a source has the columns {', '.join(map(repr, block))}, and one before {', '.join(map(repr, names))}: write "
            "a table of each"
        )
    return list(block.values())


def _rows(blocks: Iterator[Columns]) -> Iterator[tuple[Any, ...]]:
    """Yield the names of the columns, then the rows."""
    names: list[str] | None = None
    for block in blocks:
        if names is None:
            names = list(block)
            yield tuple(names)
        yield from zip(*map(listed, _same(names, block)), strict=True)


def as_text(value: object) -> str:
    """Return a value as a field of a table of text; control characters are written out."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)  # the shortest that reads as the same number
    if isinstance(value, list) and all(isinstance(member, str | int | float) for member in value):
        return visible("|".join(map(str, value)))
    return visible(json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value)


def _csv(path: Path, blocks: Iterator[Columns]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(map(as_text, row) for row in _rows(blocks))


def _tsv(path: Path, blocks: Iterator[Columns]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for row in _rows(blocks):
            file.write("\t".join([on_a_line(as_text(value)) for value in row]) + "\n")


def _json_lines(path: Path, blocks: Iterator[Columns]) -> None:
    with path.open("wb") as file:
        rows = _rows(blocks)
        names = next(rows, ())
        for row in rows:
            _write_object(file, dict(zip(names, row, strict=True)))


def _write_object(file: IO[bytes], row: dict[str, Any]) -> None:
    import orjson

    try:
        file.write(orjson.dumps(row, default=str, option=orjson.OPT_APPEND_NEWLINE))
    except TypeError:  # numbers beyond 64 bits, halves of surrogate pairs
        text = json.dumps(row, default=str, ensure_ascii=False)
        file.write(text.encode(errors="backslashreplace") + b"\n")  # as JSON writes half of a surrogate pair, too


def _parquet(path: Path, blocks: Iterator[Columns]) -> None:
    """Write blocks; where a later one shows that a column needs a wider type, what is written is written again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found, writer = pa.schema([]), None  # types as far as they are known: null where no value was met
    try:
        for block in blocks:
            names = list(block) if writer is None else found.names
            table = pa.table([_column(values) for values in _same(names, block)], names=names)
            try:
                found = pa.unify_schemas([found, table.schema], promote_options="permissive")
                written = pa.schema([(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in found])
                if writer is None:
                    writer = pq.ParquetWriter(path, written)
                elif written != writer.schema:
                    writer.close()
                    writer = _widened(path, written)
                writer.write_table(table.cast(written))
            except pa.ArrowException as error:
                raise click.ClickException(
                    f"a column changes from one kind of value to another ({error}): write .jsonl, where it may"
                ) from error
    finally:
        (writer or pq.ParquetWriter(path, found)).close()


def _widened(path: Path, schema: Any) -> Any:
    """Return a writer of a file that begins with the rows of another one, whose types are narrower."""
    import pyarrow.parquet as pq

    narrow = path.replace(path.with_name(f"{path.name}.narrow"))
    try:
        writer = pq.ParquetWriter(path, schema)
        with pq.ParquetFile(narrow) as file:
            for k in range(file.num_row_groups):
                writer.write_table(file.read_row_group(k).cast(schema))
    finally:
        narrow.unlink()
    return writer


def _column(values: Any) -> Any:
    """Return values as an Arrow column; of mixed kinds, or with text that is not Unicode, it is text."""
    import pyarrow as pa

    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array(values)
    except (pa.ArrowException, UnicodeEncodeError):
        return pa.array([None if value is None else as_text(value) for value in values], pa.string())


FORMS: dict[str, Callable[[Path, Iterator[Columns]], None]] = {
    ".tsv": _tsv,
    ".csv": _csv,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
"""What writes a file of each suffix."""
