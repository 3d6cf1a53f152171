"""One text a line, without labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sdem_dist.kernels.lines import lines
from sdem_dist.text.bad_lines import LineGate, not_unicode
from sdem_dist.text.line_blocks import line_blocks
from sdem_dist.text.texts import Texts

_N_COLUMNS, _GOOD, _COLUMN = 2, 3, 4


def read_plain_lines(
    path: Path,
    encoding: str,
    column: int | None,
    block_documents: int,
    gate: LineGate | None = None,
    *,
    n_columns: int | None = None,
) -> Iterator[Texts]:
    """Yield the lines of a file, or column `column` (from 0) of lines that TABs separate.

    A blank line is an empty text where lines are texts, and passed over where they have columns, as in all formats that have.

    Parameters
    ----------
    gate : LineGate, optional
        What happens to a line that is no document.  Without one it is an error.
    n_columns : int, optional
        All lines must have so many columns.

    Raises
    ------
    IngestError
        A line is not what the encoding allows, or has no such column, and the gate does not skip it.
    """
    n_lines, gate = 0, gate or LineGate()
    bounds = np.empty((block_documents, 8), np.int64)
    for block in line_blocks(path, encoding):
        start, data = 0, block.data
        while start < len(data):
            n, start = lines(data, start, column or 0, column or 0, bounds)
            wrong = (bounds[:n, _GOOD] == 0) | (bounds[:n, _COLUMN] < 0)
            if column is not None:
                wrong |= bounds[:n, _N_COLUMNS] == 1  # it may be blank
            if n_columns is not None:
                wrong |= bounds[:n, _N_COLUMNS] != n_columns
            for row in np.flatnonzero(wrong).tolist():
                line = block.text(int(bounds[row, 0]), int(bounds[row, 1]))
                problem = _problem(line, column, n_columns)
                if problem is not None:
                    gate.refuse(path, n_lines + row + 1, problem)
                wrong[row] = problem is not None or (column is not None and _is_blank(line))
            n_lines += n
            first = 0 if column is None else _COLUMN
            kept = bounds[:n][~wrong]
            if len(kept):
                yield Texts(data, kept[:, first].copy(), kept[:, first + 1].copy())


def _is_blank(line: str) -> bool:
    return "\t" not in line and not line.strip()


def _problem(line: str, column: int | None, n_columns: int | None) -> str | None:
    """Return why a line is no document, or None if it is one, or blank."""
    if (problem := not_unicode(line)) is not None:
        return f"the line has {problem}"
    there = len(line.split("\t"))
    if column is None or _is_blank(line):
        return None
    if n_columns is not None and there != n_columns:
        return f"{there} columns instead of {n_columns}; choose with --text NUMBER, from 0"
    return None if -there <= column < there else f"there is no column {column}: the line has {there}"
