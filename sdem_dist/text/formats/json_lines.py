"""JSON Lines: one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from sdem_dist.text.bad_lines import LineGate, not_unicode
from sdem_dist.text.decoded import numbered_lines


def read_json_lines(path: Path, encoding: str, gate: LineGate, label: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of each object, from the fields of these names; blank lines are passed over.

    The text must be a string; a label may be a string, a number, true or false.
    """
    for number, line in numbered_lines(path, encoding, gate):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            gate.refuse(path, number, f"not JSON: {error}")
            continue
        if not isinstance(record, dict):
            gate.refuse(path, number, f"a JSON object is expected, not {type(record).__name__}")
            continue
        if missing := [name for name in (label, text) if name not in record]:
            present = ", ".join(repr(k) for k in record) or "none"
            gate.refuse(path, number, f"there is no field {missing[0]!r}; the fields are {present}")
            continue
        words = record[text]
        if not isinstance(words, str):
            gate.refuse(path, number, f"the text in field {text!r} is {words!r:.60}, not a string")
            continue
        if (problem := not_unicode(words)) is not None:
            gate.refuse(path, number, f"the text has {problem}")
            continue
        name = gate.label(path, number, record[label])
        if name is not None:
            yield name, words
