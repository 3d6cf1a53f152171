"""Comma-separated values with a header line."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from sdem_dist.errors import IngestError
from sdem_dist.text.bad_lines import LineGate, not_unicode
from sdem_dist.text.decoded import open_text

LARGEST_FIELD = 1 << 27  # characters; a quote that is never closed stops here


def read_csv(path: Path, encoding: str, gate: LineGate, label: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of each record, from the columns of these names; blank lines are passed over."""
    csv.field_size_limit(max(csv.field_size_limit(), LARGEST_FIELD))
    with open_text(path, encoding, newline="") as stream:
        records = csv.reader(stream, strict=True)
        try:
            header = next(records, [])
        except csv.Error as error:
            raise IngestError(f"{path}, line 1: the header is not CSV: {error}") from error
        positions = column_positions(path, header, label, text)
        while True:
            line = records.line_num + 1
            try:
                fields = next(records)
            except StopIteration:
                return
            except csv.Error as error:
                gate.refuse(path, line, f"not CSV: {error}")
                continue
            if not fields:
                continue
            if len(fields) != len(header):
                gate.refuse(path, line, f"{len(fields)} fields under a header of {len(header)}")
                continue
            name, words = (fields[p] for p in positions)
            if (problem := not_unicode(words)) is not None:
                gate.refuse(path, line, f"the text has {problem}")
                continue
            accepted = gate.label(path, line, name)
            if accepted is not None:
                yield accepted, words


def column_positions(path: Path, header: list[str], *names: str) -> list[int]:
    """Return where the columns `names` stand in `header`.

    Raises
    ------
    IngestError
        If a name is missing from the header, or stands there twice.
    """
    for name in names:
        if header.count(name) != 1:
            times = "no column" if name not in header else "more than one column"
            present = ", ".join(repr(h) for h in header) or "none"
            raise IngestError(
                f"{path}, line 1: there is {times} {name!r}; the columns are {present}. Choose with --label and --text"
            )
    return [header.index(name) for name in names]
