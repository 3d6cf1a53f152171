"""JSON Lines: one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import orjson

from sdem_dist.text.bad_lines import LineGate, not_unicode
from sdem_dist.text.line_blocks import LineBlock, line_blocks

_LARGEST = 2.0**53


def read_json_lines(path: Path, encoding: str, gate: LineGate, label: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of each object, from the fields of these names; blank lines are passed over.

    The text must be a string; a label may be a string, a number, true or false.
    """
    for number, found in json_objects(path, encoding, gate):
        if missing := [name for name in (label, text) if name not in found]:
            present = ", ".join(repr(k) for k in found) or "none"
            gate.refuse(path, number, f"there is no field {missing[0]!r}; the fields are {present}")
            continue
        words = found[text]
        if not isinstance(words, str):
            gate.refuse(path, number, f"the text in field {text!r} is {words!r:.60}, not a string")
            continue
        if (problem := not_unicode(words)) is not None:
            gate.refuse(path, number, f"the text has {problem}")
            continue
        name = gate.label(path, number, found[label])
        if name is not None:
            yield name, words


def json_objects(path: Path, encoding: str, gate: LineGate) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the number, from 1, of each line that is not blank, and its object."""
    number = 0
    for block in line_blocks(path, encoding):
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
                gate.refuse(path, number, f"a JSON object is expected, not {type(found).__name__}")


def _record(path: Path, number: int, block: LineBlock, start: int, stop: int, gate: LineGate) -> object:
    """Return what a line says; None for a blank line, or one that is refused."""
    try:
        found: object = orjson.loads(memoryview(block.raw)[start:stop])
    except orjson.JSONDecodeError:
        pass
    else:
        # numbers that do not fit into 64 bits, Python reads exactly
        fits = not isinstance(found, dict) or not any(
            isinstance(v, float) and abs(v) > _LARGEST for v in found.values()
        )
        if fits and found is not None:
            return found
    line = block.text(start, stop)
    if line.isspace() or not line:
        return None
    if (problem := not_unicode(line)) is not None:
        gate.refuse(path, number, f"the line has {problem}")
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        gate.refuse(path, number, f"not JSON: {error}")
        return None
    if found is None:
        gate.refuse(path, number, "a JSON object is expected, not NoneType")
    return found
