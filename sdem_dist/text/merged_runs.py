"""Merging sorted runs of terms, or the same range of terms of each, with a window of each in memory."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdem_dist.kernels import merging
from sdem_dist.storage.shared_files import read_values

WINDOW_TERMS = 1 << 16
WINDOW_BYTES = 1 << 21
FULL_WINDOWS = 32  # with more runs the windows are smaller, so that their sum stays about the same
LEAST_TERMS, LEAST_BYTES = 1 << 10, 1 << 15
INDEXED = 1 << 10  # terms between two places of a run that are looked at to find a term


@dataclass(frozen=True)
class RunSlice:
    """Consecutive terms of a run."""

    texts: Path
    table: Path  # `texts` and `table`: what `sdem_dist.text.runs.Runs` wrote
    longest: int  # bytes of its longest term
    row: int = 0
    stop: int = 1 << 62  # `row` and `stop`: first term, and the last + 1; `stop` may lie beyond the end
    byte: int = 0  # where the first term begins


@dataclass(frozen=True)
class Merged:
    """What a merge found."""

    numbers: list[np.ndarray]  # of int32: for each slice the number of each term among those kept, -1 for others
    sizes: np.ndarray  # int32: bytes of the terms that are kept
    totals: np.ndarray | None  # int64: how often each occurs, where that was asked for


def merge(slices: Sequence[RunSlice], limits: tuple[int, int], with_totals: bool, vocabulary: Path) -> Merged:
    """Merge slices of runs into a file of the terms whose document frequency is within bounds.

    `limits`: least and largest number of documents of a term that is kept.
    `vocabulary`: file to write: the terms that are kept, joined.
    """
    windows = [_Window(run) for run in slices]
    n, share = len(windows), min(1.0, FULL_WINDOWS / max(1, len(windows)))
    n_terms = min(WINDOW_TERMS, max(LEAST_TERMS, int(WINDOW_TERMS * share)))
    size = min(WINDOW_BYTES, max(LEAST_BYTES, int(WINDOW_BYTES * share)))
    n_bytes = max([size, *(run.longest for run in slices)])
    texts = np.zeros((n, n_bytes), np.uint8)
    offsets, tallies = np.zeros((n, n_terms + 1), np.int64), np.zeros((n, n_terms, 2), np.int64)
    sizes, positions, ended = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, bool)
    numbers, state = np.zeros((n, n_terms), np.int32), np.zeros(3, np.int64)
    out, out_offsets = np.empty(n_bytes, np.uint8), np.zeros(n_terms, np.int64)
    out_totals = np.empty(n_terms, np.int64)
    now = merging.Windows(texts, offsets, tallies, sizes, positions, ended)
    kept = merging.Kept(out, out_offsets, out_totals)
    found: list[list[np.ndarray]] = [[] for _ in windows]
    term_sizes, totals = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    with vocabulary.open("wb") as file:
        done = 0
        while done != merging.FINISHED:
            done = merging.merge(now, limits, state, numbers, kept)
            if done >= 0:
                found[done].append(numbers[done, : sizes[done]].copy())
                sizes[done] = windows[done].fill(texts[done], offsets[done], tallies[done])
                positions[done], ended[done] = 0, sizes[done] == 0
            else:
                n_out = int(state[1])
                file.write(out[: state[2]].data)
                term_sizes.append(np.diff(out_offsets[: n_out + 1]).astype(np.int32))
                if with_totals:
                    totals.append(out_totals[:n_out].copy())
                state[1:] = 0
    numbers_of = list[np.ndarray]()
    while found:  # shortened step by step: the whole list is long
        numbers_of.append(np.concatenate([np.zeros(0, np.int32), *found.pop(0)]))
    return Merged(
        numbers_of,
        np.concatenate(term_sizes),
        np.concatenate(totals) if with_totals else None,
    )


class _Window:
    """Reads a slice of a run from its beginning on."""

    def __init__(self, run: RunSlice) -> None:
        self._run, self._row, self._byte = run, run.row, run.byte

    def fill(self, texts: np.ndarray, offsets: np.ndarray, tallies: np.ndarray) -> int:
        """Write as many of the next texts as there is room for; return how many."""
        most = min(len(tallies), self._run.stop - self._row)
        rows = read_rows(self._run.table, self._row, most)
        ends = np.cumsum(rows[:, 0])
        n = int(np.searchsorted(ends, len(texts), side="right"))
        offsets[1 : n + 1], tallies[:n] = ends[:n], rows[:n, 1:]
        size = int(ends[n - 1]) if n else 0
        texts[:size] = np.fromfile(self._run.texts, np.uint8, size, offset=self._byte)
        self._row, self._byte = self._row + n, self._byte + size
        return n


def read_rows(table: Path, first: int, n: int) -> np.ndarray:
    """Return rows of a run's table: the bytes of a term, its documents, its occurrences."""
    return read_values(table, np.int64, 3 * first, 3 * (first + n)).reshape(-1, 3)


def index_of(table: np.ndarray) -> np.ndarray:
    """Return where every `INDEXED`-th term of a table begins, int64, for `place_of`."""
    starts = np.cumsum(table[:, 0]) - table[:, 0]
    return starts[::INDEXED].astype(np.int64)


def indexed_terms(texts: Path, table: Path, index: np.ndarray) -> list[bytes]:
    """Return the indexed terms of a run."""
    return [_term(texts, table, i * INDEXED, int(byte)) for i, byte in enumerate(index)]


def _term(texts: Path, table: Path, row: int, byte: int) -> bytes:
    return np.fromfile(texts, np.uint8, int(read_rows(table, row, 1)[0, 0]), offset=byte).tobytes()


def place_of(texts: Path, table: Path, index: np.ndarray, terms: Sequence[bytes], term: bytes) -> tuple[int, int]:
    """Return the row of the first term of a run that is not less than `term`, and where it begins.

    `terms` are those indexed.
    """
    low = bisect_left(terms, term)  # the last indexed term that is less than `term` lies before `low`
    if low == 0:
        return 0, 0
    row, byte = (low - 1) * INDEXED, int(index[low - 1])
    sizes = read_rows(table, row, INDEXED)[:, 0].tolist()
    whole = read_values(texts, np.uint8, byte, byte + sum(sizes)).tobytes()
    at = 0
    for size in sizes:
        if whole[at : at + size] >= term:
            break
        row, at = row + 1, at + size
    return row, byte + at
