"""Terms of an ingest: each counter learns a run, a trie of n-grams; the merged runs are the vocabulary."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import local
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load, save

from sdem_dist.documents import offsets_of
from sdem_dist.kernels import walks as kernels
from sdem_dist.kernels.code_points import PADDING
from sdem_dist.storage.buckets import is_url
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.jobs import in_threads, load_array, once, read_values, save_array
from sdem_dist.text.tokens import NgramCounter, Spelling, TokenInterner
from sdem_dist.text.vectorizer import VectorizerSettings

MAX_TERMS = 1 << 21  # most terms in the counters of all threads together, at about a hundred bytes per term
MERGED_NODES = 1 << 22  # approximate number of n-grams, of all runs, in one merge
N_SAMPLES = 32  # number of sampled buckets of a run, which show the distribution of its n-grams
N_BUCKETS = 1 << 16
N_KINDS = 2  # kinds of columns, words and n-grams of characters; the kind of a run is its number modulo N_KINDS
ALL = 0, 1 << 62  # limits that keep all n-grams
WALK_STEPS = 1 << 16  # steps of the longest walk per merge, so that their data fit in the CPU's cache


class Trie(NamedTuple):
    """N-grams; a node's parent is the n-gram without its last word, and has a lower number."""

    spelling: Spelling
    parents: np.ndarray  # int32; -1: the node is a single word
    lasts: np.ndarray  # int32: last word of every node
    tally: np.ndarray  # int64: column 0 is negative for a node that is only a prefix; then documents, occurrences
    longest: int  # number of words of the longest n-grams

    @classmethod
    def of(cls, counter: NgramCounter) -> Trie:
        parents, lasts, tally = (array[: counter.n_nodes] for array in (counter.parents, counter.lasts, counter.tally))
        return cls(counter.tokenizer.spelling, parents, lasts, tally, counter.tokenizer.lengths[1])


def sorted_terms(
    tries: Sequence[Trie], limits: tuple[int, int] = ALL, *, with_totals: bool = False, end: int = -1, n_jobs: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, list[np.ndarray]]:
    """Return the sorted n-grams whose number of documents is within `limits`, each followed by the byte `end`, if >= 0.

    Returned: joined bytes; offsets; occurrences of each, if `with_totals`; the n-gram of each node of each trie, or -1.
    """
    places, spelled = _places(tries, end)
    least = limits[0] if len(tries) == 1 else 1  # with several tries, their documents add up

    def walked(job: tuple[Trie, np.ndarray]) -> np.ndarray:
        trie, own = job
        nodes = trie.parents, trie.lasts, trie.tally, own
        return np.asarray(kernels.walk(*nodes, len(spelled.offsets) - 1, trie.longest, least))

    def merged(part: list[np.ndarray]) -> tuple[kernels.Merged, np.ndarray, list[np.ndarray], list[np.ndarray]]:
        steps, tallies, n = np.concatenate(part), np.zeros((0, 2), np.int64), sum(map(len, part))
        bounds = offsets_of([*map(len, part)])
        nodes = [np.where(walk[:, 0] < 0, -1 - walk[:, 0], walk[:, 0]) for walk in part]
        if limits != ALL or with_totals:
            tallies = np.concatenate([trie.tally[numbers, 1:] for trie, numbers in zip(tries, nodes, strict=True)])
        out = kernels.Merged(
            np.empty(n, np.int32), np.empty((n, 2), np.int32), np.empty(n + 1, np.int64), np.empty(n * with_totals, int)
        )
        n_steps, n_terms = kernels.merge(kernels.Walks(steps, bounds, tallies), limits, spelled, out)
        data = np.empty(int(out.ends[n_terms]) + PADDING, np.uint8)
        kernels.spell(out.path[:n_steps], spelled, data)
        ends, totals = out.ends[: n_terms + 1], out.totals[:n_terms]
        return out._replace(ends=ends, totals=totals), data[: ends[-1]], nodes, np.split(out.numbers, bounds[1:-1])

    # a word with a byte below the space sorts before the n-grams that begin with its prefix, so a walk is not sorted
    low = spelled.separator >= 0 and bool((spelled.data[: spelled.offsets[-1]] < 0x20).any())
    if low and tries[0].longest > 1:
        # then sort entire n-grams by their bytes
        flat, walks = [], []
        for trie in tries:
            whole = Spelling(*trie.spelling.texts(trie.parents, trie.lasts), len(trie.parents), separator=False)
            flat.append(trie._replace(spelling=whole))
        places, spelled = _places(flat, end)
        for trie, own in zip(tries, places, strict=True):
            order = np.argsort(own).astype(np.int32)
            steps = np.where(trie.tally[order, 0] >= 0, order, -1 - order)
            walks.append(np.column_stack([steps, own[order], np.ones_like(order)]))
    else:
        walks = list(in_threads(walked, zip(tries, places, strict=True), n_jobs))
    # cut all walks at the same first words, into parts that are merged separately
    firsts = [np.flatnonzero(steps[:, 2] == 1) for steps in walks]
    longest, heads = max(zip(walks, firsts, strict=True), key=lambda walk: len(walk[0]))
    at = np.searchsorted(heads, np.arange(WALK_STEPS, len(longest), WALK_STEPS))
    borders = np.unique(longest[heads[at[at < len(heads)]], 1])
    cuts = []
    for steps, heads in zip(walks, firsts, strict=True):
        inner = np.append(heads, len(steps))[np.searchsorted(steps[heads, 1], borders)]
        cuts.append(np.split(steps, inner))
    columns = [np.full(len(trie.parents), -1, np.int32) for trie in tries]
    texts, offsets, totals, n_terms, n_bytes = [], [np.zeros(1, np.int64)], [], 0, 0
    for part, data, nodes, numbers in in_threads(merged, map(list, zip(*cuts, strict=True)), n_jobs):
        for of_trie, nodes_of, own in zip(columns, nodes, numbers, strict=True):
            of_trie[nodes_of] = np.where(own < 0, np.int32(-1), own + np.int32(n_terms))
        texts.append(data)
        offsets.append(part.ends[1:] + n_bytes)
        totals.append(part.totals)
        n_terms, n_bytes = n_terms + len(part.ends) - 1, n_bytes + len(data)
    joined = texts[0] if len(texts) == 1 else np.concatenate(texts)
    return joined, np.concatenate(offsets), np.concatenate(totals) if with_totals else None, columns


