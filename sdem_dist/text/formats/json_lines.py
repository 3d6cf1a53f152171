"""JSON Lines: one object per line."""

import json
from collections.abc import Iterator
from pathlib import Path

import orjson

from sdem_dist.errors import IngestError
from sdem_dist.text.files import LineBlock, Part, line_blocks
from sdem_dist.text.texts import Columns, Row
from sdem_dist.text.validation import NoLabelError, RowValidator, not_unicode

_LARGEST = 2.0**53


def read_json_lines(
    path: Path, encoding: str, gate: RowValidator, columns: Columns, part: Part | None = None
) -> Iterator[Row]:
    """Yield a row of each object; blank lines are passed over.

    The text must be a string, or null, which is an empty text; a label may be a string, a number, true or false; an id
    a string or a whole number.
    """
    label, text, id_ = columns.names
    for number, found in json_objects(path, encoding, gate, part):
        needed = [name for name in (None if gate.unlabelled is not None else label, text) if name is not None]
        problem = _problem(found, needed, text, id_)
        if problem is None and columns.keep:
            names = next(filter(None, map(not_unicode, found)), None)
            problem = None if names is None else f"the name of a field has {names}"
        if problem is not None:
            no_label = label in needed and label not in found
            gate.reject(path, number, problem, kind=NoLabelError if no_label else IngestError)
            continue
        name = None if label is None else gate.label(path, number, found.get(label))
        if label is None or name is not None:
            yield str(found[text] or ""), name, None if id_ is None else found[id_], found if columns.keep else None


def _problem(found: dict[str, object], needed: list[str], text: str, id_: str | None) -> str | None:
    """Return why an object is not a document, or None if it is one."""
    if missing := [name for name in needed if name not in found]:
        present = ", ".join(repr(k) for k in found) or "none"
        return f"there is no field {missing[0]!r}; the fields are {present}"
    if (words := found[text]) is None:
        words = ""
    if not isinstance(words, str):
        return f"the text in field {text!r} is {words!r:.60}, not a string"
    if (problem := not_unicode(words)) is not None:
        return f"the text has {problem}"
    if id_ is None:
        return None
    if not isinstance(found.get(id_), str | int):
        return f"field {id_!r} holds no id: a text, or a whole number"
    return None if (problem := not_unicode(str(found[id_]))) is None else f"the id has {problem}"


def json_objects(
    path: Path, encoding: str, gate: RowValidator, part: Part | None = None
) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the number, from 1, of each line that is not blank, and its object."""
    number = 0
    for block in line_blocks(path, encoding, part):
        start = 0
        while start < block.size:
            stop = block.raw.find(b"\n", start, block.size)
            stop = block.size if stop < 0 else stop
            number += 1
            found = _record(path, number, block, start, stop, gate)
            start = stop + 1
            if isinstance(found, dict):
                yield number, found
            elif found is not None:
                gate.reject(path, number, f"a JSON object is expected, not {type(found).__name__}")


def _record(path: Path, number: int, block: LineBlock, start: int, stop: int, gate: RowValidator) -> object:
    """Return a line's object; None for a blank line, or one that is refused."""
    try:
        found: object = orjson.loads(memoryview(block.raw)[start:stop])
    except orjson.JSONDecodeError:
        pass
    else:
        # Python reads numbers beyond 64 bits exactly
        fits = not isinstance(found, dict) or not any(
            isinstance(v, float) and abs(v) > _LARGEST for v in found.values()
        )
        if fits and found is not None:
            return found
    line = block.text(start, stop)
    if line.isspace() or not line:
        return None
    if (problem := not_unicode(line)) is not None:
        gate.reject(path, number, f"the line has {problem}")
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        gate.reject(path, number, f"not JSON: {error}")
        return None
    if found is None:
        gate.reject(path, number, "a JSON object is expected, not NoneType")
    return found
