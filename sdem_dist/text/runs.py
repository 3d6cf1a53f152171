"""Counted blocks and sorted runs of terms on disk, and the vocabulary that merged runs give."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np

from sdem_dist.documents import offsets_of, offsets_of_lengths
from sdem_dist.errors import IngestError
from sdem_dist.kernels import merging
from sdem_dist.storage.encoding import Strings
from sdem_dist.storage.kept import read_values
from sdem_dist.storage.threads import in_threads
from sdem_dist.text.counters import CsrCounts, LearningCounter
from sdem_dist.text.ngram_merge import ALL, sorted_parts, sorted_terms
from sdem_dist.text.vectorizer import VectorizerSettings

MATRIX = -1  # stands for the run of a block whose columns are those of the corpus, or of its source of numbers


@dataclass(frozen=True)
class CountedBlock:
    """Consecutive documents, counted."""

    counts: CsrCounts  # columns are the terms of a run, or those of the corpus
    n_columns: int
    run: int  # `n_columns` and `run`: columns of the counts, and the number of the run, or `MATRIX`
    labels: np.ndarray  # shape (n_documents,), int32: codes of classes in the order in which the ingest met them
    first: int = 0  # position of the first document in what was counted together
    weights: np.ndarray | None = None  # shape (n_documents,), float64


def block_path(folder: Path, block: int) -> Path:
    """Return where the block number `block` lies."""
    return folder / f"block-{block:06d}"


def save_block(path: Path, block: CountedBlock) -> None:
    """Write a block, without pickle."""
    counts, values = block.counts, block.counts.counts
    if values.dtype.kind != "f" and len(values):  # the smallest dtype halves the spill or better
        values = values.astype(np.min_scalar_type(int(values.max())))
    save_arrays(
        path,
        np.array([block.n_columns, block.run, block.first]),
        counts.indptr,
        counts.nodes,
        values,
        block.labels,
        np.zeros(0) if block.weights is None else block.weights,
    )


def load_block(path: Path) -> CountedBlock:
    """Read the documents that `save_block` wrote."""
    (n_columns, run, first), indptr, nodes, counts, labels, weights = load_arrays(path, 6)
    given = weights if len(weights) else None
    return CountedBlock(CsrCounts(indptr, nodes, counts), int(n_columns), int(run), labels, int(first), given)


def save_arrays(path: Path, *arrays: np.ndarray) -> None:
    """Write arrays one after another, without pickle."""
    with path.open("wb") as file:
        for array in arrays:
            header = np.lib.format.header_data_from_array_1_0(array)
            np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(array).data)  # `tofile` would not say that the disk is full


def save_bytes(path: Path, array: np.ndarray) -> None:
    """Write the bytes of an array alone."""
    with path.open("wb") as file:
        file.write(np.ascontiguousarray(array).data)


def load_arrays(path: Path, n: int) -> list[np.ndarray]:
    """Read the first `n` arrays that `save_arrays` wrote."""
    with path.open("rb") as file:
        return [np.load(file, allow_pickle=False) for _ in range(n)]


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
    sizes = [int(read_rows(table, i * INDEXED, 1)[0, 0]) for i in range(len(index))]
    return [np.fromfile(texts, np.uint8, n, offset=int(at)).tobytes() for n, at in zip(sizes, index, strict=True)]


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


def choose(runs: Runs, settings: VectorizerSettings, n_documents: int) -> MergedTerms:
    """Return the terms of the corpus.

    `runs`: all that was counted.
    `settings`: its `min_df`, `max_df` and `max_features` decide.
    `n_documents`: number of documents that were counted.
    Raises IngestError if no term is left.
    """
    if runs.is_empty:
        raise no_word()
    terms = runs.merged(*bounds_of(settings, n_documents))
    limit(terms, settings, n_documents)
    return terms


def no_word() -> IngestError:
    """Return the error for an empty vocabulary."""
    return IngestError(
        "no document has a word; check the column of the text, and what a word is (token_pattern, stop_words; "
        "--text, --token-pattern, --stop-words)"
    )


def bounds_of(settings: VectorizerSettings, n_documents: int) -> tuple[float, float]:
    """Return the least and the largest number of documents that a term of the corpus is in."""
    least, most = (v if isinstance(v, int) else v * n_documents for v in (settings.min_df, settings.max_df))
    return max(least, 1), most


def limit(terms: MergedTerms, settings: VectorizerSettings, n_documents: int) -> None:
    """Keep no more than `max_features` of terms within bounds; raise IngestError where there are none."""
    if not len(terms):
        least, most = (v if isinstance(v, int) else v * n_documents for v in (settings.min_df, settings.max_df))
        raise IngestError(
            f"no word is in at least {least:g} and at most {most:g} of the {n_documents} documents; "
            "lower min_df (--min-df) or raise max_df (--max-df)"
        )
    if settings.max_features is not None and terms.totals is not None and len(terms) > settings.max_features:
        # exactly scikit-learn's expression: its sort decides between terms of equal totals
        best = (-terms.totals).argsort()[: settings.max_features]
        terms.keep(np.sort(best))
