"""Tables as files: CSV, TAB-separated text, JSON Lines and Parquet, written block by block."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from sdem_dist.counted import UNSEEN, joined, visible
from sdem_dist.storage.publish import publish_file
from sdem_dist.text.texts import listed

Columns = dict[str, Any]
"""Columns of consecutive rows, by name: lists, or Arrow arrays, which have a type even if all values are missing."""
Part = tuple[list[str], Any]
"""Consecutive rows: names of the columns, and bytes in the format of the file; for Parquet, an Arrow table."""
SUFFIXES = (".tsv", ".csv", ".jsonl", ".parquet")
_UNSEEN = UNSEEN.pattern.removesuffix("\ud800-\udfff]") + "]"  # Arrow strings contain no surrogates


def part_of(suffix: str, block: Columns) -> Part:
    """Return consecutive rows in the format of `suffix`, one of `SUFFIXES`."""
    names = list(block)
    if suffix == ".parquet":
        import pyarrow as pa

        return names, pa.table([_column(values) for values in block.values()], names=names)
    if suffix != ".jsonl":
        return names, _text_rows(block, suffix)
    import orjson

    lines = []
    for values in zip(*map(listed, block.values()), strict=True):
        row = dict(zip(names, values, strict=True))
        try:
            lines.append(orjson.dumps(row, default=str, option=orjson.OPT_APPEND_NEWLINE))
        except TypeError:  # integers beyond 64 bits, surrogates
            text = json.dumps(row, default=str, ensure_ascii=False)
            lines.append(text.encode(errors="backslashreplace") + b"\n")  # backslash escapes are valid JSON
    return names, b"".join(lines)


def write_table(path: Path, parts: Iterable[Part]) -> None:
    """Write a table from parts in the format of its suffix; the file appears when it is complete."""
    suffix, names = path.suffix.lower(), list[str]()

    def checked() -> Iterator[Any]:
        for columns, rows in parts:
            if names and columns != names:
                odd, earlier = (", ".join(map(repr, some)) for some in (columns, names))
                raise ValueError(f"a source has columns {odd}, but an earlier one has {earlier}: write separate tables")
            if not names and suffix in (".csv", ".tsv"):
                yield _text_rows({name: [name] for name in columns}, suffix)
            names[:] = columns
            yield rows
        if not names:
            raise ValueError("the sources contain no documents; no table was written")

    def write(partial: Path) -> None:
        if suffix != ".parquet":
            with partial.open("wb") as file:
                file.writelines(checked())
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        schemas = []  # buffer all parts in a file, since a later part may need a wider type
        with TemporaryFile(dir=partial.parent) as spool:
            for rows in checked():
                schemas.append(rows.schema)
                with pa.ipc.new_stream(spool, rows.schema) as stream:
                    stream.write_table(rows)
            spool.seek(0)
            try:
                fields = pa.unify_schemas(schemas, promote_options="permissive")
            except pa.ArrowException as error:
                raise ValueError(f"a column mixes types ({error}): write .jsonl instead") from error
            schema = pa.schema([(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in fields])
            with pq.ParquetWriter(partial, schema) as writer:
                for _ in schemas:
                    writer.write_table(pa.ipc.open_stream(spool).read_all().cast(schema))

    publish_file(path, write)


def _as_text(value: object) -> str | None:
    """Return a value as a field of CSV or TSV, with control characters escaped."""
    if value is None:
        return None
    if isinstance(value, list) and all(isinstance(member, str | int | float) for member in value):
        return visible(joined(value))
    return visible(json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value)


def _text_rows(block: Columns, suffix: str) -> bytes:
    """Return rows as CSV, or TAB-separated, with TABs and line feeds in cells replaced by blanks."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv, types

    columns = []
    for values in block.values():  # numbers, or texts with escaped control characters
        kinds = set() if isinstance(values, pa.Array) else set(map(type, values)) - {type(None)}
        column = _column(values) if len(kinds) < 2 else pa.nulls(0)
        is_number = types.is_integer(column.type) or types.is_floating(column.type)
        is_text = types.is_string(column.type) or types.is_large_string(column.type)
        if is_text:
            column = column.cast(pa.large_string())
            is_text = not pc.any(pc.match_substring_regex(column, _UNSEEN)).as_py()
        if not is_number and not is_text:
            column = pa.array(map(_as_text, listed(values)), pa.large_string())
        if suffix == ".tsv":
            column = column if is_number else pc.replace_substring_regex(column, "[\t\n]", " ")
            column = column.cast(pa.large_string()).fill_null("")
        columns.append(column)
    if suffix == ".csv":
        sink = io.BytesIO()
        options = csv.WriteOptions(include_header=False, quoting_style="needed")
        csv.write_csv(pa.table(columns, names=[str(k) for k in range(len(columns))]), sink, options)
        return sink.getvalue()
    rows = pc.binary_join_element_wise(*columns, pa.scalar("\t", pa.large_string())).to_pylist()
    return "".join(f"{row}\n" for row in rows).encode()


def _column(values: Any) -> Any:
    """Return values as an Arrow column; as text if types are mixed, or if Arrow does not support a value."""
    import pyarrow as pa

    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return pa.array(map(_as_text, values), pa.string())
