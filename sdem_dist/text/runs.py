"""Terms of an ingest in bounded memory: a counter with many terms writes them to disk, sorted, and begins again."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import numpy as np

from sdem_dist.offsets import offsets_of, offsets_of_lengths
from sdem_dist.storage.strings import Strings
from sdem_dist.storage.threads import in_threads
from sdem_dist.text.counters import LearningCounter
from sdem_dist.text.merged_runs import RunSlice, merge
from sdem_dist.text.spill import load_arrays, save_arrays
from sdem_dist.text.vectorizer import VectorizerSettings
from sdem_dist.text.walks import ALL, sorted_parts, sorted_terms

MOST_TERMS = 1 << 21  # terms that the counters of all threads hold together; each takes about a hundred bytes


class Runs:
    """The runs of an ingest: each is what one counter learned.

    `n_jobs`: counters at work at a time.
    `held_out`: some documents may have no part in the terms.
    """

    def __init__(self, folder: Path, settings: VectorizerSettings, n_jobs: int, *, held_out: bool = True) -> None:
        self._folder, self._settings = folder, settings
        self._n_jobs, self._most = n_jobs, MOST_TERMS // n_jobs
        self._numbers = count()
        self._tallies = held_out or settings.chooses_terms
        self._open: dict[int, LearningCounter] = {}
        self._any_tallied = False
        self._written: dict[int, int] = {}  # bytes of the longest term of a run

    def begin(self) -> tuple[int, LearningCounter]:
        """Return the number of a new run, and its counter."""
        run = next(self._numbers)
        self._open[run] = LearningCounter(self._settings, tallies=self._tallies)
        return run, self._open[run]

    def is_full(self, run: int) -> bool:
        """Say whether a run has as many terms as there is memory for."""
        return self._open[run].tree.n_nodes >= self._most

    def write(self, run: int) -> None:
        """Write a run down and forget its counter."""
        counter = self._open.pop(run)
        tree, order, longest = counter.tree, [np.zeros(0, np.int32)], 0
        tree.close()
        with self._path(run, "texts").open("wb") as texts, self._path(run, "table").open("wb") as table:
            for part in sorted_parts(
                [counter]
            ):  # those of documents held out, too: another run may have them in others
                nodes = part.nodes[0][part.numbers[0] >= 0]
                sizes = np.diff(part.ends)
                tally = tree.tally[nodes, 1:] if self._tallies else np.ones((len(nodes), 2), np.int64)
                texts.write(part.data.data)
                table.write(np.column_stack([sizes, tally]).data)
                order.append(nodes)
                longest = max(longest, int(sizes.max(initial=0)))
                if tally[:, 0].any():
                    self._any_tallied = True
        save_arrays(self._path(run, "nodes"), np.array([tree.n_nodes]), np.concatenate(order))
        self._written[run] = longest

    @property
    def is_empty(self) -> bool:
        """No tallied document has a term."""
        trees = [counter.tree for counter in self._open.values()]
        if not self._tallies:
            return not self._any_tallied and not any(tree.n_nodes for tree in trees)
        return not self._any_tallied and not any(tree.tally[: tree.n_nodes, 2].any() for tree in trees)

    def merged(self, least: float, most: float) -> MergedTerms:
        """Return the terms of all runs whose document frequency is within bounds."""
        bounds = int(np.ceil(least)), int(np.floor(most))
        if self._open and not self._written:
            runs, counters = list(self._open), list(self._open.values())
            self._open = {}
            for counter in counters:
                counter.tree.close()
            with_totals = self._settings.max_features is not None  # nobody else asks
            limits = bounds if self._tallies else ALL
            terms = sorted_terms(counters, limits, with_totals=with_totals, n_jobs=self._n_jobs)
            for run, columns in zip(runs, terms.columns, strict=True):
                save_arrays(self._path(run, "columns"), columns)
            return MergedTerms(self._folder, Strings(terms.data, terms.offsets), terms.totals)
        self.write_all()
        return self._merged_files(bounds)

    def _merged_files(self, limits: tuple[int, int]) -> MergedTerms:
        slices = [
            RunSlice(self._path(run, "texts"), self._path(run, "table"), longest)
            for run, longest in self._written.items()
        ]
        with_totals = self._settings.max_features is not None  # nobody else asks
        found = merge(slices, limits, with_totals, self._folder / "vocabulary")
        for run in self._written:
            save_arrays(self._path(run, "columns"), columns_of_nodes(self._folder, run, found.numbers.pop(0)))
        return MergedTerms(self._folder, vocabulary_file(self._folder / "vocabulary", found.sizes), found.totals)

    def write_all(self) -> dict[int, int]:
        """Write what is not yet written, in threads; return the bytes of the longest term of each run."""
        for _ in in_threads(list(self._open), lambda: self.write, self._n_jobs):
            pass
        self._written = dict(sorted(self._written.items()))
        return self._written

    def _path(self, run: int, part: str) -> Path:
        return run_path(self._folder, run, part)


def run_path(folder: Path, run: int, part: str) -> Path:
    """Return where a part of a run lies."""
    return folder / f"run-{run:04d}-{part}"


def columns_of_nodes(folder: Path, run: int, columns_of_terms: np.ndarray) -> np.ndarray:
    """Return the column of every node of a run, int32, given those of its sorted terms; -1 for nodes without a term."""
    (n_nodes,), nodes = load_arrays(run_path(folder, run, "nodes"), 2)
    columns = np.full(n_nodes, -1, np.int32)
    columns[nodes] = columns_of_terms
    return columns


def vocabulary_file(path: Path, sizes: np.ndarray) -> Strings:
    """Return the terms of a file, given the bytes of each."""
    offsets = offsets_of(sizes)
    return Strings(path if offsets[-1] else np.zeros(0, np.uint8), offsets)


class MergedTerms:
    """Sorted terms of all runs.

    `totals`: int64: how often each occurs, where `max_features` decides.
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
        bounds = offsets_of_lengths(pieces)
        self.strings, self.totals = Strings(np.concatenate(pieces), bounds), None

    @property
    def kept(self) -> np.ndarray | None:
        """The column of each term of the runs, -1 for those left out, where `keep` was called."""
        return self._kept

    def columns(self, run: int) -> np.ndarray:
        """Return the column of every node of a run, -1 for those left out, int32."""
        (columns,) = load_arrays(run_path(self._folder, run, "columns"), 1)
        return columns if self._kept is None else np.where(columns < 0, np.int32(-1), self._kept[columns])
