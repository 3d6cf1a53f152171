"""The steps of an ingest: count, merge terms, place documents, write shards; in this process or on workers."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise, starmap
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from sdem_dist.corpus import Corpus
from sdem_dist.corpus.labels import label_set
from sdem_dist.corpus.manifest import ClassLabel, Encoded, LabelSet
from sdem_dist.corpus.shuffle import Kind, Rows, SortedDocuments, stored_keys
from sdem_dist.corpus.writer import destination, reopened, write_contents
from sdem_dist.counted import counted
from sdem_dist.documents import offsets_of
from sdem_dist.engine.executor import Executor, in_order
from sdem_dist.errors import IngestError, SdemError
from sdem_dist.storage.buckets import is_url, place
from sdem_dist.storage.encoding import JsonObject, encode_strings
from sdem_dist.storage.jobs import kept_folder, load_array, n_cores, save_array
from sdem_dist.storage.publish import free_space, hidden_folder
from sdem_dist.text import terms
from sdem_dist.text.counting import (
    Columns,
    Counting,
    Part,
    Placing,
    Progress,
    Tally,
    count_documents,
    count_split,
    place_split,
    placed_documents,
)
from sdem_dist.text.splits import ingest_splits
from sdem_dist.text.texts import MIXED, NONE, RowValidator, Texts, class_name, warn_of_lookalikes
from sdem_dist.text.vectorizer import MARK

FORMAT = 11  # version of the temporary files beside a corpus


@dataclass
class IngestReport:
    """The result of an ingest.

    Attributes
    ----------
    path : str
        The corpus.
    n_documents, n_features, n_nonzeros : int
        Sizes of the corpus; `n_empty` documents contain no words.
    classes : list
        Class names.
    held_out_path : str, or None
        The corpus of the `n_held_out` held-out documents.
    n_skipped : int
        Number of skipped records; `skipped_examples` contains the first few errors.
    first_column : int, or None
        Detected number of the first column, for svmlight sources.
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


