"""Rows of text tables, made a column at a time; a cell that needs care is made alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.cli.shown import visible
from sdem_dist.text.records import listed
from sdem_dist.visible import UNSEEN, joined

if TYPE_CHECKING:
    import pyarrow as pa

Columns = dict[str, Any]
"""Names and values of consecutive rows: lists, or Arrow arrays, which have a type even where all values are missing."""
_UNSEEN = UNSEEN.pattern.removesuffix("\ud800-\udfff]") + "]"
"""What `visible` writes out, for Arrow, whose texts have no halves of surrogate pairs."""
_ALIKE = 1e-4, 1e16  # numbers from the first up to the second are written alike by orjson and by Python
_KINDS = {str: "large_string", int: "int64", float: "double"}


def csv_rows(block: Columns) -> bytes:
    """Return rows as CSV, as Python's ``csv.writer`` writes them."""
    import pyarrow.compute as pc

    odd = '[",\n]' if len(block) > 1 else '^$|[",\n]'

    def quoted(cells: pa.Array) -> pa.Array:
        needed = pc.match_substring_regex(cells, odd)
        if not pc.any(needed).as_py():
            return cells
        return pc.if_else(needed, _joined('"', pc.replace_substring(cells, '"', '""'), '"'), cells)

    return _rows(["", *[","] * (len(block) - 1), "\r\n"], [quoted(_shown(values)) for values in block.values()])


def tab_rows(block: Columns) -> bytes:
    """Return rows of cells that TABs separate; in a cell TABs and line ends become blanks."""
    import pyarrow.compute as pc

    cells = [_shown(values) for values in block.values()]
    for letter in "\t\n":
        cells = [pc.replace_substring(column, letter, " ") for column in cells]
    return _rows(["", *["\t"] * (len(block) - 1), "\n"], cells)


def cells_of_several_lines(block: Columns) -> int:
    """Return in how many texts of some rows `tab_rows` makes blanks of TABs and line ends."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = (column for values in block.values() if (column := _typed(values)) is not None)
    texts = (column for column in columns if pa.types.is_large_string(column.type))
    return sum(pc.sum(pc.match_substring_regex(column, "[\t\n]")).as_py() or 0 for column in texts)


def json_rows(block: Columns) -> bytes:
    """Return rows as JSON objects, one per line.

    Raises TypeError: a name or a value is one that orjson does not write.
    """
    import orjson

    names = [orjson.dumps(name).decode() for name in block]
    between = [f"{',' if number else '{'}{name}:" for number, name in enumerate(names)]
    return _rows([*between, "}\n"], [_json(values) for values in block.values()])


def as_text(value: object) -> str:
    """Return a value as a field of a table of text; control characters are written out."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)  # the shortest text that reads back as the same number
    if isinstance(value, list) and all(isinstance(member, str | int | float) for member in value):
        return visible(joined(value))
    return visible(json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value)


def _rows(between: Sequence[str], cells: Sequence[pa.Array]) -> bytes:
    """Return the bytes of rows; `between` is what stands before each cell, and behind the last."""
    pairs = zip(between, cells, strict=False)
    joined = _joined(*(part for pair in pairs for part in pair), between[-1])
    _, offsets, data = joined.buffers()
    bounds = np.frombuffer(offsets, np.int64)[joined.offset : joined.offset + len(joined) + 1]
    found: bytes = b"" if data is None else data[int(bounds[0]) : int(bounds[-1])].to_pybytes()
    return found


def _joined(*parts: str | pa.Array) -> pa.Array:
    """Return parts side by side; a text stands for itself in every row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    given = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in (*parts, "")]
    return pc.binary_join_element_wise(*given)


def _typed(values: list[object] | pa.Array) -> pa.Array | None:
    """Return a column of texts, whole numbers or floats as Arrow has them, or None."""
    import pyarrow as pa

    if isinstance(values, pa.Array):
        if str(values.type) in ("string", "string_view"):
            return values.cast(pa.large_string())
        return values if str(values.type) in _KINDS.values() else None
    kinds = set(map(type, values)) - {type(None)}
    kind = _KINDS.get(kinds.pop()) if len(kinds) == 1 else None
    try:
        return None if kind is None else pa.array(values, kind)
    except (pa.ArrowException, UnicodeEncodeError, OverflowError):
        return None


def _shown(values: list[object] | pa.Array) -> pa.Array:
    """Return a column as `as_text` writes its values."""
    import pyarrow as pa

    column = _typed(values)
    if column is None:
        return pa.array([as_text(value) for value in listed(values)], pa.large_string())
    if pa.types.is_large_string(column.type):
        texts = column.fill_null("")
        return _but(texts, _UNSEEN, as_text, texts)
    if pa.types.is_integer(column.type):
        return column.cast(pa.large_string()).fill_null("")
    return _floats(column, "", as_text)


def _json(values: list[object] | pa.Array) -> pa.Array:
    """Return a column as orjson writes its values."""
    import orjson
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _typed(values)
    if column is None:
        texts = [orjson.dumps(value, default=str).decode() for value in listed(values)]
        return pa.array(texts, pa.large_string())
    if pa.types.is_large_string(column.type):
        texts = column.fill_null("")
        escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
        cells = _but(texts, "[\x00-\x1f]", lambda text: orjson.dumps(text)[1:-1].decode(), escaped)
        return _given(column, _joined('"', cells, '"'), "null")
    if pa.types.is_integer(column.type):
        return column.cast(pa.large_string()).fill_null("null")
    return _floats(column, "null", None)


def _but(texts: pa.Array, odd: str, care: Callable[[str], str], cells: pa.Array) -> pa.Array:
    """Return cells, but what `care` makes of texts in which the pattern `odd` is found."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.match_substring_regex(texts, odd)
    if not pc.any(found).as_py():
        return cells
    with_care = [care(text) for text in texts.filter(found).to_pylist()]
    return pc.replace_with_mask(cells, found, pa.array(with_care, pa.large_string()))


def _floats(column: pa.Array, missing: str, care: Callable[[float], str] | None) -> pa.Array:
    """Return floats as orjson writes them, or, where Python writes them otherwise, as `care` does."""
    import orjson
    import pyarrow as pa
    import pyarrow.compute as pc

    values = np.ascontiguousarray(column.fill_null(0.0).to_numpy())
    written = np.frombuffer(orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY), np.uint8)[1:]
    ends = np.flatnonzero((written == ord(",")) | (written == ord("]")))[: len(values)]
    offsets = np.concatenate([np.zeros(1, np.int64), ends - np.arange(len(ends))])
    data = written[written != ord(",")]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    cells = pa.Array.from_buffers(pa.large_string(), len(values), buffers)
    if care is not None:
        size = np.abs(values)
        odd = ~((size == 0) | ((size >= _ALIKE[0]) & (size < _ALIKE[1])))
        if odd.any():
            with_care = pa.array([care(value) for value in values[odd].tolist()], pa.large_string())
            cells = pc.replace_with_mask(cells, pa.array(odd), with_care)
    return _given(column, cells, missing)


def _given(column: pa.Array, cells: pa.Array, missing: str) -> pa.Array:
    """Return the cells of a column, or `missing` where it has no value."""
    import pyarrow.compute as pc

    return pc.if_else(column.is_valid(), cells, missing) if column.null_count else cells
