"""One text a line, without labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.kernels.lines import lines
from sdem_dist.text.bad_lines import not_unicode
from sdem_dist.text.line_blocks import line_blocks
from sdem_dist.text.texts import Texts

_N_COLUMNS, _GOOD, _COLUMN = 2, 3, 4


def read_plain_lines(
    path: Path, encoding: str, column: int | None, block_documents: int, *, n_columns: int | None = None
) -> Iterator[Texts]:
    """Yield the lines of a file, or column `column` (from 0) of lines that TABs separate; an empty line is an empty text.

    Parameters
    ----------
    n_columns : int, optional
        All lines must have so many columns.

    Raises
    ------
    IngestError
        A line is not what the encoding allows, or has no such column.
    """
    n_lines = 0
    bounds = np.empty((block_documents, 8), np.int64)
    for block in line_blocks(path, encoding):
        start, data = 0, block.data
        while start < len(data):
            n, start = lines(data, start, column or 0, column or 0, bounds)
            wrong = (bounds[:n, _GOOD] == 0) | (bounds[:n, _COLUMN] < 0)
            if n_columns is not None:
                wrong |= bounds[:n, _N_COLUMNS] != n_columns
            if wrong.any():
                row = int(wrong.argmax())
                line = block.text(int(bounds[row, 0]), int(bounds[row, 1]))
                problem = not_unicode(line)
                found = f"the line has {problem}"
                if problem is None:
                    there = len(line.split(chr(9)))
                    found = f"there is no column {column}: the line has {there}"
                    if n_columns is not None:
                        found = f"{there} columns instead of {n_columns}; choose with --text NUMBER, from 0"
                raise IngestError(f"{path}, line {n_lines + row + 1}: {found}")
            n_lines += n
            first = 0 if column is None else _COLUMN
            yield Texts(data, bounds[:n, first].copy(), bounds[:n, first + 1].copy())
