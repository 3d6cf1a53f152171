"""JSON Lines: one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from sdem_dist.errors import IngestError
from sdem_dist.text.files import LineBlock, Part, line_blocks
from sdem_dist.text.sources import Reading
from sdem_dist.text.texts import RecordBatch
from sdem_dist.text.validation import NoLabelError, Problems, not_unicode

_MISSING = object()
Record = dict[str, Any]


def read_json_lines(
    path: Path, reading: Reading, block_documents: int, part: Part | None = None, *, keep: bool | tuple[str, ...]
) -> Iterator[RecordBatch]:
    """Yield the objects of lines; blank lines are passed over.

    A column is the name of a field, or a path into nested objects with dots between names.

    `keep`: whether to keep all columns, which are those of the first batch; or their names, where a part is read.
    Raises IngestError: a record has a field that is not among these.
    """
    number, names = 1, keep if isinstance(keep, tuple) else ()
    for block in line_blocks(path, reading.encoding, part):
        lines = block.raw[: block.size].removesuffix(b"\n").split(b"\n")
        for first in range(0, len(lines), block_documents):
            problems: Problems = {}
            rows = enumerate(lines[first : first + block_documents])
            records = [_parsed(line, row, block, problems) for row, line in rows]
            roles: Any = {role: _column(records, n, role, problems, reading) for role, n in reading.roles.items()}
            texts: list[Any] = [_column(records, n, "text", problems, reading) for n in reading.texts(records[0])]
            batch = RecordBatch(texts, roles, np.arange(number, number + len(records)), problems=problems, escaped=True)
            number += len(records)
            if keep:
                names = names or tuple({name: None for record in records for name in record})
                batch.beside = _all_columns(records, names, problems)
            yield batch


def _parsed(line: bytes, row: int, block: LineBlock, problems: Problems) -> Record:
    """Return a line's object; an empty one for a line that has none, and the reason, None for a blank line."""
    try:
        record: Any = orjson.loads(line)
        # beyond 2**53 it makes floats of integers, and Python does not
        if isinstance(record, dict) and not any(isinstance(v, float) and abs(v) > 2.0**53 for v in record.values()):
            return record
    except orjson.JSONDecodeError:
        pass
    text = line.decode("utf-8", "surrogatepass" if block.escaped else "surrogateescape")
    if not text.strip():
        problems[row] = None
        return {}
    if (problem := not_unicode(text)) is not None:
        problems[row] = f"the line has {problem}", IngestError
        return {}
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        problems[row] = f"not JSON: {error}", IngestError
        return {}
    if not isinstance(record, dict):
        problems[row] = f"a JSON object is expected, not {type(record).__name__}", IngestError
        return {}
    return record


def _column(records: list[Record], key: str, role: str, problems: Problems, reading: Reading) -> list[object]:
    """Return the field of each record, by its name or a path; null for those that have none, and the reason."""

    def member(value: Any, name: str) -> Any:
        return value.get(name, _MISSING) if isinstance(value, dict) else _MISSING

    values = [record.get(key, _MISSING) for record in records]
    for row, record in enumerate(records) if _MISSING in values else ():
        if values[row] is not _MISSING:
            continue
        value = reduce(member, key.split("."), record)
        values[row] = None if value is _MISSING else value
        if value is _MISSING and row not in problems and (role != "label" or reading.missing_label is None):
            fields = ", ".join(map(repr, record)) or "none"
            kind = NoLabelError if role == "label" else IngestError
            problems[row] = f"there is no field {key!r}; the fields are {fields}", kind
    return values


def _all_columns(records: list[Record], names: tuple[str, ...], problems: Problems) -> dict[str, Any]:
    for row, record in enumerate(records):
        if bad := next(filter(None, map(not_unicode, record)), None):
            problems.setdefault(row, (f"the name of a field has {bad}", IngestError))
    if odd := {name for record in records for name in record} - set(names):
        raise IngestError(
            f"a record has the field {min(odd)!r}, which none of the first {len(records):,} has: give it to one of them, "
            "with null"
        )
    return {name: [record.get(name) for record in records] for name in names}
