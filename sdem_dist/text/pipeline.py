"""The steps of an ingest: count, merge terms, place documents, write shards; in this process or by workers."""

from __future__ import annotations

import hashlib
import json
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
from sdem_dist.corpus.labels import label_set
from sdem_dist.corpus.manifest import ClassLabel, Encoded, LabelSet
from sdem_dist.corpus.shuffle import Kind, Rows, SortedDocuments, stored_keys
from sdem_dist.corpus.writer import destination, plain_json, reopened, write_contents
from sdem_dist.counted import counted
from sdem_dist.documents import offsets_of, offsets_of_lengths
from sdem_dist.engine.executor import Executor, in_order
from sdem_dist.errors import IngestError, SdemError
from sdem_dist.storage.buckets import is_url, place
from sdem_dist.storage.encoding import JsonObject, encode_strings
from sdem_dist.storage.jobs import driver_folder, kept_folder, load_array, n_cores, save_array
from sdem_dist.storage.publish import free_space, hidden_folder
from sdem_dist.text import terms
from sdem_dist.text.counting import (
    Columns,
    Counting,
    Placing,
    Progress,
    Tally,
    TextSpool,
    count_documents,
    count_split,
    place_split,
    placed_documents,
)
from sdem_dist.text.splits import ingest_splits
from sdem_dist.text.texts import warn_of_unspaced
from sdem_dist.text.validation import MIXED, NONE, RowValidator, class_name, warn_of_lookalikes

FORMAT = 9  # of what is kept beside a corpus meanwhile


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


