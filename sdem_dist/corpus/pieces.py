"""Documents in files by ascending key, in pieces of which any range of keys is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from sdem_dist.corpus.rows import KeyedRows
from sdem_dist.storage.shared_files import read_values

ROWS = "rows"
PIECE_BYTES = 1 << 20
"""Of what is read together, about: a task that writes shards needs some of the documents of each file."""

Pieces = list[list[Any]]
"""Of each piece of a file: where it begins, its first and last key, and the layout of its arrays; as JSON has them."""


def write_pieces(folder: Path, parts: Iterable[KeyedRows]) -> Pieces:
    """Write documents, which come by ascending key, to a file in pieces of about `PIECE_BYTES`; return these."""
    pieces: Pieces = []
    with (folder / ROWS).open("wb") as file:
        for rows in (piece for part in parts for piece in _small(part)):
            place = file.tell()
            keys = int(rows.keys[0]), int(rows.keys[-1])
            rows.write(file)
            pieces.append([place, *keys, [list(part) for part in rows.layout]])
    return pieces


def _small(rows: KeyedRows) -> Iterator[KeyedRows]:
    step = max(1, rows.n_documents * PIECE_BYTES // max(1, rows.nbytes))
    return (rows.slice(i, min(i + step, rows.n_documents)) for i in range(0, rows.n_documents, step))


def rows_between(folder: Path, pieces: Pieces, first: int, stop: int) -> list[KeyedRows]:
    """Return the documents of `write_pieces` with keys from `first` up to `stop`."""
    found = []
    for place, low, high, layout in pieces:
        if low < stop and high >= first:
            size = sum(np.dtype(kind).itemsize * n for kind, n in layout)
            piece = read_values(folder / ROWS, np.uint8, place, place + size)
            rows = KeyedRows.read(BytesIO(piece.data), tuple((kind, n) for kind, n in layout))
            start = int(np.searchsorted(rows.keys, np.uint64(first)))
            end = rows.n_documents if stop > high else int(np.searchsorted(rows.keys, np.uint64(stop)))
            found.append(rows.slice(start, end))
    return found
