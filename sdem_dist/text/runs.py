"""Terms of a whole ingest in bounded memory: counters that have learned many write them down, sorted, and begin anew."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import numpy as np

from sdem_dist.kernels import merging
from sdem_dist.storage.strings import Strings
from sdem_dist.text.counters import LearningCounter
from sdem_dist.text.spill import load_arrays, save_arrays, save_bytes
from sdem_dist.text.vectorizer import VectorizerSettings

MOST_TERMS = 1 << 21
"""Terms that the counters of all threads hold together; each takes about a hundred bytes."""
WINDOW_TERMS = 1 << 16
WINDOW_BYTES = 1 << 21


class Runs:
    """The runs of an ingest: each is what one counter learned.

    Parameters
    ----------
    folder : Path
    settings : VectorizerSettings
    n_jobs : int
        Counters at work at a time.
    """

    def __init__(self, folder: Path, settings: VectorizerSettings, n_jobs: int) -> None:
        self._folder, self._settings = folder, settings
        self._most = MOST_TERMS // n_jobs
        self._numbers = count()
        self._open: dict[int, LearningCounter] = {}
        self._any_tallied = False
        self._written: dict[int, int] = {}  # bytes of the longest term of a run

    def begin(self) -> tuple[int, LearningCounter]:
        """Return the number of a new run, and its counter."""
        run = next(self._numbers)
        self._open[run] = LearningCounter(self._settings)
        return run, self._open[run]

    def is_full(self, run: int) -> bool:
        """Say whether a run has as many terms as there is memory for."""
        return self._open[run].tree.n_nodes >= self._most

    def write(self, run: int) -> None:
        """Write a run down and forget its counter."""
        counter = self._open.pop(run)
        nodes = counter.sorted_terms()  # those of documents held out, too: another run may have them in others
        data, offsets = counter.spelled(nodes)
        save_bytes(self._path(run, "texts"), data[: offsets[-1]])
        table = np.column_stack([np.diff(offsets), counter.tree.tally[nodes, 1:]])
        save_bytes(self._path(run, "table"), table)
        save_arrays(self._path(run, "nodes"), np.array([counter.tree.n_nodes]), nodes)
        self._any_tallied |= bool(table[:, 1].any())
        self._written[run] = int(table[:, 0].max(initial=0))

    @property
    def is_empty(self) -> bool:
        """No tallied document has a term."""
        tallies = (counter.tree.tally[: counter.tree.n_nodes, 2] for counter in self._open.values())
        return not self._any_tallied and not any(tally.any() for tally in tallies)

    def merged(self, least: float, most: float) -> MergedTerms:
        """Return the terms of all runs that at least and at most so many of the documents have."""
        bounds = int(np.ceil(least)), int(np.floor(most))
        if len(self._open) == 1 and not self._written:
            ((run, counter),) = self._open.items()
            nodes = counter.sorted_terms()
            frequency = counter.tree.tally[nodes, 1]
            kept = nodes[(frequency >= bounds[0]) & (frequency <= bounds[1])]
            columns = np.full(counter.tree.n_nodes, -1, np.int32)
            columns[kept] = np.arange(len(kept), dtype=np.int32)
            save_arrays(self._path(run, "columns"), columns)
            data, offsets = counter.spelled(kept)
            self._open.clear()
            totals = None if self._settings.max_features is None else counter.tree.tally[kept, 2]
            return MergedTerms(self._folder, Strings(data[: offsets[-1]], offsets), totals)
        for run in list(self._open):
            self.write(run)
        return self._merged_files(bounds)

    def _merged_files(self, limits: tuple[int, int]) -> MergedTerms:
        windows = [_Window(self._path(run, "texts"), self._path(run, "table")) for run in self._written]
        n_bytes = max([WINDOW_BYTES, *self._written.values()])
        shape = (len(windows), WINDOW_TERMS)
        texts = np.zeros((shape[0], n_bytes), np.uint8)
        offsets, tallies = np.zeros((shape[0], shape[1] + 1), np.int64), np.zeros((*shape, 2), np.int64)
        sizes, positions, ended = np.zeros(shape[0], np.int64), np.zeros(shape[0], np.int64), np.zeros(shape[0], bool)
        numbers, state = np.zeros(shape, np.int32), np.zeros(3, np.int64)
        out, out_offsets = np.empty(n_bytes, np.uint8), np.zeros(WINDOW_TERMS, np.int64)
        out_totals = np.empty(WINDOW_TERMS, np.int64)
        now = merging.Windows(texts, offsets, tallies, sizes, positions, ended)
        kept = merging.Kept(out, out_offsets, out_totals)
        found: list[list[np.ndarray]] = [[] for _ in windows]
        term_sizes, totals = [], []
        with (self._folder / "vocabulary").open("wb") as file:
            done = 0
            while done != merging.FINISHED:
                done = merging.merge(now, limits, state, numbers, kept)
                if done >= 0:
                    found[done].append(numbers[done, : sizes[done]].copy())
                    sizes[done] = windows[done].fill(texts[done], offsets[done], tallies[done])
                    positions[done], ended[done] = 0, sizes[done] == 0
                else:
                    n = int(state[1])
                    file.write(out[: state[2]].data)
                    term_sizes.append(np.diff(out_offsets[: n + 1]).astype(np.int32))
                    if self._settings.max_features is not None:  # nobody else asks
                        totals.append(out_totals[:n].copy())
                    state[1:] = 0
        for run, parts in zip(self._written, found, strict=True):
            (n_nodes,), nodes = load_arrays(self._path(run, "nodes"), 2)
            columns = np.full(n_nodes, -1, np.int32)
            columns[nodes] = np.concatenate([np.zeros(0, np.int32), *parts])
            save_arrays(self._path(run, "columns"), columns)
        all_offsets = np.zeros(int(state[0]) + 1, np.int64)
        np.cumsum(np.concatenate(term_sizes), out=all_offsets[1:])
        joined = self._folder / "vocabulary" if all_offsets[-1] else np.zeros(0, np.uint8)
        return MergedTerms(self._folder, Strings(joined, all_offsets), np.concatenate(totals) if totals else None)

    def _path(self, run: int, part: str) -> Path:
        return run_path(self._folder, run, part)


def run_path(folder: Path, run: int, part: str) -> Path:
    """Return where a part of a run lies."""
    return folder / f"run-{run:04d}-{part}"


class _Window:
    """Reads a run from its beginning on."""

    def __init__(self, texts: Path, table: Path) -> None:
        self._texts, self._table = texts, table
        self._texts_read = self._rows_read = 0

    def fill(self, texts: np.ndarray, offsets: np.ndarray, tallies: np.ndarray) -> int:
        """Write as many of the next texts as there is room for; return how many."""
        rows = np.fromfile(self._table, np.int64, 3 * len(tallies), offset=24 * self._rows_read).reshape(-1, 3)
        ends = np.cumsum(rows[:, 0])
        n = int(np.searchsorted(ends, len(texts), side="right"))
        offsets[1 : n + 1], tallies[:n] = ends[:n], rows[:n, 1:]
        size = int(ends[n - 1]) if n else 0
        texts[:size] = np.fromfile(self._texts, np.uint8, size, offset=self._texts_read)
        self._rows_read, self._texts_read = self._rows_read + n, self._texts_read + size
        return n


class MergedTerms:
    """Sorted terms of all runs.

    Attributes
    ----------
    strings : Strings
    totals : ndarray of int64, or None
        How often each occurs, where `max_features` decides.
    """

    def __init__(self, folder: Path, strings: Strings, totals: np.ndarray | None) -> None:
        self._folder, self.strings, self.totals = folder, strings, totals
        self._kept: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.strings)

    def keep(self, chosen: np.ndarray) -> None:
        """Keep only the terms whose positions are given, ascending."""
        self._kept = np.full(len(self), -1, np.int32)
        self._kept[chosen] = np.arange(len(chosen), dtype=np.int32)
        joined, offsets = self.strings.joined, self.strings.offsets
        pieces = [joined[offsets[i] : offsets[i + 1]] for i in chosen]
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(piece) for piece in pieces])])
        self.strings, self.totals = Strings(np.concatenate(pieces), bounds), None

    def columns(self, run: int) -> np.ndarray:
        """Return the column of every node of a run, -1 for those left out, int32."""
        (columns,) = load_arrays(run_path(self._folder, run, "columns"), 1)
        return columns if self._kept is None else np.where(columns < 0, np.int32(-1), self._kept[columns])
