"""The tasks of an ingest on many processes: pure functions from stretches of sources to files in a shared folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal

import numpy as np

from sdem_dist.corpus import open_corpus
from sdem_dist.corpus.collect import collect
from sdem_dist.corpus.contents import MEMORY_LIMIT
from sdem_dist.corpus.label_sets import column_of
from sdem_dist.corpus.layout import ClassLabel, LabelSet
from sdem_dist.corpus.shuffle import shuffle_keys
from sdem_dist.corpus.sorted_rows import write_groups, write_rows
from sdem_dist.errors import IngestError
from sdem_dist.storage.kept import SUMMARY, once
from sdem_dist.storage.numbers import JsonObject
from sdem_dist.storage.shared_files import at_hand
from sdem_dist.text.bad_lines import NONE, LineGate
from sdem_dist.text.batches import Batch, ColumnMap, SecondPass
from sdem_dist.text.counters import Vocabulary
from sdem_dist.text.counting import count_matrices, count_text, silent
from sdem_dist.text.held_out import held_out_mask
from sdem_dist.text.kept_texts import KeptTexts
from sdem_dist.text.merged_runs import index_of, indexed_terms
from sdem_dist.text.runs import Runs, run_path
from sdem_dist.text.sources import MATRIX_DOCUMENTS, Reading, blocks_of_source, matrix_blocks
from sdem_dist.text.spill import block_path, load_arrays, load_block, save_arrays, save_bytes
from sdem_dist.text.stretches import Stretch
from sdem_dist.text.term_ranges import TermColumns, folder_of, held_out_folder
from sdem_dist.text.vectorizer import VectorizerSettings

GROUPS = "groups.npy"  # of a stretch: the hashes of its documents' groups
SAMPLES = 32  # terms of a run that its task shows, to cut the terms into ranges of about equal size


@dataclass(frozen=True)
class Counting:
    """How stretches are counted."""

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
    """Return a name of all stretches together."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:32]


def count_stretch(counting: Counting, scratch: Path, stretch: Stretch) -> JsonObject | IngestError:
    """Count the documents of a stretch as the first pass of an ingest does, and write down its terms, sorted.

    A mistake in the source is returned, not raised.
    """
    try:
        return once(folder_of(scratch, stretch.name), partial(_counted, counting, stretch))
    except IngestError as error:
        return error


def _counted(counting: Counting, stretch: Stretch, folder: Path) -> JsonObject:
    reading, settings = counting.reading, counting.settings
    on_error, known, separator = counting.on_error, counting.known_classes, reading.label_separator
    gate = LineGate(on_error, known, counting.targets, separator=separator, unlabelled=reading.unlabelled)
    runs = None
    if counting.numeric:
        blocks = matrix_blocks([stretch.source], gate, min(counting.block_documents, MATRIX_DOCUMENTS))
        tally = count_matrices(blocks, folder, 0.0, 0, silent)
    else:
        if stretch.part is not None:
            gate.start = stretch.part[0] if stretch.source.is_file() else 0
        terms: Runs | Vocabulary | None = None
        if counting.reference is not None and counting.settings.kind == "count":
            terms = _vocabulary(counting.reference, counting.reference_uid)
        elif settings.kind == "count":
            terms = runs = Runs(folder, settings, 1)
        ids = None if reading.id is None else KeptTexts(folder / "ids")
        texts = blocks_of_source(stretch.source, reading, gate, counting.block_documents, stretch.part)
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


def hold_out(scratch: Path, stretch: str, first: int, held_out: float, random_state: int) -> JsonObject:
    """Count the terms of a stretch without its documents that are held out; the first is number `first` of all."""

    def counted(folder: Path) -> JsonObject:
        with at_hand(folder_of(scratch, stretch)) as counts:
            return _held_out(counts, folder, first, held_out, random_state)

    return once(held_out_folder(scratch, stretch, first), counted)


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
    """How counted stretches become rows of the corpus."""

    n_features: int
    offset: int  # `n_features` and `offset`: see `ColumnMap`
    classes: tuple[tuple[str, ClassLabel | LabelSet], ...] | None  # the corpus's class for each label; None for targets
    whole: bool
    seed: int | None  # of the order of documents; None keeps that of the sources
    held_out: bool  # of the documents held out, or of the others
    share_held_out: float
    random_state: int  # it and `share_held_out` say which documents are held out
    ids: bool  # the documents bring ids


def arrange_stretch(
    scratch: Path,
    folder: Path,
    stretch: str,
    how: Arranging,
    terms: TermColumns | None,
    first: tuple[int, int],
) -> JsonObject:
    """Give the documents of a stretch their columns, and write them down in the order of the corpus.

    `first` is the position of the first of them in the sources, and in the part of them that the corpus holds.
    """

    def arranged(partial_folder: Path) -> JsonObject:
        with at_hand(folder_of(scratch, stretch)) as counts:
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
    ids = KeptTexts.reopened(counts / "ids") if how.ids else None
    columns = ColumnMap(how.n_features, terms, how.offset)
    second = SecondPass(
        counts,
        summary["n_blocks"],
        columns,
        classes,
        how.whole,
        how.share_held_out,
        how.random_state,
        1,
        ids,
        first[0],
    )
    n_empty = 0

    def wrote(batch: Batch) -> None:
        nonlocal n_empty
        n_empty += int(np.count_nonzero(np.diff(batch[0].indptr) == 0))

    spill = folder / "spill"
    spill.mkdir()
    of_corpus = None if how.classes is None else [name for _, name in how.classes]
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