@dataclass
class IngestRun:
    """An ingest under way: in this process all sources are one part, workers take each split as one."""

    sources: list[Path]
    destinations: list[str]  # the corpus, and that of held-out documents, if there is to be one
    counting: Counting
    reference: Corpus | None  # the vocabulary and classes are taken from it
    vocabulary_from: str | None
    n_jobs: int | None
    shard_documents: int | None
    overwrite: bool
    keep_text: bool
    progress: Progress
    executor: Executor | None

    def run(self) -> IngestReport:
        counting, reference, gate, tally = self.counting, self.reference, self.counting.gate(), Tally()
        self._tally, self._parts, self._spool = tally, list[_Part](), cast("TextSpool | None", None)
        tally.n_columns = counting.settings.n_features or 0
        with self._workspace() as (self._scratch, self._here):
            runs = self._count(gate)
            zero_based, offset = counting.reading.zero_based if counting.numeric else None, 0
            if counting.numeric:
                if zero_based is False and tally.first_column == 0:
                    raise IngestError("a document has column 0, so the columns of the sources count from 0, not from 1")
                zero_based = tally.first_column == 0 if zero_based == "auto" else zero_based
                offset = int(not zero_based)
            n_features = tally.n_columns - offset
            self._columns: Callable[[_Part], Columns] = lambda part: None
            self._vocabulary: Encoded | None = None
            if reference is not None:
                words, n_features = reference.vocabulary(), reference.header.n_features
                self._vocabulary = None if words is None else encode_strings(words)
            elif counting.learns:
                self._vocabulary = self._merge_terms(runs)
                n_features = len(self._vocabulary[1]) - 1
            if n_features < 1:
                raise IngestError("no document has a value; there is nothing to learn from")
            # the classes of the reference, or of the documents; where labels are sets, always the latter
            classes: Sequence[ClassLabel | LabelSet] = () if reference is None else reference.header.classes
            if counting.reading.label_separator is not None:
                labels = {} if reference is None else {class_name(v): v for v in reference.header.documents_by_label}
                sets = map(json.loads, tally.classes)
                classes = sorted(label_set(labels.get(str(name), name) for name in names) for names in sets)
            elif not classes:
                classes = sorted(set(tally.classes) - {NONE})
            named = None if counting.targets else tuple((class_name(name), name) for name in classes)
            seed = counting.random_state if reference is None else None  # test sets keep their order
            placing = Placing(n_features, offset, tally.integral, named, seed, held_out=False)
            self._made_by: JsonObject = {
                "command": "ingest",
                "sources": [str(source) for source in self.sources],
                "vocabulary_from": self.vocabulary_from,
                "held_out": counting.held_out,
                "skipped_lines": gate.skipped,
                "zero_based": zero_based,
                **({} if gate.separator is None else {"label_separator": gate.separator}),
                **({} if gate.unlabelled is None else {"unlabelled": gate.unlabelled}),
                "random_state": counting.random_state,
            }
            documents, n_empty = self._write(self.destinations[0], placing)
        return IngestReport(
            path=self.destinations[0],
            n_documents=documents.n_documents,
            n_features=n_features,
            n_nonzeros=documents.n_nonzeros,
            n_empty=n_empty,
            classes=[name for _, name in named or ()],
            held_out_path=next(iter(self.destinations[1:]), None),
            n_held_out=tally.n_held_out,
            n_skipped=gate.skipped,
            skipped_examples=gate.examples,
            first_column=offset if counting.numeric and counting.reading.zero_based == "auto" else None,
        )

    @contextmanager
    def _workspace(self) -> Iterator[tuple[Path, Path]]:
        """Yield a folder beside the corpus, which after a kill keeps what tasks have done, and one of this machine."""
        beside, by_tasks = place(self.destinations[0]).absolute(), self.executor is not None
        try:
            if by_tasks:
                # the known classes are those of the reference, and sets have no order
                identity = _digest(repr((FORMAT, replace(self.counting, known_classes=None))))
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

    def _count(self, gate: RowValidator) -> terms.Runs | None:
        """Count all sources: in threads, each with terms of its own, or in tasks, which write theirs."""
        counting, tally, executor, scratch, runs = self.counting, self._tally, self.executor, self._scratch, None
        sources = self.sources if executor is None else [source.absolute() for source in self.sources]
        splits = enumerate(ingest_splits(sources, counting.reading, gate, counting.block_documents))
        if executor is None:
            folder = scratch / "counts"
            folder.mkdir()
            self._spool = TextSpool(folder / "texts") if self.keep_text else None
            of_part, runs = count_documents(counting, splits, folder, gate, self.progress, self.n_jobs, self._spool)
            self._parts = [_Part(folder, of_part)]
            tally.merge(of_part)
        else:
            of_text, n_runs = dict[str, bool](), 0
            for summary in in_order(executor, count_split, [(counting, scratch, *split) for split in splits]):
                of_part, written = Tally(**summary["tally"]), summary["runs"]
                self._parts.append(_Part(scratch / summary["folder"], of_part, tally.n_documents, n_runs, written))
                n_runs += len(written)
                tally.merge(of_part)
                gate.merge(summary["skipped"], summary["examples"])
                for label, is_text in summary["of_text"].items():
                    if of_text.setdefault(label, is_text) != is_text:
                        raise IngestError(f"the label {label!r} {MIXED}")
                self.progress("counting", tally.n_documents, None)
        names, n, n_held_out = ", ".join(map(str, self.sources[:3])), tally.n_documents, tally.n_held_out
        names += f" and {len(self.sources) - 3:,} more" if len(self.sources) > 3 else ""
        if not n:
            examples = "".join(f"\n  {example}" for example in gate.examples)
            left_out = f"; {counted(gate.skipped, 'bad line')} left out, such as{examples}" if gate.skipped else ""
            raise IngestError(f"{names}: no document{left_out}")
        if counting.reading.unlabelled is not None and gate.known_classes is None and set(tally.classes) == {NONE}:
            raise IngestError(f"{names}: no document has a label; check the column of the label")
        if counting.held_out > 0 and not 0 < n_held_out < n:
            advice = "both parts need some: choose another fraction or seed"
            raise IngestError(f"of {n} documents, {n_held_out} are held out; {advice}")
        if counting.learns and n > n_held_out and not tally.n_training:
            raise IngestError(f"{names}: no document has a weight above zero: give some of them a weight")
        if not counting.targets:
            warn_of_lookalikes(tally.classes)
        if not counting.numeric:
            warn_of_unspaced(tally.scripts, counting.settings)
        return runs

    def _merge_terms(self, runs: terms.Runs | None) -> Encoded:
        """Merge the terms of all parts, and choose those of the corpus; in files stretch by stretch of the alphabet."""
        settings, n_documents = self.counting.settings, self._tally.n_training
        least, most = (v if isinstance(v, int) else v * n_documents for v in (settings.min_df, settings.max_df))
        limits = int(np.ceil(max(least, 1))), int(np.floor(most))
        with_totals, chosen, totals = settings.max_features is not None, None, None
        folders, bases = list[Path](), list[int]()
        tries = [] if runs is None else runs.in_memory()
        if tries:
            bounds, n_jobs = limits if self.counting.tallies else terms.ALL, self.n_jobs or n_cores()
            text, offsets, totals, columns = terms.sorted_terms(tries, bounds, with_totals=with_totals, n_jobs=n_jobs)
        else:
            if runs is not None:
                self._parts = [replace(self._parts[0], runs=runs.write_all())]
            all_runs = [(part.folder, run) for part in self._parts for run, *_ in part.runs]
            n_nodes = sum(n for part in self._parts for _, n, *_ in part.runs)
            samples = sorted(bucket for part in self._parts for _, _, *some in part.runs for bucket in some)
            n, root = min(-(-n_nodes // terms.MERGED_NODES), len(samples)), self._root("terms")
            borders = [0, *sorted({samples[i * len(samples) // n] for i in range(1, n)} - {0}), terms.N_BUCKETS]
            folders = [root / f"range-{number}" for number in range(len(borders) - 1)]
            between = zip(folders, pairwise(borders), strict=True)
            jobs = [(folder, all_runs, buckets, limits, with_totals) for folder, buckets in between]
            merge = terms.merge_runs
            merged = starmap(merge, jobs) if self.executor is None else in_order(self.executor, merge, jobs)
            bases = list(accumulate((summary["n_terms"] for summary in merged), initial=0))[:-1]
            here = self._here / root.name
            here.mkdir(exist_ok=True)
            with (here / "text").open("wb") as joined:
                joined.writelines((folder / "text").read_bytes() for folder in folders)
            offsets = offsets_of(np.concatenate([load_array(folder / "sizes.npy") for folder in folders]))
            text = np.memmap(here / "text", np.uint8, "r") if offsets[-1] else np.zeros(0, np.uint8)
            if with_totals:
                totals = np.concatenate([load_array(folder / "totals.npy") for folder in folders])
        if len(offsets) == 1:
            raise IngestError(
                f"no word is in at least {limits[0]} and at most {limits[1]} of the {n_documents} documents (min_df, "
                "--min-df; max_df, --max-df); or no document has a word: check the column of the text, and what a word "
                "is (token_pattern, stop_words; --text, --token-pattern, --stop-words)"
            )
        if settings.max_features is not None and totals is not None and len(offsets) - 1 > settings.max_features:
            # exactly scikit-learn's expression: its sort decides between terms of equal totals
            best = np.sort((-totals).argsort()[: settings.max_features])
            chosen = np.full(len(offsets) - 1, -1, np.int32)
            chosen[best] = np.arange(len(best), dtype=np.int32)
            cuts = [text[offsets[i] : offsets[i + 1]] for i in best]
            text, offsets = np.concatenate(cuts), offsets_of_lengths(cuts)
        if tries:
            if chosen is not None:
                columns = [np.where(of_run < 0, np.int32(-1), chosen[of_run]) for of_run in columns]
            self._columns = lambda part: columns.__getitem__
            return text, offsets
        file = None
        if chosen is not None:
            file = folders[0].with_name("chosen.npy")
            save_array(file, chosen)
        self._columns = lambda part: terms.TermColumns(part.folder, part.first_run, folders, bases, file)
        return text, offsets

    def _root(self, name: str) -> Path:
        names = "\n".join(part.folder.name for part in self._parts)
        return self._scratch / f"{name}-{_digest(names)}"

    def _write(self, path: str, placing: Placing) -> tuple[SortedDocuments, int]:
        """Write the documents held out, or the others; return what they are, and how many of them have no word."""
        parts, done, made_by = self._parts, 0, self._made_by | ({"part": "held out"} if placing.held_out else {})
        tallies = [part.tally for part in parts]
        sizes = [t.n_held_out if placing.held_out else t.n_documents - t.n_held_out for t in tallies]

        def wrote(n: int) -> None:
            nonlocal done
            done += n
            self.progress("writing", done, sum(sizes))

        with destination(path, self.overwrite) as (where, scratch):
            if self.executor is None:
                spool, texts, columns = self._spool, None, self._columns(parts[0])
                documents, sources, n_empty = placed_documents(
                    parts[0].folder, parts[0].tally, placing, columns, (0, 0), scratch / "rows", wrote, self.n_jobs
                )
                if spool is not None:
                    keys = stored_keys(placing.seed, 0, documents.n_documents)
                    by_key = np.argsort(keys)

                    def texts(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
                        return spool.at(sources[by_key[np.searchsorted(keys, rows["keys"], sorter=by_key)]])

                write_shards = partial(documents.write, n_jobs=self.n_jobs, texts=texts)
            else:
                root = self._root(f"rows-{'held-out' if placing.held_out else 'kept'}")
                root.mkdir(exist_ok=True)  # of a bucket it means nothing
                starts, summaries = list(accumulate(sizes, initial=0)), []
                jobs = [
                    (part.folder, root / str(i), placing, self._columns(part), (part.start, starts[i]))
                    for i, part in enumerate(parts)
                    if sizes[i]
                ]
                for summary in in_order(self.executor, place_split, jobs):
                    summaries.append(summary)
                    wrote(summary["n_documents"])
                documents = SortedDocuments(
                    kind=Kind(*summaries[0]["kind"]),
                    n_documents=sum(sizes),
                    n_nonzeros=sum(summary["n_nonzeros"] for summary in summaries),
                    classes=tuple(name for _, name in placing.classes or ()),
                    class_counts=tuple(map(sum, zip(*(summary["class_counts"] for summary in summaries), strict=True))),
                    weighted=not placing.integral,
                    dense=False,
                    seed=placing.seed,
                    folders=[job[1] for job in jobs],
                    scratch=root,
                )
                n_empty = sum(summary["n_empty"] for summary in summaries)
                write_shards = partial(documents.write, executor=self.executor)
            header = write_contents(
                where,
                documents,
                write_shards,
                words=self._vocabulary,
                vectorizer=plain_json(self.counting.settings.to_json(), "vectorizer"),
                made_by=plain_json(made_by, "made_by"),
                shard_documents=self.shard_documents,
            )
            for others in () if placing.held_out else self.destinations[1:]:  # before the corpus appears
                self._write(others, replace(placing, seed=None, held_out=True))
        reopened(path, header)
        return documents, n_empty


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
