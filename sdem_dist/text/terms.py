"""Terms of an ingest: those that counters learn, in files where they are many, and the vocabulary that they become.

What a counter learns is a run: a trie of n-grams. In a file its nodes lie by the first two bytes of their first words,
so that the tries of all runs can be merged stretch by stretch of the alphabet, each in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np

from sdem_dist.documents import offsets_of, offsets_of_lengths
from sdem_dist.errors import IngestError
from sdem_dist.kernels.code_points import PADDING
from sdem_dist.storage.encoding import JsonObject, Strings
from sdem_dist.storage.kept import load_array, once, read_values, save_array
from sdem_dist.storage.threads import in_threads
from sdem_dist.storage.urls import is_url
from sdem_dist.text.counters import LearningCounter
from sdem_dist.text.ngram_merge import ALL, Trie, sorted_terms
from sdem_dist.text.tokens import Spelling
from sdem_dist.text.vectorizer import VectorizerSettings

MAX_TERMS = 1 << 21  # terms that the counters of all threads hold together; each takes about a hundred bytes
MERGED_NODES = 1 << 22  # n-grams of all runs that are merged together, about
N_SAMPLES = 32  # buckets of a run that tell how its n-grams are spread
N_BUCKETS = 1 << 16


def save_arrays(path: Path, *arrays: np.ndarray) -> None:
    """Write arrays one after another, without pickle."""
    with path.open("wb") as file:
        for array in arrays:
            header = np.lib.format.header_data_from_array_1_0(array)
            np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(array).data)  # `tofile` would not say that the disk is full


def load_arrays(path: Path, n: int) -> list[np.ndarray]:
    with path.open("rb") as file:
        return [np.load(file, allow_pickle=False) for _ in range(n)]


def _save_bytes(path: Path, array: np.ndarray) -> None:
    with path.open("wb") as file:
        file.write(np.ascontiguousarray(array).data)


class Runs:
    """The runs of a part of the sources.

    `n_jobs`: counters at work at a time.
    `tallies`: terms may be left out, because of documents that are held out or of limits.
    """

    def __init__(self, folder: Path, settings: VectorizerSettings, n_jobs: int = 1, *, tallies: bool = True) -> None:
        self._folder, self._settings, self._n_jobs, self._tallies = folder, settings, n_jobs, tallies
        self._numbers = count()
        self._open: dict[int, LearningCounter] = {}
        self._written: dict[int, list[int]] = {}

    def counter(self, run: int | None) -> tuple[int, LearningCounter]:
        """Return a run and its counter: the one that is given, or a new one if that is full, or None."""
        if run is not None and self._open[run].tree.n_nodes >= MAX_TERMS // self._n_jobs:
            self.write(run)
            run = None
        if run is None:
            run = next(self._numbers)
            self._open[run] = LearningCounter(self._settings, tallies=self._tallies)
        return run, self._open[run]

    def write(self, run: int) -> None:
        counter = self._open.pop(run)
        counter.tree.close()
        trie = Trie.of(counter)
        buckets = _buckets(trie)
        order = np.argsort(buckets, kind="stable").astype(np.int32)
        places = np.full(len(order) + 1, -1, np.int64)  # -1, for no parent, stays
        places[order] = np.arange(len(order))
        tallies = trie.tally[:, 1:] if self._tallies else np.repeat(trie.tally[:, :1] >= 0, 2, axis=1)
        columns = [places[trie.parents], trie.lasts, tallies[:, 0], tallies[:, 1]]
        folder = self._folder
        if not trie.spelling.in_order:
            bounds = trie.spelling.offsets[: trie.spelling.n_words + 1]
            save_arrays(run_path(folder, run, "words"), bounds, trie.spelling.spelled[: bounds[-1] + PADDING])
        save_arrays(run_path(folder, run, "form"), np.array([trie.longest, trie.spelling.separator]), order)
        _save_bytes(run_path(folder, run, "buckets"), buckets[order])
        _save_bytes(
            run_path(folder, run, "nodes"), np.column_stack([column.astype(np.int64)[order] for column in columns])
        )
        samples = buckets[order][:: max(1, -(-len(order) // N_SAMPLES))]
        self._written[run] = [run, len(order), *samples.tolist()]

    def write_all(self) -> list[list[int]]:
        """Write what is not yet written, in threads; return of each run its number, n-grams and sampled buckets."""
        for _ in in_threads(list(self._open), lambda: self.write, self._n_jobs):
            pass
        return [self._written[run] for run in sorted(self._written)]

    def in_memory(self) -> list[Trie]:
        """Return all runs, in order; nothing if one is written."""
        if self._written:
            return []
        counters = [self._open[run] for run in sorted(self._open)]  # threads begin them in any order
        for counter in counters:
            counter.tree.close()
        return list(map(Trie.of, counters))


def run_path(folder: Path, run: int, part: str) -> Path:
    return folder / f"run-{run:04d}-{part}"


def _buckets(trie: Trie) -> np.ndarray:
    """Return the first two bytes of each node's first word, uint16, which sort as the n-grams do.

    A byte below the space counts as one: where a word ends, a space follows.
    """
    roots = np.arange(len(trie.parents))
    while len(deeper := np.flatnonzero((above := trie.parents[roots]) >= 0)):
        roots[deeper] = above[deeper]
    spelled, offsets, words = trie.spelling.spelled, trie.spelling.offsets, trie.lasts[roots]
    sizes = offsets[words + 1] - offsets[words]
    first, second = (
        np.where(sizes > i, np.maximum(spelled[offsets[words] + i], 0x20), 0x20).astype(np.uint16) for i in (0, 1)
    )
    return (first << np.uint16(8)) | second


def _load_trie(folder: Path, run: int, between: tuple[int, int]) -> Trie:
    """Return the n-grams of a run in buckets from one up to another."""
    words = run_path(folder, run, "words")
    start, stop = np.searchsorted(read_values(run_path(folder, run, "buckets"), np.uint16, 0), between).tolist()
    nodes = read_values(run_path(folder, run, "nodes"), np.int64, 4 * start, 4 * stop).reshape(-1, 4)
    longest, separator = (int(value) for value in load_arrays(run_path(folder, run, "form"), 1)[0])
    parents = np.where(nodes[:, 0] < 0, -1, nodes[:, 0] - start).astype(np.int32)
    tally = np.column_stack([nodes[:, 2] - 1, nodes[:, 2:]])
    if not words.exists():
        spelling, lasts = Spelling.of_code_points(), nodes[:, 1]
    else:
        offsets, spelled = load_arrays(words, 2)
        used, lasts = np.unique(nodes[:, 1], return_inverse=True)
        spelling = Spelling(spelled, offsets, len(offsets) - 1, bool(separator)).take(used)
    return Trie(spelling, parents, lasts.astype(np.int32), tally, longest)


def borders_of(runs: Sequence[Sequence[int]]) -> list[int]:
    """Return the buckets that part the n-grams of all runs, as `Runs.write_all` describes them, into stretches."""
    samples = sorted(bucket for _, _, *buckets in runs for bucket in buckets)
    n = min(-(-sum(run[1] for run in runs) // MERGED_NODES), len(samples))
    return [0, *sorted({samples[i * len(samples) // n] for i in range(1, n)} - {0}), N_BUCKETS]


def merge_runs(
    folder: Path,
    runs: Sequence[tuple[Path, int]],
    between: tuple[int, int],
    limits: tuple[int, int],
    with_totals: bool,
) -> JsonObject:
    """Merge the n-grams of all runs in buckets from one up to another; `folder` gets what `TermColumns` reads."""

    def merged(partial_folder: Path) -> JsonObject:
        tries = [_load_trie(*run, between) for run in runs]
        terms = sorted_terms(tries, limits, with_totals=with_totals)
        _save_bytes(partial_folder / "bounds", offsets_of_lengths(terms.columns))
        _save_bytes(partial_folder / "columns", np.concatenate([np.zeros(0, np.int32), *terms.columns]))
        _save_bytes(partial_folder / "text", terms.data)
        save_array(partial_folder / "sizes.npy", np.diff(terms.offsets))
        if terms.totals is not None:
            save_array(partial_folder / "totals.npy", terms.totals)
        return {"n_terms": len(terms.offsets) - 1}

    return once(folder, merged)


@dataclass(frozen=True)
class TermColumns:
    """Columns of the runs of one part of the sources, in files."""

    folder: Path  # of the part
    first: int  # place of the first of its runs among all
    merged: Sequence[Path]  # what `merge_runs` filled
    bases: Sequence[int]  # number of the first term of each
    chosen: Path | None  # the column of each term within bounds, where `max_features` left some out

    def of_run(self, run: int) -> np.ndarray:
        """Return the column of every node of a run, -1 for those left out, int32."""
        place, parts = self.first + run, []
        for folder, base in zip(self.merged, self.bases, strict=True):
            start, stop = read_values(folder / "bounds", np.int64, place, place + 2).tolist()
            numbers = read_values(folder / "columns", np.int32, start, stop)
            parts.append(np.where(numbers < 0, np.int32(-1), numbers + np.int32(base)))
        of_terms = np.concatenate(parts)
        if self.chosen is not None:
            chosen = load_array(self.chosen) if is_url(self.chosen) else np.load(self.chosen, mmap_mode="r")
            of_terms = np.where(of_terms < 0, np.int32(-1), chosen[of_terms])
        order = load_arrays(run_path(self.folder, run, "form"), 2)[1]
        columns = np.empty_like(of_terms)
        columns[order] = of_terms
        return columns


def limits_of(settings: VectorizerSettings, n_documents: int) -> tuple[int, int]:
    """Return the least and the largest number of documents that a term of the corpus is in."""
    least, most = (v if isinstance(v, int) else v * n_documents for v in (settings.min_df, settings.max_df))
    return int(np.ceil(max(least, 1))), int(np.floor(most))


def choose(
    strings: Strings, totals: np.ndarray | None, settings: VectorizerSettings, n_documents: int
) -> tuple[Strings, np.ndarray | None]:
    """Return at most `max_features` of the terms within bounds, and the column of each if some are left out.

    Raises IngestError: there are no terms.
    """
    if not len(strings):
        least, most = limits_of(settings, n_documents)
        raise IngestError(
            f"no word is in at least {least} and at most {most} of the {n_documents} documents (min_df, --min-df; "
            "max_df, --max-df); or no document has a word: check the column of the text, and what a word is "
            "(token_pattern, stop_words; --text, --token-pattern, --stop-words)"
        )
    if settings.max_features is None or totals is None or len(strings) <= settings.max_features:
        return strings, None
    # exactly scikit-learn's expression: its sort decides between terms of equal totals
    best = np.sort((-totals).argsort()[: settings.max_features])
    columns = np.full(len(strings), -1, np.int32)
    columns[best] = np.arange(len(best), dtype=np.int32)
    cuts = [strings.joined[strings.offsets[i] : strings.offsets[i + 1]] for i in best]
    return Strings(np.concatenate(cuts), offsets_of_lengths(cuts)), columns


def terms_in_memory(
    tries: list[Trie], settings: VectorizerSettings, n_documents: int, n_jobs: int, *, tallies: bool
) -> tuple[Strings, list[np.ndarray]]:
    """Return the terms of the corpus, and for each run the column of every node; the runs need not be kept."""
    with_totals = settings.max_features is not None  # nobody else asks
    limits = limits_of(settings, n_documents) if tallies else ALL
    terms = sorted_terms(tries, limits, with_totals=with_totals, n_jobs=n_jobs)
    strings, chosen = choose(Strings(terms.data, terms.offsets), terms.totals, settings, n_documents)
    if chosen is None:
        return strings, terms.columns
    return strings, [np.where(columns < 0, np.int32(-1), chosen[columns]) for columns in terms.columns]


def terms_in_files(
    merged: Sequence[Path], here: Path, settings: VectorizerSettings, n_documents: int
) -> tuple[Strings, Path | None]:
    """Return the terms of the corpus that `merge_runs` left, and a file of the columns where some are left out.

    `here`: a folder of this machine, for the texts of the terms.
    """
    text = here / "text"
    with text.open("wb") as file:
        for folder in merged:
            file.write((folder / "text").read_bytes())
    offsets = offsets_of(np.concatenate([load_array(folder / "sizes.npy") for folder in merged]))
    totals = None
    if settings.max_features is not None:
        totals = np.concatenate([load_array(folder / "totals.npy") for folder in merged])
    strings = Strings(text if offsets[-1] else np.zeros(0, np.uint8), offsets)
    strings, columns = choose(strings, totals, settings, n_documents)
    if columns is None:
        return strings, None
    chosen = merged[0].with_name("chosen.npy")
    save_array(chosen, columns)
    return strings, chosen
