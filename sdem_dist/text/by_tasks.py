"""An ingest whose stages are tasks of an executor: the corpus is that of `sdem_dist.text.ingest` in this process."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.corpus.publishing import destination, reopened, write_contents
from sdem_dist.corpus.sorted_rows import SortedDocuments
from sdem_dist.corpus.writer import plain_json
from sdem_dist.engine.executor import Executor, in_order
from sdem_dist.errors import IngestError, SdemError
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.kept import driver_folder, kept_folder, load_array, save_array
from sdem_dist.storage.urls import place as to_place
from sdem_dist.text.counting import Tally
from sdem_dist.text.plan import CorpusPlan, IngestConfig, IngestReport
from sdem_dist.text.runs import MergedTerms, bounds_of, limit, no_word, vocabulary_file
from sdem_dist.text.splits import InputSplit, ingest_splits
from sdem_dist.text.stages import (
    Arranging,
    Counting,
    RunOf,
    TermColumns,
    arrange_split,
    borders_of,
    count_split,
    digest,
    folder_of,
    hold_out,
    merge_range,
)
from sdem_dist.text.validation import class_name

if TYPE_CHECKING:
    from distributed import Client


FORMAT = 4  # of what is kept beside a corpus meanwhile
RANGE_TERMS = 1 << 20  # terms of all runs together that one task merges, about


@dataclass(frozen=True)
class Counted:
    """What tasks counted."""

    scratch: Path
    here: Path  # a folder of the driver for what it makes: `scratch`, unless that is in a bucket
    splits: list[InputSplit]
    summaries: list[JsonObject]  # what `count_split` returned
    tally: Tally  # of all
    held_out: list[int]  # documents held out of each split
    any_term: bool  # a document that is not held out has a term

    @property
    def names(self) -> list[str]:
        """The names of the splits."""
        return [split.name for split in self.splits]

    @property
    def starts(self) -> list[int]:
        """Position of the first document of each split."""
        return list(accumulate((s["n_documents"] for s in self.summaries), initial=0))[:-1]

    @property
    def runs(self) -> list[RunOf]:
        """All runs of terms, in order."""
        splits = zip(self.names, self.starts, self.summaries, strict=True)
        return [
            RunOf(name, run, longest, start if self.tally.n_held_out else None)
            for name, start, summary in splits
            for run, longest in summary["runs"]
        ]


def counted_by_tasks(
    executor: Executor, scratch: Path, here: Path, config: IngestConfig, counting: Counting
) -> Counted:
    """Count all sources; the gate learns how many lines were left out."""
    held_out, gate = config.held_out, config.gate
    sources = [source.absolute() for source in config.sources]
    found = list(ingest_splits(sources, counting.reading, gate, counting.block_documents))
    tally, summaries, of_text = Tally(n_columns=counting.settings.n_features or 0), [], dict[str, bool]()
    for summary in in_order(executor, count_split, ((counting, scratch, split) for split in found)):
        summaries.append(summary)
        tally.n_documents += summary["n_documents"]
        tally.n_columns = max(tally.n_columns, summary["n_columns"])
        tally.first_column = min(tally.first_column, summary["first_column"])
        tally.whole = tally.whole and summary["whole"]
        tally.scripts.merge(*summary["scripts"])
        gate.merge(summary["skipped"], summary["examples"])
        for label in summary["labels"]:
            tally.classes.setdefault(label, len(tally.classes))
        for label, is_text in summary["of_text"].items():
            if of_text.setdefault(label, is_text) != is_text:
                raise IngestError(
                    f"the label {label!r} is a text in some places of the sources and not in others: write all alike"
                )
        config.progress("counting", tally.n_documents, None)
    counted = Counted(scratch, here, found, summaries, tally, [0] * len(found), any(s["any_term"] for s in summaries))
    if not held_out:
        return counted
    jobs = (
        (scratch, name, start, held_out, config.random_state)
        for name, start in zip(counted.names, counted.starts, strict=True)
    )
    marked = list(in_order(executor, hold_out, jobs))
    n_held_out = [summary["n_held_out"] for summary in marked]
    tally.n_held_out = sum(n_held_out)
    return replace(counted, held_out=n_held_out, any_term=any(summary["any_term"] for summary in marked))


@dataclass(frozen=True)
class MergedRanges:
    """The terms of the corpus, and where the columns of each run are."""

    terms: MergedTerms
    folders: list[Path]
    bases: list[int]
    chosen: Path | None

    def columns(self, counted: Counted, number: int) -> TermColumns:
        """Return the columns of the runs of a split."""
        before = sum(len(summary["runs"]) for summary in counted.summaries[:number])
        places = {run: before + i for i, (run, _) in enumerate(counted.summaries[number]["runs"])}
        folder = folder_of(counted.scratch, counted.names[number])
        return TermColumns(folder, places, self.folders, self.bases, self.chosen)


def merged_by_tasks(executor: Executor, counted: Counted, counting: Counting) -> MergedRanges:
    """Merge the terms of all splits, range by range, and choose those of the corpus."""
    settings, scratch = counting.settings, counted.scratch
    if not counted.any_term:
        raise no_word()
    least, most = bounds_of(settings, counted.tally.n_training)
    limits, with_totals = (int(np.ceil(least)), int(np.floor(most))), settings.max_features is not None
    borders = borders_of(counted.summaries, RANGE_TERMS)
    root = scratch / f"terms-{digest(counted.names)}"
    folders = [root / f"range-{number}" for number in range(len(borders) + 1)]
    runs = counted.runs
    jobs = (
        (scratch, folder, runs, between, limits, with_totals)
        for folder, between in zip(folders, pairwise([None, *borders, None]), strict=True)
    )
    sizes = [summary["n_terms"] for summary in in_order(executor, merge_range, jobs)]
    here = counted.here / root.name
    here.mkdir(exist_ok=True)
    path = here / "vocabulary"
    with path.open("wb") as whole:
        for folder in folders:
            with (folder / "vocabulary").open("rb") as part:
                shutil.copyfileobj(part, whole)
    strings = vocabulary_file(path, np.concatenate([load_array(folder / "sizes.npy") for folder in folders]))
    totals = np.concatenate([load_array(folder / "totals.npy") for folder in folders]) if with_totals else None
    terms = MergedTerms(here, strings, totals)
    limit(terms, settings, counted.tally.n_training)
    chosen = None
    if terms.kept is not None:
        chosen = root / "chosen.npy"
        save_array(chosen, terms.kept)
    return MergedRanges(terms, folders, list(accumulate(sizes, initial=0))[:-1], chosen)


@dataclass(frozen=True)
class Writing:
    """What the corpora of an ingest have in common."""

    config: IngestConfig
    executor: Executor
    counted: Counted
    plan: CorpusPlan
    ranges: MergedRanges | None

    def write(
        self, path: Path, held_out: bool, made_by: JsonObject, before_publishing: Callable[[], object]
    ) -> tuple[SortedDocuments, int]:
        """Write the documents held out, or the others; return what they are, and how many of them have no word."""
        documents, n_empty = self._arranged(held_out)
        with destination(path, self.config.overwrite) as (where, _):
            header = write_contents(
                where,
                documents,
                partial(documents.write_shards, self.executor, to_place(where)),
                vocabulary=self.plan.vocabulary,
                vectorizer=plain_json(self.config.plan.settings.to_json(), "vectorizer"),
                made_by=plain_json(made_by, "made_by"),
                shard_documents=self.config.shard_documents,
            )
            before_publishing()
        reopened(path, header)
        return documents, n_empty

    def _arranged(self, held_out: bool) -> tuple[SortedDocuments, int]:
        config, counted, columns, tally = self.config, self.counted, self.plan.columns, self.counted.tally
        classes = None if config.targets else tuple((class_name(name), name) for name in self.plan.classes)
        seed = config.random_state if config.plan.shuffle and not held_out else None
        ids = config.reading.id is not None
        which = held_out, config.held_out, config.random_state
        how = Arranging(columns.n_features, columns.offset, classes, tally.whole, seed, *which, ids)
        pairs = zip(counted.summaries, counted.held_out, strict=True)
        sizes = [out if held_out else summary["n_documents"] - out for summary, out in pairs]
        before = list(accumulate(sizes, initial=0))
        root = counted.scratch / f"rows-{digest(counted.names)}-{'held-out' if held_out else 'kept'}"
        some = [number for number, size in enumerate(sizes) if size]
        folders = [root / str(number) for number in some]
        root.mkdir(exist_ok=True)  # of a bucket it means nothing
        jobs = (
            (
                counted.scratch,
                folder,
                counted.names[number],
                how,
                None if self.ranges is None else self.ranges.columns(counted, number),
                (counted.starts[number], before[number]),
            )
            for number, folder in zip(some, folders, strict=True)
        )
        done, summaries = 0, []
        for summary in in_order(self.executor, arrange_split, jobs):
            summaries.append(summary)
            done += summary["n_documents"]
            config.progress("writing", done, before[-1])
        counts = zip(*(summary["class_counts"] for summary in summaries), strict=True)
        documents = SortedDocuments(
            n_documents=before[-1],
            n_features=columns.n_features,
            n_nonzeros=sum(summary["n_nonzeros"] for summary in summaries),
            classes=() if config.targets else tuple(self.plan.classes),
            class_counts=tuple(map(sum, counts)),
            weighted=not tally.whole,
            dense=False,
            n_targets=max(summary["n_targets"] for summary in summaries),
            has_weights=config.reading.weight is not None,
            folders=folders,
            seed=seed,
            scratch=root,
        )
        return documents, sum(summary["n_empty"] for summary in summaries)


def ingest_by_tasks(client: Client, config: IngestConfig, report: IngestReport) -> CorpusPlan:
    """Read, count and write on the workers of a client; `report` learns of what is written.

    What is done is kept beside the corpus until it is there.
    """
    from sdem_dist.engine.dask import DaskExecutor

    plan, path, executor = config.plan, to_place(config.destinations[0]).absolute(), DaskExecutor(client)
    path_of, uid = (None, None) if plan.reference is None else (plan.reference.path, plan.reference.header.uid)
    rules = config.gate.on_error, plan.known_classes, config.targets
    how = Counting(plan.settings, config.reading, config.form is not None, *rules, path_of, uid, config.block_documents)
    # the known classes are those of the reference, and sets have no order
    content = repr((FORMAT, replace(how, known_classes=None), config.held_out, config.random_state))
    identity = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    try:
        with kept_folder(path, "counted", identity) as scratch, driver_folder(scratch) as here:
            counted = counted_by_tasks(executor, scratch, here, config, how)
            config.check(counted.tally)
            ranges = None
            if plan.vocabulary is None and plan.settings.kind == "count":
                ranges = merged_by_tasks(executor, counted, how)
            corpus_plan = plan.settled(counted.tally, None if ranges is None else ranges.terms)
            report.take(counted.tally, corpus_plan, config.targets)
            _write_all(Writing(config, executor, counted, corpus_plan, ranges), report)
    except SdemError:
        raise
    except OSError as error:
        raise IngestError(
            f"cannot keep the counted documents in {path.parent} meanwhile, which all workers have to see: {error}; "
            "nothing was written"
        ) from error
    return corpus_plan


def _write_all(writing: Writing, report: IngestReport) -> None:
    """Write the corpus and that of held-out documents; neither appears before both are written."""
    path, *held_out_path = map(Path, writing.config.destinations)
    made_by = writing.config.made_by(writing.plan)

    def write_held_out() -> None:
        for held_out in held_out_path:
            writing.write(held_out, True, {**made_by, "part": "held out"}, lambda: None)

    written, report.n_empty = writing.write(path, False, made_by, write_held_out)
    report.n_documents, report.n_nonzeros = written.n_documents, written.n_nonzeros