def limits_of(settings: VectorizerSettings, n_documents: int) -> tuple[int, int]:
    """Return the least and the largest number of documents of a term."""
    least, most = (v if isinstance(v, int) else v * n_documents for v in (settings.min_df, settings.max_df))
    return int(np.ceil(max(least, 1))), int(np.floor(most))


def most_frequent(totals: np.ndarray | None, settings: VectorizerSettings) -> np.ndarray | None:
    """Return the column of each term after the limit `max_features`, -1 for dropped terms; None: all terms remain."""
    n = settings.max_features
    if totals is None or n is None or len(totals) <= n:
        return None
    # the same expression as in scikit-learn, whose sort chooses among terms of equal totals
    best, columns = np.sort((-totals).argsort()[:n]), np.full(len(totals), -1, np.int32)
    columns[best] = np.arange(len(best), dtype=np.int32)
    return columns


def cut(text: np.ndarray, offsets: np.ndarray, columns: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes and offsets of the terms that have a column."""
    if columns is None:
        return text, offsets
    cuts = [text[offsets[i] : offsets[i + 1]] for i in np.flatnonzero(columns >= 0)]
    return np.concatenate(cuts), offsets_of([*map(len, cuts)])


def merged_terms(
    tries: Sequence[Trie], settings: VectorizerSettings, n_documents: int | None, *, end: int = -1, n_jobs: int = 1
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return the n-grams within the limits of `settings`, see `sorted_terms`; `n_documents`: None for no limits."""
    limits = ALL if n_documents is None else limits_of(settings, n_documents)
    with_totals = n_documents is not None and settings.max_features is not None
    text, offsets, totals, columns = sorted_terms(tries, limits, with_totals=with_totals, end=end, n_jobs=n_jobs)
    if (chosen := most_frequent(totals, settings)) is not None:
        columns = [np.where(of_trie < 0, np.int32(-1), chosen[of_trie]) for of_trie in columns]
    return *cut(text, offsets, chosen), columns


def _places(tries: Sequence[Trie], end: int) -> tuple[list[np.ndarray], kernels.Spelled]:
    """Return the rank of every word of each trie among all words, sorted by bytes, and the sorted words."""
    spelling = tries[0].spelling
    separator, numbers = 0x20 if spelling.separator else -1, [np.arange(spelling.n_words, dtype=np.int32)]
    if spelling.in_order:  # kernels are compiled for writable arrays
        writable = np.require(spelling.spelled, requirements="W")
        return numbers * len(tries), kernels.Spelled(writable, spelling.offsets, separator, end)
    if len(tries) > 1:
        table = TokenInterner(separator=spelling.separator)
        numbers = [table.numbers(trie.spelling.words, grow=True) for trie in tries]
        spelling = table
    if spelling.n_words < 1 << 15 and "pyarrow" not in sys.modules:  # importing pyarrow would take longer
        order = np.array(sorted(range(spelling.n_words), key=spelling.words.encoded().__getitem__), np.int64)
    else:
        from pyarrow import LargeBinaryArray, compute, large_binary, py_buffer

        parts = [None, py_buffer(spelling.offsets[: spelling.n_words + 1]), py_buffer(spelling.spelled)]
        in_arrow = LargeBinaryArray.from_buffers(large_binary(), spelling.n_words, parts)
        order = compute.sort_indices(in_arrow).to_numpy().astype(np.int64)
    place_of = np.argsort(order).astype(np.int32)
    by_place = spelling.take(order)
    return [place_of[words] for words in numbers], kernels.Spelled(by_place.spelled, by_place.offsets, separator, end)


class Runs:
    """The runs of a part of the sources, filled by `n_jobs` counters; `tallies`: terms may be dropped later."""

    def __init__(
        self, folder: Path, settings: VectorizerSettings, kind: int = 0, *, n_jobs: int = 1, tallies: bool = True
    ) -> None:
        self._folder, self._settings, self._n_jobs, self._tallies = folder, settings, n_jobs, tallies
        self._numbers, self._own = count(kind, N_KINDS), local()
        self._open: dict[int, NgramCounter] = {}
        self._written: dict[int, list[int]] = {}

    def counter(self) -> tuple[int, NgramCounter]:
        """Return the current run of this thread and its counter; begin a new run if the last one is full."""
        run: int | None = getattr(self._own, "run", None)
        if run is not None and self._open[run].n_nodes >= MAX_TERMS // self._n_jobs:
            self.write(run)
            run = None
        if run is None:
            run = self._own.run = next(self._numbers)
            self._open[run] = NgramCounter(self._settings, tallies=self._tallies)
        return run, self._open[run]

    def write(self, run: int) -> None:
        counter = self._open.pop(run)
        counter.close()
        trie = Trie.of(counter)
        roots = np.arange(len(trie.parents))
        while len(deeper := np.flatnonzero((above := trie.parents[roots]) >= 0)):
            roots[deeper] = above[deeper]
        # bucket: the first two bytes of the first word, in the order of the n-grams; bytes below the space count as
        # spaces, and a space follows a short word
        spelled, offsets, words = trie.spelling.spelled, trie.spelling.offsets, trie.lasts[roots]
        sizes = offsets[words + 1] - offsets[words]
        first, second = (
            np.where(sizes > i, np.maximum(spelled[offsets[words] + i], 0x20), 0x20).astype(np.uint16) for i in (0, 1)
        )
        buckets = (first << np.uint16(8)) | second
        order = np.argsort(buckets, kind="stable").astype(np.int32)
        buckets = buckets[order]
        places = np.full(len(order) + 1, -1, np.int64)  # places[-1]: a node without a parent stays -1
        places[order] = np.arange(len(order))
        tallies = trie.tally[:, 1:] if self._tallies else np.repeat(trie.tally[:, :1] >= 0, 2, axis=1)
        nodes = np.column_stack([places[trie.parents], trie.lasts, tallies])[order]
        bounds = offsets[: 0 if trie.spelling.in_order else trie.spelling.n_words + 1]  # empty if words are code points
        letters = spelled[: bounds[-1] + PADDING if len(bounds) else 0]
        form = {"form": np.array([trie.longest, trie.spelling.separator]), "bounds": bounds, "letters": letters}
        run_path(self._folder, run, "form").write_bytes(save(form))
        for name, values in (("order", order), ("buckets", buckets), ("nodes", nodes)):
            run_path(self._folder, run, name).write_bytes(values.data)
        self._written[run] = [run, len(order), *buckets[:: max(1, -(-len(order) // N_SAMPLES))].tolist()]

    def write_all(self) -> list[list[int]]:
        """Write all open runs, in threads; return for each run: number, number of n-grams, sampled buckets."""
        list(in_threads(self.write, list(self._open), self._n_jobs))
        return [self._written[run] for run in sorted(self._written)]

    def in_memory(self) -> list[Trie]:
        """Return all runs, in order; an empty list if a run has been written to files."""
        if self._written:
            return []
        for counter in self._open.values():
            counter.close()
        return [Trie.of(self._open[run]) for run in sorted(self._open)]  # threads insert them in any order


def run_path(folder: Path, run: int, part: str) -> Path:
    return folder / f"run-{run:04d}-{part}"


def merge_runs(
    folder: Path, runs: Sequence[tuple[Path, int]], between: tuple[int, int], limits: tuple[int, int], with_totals: bool
) -> JsonObject:
    """Merge the n-grams of all runs in a range of buckets; write the files for `TermColumns` to `folder`."""

    def merged(partial_folder: Path) -> JsonObject:
        tries = []
        for part, run in runs:
            start, stop = np.searchsorted(read_values(run_path(part, run, "buckets"), np.uint16, 0), between).tolist()
            nodes = read_values(run_path(part, run, "nodes"), np.int64, 4 * start, 4 * stop).reshape(-1, 4)
            form = load(run_path(part, run, "form").read_bytes())
            (longest, separator), bounds = form["form"].tolist(), form["bounds"]
            if len(bounds):
                used, lasts = np.unique(nodes[:, 1], return_inverse=True)
                spelling = Spelling(form["letters"], bounds, len(bounds) - 1, bool(separator)).take(used)
            else:
                spelling, lasts = Spelling.of_code_points(), nodes[:, 1]
            parents = np.where(nodes[:, 0] < 0, -1, nodes[:, 0] - start).astype(np.int32)
            tally = np.column_stack([nodes[:, 2] - 1, nodes[:, 2:]])
            tries.append(Trie(spelling, parents, lasts.astype(np.int32), tally, longest))
        text, offsets, totals, columns = sorted_terms(tries, limits, with_totals=with_totals)
        (partial_folder / "bounds").write_bytes(offsets_of([*map(len, columns)]).data)
        (partial_folder / "columns").write_bytes(np.concatenate([np.zeros(0, np.int32), *columns]).data)
        (partial_folder / "text").write_bytes(np.ascontiguousarray(text).data)
        save_array(partial_folder / "sizes.npy", np.diff(offsets))
        if totals is not None:
            save_array(partial_folder / "totals.npy", totals)
        return {"n_terms": len(offsets) - 1}

    return once(folder, merged)


@dataclass(frozen=True)
class TermColumns:
    folder: Path  # folder of the part
    first: int  # position of its first run among the runs of all parts
    merged: Sequence[Path]  # folders that `merge_runs` filled
    bases: Sequence[int]  # number of the first term in each of these folders
    chosen: Path | None  # file of the column of each term, if `max_features` dropped terms
    first_column: int  # first column of this kind

    def __call__(self, run: int) -> np.ndarray:
        """Return the column of every node of a run, int32, -1 for dropped terms."""
        place, parts = self.first + run // N_KINDS, []
        for folder, base in zip(self.merged, self.bases, strict=True):
            start, stop = read_values(folder / "bounds", np.int64, place, place + 2).tolist()
            numbers = read_values(folder / "columns", np.int32, start, stop)
            parts.append(np.where(numbers < 0, np.int32(-1), numbers + np.int32(base)))
        of_terms = np.concatenate(parts)
        if self.chosen is not None:
            chosen = load_array(self.chosen) if is_url(self.chosen) else np.load(self.chosen, mmap_mode="r")
            of_terms = np.where(of_terms < 0, np.int32(-1), chosen[of_terms])
        of_terms[of_terms >= 0] += self.first_column
        columns = np.empty_like(of_terms)
        columns[read_values(run_path(self.folder, run, "order"), np.int32, 0)] = of_terms
        return columns
