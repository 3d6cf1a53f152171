"""Tables that are written a block at a time: TAB-separated, CSV, JSON Lines or Parquet by suffix."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from sdem_dist.counted import UNSEEN, joined, visible
from sdem_dist.storage.publish import publish_file
from sdem_dist.text.texts import listed

Columns = dict[str, Any]
"""Names and values of consecutive rows: lists, or Arrow arrays, which have a type even where all values are missing."""
SUFFIXES = (".tsv", ".csv", ".jsonl", ".parquet")
_UNSEEN = UNSEEN.pattern.removesuffix("\ud800-\udfff]") + "]"  # Arrow's texts have no halves of surrogate pairs


class Part(NamedTuple):
    """Consecutive rows of a table."""

    names: list[str]  # of the columns
    body: Any  # the rows as bytes in the format of the file; of Parquet an Arrow table


def part_of(suffix: str, block: Columns) -> Part:
    """Return consecutive rows in the format of a suffix, one of `SUFFIXES`."""
    names = list(block)
    if suffix == ".parquet":
        import pyarrow as pa

        return Part(names, pa.table([_column(values) for values in block.values()], names=names))
    if suffix == ".jsonl":
        import orjson

        lines = []
        for values in zip(*map(listed, block.values()), strict=True):
            row = dict(zip(names, values, strict=True))
            try:
                lines.append(orjson.dumps(row, default=str, option=orjson.OPT_APPEND_NEWLINE))
            except TypeError:  # numbers beyond 64 bits, halves of surrogate pairs
                text = json.dumps(row, default=str, ensure_ascii=False)
                lines.append(text.encode(errors="backslashreplace") + b"\n")  # as JSON writes half of a pair, too
        return Part(names, b"".join(lines))
    return Part(names, _text_rows(block, suffix))


def write_parts(path: Path, parts: Iterable[Part]) -> None:
    """Write a table of parts that were made for its suffix; it appears whole, or not at all."""
    suffix = path.suffix.lower()

    def checked() -> Iterator[Part]:
        names: list[str] | None = None
        for part in parts:
            names = names or part.names
            if part.names != names:
                columns, earlier = (", ".join(map(repr, of)) for of in (part.names, names))
                raise click.UsageError(
                    f"a source has the columns {columns}, and one before {earlier}: write a table of each"
                )
            yield part
        if names is None:
            raise click.ClickException("the sources hold no document, so no table is written")

    def write_rows(partial: Path) -> None:
        with partial.open("wb") as file:
            for number, part in enumerate(checked()):
                if number == 0 and suffix != ".jsonl":
                    file.write(_text_rows({name: [name] for name in part.names}, suffix))
                file.write(part.body)

    publish_file(path, (lambda partial: _write_parquet(partial, checked())) if suffix == ".parquet" else write_rows)


def write_table(path: Path, blocks: Iterable[Columns]) -> None:
    """Write a table of blocks of the same columns."""
    write_parts(path, (part_of(path.suffix.lower(), block) for block in blocks))


def as_text(value: object) -> str:
    """Return a value as a field of a table of text; control characters are written out."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(member, str | int | float) for member in value):
        return visible(joined(value))
    return visible(json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value)


def _text_rows(block: Columns, suffix: str) -> bytes:
    """Return rows of CSV, or of cells that TABs separate, in which TABs and line ends become blanks."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    columns = []
    for values in block.values():  # numbers, or texts whose control characters are written out
        kinds = set() if isinstance(values, pa.Array) else set(map(type, values)) - {type(None)}
        column = _column(values) if len(kinds) < 2 else None
        is_number = column is not None and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
        if column is not None and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            column = column.cast(pa.large_string())
            if pc.any(pc.match_substring_regex(column, _UNSEEN)).as_py():
                column = None
        elif not is_number:
            column = None
        if column is None:
            texts = [None if value is None else as_text(value) for value in listed(values)]
            column = pa.array(texts, pa.large_string())
        if suffix == ".tsv":
            column = column if is_number else pc.replace_substring_regex(column, "[\t\n]", " ")
            column = column.cast(pa.large_string()).fill_null("")
        columns.append(column)
    if suffix == ".csv":
        sink = io.BytesIO()
        how = csv.WriteOptions(include_header=False, quoting_style="needed")
        csv.write_csv(pa.table(columns, names=[str(k) for k in range(len(columns))]), sink, how)
        return sink.getvalue()
    rows = pc.binary_join_element_wise(*columns, pa.scalar("\t", pa.large_string())).to_pylist()
    return "".join(f"{row}\n" for row in rows).encode()


def _column(values: Any) -> Any:
    """Return values as an Arrow column; of mixed kinds, or with numbers or texts that Arrow has not, it is text."""
    import pyarrow as pa

    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return pa.array([None if value is None else as_text(value) for value in values], pa.string())


def _write_parquet(path: Path, parts: Iterator[Part]) -> None:
    """Write parts; if a later one needs a wider type of a column, all before is written again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types, writer = pa.schema([]), None  # as far as known: null where no value was seen
    try:
        for part in parts:
            try:
                types = pa.unify_schemas([types, part.body.schema], promote_options="permissive")
                schema = pa.schema([(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in types])
                if writer is None:
                    writer = pq.ParquetWriter(path, schema)
                elif schema != writer.schema:
                    writer.close()
                    narrow = path.replace(path.with_name(f"{path.name}.narrow"))
                    writer = pq.ParquetWriter(path, schema)
                    with pq.ParquetFile(narrow) as file:
                        for k in range(file.num_row_groups):
                            writer.write_table(file.read_row_group(k).cast(schema))
                    narrow.unlink()
                writer.write_table(part.body.cast(schema))
            except pa.ArrowException as error:
                raise click.ClickException(
                    f"a column changes from one kind of value to another ({error}): write .jsonl, where it may"
                ) from error
    finally:
        (writer or pq.ParquetWriter(path, types)).close()