@dataclass
class IngestRun:
    """One run of an ingest. In this process all sources are one `Part`; with workers each split is a `Part`."""

    sources: list[Path]
    destinations: list[str]  # paths of the corpus and, optionally, of the corpus of held-out documents
    counting: Counting
    reference: Corpus | None  # its vocabulary and classes are used
    shard_documents: int | None
    overwrite: bool
    progress: Progress
    executor: Executor | None

    def run(self) -> IngestReport:
        counting, reference, gate, tally = self.counting, self.reference, self.counting.gate(), Tally()
        self._tally, self._parts, tally.n_columns = tally, list[Part](), counting.settings.n_features or 0
        self._spool: Texts | None = None
        with self._workspace() as self._scratch:
            runs, zero_based, offset = self._count(gate), None, 0
            if counting.settings.kind == "matrix":
                zero_based, has_column_0 = counting.reading.zero_based, tally.first_column == 0
                if zero_based is False and has_column_0:
                    raise IngestError("a document has column 0, so columns are numbered from 0, not from 1")
                zero_based = has_column_0 if zero_based == "auto" else zero_based
                offset = int(not zero_based)
            n_features = tally.n_columns - offset
            self._columns: Callable[[Part], Columns] = lambda part: ()
            self._words: Encoded | None = None
            if reference is not None:
                vocabulary, n_features = reference.vocabulary(), reference.header.n_features
                self._words = None if vocabulary is None else encode_strings(vocabulary)
            elif counting.learns:
                self._words = self._merge_terms(runs)
                n_features = len(self._words[1]) - 1
            if n_features < 1:
                raise IngestError("no document contains a nonzero value")
            # classes of the reference, else of the documents; label sets are always those of the documents
            classes: Sequence[ClassLabel | LabelSet] = () if reference is None else reference.header.classes
            if counting.reading.label_separator is not None:
                labels = {} if reference is None else {class_name(v): v for v in reference.header.documents_by_label}
                sets = map(json.loads, tally.classes)
                classes = sorted(label_set(labels.get(str(name), name) for name in names) for names in sets)
            elif not classes:
                classes = sorted(set(tally.classes) - {NONE})
            named = None if counting.targets else tuple((class_name(name), name) for name in classes)
            seed = counting.random_state if reference is None else None  # test sets keep their order
            placing = Placing(n_features, offset, tally.integral, named, seed, False, counting.n_jobs)
            self._made_by: JsonObject = {
                "command": "ingest",
                "sources": [str(source) for source in self.sources],
                "vocabulary_from": counting.reference,
                "held_out": counting.held_out,
                "skipped_lines": gate.skipped,
                "zero_based": zero_based,
                **({} if gate.separator is None else {"label_separator": gate.separator}),
                **({} if gate.unlabelled is None else {"unlabelled": gate.unlabelled}),
                "random_state": int(counting.random_state),
            }
            documents, n_empty = self._write(self.destinations[0], placing)
        first_column = offset if zero_based is not None and counting.reading.zero_based == "auto" else None
        path, held_out = (*self.destinations, None)[:2]
        about = n_features, documents.n_nonzeros, n_empty, [name for _, name in named or ()], held_out, tally.n_held_out
        return IngestReport(str(path), documents.n_documents, *about, gate.skipped, gate.examples, first_column)

    @contextmanager
    def _workspace(self) -> Iterator[Path]:
        """Yield a folder beside the corpus; with workers it survives an interruption, for the next attempt."""
        beside, by_tasks = place(self.destinations[0]).absolute(), self.executor is not None
        try:
            if by_tasks:
                # without known_classes: the reference determines them, and the order of a set is not stable
                identity = _digest(repr((FORMAT, replace(self.counting, known_classes=None))))
                with kept_folder(beside, "counted", identity) as folder:
                    yield folder
            else:
                with hidden_folder(beside, "ingest") as folder:
                    folder.chmod(0o700)  # other users may have access to the parent folder
                    yield folder
        except SdemError:
            raise
        except OSError as error:
            if is_url(str(error.filename)):
                raise IngestError(f"{error.filename}: {error.strerror}; nothing was written") from error
            folder = Path(tempfile.gettempdir()) if is_url(beside) else beside.parent
            problem = f"cannot write temporary files to {folder}{', to which all workers need access' * by_tasks}"
            reason = f"{error.strerror or error}{free_space(folder)}"
            raise IngestError(f"{problem}: {reason}; nothing was written") from error

    def _count(self, gate: RowValidator) -> list[terms.Runs]:
        """Count all sources, in threads or in tasks; return the runs of the threads. Tasks write runs to files."""
        counting, tally, executor, scratch = self.counting, self._tally, self.executor, self._scratch
        runs, n_runs = list[terms.Runs](), (0, 0)
        sources = self.sources if executor is None else [source.absolute() for source in self.sources]
        cut = enumerate(ingest_splits(sources, counting.reading, gate, counting.block_documents))
        splits = (replace(split, number=number) for number, split in cut)
        if executor is None:
            folder = scratch / "counts"
            folder.mkdir()
            of_part, runs, self._spool = count_documents(counting, splits, folder, gate, self.progress)
            self._parts = [Part(folder, of_part)]
            tally.merge(of_part)
        else:
            of_text = dict[str, bool]()
            for summary in in_order(executor, count_split, [(counting, scratch, split) for split in splits]):
                of_part, written = Tally(**summary["tally"]), summary["runs"]
                self._parts.append(Part(scratch / summary["folder"], of_part, tally.n_documents, n_runs, written))
                n_runs = tuple(map(add, n_runs, map(len, [*written, (), ()])))
                tally.merge(of_part)
                gate.merge(summary["skipped"], summary["examples"])
                for label, is_text in summary["of_text"].items():
                    if of_text.setdefault(label, is_text) != is_text:
                        raise IngestError(f"the label {label!r} {MIXED}")
                self.progress("counting", tally.n_documents, None)
        n, n_held_out, n_more = tally.n_documents, tally.n_held_out, len(self.sources) - 3
        names = ", ".join(map(str, self.sources[:3])) + f" and {n_more:,} more" * (n_more > 0)
        if not n:
            left_out = "".join(f"\n  {example}" for example in gate.examples)
            left_out = f"; skipped {counted(gate.skipped, 'record')}, for example{left_out}" if left_out else ""
            raise IngestError(f"{names}: no documents{left_out}")
        if counting.reading.unlabelled is not None and gate.known_classes is None and set(tally.classes) == {NONE}:
            raise IngestError(f"{names}: no document has a label; check the label column")
        if counting.held_out > 0 and not 0 < n_held_out < n:
            advice = "both parts need documents: choose another fraction or seed"
            raise IngestError(f"{n_held_out} of {n} documents are held out; {advice}")
        if counting.learns and n > n_held_out and not tally.n_training:
            raise IngestError(f"{names}: no document has a positive weight")
        if not counting.targets:
            warn_of_lookalikes(tally.classes, stacklevel=5)
        return runs

    def _merge_terms(self, runs: Sequence[terms.Runs]) -> Encoded:
        """Merge the terms of all parts and select the vocabulary, for each kind of columns."""
        settings, n_documents = self.counting.settings, self._tally.n_training
        if not (in_memory := [of_kind.in_memory() for of_kind in runs]) or not all(in_memory):
            in_memory = [[] for _ in settings.parts]
            if runs:
                self._parts = [replace(self._parts[0], runs=[of_kind.write_all() for of_kind in runs])]
        columns_of, texts, sizes, n_terms = list[Callable[[Part], Any]](), [b""], [np.zeros(0, np.int64)], 0
        for kind, tries in enumerate(in_memory):
            text, ends, columns = self._terms_of_kind(kind, tries, n_terms)
            if kind:  # n-grams of characters begin with the mark
                text, ends = np.insert(text, ends[:-1], ord(MARK)), ends + np.arange(len(ends))
            texts.append(text.tobytes())
            sizes.append(np.diff(ends))
            columns_of.append(columns)
            n_terms += len(ends) - 1
        if not n_terms:
            least, most = terms.limits_of(settings, n_documents)
            within = f"at least {least} and at most {most} of the {n_documents} documents"
            advice = "check the text column and the tokenization (--text, --token-pattern, --stop-words)"
            problem = f"no word occurs in {within} (min_df, --min-df; max_df, --max-df), or no document contains words"
            raise IngestError(f"{problem}: {advice}")
        self._columns = lambda part: [columns(part) for columns in columns_of]
        return np.frombuffer(b"".join(texts), np.uint8), offsets_of(np.concatenate(sizes))

    def _terms_of_kind(
        self, kind: int, tries: Sequence[terms.Trie], first: int
    ) -> tuple[np.ndarray, np.ndarray, Callable[[Part], Any]]:
        """Return the bytes and offsets of the terms of a kind, and a function from a part to its `Columns` entry.

        `tries`: of all runs; empty: runs are in files and are merged in ranges of the alphabet.
        `first`: the first column of this kind.
        """
        settings, n_documents = self.counting.settings, self._tally.n_training
        if tries:
            limit, n_jobs = n_documents if self.counting.tallies else None, self.counting.n_jobs or n_cores()
            text, offsets, columns = terms.merged_terms(tries, settings, limit, n_jobs=n_jobs)
            for of_run in columns:
                of_run[of_run >= 0] += first
            return text, offsets, lambda part: lambda run: columns[run // terms.N_KINDS]
        limits, with_totals = terms.limits_of(settings, n_documents), settings.max_features is not None
        of_parts = [(part.folder, part.runs[kind]) for part in self._parts if part.runs]
        all_runs = [(folder, run) for folder, runs in of_parts for run, *_ in runs]
        n_nodes = sum(n for _, runs in of_parts for _, n, *_ in runs)
        samples = sorted(bucket for _, runs in of_parts for _, _, *buckets in runs for bucket in buckets)
        n, root = min(-(-n_nodes // terms.MERGED_NODES), len(samples)), self._root(f"terms-{kind}")
        borders = [0, *sorted({samples[i * len(samples) // n] for i in range(1, n)} - {0}), terms.N_BUCKETS]
        folders = [root / f"range-{number}" for number in range(len(borders) - 1)]
        between = zip(folders, pairwise(borders), strict=True)
        jobs = [(folder, all_runs, buckets, limits, with_totals) for folder, buckets in between]
        merge = terms.merge_runs
        merged = starmap(merge, jobs) if self.executor is None else in_order(self.executor, merge, jobs)
        bases = list(accumulate((summary["n_terms"] for summary in merged), initial=0))[:-1]
        text = np.frombuffer(b"".join((folder / "text").read_bytes() for folder in folders), np.uint8)
        offsets = offsets_of(np.concatenate([load_array(folder / "sizes.npy") for folder in folders]))
        totals = np.concatenate([load_array(folder / "totals.npy") for folder in folders]) if with_totals else None
        if (chosen := terms.most_frequent(totals, settings)) is not None:
            save_array(file := folders[0].with_name("chosen.npy"), chosen)
        merged_files = folders, bases, None if chosen is None else file, first
        of_part = lambda part: terms.TermColumns(part.folder, part.first_runs[kind], *merged_files)  # noqa: E731
        return *terms.cut(text, offsets, chosen), of_part

    def _root(self, name: str) -> Path:
        names = "\n".join(part.folder.name for part in self._parts)
        return self._scratch / f"{name}-{_digest(names)}"

    def _write(self, path: str, placing: Placing) -> tuple[SortedDocuments, int]:
        """Write a corpus, of held-out documents or of the rest; return the documents and the number of empty ones."""
        parts, done, made_by = self._parts, 0, self._made_by | ({"part": "held out"} if placing.held_out else {})
        tallies = [part.tally for part in parts]
        sizes = [t.n_held_out if placing.held_out else t.n_documents - t.n_held_out for t in tallies]

        def wrote(n: int) -> None:
            nonlocal done
            done += n
            self.progress("writing", done, sum(sizes))

        with destination(path, self.overwrite) as (where, scratch):
            if self.executor is None:
                spool, texts, columns, rows = self._spool, None, self._columns(parts[0]), scratch / "rows"
                documents, sources, n_empty = placed_documents(parts[0], placing, columns, 0, rows, wrote)
                if spool is not None:
                    keys = stored_keys(placing.seed, 0, documents.n_documents)
                    by_key = np.argsort(keys)

                    def texts(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
                        stored = spool.take(sources[by_key[np.searchsorted(keys, rows["keys"], sorter=by_key)]])
                        return np.frombuffer(b"".join(stored.encoded()), np.uint8), offsets_of(stored.sizes)

                write_shards = partial(documents.write, n_jobs=placing.n_jobs, texts=texts)
            else:
                root = self._root(f"rows-{'held-out' if placing.held_out else 'kept'}")
                root.mkdir(exist_ok=True)  # no effect in buckets
                starts, summaries = list(accumulate(sizes, initial=0)), []
                nonempty = [(part, i) for i, part in enumerate(parts) if sizes[i]]
                jobs = [(part, root / str(i), placing, self._columns(part), starts[i]) for part, i in nonempty]
                for summary in in_order(self.executor, place_split, jobs):
                    summaries.append(summary)
                    wrote(summary["n_documents"])
                n_nonzeros, n_empty = (sum(one[name] for one in summaries) for name in ("n_nonzeros", "n_empty"))
                counts = tuple(map(sum, zip(*(summary["class_counts"] for summary in summaries), strict=True)))
                classes, kind = tuple(name for _, name in placing.classes or ()), Kind(*summaries[0]["kind"])
                how = not placing.integral, False, placing.seed, None, None, [job[1] for job in jobs], root
                documents = SortedDocuments(kind, sum(sizes), n_nonzeros, classes, counts, *how)
                write_shards = partial(documents.write, executor=self.executor)
            about = self._words, self.counting.settings.to_json(), made_by
            header = write_contents(where, documents, write_shards, *about, self.shard_documents)
            for held_out_path in () if placing.held_out else self.destinations[1:]:  # before the corpus appears
                self._write(held_out_path, replace(placing, seed=None, held_out=True))
        reopened(path, header)
        return documents, n_empty


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
