"""The tasks of an ingest on many processes: pure functions from splits of sources to files in a shared folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from typing import Literal

import numpy as np

from sdem_dist.corpus import open_corpus
from sdem_dist.corpus.collect import collect
from sdem_dist.corpus.labels import column_of
from sdem_dist.corpus.manifest import ClassLabel, LabelSet
from sdem_dist.corpus.publishing import MEMORY_LIMIT
from sdem_dist.corpus.sorted_rows import write_groups, write_rows
from sdem_dist.corpus.spill import shuffle_keys
from sdem_dist.errors import IngestError
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.kept import REQUESTS, SUMMARY, at_hand, load_array, once, read_values, save_array
from sdem_dist.storage.urls import is_url
from sdem_dist.text.counters import Vocabulary
from sdem_dist.text.counting import (
    Batch,
    ColumnMap,
    SecondPass,
    TextSpool,
    count_matrices,
    count_text,
    held_out_mask,
    silent,
)
from sdem_dist.text.runs import (
    Runs,
    RunSlice,
    block_path,
    columns_of_nodes,
    index_of,
    indexed_terms,
    load_arrays,
    load_block,
    merge,
    place_of,
    run_path,
    save_arrays,
    save_bytes,
)
from sdem_dist.text.sources import MATRIX_DOCUMENTS, Reading
from sdem_dist.text.splits import InputSplit, matrix_blocks
from sdem_dist.text.validation import NONE, RowValidator
from sdem_dist.text.vectorizer import VectorizerSettings


@dataclass(frozen=True)
class RunOf:
    """A run of a split: its name, its number there, and the bytes of its longest term."""

    split: str
    number: int
    longest: int
    first: int | None  # number of the split's first document, where documents of it are held out

    def path(self, scratch: Path, part: str) -> Path:
        """Return where a part of it lies."""
        folder = folder_of(scratch, self.split)
        if part == "table" and self.first is not None:
            folder = held_out_folder(scratch, self.split, self.first)
        return run_path(folder, self.number, part)


def folder_of(scratch: Path, split: str) -> Path:
    """Return where the counts of a split lie."""
    return scratch / f"counts-{split}"


def held_out_folder(scratch: Path, split: str, first: int) -> Path:
    """Return where the counts of terms without held-out documents lie; which these are, follows from `first`."""
    return scratch / f"kept-{split}-{first}"


def borders_of(summaries: Sequence[JsonObject], range_terms: int) -> list[bytes]:
    """Return the terms that part all terms into ranges of about `range_terms`."""
    shown = sorted({bytes.fromhex(term) for summary in summaries for term in summary["samples"]})
    n_ranges = min(-(-sum(summary["n_terms"] for summary in summaries) // range_terms), len(shown))
    return sorted({shown[i * len(shown) // n_ranges] for i in range(1, n_ranges)})


def merge_range(
    scratch: Path,
    folder: Path,
    runs: Sequence[RunOf],
    between: tuple[bytes | None, bytes | None],
    limits: tuple[int, int],
    with_totals: bool,
) -> JsonObject:
    """Merge the terms of all runs from one term up to another."""

    def merged(partial_folder: Path) -> JsonObject:
        copies = partial_folder / "runs"
        copies.mkdir()
        with ThreadPoolExecutor(REQUESTS if is_url(scratch) else 1) as pool:
            slices = list(pool.map(lambda run: _slice_of(run, scratch, between, copies), runs))
        found = merge(slices, limits, with_totals, partial_folder / "vocabulary")
        rmtree(copies)
        save_bytes(partial_folder / "bounds", np.cumsum([0, *(len(numbers) for numbers in found.numbers)]))
        save_bytes(partial_folder / "numbers", np.concatenate([np.zeros(0, np.int32), *found.numbers]))
        save_array(partial_folder / "sizes.npy", found.sizes)
        if found.totals is not None:
            save_array(partial_folder / "totals.npy", found.totals)
        return {"n_terms": len(found.sizes)}

    return once(folder, merged)


def _slice_of(run: RunOf, scratch: Path, between: tuple[bytes | None, bytes | None], copies: Path) -> RunSlice:
    """Return the terms of a run from one up to another; where the run is in a bucket, of a copy of these."""
    texts, table = run.path(scratch, "texts"), run.path(scratch, "table")
    index, ends, joined = load_arrays(run.path(scratch, "index"), 3)
    indexed = [joined[a:b].tobytes() for a, b in pairwise(ends)]
    places = [None if term is None else place_of(texts, table, index, indexed, term) for term in between]
    row, byte = places[0] or (0, 0)
    if not is_url(scratch):
        return RunSlice(texts, table, run.longest, row, 1 << 62 if places[1] is None else places[1][0], byte)
    stop, end = (None, None) if places[1] is None else places[1]
    some, name = len(index) > 0, f"{run.split}-{run.number}"
    near, far = copies / f"{name}-texts", copies / f"{name}-table"
    save_bytes(near, read_values(texts, np.uint8, byte, end) if some else np.zeros(0, np.uint8))
    save_bytes(far, read_values(table, np.int64, 3 * row, None if stop is None else 3 * stop) if some else np.zeros(0))
    return RunSlice(near, far, run.longest)


@dataclass(frozen=True)
class TermColumns:
    """The columns of the runs of one split."""

    folder: Path  # of the split
    places: dict[int, int]  # place of each of its runs among all
    ranges: Sequence[Path]  # what `merge_range` filled
    bases: Sequence[int]  # number of the first term that is kept of each range
    chosen: Path | None  # the column of each term within bounds, where `max_features` left some out

    def columns(self, run: int) -> np.ndarray:
        """Return the column of every node of a run, -1 for those left out, int32."""
        place, parts = self.places[run], []
        for folder, base in zip(self.ranges, self.bases, strict=True):
            start, stop = read_values(folder / "bounds", np.int64, place, place + 2).tolist()
            numbers = read_values(folder / "numbers", np.int32, start, stop)
            parts.append(np.where(numbers < 0, np.int32(-1), numbers + np.int32(base)))
        of_terms = np.concatenate(parts)
        if self.chosen is not None:
            chosen = _fetched(self.chosen) if is_url(self.chosen) else np.load(self.chosen, mmap_mode="r")
            of_terms = np.where(of_terms < 0, np.int32(-1), chosen[of_terms])
        return columns_of_nodes(self.folder, run, of_terms)


@lru_cache(1)
def _fetched(url: Path) -> np.ndarray:
    return load_array(url)


GROUPS = "groups.npy"  # of a split: the hashes of its documents' groups
SAMPLES = 32  # terms of a run that its task shows, to cut the terms into ranges of about equal size


@dataclass(frozen=True)
class Counting:
    """How splits are counted."""

    settings: VectorizerSettings
    reading: Reading
    numeric: bool  # the sources hold numbers
    on_error: Literal["raise", "skip"]
    known_classes: frozenset[str] | None
    targets: bool
    reference: str | None  # the corpus whose vocabulary is taken
    reference_uid: str | None
    block_documents: int


def digest(names: Sequence[str]) -> str:
    """Return a name of all splits together."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:32]


