"""The steps of an ingest: count, merge terms, place documents, write shards; in this process or by workers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise, starmap
from pathlib import Path

import numpy as np

from sdem_dist.corpus.publishing import WriteShards, destination, reopened, write_contents
from sdem_dist.corpus.rows import KeyedRows
from sdem_dist.corpus.shuffle import SortedDocuments, stored_keys
from sdem_dist.corpus.writer import plain_json
from sdem_dist.engine.executor import Executor, in_order
from sdem_dist.errors import IngestError
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.threads import n_cores
from sdem_dist.storage.urls import place
from sdem_dist.text.counting import (
    NumberedSplit,
    Tally,
    TextSpool,
    count_matrices,
    count_split,
    count_text,
    counts_folder,
)
from sdem_dist.text.ngram_merge import Trie
from sdem_dist.text.placing import Placing, SecondPass, place_split
from sdem_dist.text.plan import CorpusPlan, IngestConfig, IngestReport
from sdem_dist.text.splits import ingest_splits
from sdem_dist.text.terms import (
    RunColumns,
    Runs,
    TermColumns,
    borders_of,
    limits_of,
    merge_runs,
    terms_in_files,
    terms_in_memory,
)
from sdem_dist.text.validation import MIXED, class_name


@dataclass(frozen=True)
class _Part:
    """A part of the sources, counted."""

    folder: Path
    tally: Tally
    start: int  # position of its first document in the sources
    first_run: int = 0  # place of its first run among all
    runs: Sequence[Sequence[int]] = ()  # in files; see `Runs.write_all`

    def n_documents(self, held_out: bool) -> int:
        return self.tally.n_held_out if held_out else self.tally.n_training


class IngestRun:
    """An ingest under way: in this process all sources are one part, workers take each split as one.

    `scratch`: a folder that all processes see.
    `here`: a folder of this machine: the same, unless that is in a bucket.
    """

    def __init__(self, config: IngestConfig, scratch: Path, here: Path, executor: Executor | None) -> None:
        self._config, self._scratch, self._here, self._executor = config, scratch, here, executor
        self._counting = config.counting
        self._n_jobs = config.n_jobs or n_cores()
        self._tally = Tally(n_columns=config.plan.settings.n_features or 0)
        self._spool: TextSpool | None = None
        self._columns: Callable[[_Part], RunColumns | None] = lambda part: None

    def run(self, report: IngestReport) -> CorpusPlan:
        """Read, count and write; `report` learns of it."""
        config, counting = self._config, self._counting
        if self._executor is None:
            parts, runs = self._counted_here()
        else:
            parts, runs = self._counted_by_tasks(self._executor), None
        config.check(self._tally)
        terms = None
        if counting.learns:
            tries = None if runs is None else runs.in_memory()
            terms = self._merged(parts, runs) if tries is None else self._merged_in_memory(tries)
        plan = config.plan.settled(self._tally, terms)
        report.n_features, report.classes = (
            plan.columns.n_features,
            [] if config.counting.targets else list(plan.classes),
        )
        report.n_held_out = self._tally.n_held_out
        path, *held_out_paths = config.destinations
        made_by = config.made_by(plan)

        def write_held_out() -> None:
            for held_out_path in held_out_paths:
                self._write(held_out_path, plan, parts, True, {**made_by, "part": "held out"})

        documents, report.n_empty = self._write(path, plan, parts, False, made_by, write_held_out)
        report.n_documents, report.n_nonzeros = documents.n_documents, documents.n_nonzeros
        return plan

    def _splits(self, sources: Sequence[Path]) -> Iterator[NumberedSplit]:
        counting = self._counting
        return enumerate(ingest_splits(sources, counting.reading, self._config.gate, counting.block_documents))

    def _counted_here(self) -> tuple[list[_Part], Runs | None]:
        """Count all sources in threads, each of which goes on with terms of its own."""
        config, counting, folder = self._config, self._counting, self._scratch / "counts"
        folder.mkdir()
        splits, runs = self._splits(config.sources), None
        if counting.numeric:
            self._tally = count_matrices(counting, splits, folder, config.gate, progress=config.progress)
        else:
            if counting.learns:
                runs = Runs(folder, counting.settings, self._n_jobs, tallies=self._tallies)
            self._spool = TextSpool(folder / "texts") if config.keep_text else None
            self._tally = count_text(
                counting,
                splits,
                folder,
                config.gate,
                runs,
                n_jobs=config.n_jobs,
                progress=config.progress,
                spool=self._spool,
            )
        return [_Part(folder, self._tally, 0)], runs

    @property
    def _tallies(self) -> bool:
        return self._counting.held_out > 0 or self._counting.settings.chooses_terms

    def _counted_by_tasks(self, executor: Executor) -> list[_Part]:
        config, counting, gate = self._config, self._counting, self._config.gate
        splits = list(self._splits([source.absolute() for source in config.sources]))
        parts, of_text, n_runs = [], dict[str, bool](), 0
        jobs = ((counting, self._scratch, *split) for split in splits)
        for split, summary in zip(splits, in_order(executor, count_split, jobs), strict=True):
            tally, runs = Tally(**summary["tally"]), summary["runs"]
            parts.append(_Part(counts_folder(self._scratch, *split), tally, self._tally.n_documents, n_runs, runs))
            n_runs += len(runs)
            self._tally.merge(tally)
            gate.merge(summary["skipped"], summary["examples"])
            for label, is_text in summary["of_text"].items():
                if of_text.setdefault(label, is_text) != is_text:
                    raise IngestError(f"the label {label!r} {MIXED}")
            config.progress("counting", self._tally.n_documents, None)
        return parts

    def _merged_in_memory(self, tries: list[Trie]) -> Sequence[str]:
        settings, n_documents = self._counting.settings, self._tally.n_training
        strings, columns = terms_in_memory(tries, settings, n_documents, self._n_jobs, tallies=self._tallies)
        self._columns = lambda part: columns
        return strings

    def _merged(self, parts: list[_Part], runs: Runs | None) -> Sequence[str]:
        """Merge the terms of all parts, stretch by stretch of the alphabet, and choose those of the corpus."""
        if runs is not None:
            parts[:] = [replace(parts[0], runs=runs.write_all())]
        settings, n_documents = self._counting.settings, self._tally.n_training
        all_runs = [(part.folder, run) for part in parts for run, *_ in part.runs]
        borders = borders_of(run for part in parts for run in part.runs)
        root = self._root(parts, "terms")
        folders = [root / f"range-{number}" for number in range(len(borders) - 1)]
        limits, with_totals = limits_of(settings, n_documents), settings.max_features is not None
        jobs = [
            (folder, all_runs, between, limits, with_totals)
            for folder, between in zip(folders, pairwise(borders), strict=True)
        ]
        merged = starmap(merge_runs, jobs) if self._executor is None else in_order(self._executor, merge_runs, jobs)
        bases = list(accumulate((summary["n_terms"] for summary in merged), initial=0))[:-1]
        here = self._here / root.name
        here.mkdir(exist_ok=True)
        strings, chosen = terms_in_files(folders, here, settings, n_documents)
        self._columns = lambda part: TermColumns(part.folder, part.first_run, folders, bases, chosen)
        return strings

    def _root(self, parts: list[_Part], name: str) -> Path:
        names = "\n".join(part.folder.name for part in parts)
        return self._scratch / f"{name}-{hashlib.sha256(names.encode()).hexdigest()[:32]}"

    def _write(
        self,
        path: str,
        plan: CorpusPlan,
        parts: list[_Part],
        held_out: bool,
        made_by: JsonObject,
        before_publishing: Callable[[], object] = lambda: None,
    ) -> tuple[SortedDocuments, int]:
        """Write the documents held out, or the others; return what they are, and how many of them have no word."""
        config, executor = self._config, self._executor
        classes = None if config.counting.targets else tuple((class_name(name), name) for name in plan.classes)
        seed = self._counting.random_state if config.plan.shuffle and not held_out else None
        how, write_shards = Placing(plan.columns, classes, seed, held_out), None
        with destination(path, config.overwrite) as (where, scratch):
            if executor is None:
                documents, n_empty, write_shards = self._placed_here(parts[0], how, scratch)
            else:
                documents, n_empty = self._placed_by_tasks(executor, parts, how)
                write_shards = partial(documents.write_by_tasks, executor, place(where))
            header = write_contents(
                where,
                documents,
                write_shards,
                vocabulary=plan.vocabulary,
                vectorizer=plain_json(config.plan.settings.to_json(), "vectorizer"),
                made_by=plain_json(made_by, "made_by"),
                shard_documents=config.shard_documents,
            )
            before_publishing()
        reopened(path, header)
        return documents, n_empty

    def _placed_here(self, part: _Part, how: Placing, scratch: Path) -> tuple[SortedDocuments, int, WriteShards]:
        labels, terms = list(part.tally.classes), self._columns(part)
        second = SecondPass(part.folder, part.tally.n_blocks, labels, how, terms, n_jobs=self._config.n_jobs)
        documents = second.documents(scratch / "rows", 0, self._progress_of(part.n_documents(how.held_out)))
        keys = stored_keys(how.seed, 0, documents.n_documents)
        by_key = np.argsort(keys)

        def positions(rows: KeyedRows) -> np.ndarray:
            found: np.ndarray = by_key[np.searchsorted(keys, rows.keys, sorter=by_key)]
            return found

        spool, groups, sources = self._spool, second.groups, second.rows
        write_shards = partial(
            documents.write_in_threads,
            n_jobs=self._config.n_jobs,
            texts=None if spool is None else lambda rows: spool.at(sources[positions(rows)]),
            groups=None if groups is None else lambda rows: groups[positions(rows)],
        )
        return documents, second.n_empty, write_shards

    def _progress_of(self, n_documents: int) -> Callable[[int], None]:
        done = 0

        def wrote(n: int) -> None:
            nonlocal done
            done += n
            self._config.progress("writing", done, n_documents)

        return wrote

    def _placed_by_tasks(self, executor: Executor, parts: list[_Part], how: Placing) -> tuple[SortedDocuments, int]:
        root = self._root(parts, f"rows-{'held-out' if how.held_out else 'kept'}")
        root.mkdir(exist_ok=True)  # of a bucket it means nothing
        jobs, folders, n_documents = [], [], 0
        for number, part in enumerate(parts):
            if n := part.n_documents(how.held_out):
                folders.append(root / str(number))
                jobs.append((part.folder, folders[-1], how, self._columns(part), (part.start, n_documents)))
                n_documents += n
        wrote, summaries = self._progress_of(n_documents), []
        for summary in in_order(executor, place_split, jobs):
            summaries.append(summary)
            wrote(summary["n_documents"])
        documents = SortedDocuments(
            n_documents=n_documents,
            n_features=how.columns.n_features,
            n_nonzeros=sum(summary["n_nonzeros"] for summary in summaries),
            classes=() if how.classes is None else tuple(name for _, name in how.classes),
            class_counts=tuple(map(sum, zip(*(summary["class_counts"] for summary in summaries), strict=True))),
            weighted=not how.columns.whole,
            dense=False,
            n_targets=max(summary["n_targets"] for summary in summaries),
            has_weights=self._counting.reading.weight is not None,
            seed=how.seed,
            folders=folders,
            scratch=root,
        )
        return documents, sum(summary["n_empty"] for summary in summaries)
