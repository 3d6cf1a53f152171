"""The steps of an ingest: count, merge terms, place documents, write shards; in this process or by workers."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise, starmap
from pathlib import Path
from typing import cast

import numpy as np

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.labels import all_labels, label_set, set_named
from sdem_dist.corpus.manifest import ClassLabel, LabelSet
from sdem_dist.corpus.publishing import WriteShards, destination, reopened, write_contents
from sdem_dist.corpus.rows import KeyedRows
from sdem_dist.corpus.shards import Kind
from sdem_dist.corpus.shuffle import SortedDocuments, stored_keys
from sdem_dist.corpus.writer import plain_json
from sdem_dist.counted import counted
from sdem_dist.engine.executor import Executor, in_order
from sdem_dist.errors import IngestError, SdemError
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.kept import driver_folder, kept_folder
from sdem_dist.storage.publish import free_space, hidden_folder
from sdem_dist.storage.threads import n_cores
from sdem_dist.storage.urls import is_url, place
from sdem_dist.text.counting import (
    Counting,
    Progress,
    Tally,
    TextSpool,
    count_matrices,
    count_split,
    count_text,
    counts_folder,
)
from sdem_dist.text.placing import ColumnsOf, Placing, SecondPass, place_split
from sdem_dist.text.splits import ingest_splits
from sdem_dist.text.terms import Runs, TermColumns, borders_of, limits_of, merge_runs, terms_in_files, terms_in_memory
from sdem_dist.text.texts import warn_of_unspaced
from sdem_dist.text.validation import MIXED, NONE, RowValidator, class_name, warn_of_lookalikes

FORMAT = 6  # of what is kept beside a corpus meanwhile


@dataclass
class IngestReport:
    """What an ingest did.

    Attributes
    ----------
    path : str
        The corpus.
    n_documents, n_features, n_nonzeros : int
        Of the corpus; `n_empty` of its documents have no word.
    classes : list
        Class names.
    held_out_path : str, or None
        The corpus of held-out documents, `n_held_out` of them.
    n_skipped : int
        Bad lines left out; `skipped_examples` says of the first few what was wrong.
    first_column : int, or None
        The number of the first column, where svmlight sources were read and nobody said it.
    seconds : float
    """

    path: str
    n_documents: int = 0
    n_features: int = 0
    n_nonzeros: int = 0
    n_empty: int = 0
    classes: list[ClassLabel | LabelSet] = field(default_factory=list)
    held_out_path: str | None = None
    n_held_out: int = 0
    n_skipped: int = 0
    skipped_examples: list[str] = field(default_factory=list)
    first_column: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class _Part:
    folder: Path
    tally: Tally
    start: int = 0  # position of its first document in the sources
    first_run: int = 0  # place of its first run among all
    runs: Sequence[Sequence[int]] = ()  # in files; see `Runs.write_all`

    def n_documents(self, held_out: bool) -> int:
        return self.tally.n_held_out if held_out else self.tally.n_documents - self.tally.n_held_out


def labels_of(reference: Corpus) -> Sequence[ClassLabel]:
    """Return the labels of a corpus, of which each document may have several."""
    sets = reference.header.label_sets
    return cast("Sequence[ClassLabel]", reference.header.classes) if sets is None else all_labels(sets)


@dataclass
class IngestRun:
    """An ingest under way: in this process all sources are one part, workers take each split as one.

    `destinations`: the corpus, and that of held-out documents, if there is to be one.
    `reference`: the corpus that the vocabulary and classes are taken from.
    """

    sources: list[Path]
    destinations: list[str]
    counting: Counting
    reference: Corpus | None
    vocabulary_from: str | None
    n_jobs: int | None
    shard_documents: int | None
    overwrite: bool
    keep_text: bool
    progress: Progress
    executor: Executor | None
    _tally: Tally = field(default_factory=Tally)
    _spool: TextSpool | None = None

    def __post_init__(self) -> None:
        self._gate: RowValidator = self.counting.gate()
        self._tally.n_columns = self.counting.settings.n_features or 0
        self._columns: Callable[[_Part], TermColumns | ColumnsOf | None] = lambda part: None
        outside = self.counting.held_out > 0 or self.counting.reading.weight is not None  # the vocabulary
        self._tallies = outside or self.counting.settings.chooses_terms

    def run(self) -> IngestReport:
        gate, tally, reading = self._gate, self._tally, self.counting.reading
        with self._workspace() as (self._scratch, self._here):
            if self.executor is None:
                parts, runs = self._counted_here()
            else:
                parts, runs = self._counted_by_tasks(self.executor), None
            self._check()
            reference, terms = self.reference, None
            vocabulary: Sequence[str] | None = None if reference is None else reference.vocabulary()
            if self.counting.learns:
                vocabulary = terms = self._merged(parts, runs)
            zero_based = self._zero_based() if self.counting.numeric else None
            offset = int(zero_based is False)
            if reference is not None:
                n_features = reference.header.n_features
            else:
                n_features = tally.n_columns - offset if terms is None else len(terms)
            if n_features < 1:
                raise IngestError("no document has a value; there is nothing to learn from")
            classes = None if self.counting.targets else tuple((class_name(name), name) for name in self._classes())
            seed = self.counting.random_state if reference is None else None  # test sets keep their order
            placing = Placing(n_features, offset, tally.whole, classes, seed, held_out=False)
            made_by: JsonObject = {
                "command": "ingest",
                "sources": [str(source) for source in self.sources],
                "vocabulary_from": self.vocabulary_from,
                "held_out": self.counting.held_out,
                "skipped_lines": gate.skipped,
                "zero_based": zero_based,
                **({} if gate.separator is None else {"label_separator": gate.separator}),
                **({} if gate.unlabelled is None else {"unlabelled": gate.unlabelled}),
                "random_state": self.counting.random_state,
            }

            def write_held_out() -> None:
                for path in self.destinations[1:]:
                    how = replace(placing, seed=None, held_out=True)
                    self._write(path, how, vocabulary, parts, {**made_by, "part": "held out"})

            documents, n_empty = self._write(self.destinations[0], placing, vocabulary, parts, made_by, write_held_out)
        return IngestReport(
            self.destinations[0],
            documents.n_documents,
            n_features,
            documents.n_nonzeros,
            n_empty,
            [name for _, name in classes or ()],
            n_held_out=tally.n_held_out,
            n_skipped=gate.skipped,
            skipped_examples=gate.examples,
            first_column=offset if self.counting.numeric and reading.zero_based == "auto" else None,
        )

    @contextmanager
    def _workspace(self) -> Iterator[tuple[Path, Path]]:
        """Yield a folder beside the corpus that all processes see, and one of this machine.

        That of an ingest by tasks keeps what is done if the process is killed; the other one goes in any case.
        """
        beside, by_tasks = place(self.destinations[0]).absolute(), self.executor is not None
        try:
            if by_tasks:
                # the known classes are those of the reference, and sets have no order
                content = repr((FORMAT, replace(self.counting, known_classes=None)))
                identity = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]
                with kept_folder(beside, "counted", identity) as scratch, driver_folder(scratch) as here:
                    yield scratch, here
            else:
                with hidden_folder(beside, "ingest") as folder:
                    folder.chmod(0o700)  # the folder may be shared with others
                    yield folder, folder
        except SdemError:
            raise
        except OSError as error:
            if is_url(str(error.filename)):
                raise IngestError(f"{error.filename}: {error.strerror}; nothing was written") from error
            folder = Path(tempfile.gettempdir()) if is_url(beside) else beside.parent
            raise IngestError(
                f"cannot keep the counted documents in {folder} meanwhile{', which all workers have to see' * by_tasks}: "
                f"{error.strerror or error}{free_space(folder)}; nothing was written"
            ) from error

    def _check(self) -> None:
        """Raise IngestError where the sources, or one of both parts, have no document, or none a label.

        Warns of labels that look alike, and of words without spaces between them.
        """
        gate, counting, tally, names = self._gate, self.counting, self._tally, ", ".join(map(str, self.sources[:3]))
        names += f" and {len(self.sources) - 3:,} more" if len(self.sources) > 3 else ""
        if tally.n_documents == 0:
            examples = "".join(f"\n  {example}" for example in gate.examples)
            left_out = f"; {counted(gate.skipped, 'bad line')} left out, such as{examples}" if gate.skipped else ""
            raise IngestError(f"{names}: no document{left_out}")
        if counting.reading.unlabelled is not None and gate.known_classes is None and set(tally.classes) == {NONE}:
            raise IngestError(f"{names}: no document has a label; check the column of the label")
        if counting.held_out > 0 and not 0 < tally.n_held_out < tally.n_documents:
            raise IngestError(
                f"of {tally.n_documents} documents, {tally.n_held_out} are held out; both parts need some: "
                "choose another fraction or seed"
            )
        if counting.learns and tally.n_documents > tally.n_held_out and not tally.n_training:
            raise IngestError(f"{names}: no document has a weight above zero: give some of them a weight")
        if not counting.targets:
            warn_of_lookalikes(tally.classes)
        if not counting.numeric:
            warn_of_unspaced(tally.scripts, counting.settings)

    def _zero_based(self) -> bool:
        zero_based, first = self.counting.reading.zero_based, self._tally.first_column
        if zero_based is False and first == 0:
            raise IngestError("a document has column 0, so the columns of the sources count from 0, not from 1")
        return first == 0 if zero_based == "auto" else zero_based

    def _classes(self) -> Sequence[ClassLabel | LabelSet]:
        """Return the classes: those of the reference, or of the documents; where labels are sets, always the latter."""
        reference, names = self.reference, self._tally.classes
        if self.counting.reading.label_separator is None:
            return (() if reference is None else reference.header.classes) or sorted(set(names) - {NONE})
        labels = {} if reference is None else {class_name(label): label for label in labels_of(reference)}
        return sorted(label_set(labels.get(str(name), name) for name in set_named(label)) for label in names)

    def _counted_here(self) -> tuple[list[_Part], Runs | None]:
        """Count all sources in threads, each of which goes on with terms of its own."""
        counting, folder, gate, runs = self.counting, self._scratch / "counts", self._gate, None
        folder.mkdir()
        splits = enumerate(ingest_splits(self.sources, counting.reading, gate, counting.block_documents))
        if counting.numeric:
            tally = count_matrices(counting, splits, folder, gate, self.progress)
        else:
            if counting.learns:
                runs = Runs(folder, counting.settings, self.n_jobs or n_cores(), tallies=self._tallies)
            self._spool = TextSpool(folder / "texts") if self.keep_text else None
            tally = count_text(counting, splits, folder, gate, runs, self.progress, self.n_jobs, self._spool)
        self._tally.merge(tally)
        return [_Part(folder, tally)], runs

    def _counted_by_tasks(self, executor: Executor) -> list[_Part]:
        counting, gate, parts, of_text, n_runs = self.counting, self._gate, list[_Part](), dict[str, bool](), 0
        sources = [source.absolute() for source in self.sources]
        splits = list(enumerate(ingest_splits(sources, counting.reading, gate, counting.block_documents)))
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
            self.progress("counting", self._tally.n_documents, None)
        return parts

    def _merged(self, parts: list[_Part], runs: Runs | None) -> Sequence[str]:
        """Merge the terms of all parts, and choose those of the corpus; in files stretch by stretch of the alphabet."""
        settings, n_documents = self.counting.settings, self._tally.n_training
        if runs is not None:
            if tries := runs.in_memory():
                n_jobs = self.n_jobs or n_cores()
                terms, columns = terms_in_memory(tries, settings, n_documents, n_jobs, tallies=self._tallies)
                self._columns = lambda part: columns.__getitem__
                return terms
            parts[:] = [replace(parts[0], runs=runs.write_all())]
        all_runs = [(part.folder, run) for part in parts for run, *_ in part.runs]
        borders = borders_of([run for part in parts for run in part.runs])
        root = self._root(parts, "terms")
        folders = [root / f"range-{number}" for number in range(len(borders) - 1)]
        limits, with_totals = limits_of(settings, n_documents), settings.max_features is not None
        between = zip(folders, pairwise(borders), strict=True)
        jobs = [(folder, all_runs, buckets, limits, with_totals) for folder, buckets in between]
        merged = starmap(merge_runs, jobs) if self.executor is None else in_order(self.executor, merge_runs, jobs)
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
        placing: Placing,
        vocabulary: Sequence[str] | None,
        parts: list[_Part],
        made_by: JsonObject,
        before_publishing: Callable[[], object] = lambda: None,
    ) -> tuple[SortedDocuments, int]:
        """Write the documents held out, or the others; return what they are, and how many of them have no word."""
        with destination(path, self.overwrite) as (where, scratch):
            if self.executor is None:
                documents, n_empty, write_shards = self._placed_here(parts[0], placing, scratch)
            else:
                documents, n_empty = self._placed_by_tasks(self.executor, parts, placing)
                write_shards = partial(documents.write_by_tasks, self.executor, place(where))
            header = write_contents(
                where,
                documents,
                write_shards,
                vocabulary=vocabulary,
                vectorizer=plain_json(self.counting.settings.to_json(), "vectorizer"),
                made_by=plain_json(made_by, "made_by"),
                shard_documents=self.shard_documents,
            )
            before_publishing()
        reopened(path, header)
        return documents, n_empty

    def _placed_here(self, part: _Part, placing: Placing, scratch: Path) -> tuple[SortedDocuments, int, WriteShards]:
        labels, terms = list(part.tally.classes), cast("ColumnsOf | None", self._columns(part))
        if isinstance(terms, TermColumns):
            terms = terms.of_run
        second = SecondPass(part.folder, part.tally.n_blocks, labels, placing, terms, n_jobs=self.n_jobs)
        documents = second.documents(scratch / "rows", 0, self._wrote(part.n_documents(placing.held_out)))
        keys = stored_keys(placing.seed, 0, documents.n_documents)
        by_key = np.argsort(keys)

        def positions(rows: KeyedRows) -> np.ndarray:
            order: np.ndarray = by_key[np.searchsorted(keys, rows.keys, sorter=by_key)]
            return order

        spool, sources = self._spool, second.rows
        write_shards = partial(
            documents.write_in_threads,
            n_jobs=self.n_jobs,
            texts=None if spool is None else lambda rows: spool.at(sources[positions(rows)]),
        )
        return documents, second.n_empty, write_shards

    def _wrote(self, n_documents: int) -> Callable[[int], None]:
        """Return what reports that so many more documents are written, of all."""
        done = 0

        def wrote(n: int) -> None:
            nonlocal done
            done += n
            self.progress("writing", done, n_documents)

        return wrote

    def _placed_by_tasks(self, executor: Executor, parts: list[_Part], placing: Placing) -> tuple[SortedDocuments, int]:
        root = self._root(parts, f"rows-{'held-out' if placing.held_out else 'kept'}")
        root.mkdir(exist_ok=True)  # of a bucket it means nothing
        jobs, folders, n_documents = [], [], 0
        for number, part in enumerate(parts):
            if n := part.n_documents(placing.held_out):
                folders.append(root / str(number))
                jobs.append((part.folder, folders[-1], placing, self._columns(part), (part.start, n_documents)))
                n_documents += n
        wrote, summaries = self._wrote(n_documents), []
        for summary in in_order(executor, place_split, jobs):
            summaries.append(summary)
            wrote(summary["n_documents"])
        documents = SortedDocuments(
            kind=Kind(*summaries[0]["kind"]),
            n_documents=n_documents,
            n_nonzeros=sum(summary["n_nonzeros"] for summary in summaries),
            classes=tuple(name for _, name in placing.classes or ()),
            class_counts=tuple(map(sum, zip(*(summary["class_counts"] for summary in summaries), strict=True))),
            weighted=not placing.whole,
            dense=False,
            seed=placing.seed,
            folders=folders,
            scratch=root,
        )
        return documents, sum(summary["n_empty"] for summary in summaries)
