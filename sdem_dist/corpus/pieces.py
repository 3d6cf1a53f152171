"""Documents in files by ascending key, in pieces of which any range of keys is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from itertools import accumulate, pairwise
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from sdem_dist.corpus.rows import KeyedRows, alike, cut
from sdem_dist.storage.shared_files import read_values

ROWS = "rows"
PIECE_BYTES = 1 << 20
"""Of what is read together, about: a task that writes shards needs some of the documents of each file."""
RUN_PIECES = 64  # pieces of what memory held, at least: so many ranges of keys come back one after the other

Pieces = list[list[Any]]
"""Of each piece of a file: where it begins, its first and last key, and the layout of its arrays; as JSON has them."""


def write_pieces(folder: Path, parts: Iterable[KeyedRows], n_bytes: int | None = None) -> Pieces:
    """Write documents, ascending by key, to a file, in pieces of about so many bytes; return what these are."""
    pieces: Pieces = []
    with (folder / ROWS).open("wb") as file:
        for rows in (piece for part in parts for piece in _small(part, n_bytes or PIECE_BYTES)):
            place = file.tell()
            keys = int(rows.keys[0]), int(rows.keys[-1])
            pieces.append([place, *keys, [list(part) for part in rows.write(file)]])
    return pieces


def _small(rows: KeyedRows, n_bytes: int) -> Iterator[KeyedRows]:
    step = max(1, rows.n_documents * n_bytes // max(1, rows.nbytes))
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


class Spill:
    """Documents waiting for their place, beyond a limit in files that are each sorted.

    `folder`: existing directory that this object may fill; its owner removes it.
    `memory_limit`: bytes of documents to hold in memory. Sorting them takes a few times as much for a while.
    """

    def __init__(self, folder: Path, memory_limit: int) -> None:
        self._folder, self._memory_limit = folder, memory_limit
        self._piece_bytes = max(1, min(PIECE_BYTES, memory_limit // RUN_PIECES))
        self._runs: list[tuple[Path, Pieces]] = []
        self._held: list[KeyedRows] = []
        self._held_bytes = 0

    def add(self, rows: KeyedRows) -> None:
        """Take the next documents."""
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > self._memory_limit:
            self._flush()

    def _flush(self) -> None:
        """Write what is in memory to a file, sorted."""
        n = sum(rows.n_documents for rows in self._held)
        if n:
            folder = self._folder / f"run-{len(self._runs)}"
            folder.mkdir()
            sizes = np.diff(np.linspace(0, n, RUN_PIECES + 1).astype(np.int64)).tolist()
            parts = (part() for part in self._sorted(sizes))
            self._runs.append((folder, write_pieces(folder, parts, self._piece_bytes)))
        self._held, self._held_bytes = [], 0

    def _sorted(self, sizes: Iterable[int]) -> Iterator[Callable[[], KeyedRows]]:
        """Yield what makes the next documents in memory by ascending key, so many of them each; none where it is 0."""
        held, self._held = alike(self._held), []
        order = np.argsort(np.concatenate([rows.keys for rows in held]))
        for first, stop in pairwise(accumulate(sizes, initial=0)):
            if first < stop:
                yield partial(KeyedRows.gathered, held, order[first:stop])

    def parts(self, sizes: Sequence[int]) -> Iterator[Callable[[], KeyedRows]]:
        """Yield functions that make the next documents by ascending key, `sizes` each; threads may call them."""
        if not self._runs:
            return self._sorted(sizes)
        return (partial(_given, rows) for rows in cut(self.drain(), sizes))

    def drain(self) -> Iterator[KeyedRows]:
        """Yield all documents by ascending key, in ranges of keys that memory holds; then remove the files."""
        self._flush()
        lows = sorted(low for _, pieces in self._runs for _, low, _, _ in pieces)
        for first, stop in pairwise([*lows[:: max(1, self._memory_limit // self._piece_bytes)], 1 << 64]):
            found = [part for folder, pieces in self._runs for part in rows_between(folder, pieces, first, stop)]
            rows = KeyedRows.concatenate(found)
            yield rows.take(np.argsort(rows.keys))
        for folder, _ in self._runs:
            rmtree(folder)


def _given(rows: KeyedRows) -> KeyedRows:
    return rows