def count_split(counting: Counting, scratch: Path, split: InputSplit) -> JsonObject | IngestError:
    """Count the documents of a split as the first pass of an ingest does, and write down its terms, sorted.

    A mistake in the source is returned, not raised.
    """
    try:
        return once(folder_of(scratch, split.name), partial(_counted, counting, split))
    except IngestError as error:
        return error


def _counted(counting: Counting, split: InputSplit, folder: Path) -> JsonObject:
    reading, settings = counting.reading, counting.settings
    on_error, known, separator = counting.on_error, counting.known_classes, reading.label_separator
    gate = RowValidator(on_error, known, counting.targets, separator=separator, unlabelled=reading.missing_label)
    runs = None
    if counting.numeric:
        blocks = matrix_blocks([split.source], gate, min(counting.block_documents, MATRIX_DOCUMENTS))
        tally = count_matrices(blocks, folder, 0.0, 0, silent)
    else:
        terms: Runs | Vocabulary | None = None
        if counting.reference is not None and counting.settings.kind == "count":
            terms = _vocabulary(counting.reference, counting.reference_uid)
        elif settings.kind == "count":
            terms = runs = Runs(folder, settings, 1)
        ids = None if reading.id is None else TextSpool(folder / "ids")
        texts = split.read(gate)
        groups: list[np.ndarray] | None = None if reading.group is None else []
        tally = count_text(texts, folder, settings, terms, 0.0, 0, 1, silent, None, ids, groups)
        if groups is not None:
            np.save(folder / GROUPS, np.concatenate([np.zeros(0, np.uint64), *groups]))
        if ids is not None:
            ids.save()
    written = {} if runs is None else runs.write_all()
    shown, n_terms, any_term = [], 0, runs is None
    for run in written:
        texts_path, table_path = (run_path(folder, run, part) for part in ("texts", "table"))
        table = np.fromfile(table_path, np.int64).reshape(-1, 3)
        index = index_of(table)
        indexed = indexed_terms(texts_path, table_path, index)
        ends = np.cumsum([0, *map(len, indexed)])
        save_arrays(run_path(folder, run, "index"), index, ends, np.frombuffer(b"".join(indexed), np.uint8))
        n_terms, any_term = n_terms + len(table), any_term or bool(table[:, 1].any())
        shown += [term.hex() for term in indexed[:: max(1, -(-len(indexed) // SAMPLES))]]
    (folder / "labels.json").write_text(json.dumps(list(tally.classes)), encoding="utf-8")
    return {
        "n_blocks": tally.n_blocks,
        "n_documents": tally.n_documents,
        "labels": [] if counting.targets else list(tally.classes),
        "of_text": {} if counting.targets else {name: gate.texts.get(name, True) for name in tally.classes},
        "n_columns": tally.n_columns,
        "first_column": tally.first_column,
        "whole": tally.whole,
        "scripts": astuple(tally.scripts),
        "skipped": gate.skipped,
        "examples": gate.examples,
        "runs": [[run, longest] for run, longest in written.items()],
        "samples": shown,
        "n_terms": n_terms,
        "any_term": any_term,
    }


@lru_cache(2)
def _vocabulary(path: str, uid: str | None) -> Vocabulary:
    """Return the vocabulary of a corpus; the uid tells it from another that took its place."""
    corpus = open_corpus(path)
    return Vocabulary(VectorizerSettings.from_json(corpus.header.vectorizer or {}), corpus.vocabulary() or [])


def hold_out(scratch: Path, split: str, first: int, held_out: float, random_state: int) -> JsonObject:
    """Count the terms of a split without its documents that are held out; the first is number `first` of all."""

    def counted(folder: Path) -> JsonObject:
        with at_hand(folder_of(scratch, split)) as counts:
            return _held_out(counts, folder, first, held_out, random_state)

    return once(held_out_folder(scratch, split, first), counted)


def _held_out(counts: Path, folder: Path, first: int, held_out: float, random_state: int) -> JsonObject:
    summary = json.loads((counts / SUMMARY).read_text(encoding="utf-8"))
    tallies: dict[int, np.ndarray] = {}
    nodes: dict[int, np.ndarray] = {}
    for run, _ in summary["runs"]:
        (n_nodes,), nodes[run] = load_arrays(run_path(counts, run, "nodes"), 2)
        tallies[run] = np.zeros((n_nodes, 2), np.int64)
    for number in range(summary["n_blocks"] if tallies else 0):
        block = load_block(block_path(counts, number))
        if block.run not in tallies:
            continue
        mask = held_out_mask(first + block.first, len(block.labels), held_out, random_state)
        kept = np.repeat(~mask, np.diff(block.counts.indptr))
        there, tally = block.counts.nodes[kept], tallies[block.run]
        tally[:, 0] += np.bincount(there, minlength=len(tally))
        tally[:, 1] += np.bincount(there, block.counts.counts[kept], len(tally)).astype(np.int64)
    any_term = not summary["runs"]
    for run, tally in tallies.items():
        table = np.fromfile(run_path(counts, run, "table"), np.int64).reshape(-1, 3)
        table[:, 1:] = tally[nodes[run]]
        save_bytes(run_path(folder, run, "table"), table)
        any_term = any_term or bool(table[:, 1].any())
    mask = held_out_mask(first, summary["n_documents"], held_out, random_state)
    return {"n_held_out": int(mask.sum()), "any_term": any_term}


@dataclass(frozen=True)
class Arranging:
    """How counted splits become rows of the corpus."""

    n_features: int
    offset: int  # `n_features` and `offset`: see `ColumnMap`
    classes: tuple[tuple[str, ClassLabel | LabelSet], ...] | None  # the corpus's class for each label; None for targets
    whole: bool
    seed: int | None  # of the order of documents; None keeps that of the sources
    held_out: bool  # of the documents held out, or of the others
    share_held_out: float
    random_state: int  # it and `share_held_out` say which documents are held out
    ids: bool  # the documents bring ids


def arrange_split(
    scratch: Path,
    folder: Path,
    split: str,
    how: Arranging,
    terms: TermColumns | None,
    first: tuple[int, int],
) -> JsonObject:
    """Give the documents of a split their columns, and write them down in the order of the corpus.

    `first` is the position of the first of them in the sources, and in the part of them that the corpus holds.
    """

    def arranged(partial_folder: Path) -> JsonObject:
        with at_hand(folder_of(scratch, split)) as counts:
            return _arranged(
                counts, partial_folder, how, None if terms is None else replace(terms, folder=counts), first
            )

    return once(folder, arranged)


def _arranged(
    counts: Path, folder: Path, how: Arranging, terms: TermColumns | None, first: tuple[int, int]
) -> JsonObject:
    summary = json.loads((counts / SUMMARY).read_text(encoding="utf-8"))
    labels = json.loads((counts / "labels.json").read_text(encoding="utf-8"))
    if how.classes is None:
        classes = np.array(labels, np.float64)
    else:
        named: dict[str, ClassLabel | LabelSet] = {NONE: NONE, **dict(how.classes)}
        classes = column_of([named[label] for label in labels])
    ids = TextSpool.reopened(counts / "ids") if how.ids else None
    columns = ColumnMap(how.n_features, terms, how.offset)
    which = how.share_held_out, how.random_state
    second = SecondPass(counts, summary["n_blocks"], columns, classes, how.whole, *which, 1, ids, first[0])
    n_empty = 0

    def wrote(batch: Batch) -> None:
        nonlocal n_empty
        n_empty += int(np.count_nonzero(np.diff(batch[0].indptr) == 0))

    spill = folder / "spill"
    spill.mkdir()
    of_corpus = [name for _, name in how.classes or ()] or None
    if (counts / GROUPS).exists():
        hashes = np.load(counts / GROUPS)
        mask = held_out_mask(first[0], len(hashes), how.share_held_out, how.random_state)
        hashes = hashes[mask == how.held_out]
        stop = first[1] + len(hashes)
        ordered = np.arange(first[1], stop, dtype=np.uint64)
        keys = ordered if how.seed is None else shuffle_keys(how.seed, first[1], stop)
        write_groups(folder, keys, hashes)
    batches = second.batches(how.held_out, wrote)
    weighted = not how.whole or None
    collected = collect(
        batches, spill, MEMORY_LIMIT, of_corpus, weighted, seed=how.seed, unlabelled=NONE, first=first[1]
    )
    return {**write_rows(folder, collected), "n_empty": n_empty}
