"""Tables that are written a block at a time: TAB-separated, CSV, JSON Lines or Parquet by suffix."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdem_dist.cli.outputs import check_output
from sdem_dist.cli.text_cells import Columns, as_text, cells_of_several_lines, csv_rows, json_rows, tab_rows
from sdem_dist.counted import counted
from sdem_dist.storage.publish import publish_file
from sdem_dist.text.records import listed

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Part:
    """Consecutive rows of a table."""

    names: list[str]  # of the columns
    body: bytes  # the rows in the format of the file; of Parquet an Arrow stream
    n_altered: int = 0  # texts that the format cannot hold as they are


def part_of(suffix: str, block: Columns) -> Part:
    """Return consecutive rows as the format of a suffix, see `FORMS`, has them."""
    return Part(list(block), FORMS[suffix][0](block), cells_of_several_lines(block) if suffix == ".tsv" else 0)


def write_table(path: Path, blocks: Iterator[Columns]) -> int:
    """Write a table, and return how many texts its format could not hold as they are, see `altered`.

    It appears under its name whole, or not at all.

    `path`: its suffix, see `FORMS`, says the format.
    `blocks`: all of the same columns.
    """
    return write_parts(path, map(partial(part_of, path.suffix.lower()), blocks))


def write_parts(path: Path, parts: Iterator[Part]) -> int:
    """Write a table of parts that were made for its suffix; as `write_table`."""
    write, n_altered = FORMS[path.suffix.lower()][1], 0

    def counted_parts() -> Iterator[Part]:
        nonlocal n_altered
        for part in _alike(parts):
            n_altered += part.n_altered
            yield part

    publish_file(path, lambda whole: write(whole, counted_parts()))
    return n_altered


def altered(n: int) -> str:
    """Return how texts that a table could not hold were changed, for the line that says it is written."""
    them = "; TABs and line ends of {} became blanks (.csv, .jsonl and .parquet keep them)"
    return them.format(counted(n, "text")) if n else ""


def check_table(path: Path, inputs: Iterable[str | Path], overwrite: bool) -> None:
    """Raise an error where no table can be written to a path, see `sdem_dist.cli.outputs.check_output`."""
    if path.suffix.lower() not in FORMS:
        raise click.UsageError(f"{path}: the suffix says the format, one of {', '.join(FORMS)}")
    check_output(path, inputs, overwrite)


def _alike(parts: Iterator[Part]) -> Iterator[Part]:
    """Yield parts, or raise UsageError where another source has other columns, ClickException where there is none."""
    names: list[str] | None = None
    for part in parts:
        names = names or part.names
        if part.names != names:
            raise click.UsageError(
                f"a source has the columns {', '.join(map(repr, part.names))}, and one before {', '.join(map(repr, names))}: "
                "write a table of each"
            )
        yield part
    if names is None:
        raise click.ClickException("the sources hold no document, so no table is written")


def _json_lines(block: Columns) -> bytes:
    try:
        return json_rows(block)
    except TypeError:  # numbers beyond 64 bits, halves of surrogate pairs
        rows = zip(*map(listed, block.values()), strict=True)
        return b"".join([_json_line(dict(zip(block, row, strict=True))) for row in rows])


def _json_line(row: dict[str, Any]) -> bytes:
    import orjson

    try:
        return orjson.dumps(row, default=str, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        text = json.dumps(row, default=str, ensure_ascii=False)
        return text.encode(errors="backslashreplace") + b"\n"  # as JSON writes half of a surrogate pair, too


def _headed(rows: Callable[[Columns], bytes] | None, path: Path, parts: Iterator[Part]) -> None:
    """Write parts one after the other, the names of their columns first."""
    with path.open("wb") as file:
        for number, part in enumerate(parts):
            if number == 0 and rows is not None:
                file.write(rows({name: [name] for name in part.names}))
            file.write(part.body)


def _arrow(block: Columns) -> bytes:
    import pyarrow as pa

    table = pa.table([_column(values) for values in block.values()], names=list(block))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _parquet(path: Path, parts: Iterator[Part]) -> None:
    """Write parts; if a later one needs a wider type of a column, all before is written again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found, writer = pa.schema([]), None  # types as far as known: null where no value was seen
    how: dict[str, Any] = {}
    try:
        for part in parts:
            table = pa.ipc.open_stream(part.body).read_all()
            try:
                found = pa.unify_schemas([found, table.schema], promote_options="permissive")
                written = pa.schema([(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in found])
                if writer is None:
                    how = _encodings(table)
                    writer = pq.ParquetWriter(path, written, **how)
                elif written != writer.schema:
                    writer.close()
                    writer = _widened(path, written, how)
                writer.write_table(table.cast(written))
            except pa.ArrowException as error:
                raise click.ClickException(
                    f"a column changes from one kind of value to another ({error}): write .jsonl, where it may"
                ) from error
    finally:
        (writer or pq.ParquetWriter(path, found)).close()


def _encodings(table: pyarrow.Table) -> dict[str, Any]:
    """Return how to write the columns of a file that begins with this table: slow encodings where they save space."""
    names = table.column_names
    packed = {name: "snappy" if _shrinks(table.column(name)) else "none" for name in names}
    return {"use_dictionary": [name for name in names if _repeats(table.column(name))], "compression": packed}


def _repeats(column: pyarrow.ChunkedArray) -> bool:
    """Whether most values of a column are there more than once."""
    import pyarrow.types as types

    if types.is_floating(column.type) or types.is_nested(column.type):
        return False
    return len(column.unique()) <= len(column) // 2


def _shrinks(column: pyarrow.ChunkedArray) -> bool:
    """Whether a column is smaller when it is compressed: shares and other measured numbers are not."""
    import pyarrow as pa

    buffers = [buffer for chunk in column.chunks for buffer in chunk.buffers() if buffer]
    if not pa.types.is_floating(column.type) or not buffers:
        return True
    return sum(len(pa.compress(buffer, "snappy")) for buffer in buffers) < 0.9 * sum(map(len, buffers))


def _widened(path: Path, schema: Any, how: dict[str, Any]) -> Any:
    """Return a writer of a file that begins with the rows of another one, whose types are narrower."""
    import pyarrow.parquet as pq

    narrow = path.replace(path.with_name(f"{path.name}.narrow"))
    try:
        writer = pq.ParquetWriter(path, schema, **how)
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
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return pa.array([None if value is None else as_text(value) for value in values], pa.string())


FORMS: dict[str, tuple[Callable[[Columns], bytes], Callable[[Path, Iterator[Part]], None]]] = {
    ".tsv": (tab_rows, partial(_headed, tab_rows)),
    ".csv": (csv_rows, partial(_headed, csv_rows)),
    ".jsonl": (_json_lines, partial(_headed, None)),
    ".parquet": (_arrow, _parquet),
}
"""What makes the body of a part of a table, and what writes a file of parts, by suffix."""
