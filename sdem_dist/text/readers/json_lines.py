"""JSON Lines: one object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from sdem_dist.errors import IngestError
from sdem_dist.text.files import LineBlock, Part, line_blocks
from sdem_dist.text.texts import ROLES, Columns, RecordBatch
from sdem_dist.text.validation import NoLabelError, Problems, RowValidator, not_unicode

_LARGEST = 2.0**53  # beyond it orjson makes floats of integers, and Python does not
_MISSING = object()


def read_json_lines(
    path: Path, encoding: str, gate: RowValidator, columns: Columns, block_documents: int, part: Part | None = None
) -> Iterator[RecordBatch]:
    """Yield the objects of lines; blank lines are passed over.

    A column is the name of a field, or a path into nested objects with dots between names. With `keep` all batches have
    the same columns, by default those of the first.

    Raises IngestError: a record has a field that is not among these.
    """
    number, names = 1, columns.known
    for block in line_blocks(path, encoding, part):
        lines = block.raw[: block.size].split(b"\n")
        if not lines[-1]:
            lines.pop()
        for first in range(0, len(lines), block_documents):
            batch, records = _batch(lines[first : first + block_documents], number, block, columns, gate)
            number += len(batch)
            if columns.keep:
                names = names or tuple({name: None for record in records for name in record})
                if odd := {name for record in records for name in record} - set(names):
                    raise IngestError(
                        f"a record has the field {min(odd)!r}, which none of the first {block_documents:,} has: give it to "
                        "one of them, with null"
                    )
                batch.beside = {name: [record.get(name) for record in records] for name in names}
            yield batch


def _batch(
    lines: Sequence[bytes], first: int, block: LineBlock, columns: Columns, gate: RowValidator
) -> tuple[RecordBatch, list[dict[str, Any]]]:
    """Return the records of lines, and the same as objects."""
    problems: Problems = {}
    records = [_parsed(line, row, block.escaped, problems) for row, line in enumerate(lines)]
    text = columns.texts
    if len(text) == 1 and "," in str(text[0]) and not any(str(text[0]) in record for record in records[:1]):
        text = tuple(str(text[0]).split(","))
    roles: dict[str, Any] = {
        role: _column(records, columns.of(role), problems, role, gate) for role in ROLES if columns.of(role) is not None
    }
    texts: list[Any] = [_column(records, name, problems, "text", gate) for name in text]
    if columns.keep:
        for row, record in enumerate(records):
            if bad := next(filter(None, map(not_unicode, record)), None):
                problems.setdefault(row, (f"the name of a field has {bad}", IngestError))
    numbers = np.arange(first, first + len(lines))
    return RecordBatch(texts, roles, numbers, problems=problems, escaped=True), records


def _column(
    records: list[dict[str, Any]], name: str | int | None, problems: Problems, role: str, gate: RowValidator
) -> list[object]:
    """Return the field of each record, by its name or a path; null for those that have none, and the reason."""
    key, values = str(name), []
    for row, record in enumerate(records):
        value: Any = record.get(key, _MISSING)
        if value is _MISSING and "." in key:
            value = record
            for part in key.split("."):
                value = value.get(part, _MISSING) if isinstance(value, dict) else _MISSING
        if value is _MISSING:
            value = None
            if row not in problems and not (role == "label" and gate.unlabelled is not None):
                fields = ", ".join(map(repr, record)) or "none"
                kind = NoLabelError if role == "label" else IngestError
                problems[row] = f"there is no field {key!r}; the fields are {fields}", kind
        values.append(value)
    return values


def _parsed(line: bytes, row: int, escaped: bool, problems: Problems) -> dict[str, Any]:
    """Return a line's object; an empty one for a line that has none, and the reason, None for a blank line."""
    try:
        record: Any = orjson.loads(line)
        if isinstance(record, dict) and not any(isinstance(v, float) and abs(v) > _LARGEST for v in record.values()):
            return record
    except orjson.JSONDecodeError:
        pass
    text = line.decode("utf-8", "surrogatepass" if escaped else "surrogateescape")
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
