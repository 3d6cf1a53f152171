"""From sources to a corpus, which appears whole or not at all."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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
    Counting,
    NumberedSplit,
    Progress,
    Tally,
    TextSpool,
    count_matrices,
    count_split,
    count_text,
    counts_folder,
    silent,
)
from sdem_dist.text.ngram_merge import Trie
from sdem_dist.text.placing import Placing, SecondPass, place_split
from sdem_dist.text.plan import (
    CorpusPlan,
    IngestConfig,
    IngestReport,
    check_arguments,
    check_destinations,
    check_numbers,
    new_plan,
    paths_of,
    plan_from_corpus,
    workspace,
)
from sdem_dist.text.sources import BLOCK_DOCUMENTS, Reading, numeric_format
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
from sdem_dist.text.validation import class_name
from sdem_dist.text.vectorizer import VectorizerSettings

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class _Part:
    """A part of the sources, counted."""

    folder: Path
    tally: Tally
    start: int  # position of its first document in the sources
    first_run: int = 0  # place of its first run among all
    runs: Sequence[Sequence[int]] = ()  # in files; see `Runs.write_all`

    def n_documents(self, held_out: bool) -> int:
        """Return the number of its documents that are held out, or of the others."""
        return self.tally.n_held_out if held_out else self.tally.n_training


class _Ingest:
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
            tally, runs = Tally.from_json(summary["tally"]), summary["runs"]
            parts.append(_Part(counts_folder(self._scratch, *split), tally, self._tally.n_documents, n_runs, runs))
            n_runs += len(runs)
            self._tally.merge(tally)
            gate.merge(summary["skipped"], summary["examples"])
            for label, is_text in summary["of_text"].items():
                if of_text.setdefault(label, is_text) != is_text:
                    raise IngestError(
                        f"the label {label!r} is a text in some places of the sources and not in others: write all alike"
                    )
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


def ingest(
    sources: str | Path | Sequence[str | Path],
    path: str | Path,
    settings: VectorizerSettings | None = None,
    *,
    reading: Reading | None = None,
    held_out: float = 0.0,
    held_out_path: str | Path | None = None,
    vocabulary_from: str | Path | None = None,
    targets: bool = False,
    on_error: Literal["raise", "skip"] = "raise",
    n_jobs: int | None = None,
    block_documents: int = BLOCK_DOCUMENTS,
    random_state: int = 0,
    shard_documents: int | None = None,
    overwrite: bool = False,
    keep_text: bool = False,
    progress: Progress | None = None,
    client: Client | None = None,
) -> IngestReport:
    """Read sources and write them as a corpus.

    Memory holds some blocks of documents and the distinct words, however large the sources. Counted documents wait in a
    hidden folder beside `path`, which is removed at the end, also after a failure. The next ingest to the same `path`
    removes what a killed process left. The corpus is the same for every `n_jobs` and `block_documents`.

    Parameters
    ----------
    sources : str, Path, or sequence of them
        Files and folders, or URLs of them, in order; all of text, or all of numbers of one format.
    path : str or Path
        The corpus to write.
    settings : VectorizerSettings, optional
        How text becomes counts; not for sources of numbers. Default: counts of words.
    reading : Reading, optional
        How sources are read.
    held_out : float, default 0.0
        Fraction of documents, below 1, that go to `held_out_path` instead, in the order of the source. They have no
        part in choosing words.
    held_out_path : str or Path, optional
        By default `path` with ``-held-out`` after it.
    vocabulary_from : str or Path, optional
        For test sets: a corpus whose settings, vocabulary and classes are taken. Then `settings` must not be given, and
        documents keep the order of the source. Words outside the vocabulary are left out; other labels are bad lines.
    targets : bool, default False
        Labels are real numbers to be predicted, see `write_corpus`; as they are where the corpus of
        `vocabulary_from` has targets.
    on_error : {"raise", "skip"}
        Whether a bad line ends the ingest or is left out and counted.
    n_jobs : int, optional
        Threads that count words. Default: one per core.
    block_documents : int, default 32768
        Documents counted at a time.
    random_state : int, default 0
        Decides the order of documents in the corpus, and which are held out.
    shard_documents : int, optional
        Documents in a shard of the corpus.
    overwrite : bool, default False
        Replace what is at `path` and `held_out_path`.
    keep_text : bool, default False
        Store the texts too, compressed, for `sdem_dist.corpus.Corpus.text`; of sources of text.
    progress : callable, optional
        Called with (stage, documents done, documents in all or None).
    client : distributed.Client, optional
        Its workers read, count and write, each source in stretches; all see the sources and the folder of `path`. The
        corpus is the same. What a killed process had done is kept beside `path`, and the same call goes on from there.

    Returns
    -------
    IngestReport

    Raises
    ------
    IngestError
        A source cannot be read (the message names file and line), holds no document or word.
    CorpusError
        `path` is taken, or the device is full.
    ValueError
        Arguments contradict each other.

    Examples
    --------
    >>>     >>> from pathlib import Path
    >>> from sdem_dist import ingest, open_corpus
    >>> folder = Path(tempfile.mkdtemp())
    >>> for label, text in (("sport", "a late goal"), ("money", "the bank")):
    ...     (folder / "news" / label).mkdir(parents=True)
    ...     _ = (folder / "news" / label / "1.txt").write_text(text, encoding="utf-8")
    >>> _ = ingest(folder / "news", folder / "news.zarr")
    >>> len(open_corpus(folder / "news.zarr"))
    2
    """
    started = time.monotonic()
    files, reading = paths_of(sources), reading or Reading()
    if held_out_path is None and held_out:
        held_out_path = f"{str(path).rstrip('/')}-held-out"
    check_arguments(settings, held_out, held_out_path, vocabulary_from)
    check_numbers(random_state, block_documents=block_documents, n_jobs=n_jobs, shard_documents=shard_documents)
    destinations = [str(p) for p in (path, held_out_path) if p is not None]
    check_destinations(destinations, overwrite)
    form = numeric_format(files, reading)
    beside = {"id": reading.id, "group": reading.group, "weight": reading.weight}
    for_text = ["keep_text"] * keep_text + [name for name, column in beside.items() if column is not None]
    if for_text and form is not None:
        raise ValueError(f"{for_text[0]} is for sources of text, and these are {form}")
    if vocabulary_from is None:
        plan = new_plan(settings or VectorizerSettings(), form, reading)
    else:
        plan = plan_from_corpus(vocabulary_from, form, reading)
    if plan.reference is not None and reading.label_separator is None and plan.label_sets:
        reading = replace(reading, label_separator=plan.reference.header.label_separator or ",")
    targets = targets or plan.targets
    single = targets or (plan.reference is not None and not plan.label_sets)
    if single and reading.label_separator is not None:
        raise ValueError("label_separator is for documents with several labels, and these have one, or a number")
    if targets and reading.missing_label is not None:
        raise ValueError("unlabelled is for classes, and these are targets: leave documents without a number out")
    local = ["keep_text"] * keep_text + ["n_jobs"] * (n_jobs is not None)
    if client is not None and local:
        raise ValueError(f"{local[0]} is for an ingest by this process: leave client out, or leave {local[0]} out")
    reference = plan.reference
    counting = Counting(
        plan.settings,
        reading,
        form is not None,
        on_error,
        plan.known_classes,
        targets,
        None if reference is None else reference.path,
        None if reference is None else reference.header.uid,
        block_documents,
        held_out,
        random_state,
    )
    config = IngestConfig(
        files,
        destinations,
        counting,
        plan,
        counting.gate(),
        vocabulary_from,
        n_jobs,
        shard_documents,
        overwrite,
        keep_text,
        progress or silent,
    )
    report = IngestReport(str(path), held_out_path=None if held_out_path is None else str(held_out_path))
    executor = None
    if client is not None:
        from sdem_dist.engine.dask import DaskExecutor

        executor = DaskExecutor(client)
    with workspace(config, by_tasks=client is not None) as (scratch, here):
        corpus_plan = _Ingest(config, scratch, here, executor).run(report)
    if form == "svmlight" and plan.zero_based == "auto":
        report.first_column = 0 if corpus_plan.zero_based else 1
    report.n_skipped, report.skipped_examples = config.gate.skipped, config.gate.examples
    report.seconds = time.monotonic() - started
    return report
