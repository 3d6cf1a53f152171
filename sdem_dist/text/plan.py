"""What an ingest decides before it reads, what only after it has read all, and what it reports."""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast

from sdem_dist.corpus import Corpus, open_corpus
from sdem_dist.corpus.labels import all_labels, label_set, set_named
from sdem_dist.corpus.manifest import ClassLabel, LabelSet
from sdem_dist.corpus.publishing import refuse_taken
from sdem_dist.counted import counted
from sdem_dist.errors import IngestError, SdemError
from sdem_dist.storage.buckets import split
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.kept import driver_folder, kept_folder
from sdem_dist.storage.publish import free_space, hidden_folder
from sdem_dist.storage.urls import is_url, place
from sdem_dist.text.counting import Counting, Progress, Tally
from sdem_dist.text.placing import ColumnMap
from sdem_dist.text.sources import Reading
from sdem_dist.text.texts import warn_of_unspaced
from sdem_dist.text.validation import NONE, RowValidator, class_name, warn_of_lookalikes
from sdem_dist.text.vectorizer import VectorizerSettings


def paths_of(sources: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the sources; raise an error if they are not paths."""
    if isinstance(sources, str | Path):
        sources = [sources]
    if hasattr(sources, "iloc") or not all(isinstance(source, str | Path) for source in sources):
        raise ValueError(
            f"sources are paths of files and folders, not a {type(sources).__name__} of other things: save a table of pandas "
            "first (to_parquet, to_csv) and give its path, or write counts with write_corpus"
        )
    if not len(sources):
        raise ValueError("there are no sources to ingest")
    return [place(source) for source in sources]


def check_destinations(destinations: list[str], overwrite: bool) -> None:
    """Raise an error now for what would fail after an hour of counting: a corpus that exists, a missing folder."""
    if len({str(place(t).absolute()) for t in destinations}) < len(destinations):
        raise ValueError("path and held_out_path are the same")
    for target in filter(is_url, destinations):
        split(target)
    refuse_taken([target for target in destinations if not is_url(target)], overwrite)
    for target in destinations:
        if not is_url(target) and not Path(target).absolute().parent.is_dir():
            raise IngestError(
                f"{target}: there is no folder {Path(target).absolute().parent} to write it to; create it"
            )


ZeroBased = bool | Literal["auto"] | None


@dataclass(frozen=True)
class CorpusPlan:
    """What a corpus will have beside its documents."""

    columns: ColumnMap
    vocabulary: Sequence[str] | None
    classes: Sequence[ClassLabel | LabelSet]
    zero_based: bool | None  # of svmlight sources: their columns count from 0


@dataclass(frozen=True)
class IngestPlan:
    """How an ingest goes."""

    settings: VectorizerSettings
    zero_based: ZeroBased  # of svmlight sources; None for others
    reference: Corpus | None = None  # the corpus that the vocabulary and classes are taken from
    vocabulary: list[str] | None = None
    label_sets: bool = False  # documents may have several labels: the classes are the sets that occur

    @property
    def shuffle(self) -> bool:
        """Documents are shuffled; test sets keep their order."""
        return self.reference is None

    @property
    def targets(self) -> bool:
        """Labels are numbers to be predicted, because they are in the corpus that this one follows."""
        return self.reference is not None and self.reference.header.n_targets > 0

    @property
    def known_classes(self) -> frozenset[str] | None:
        """The only labels allowed, None for any."""
        if self.reference is None or self.targets or not self.reference.header.classes:
            return None
        return frozenset(map(class_name, self._known_labels))

    @property
    def _known_labels(self) -> Sequence[ClassLabel]:
        assert self.reference is not None
        sets = self.reference.header.label_sets
        return cast("Sequence[ClassLabel]", self.reference.header.classes) if sets is None else all_labels(sets)

    def _classes(self, tally: Tally) -> Sequence[ClassLabel | LabelSet]:
        """Return the classes: those of the reference, or those found; where labels are sets, always those found."""
        if not self.label_sets:
            known = () if self.reference is None else self.reference.header.classes
            return known or sorted(set(tally.classes) - {NONE})
        labels = {} if self.reference is None else {class_name(label): label for label in self._known_labels}
        return sorted(label_set(labels.get(str(name), name) for name in set_named(found)) for found in tally.classes)

    def settled(self, tally: Tally, terms: Sequence[str] | None) -> CorpusPlan:
        """Decide columns after everything was counted; `terms` are the vocabulary where one was chosen."""
        offset, zero_based = _first_column(self.zero_based, tally)
        vocabulary = self.vocabulary if terms is None else terms
        if self.reference is not None:
            n_features = self.reference.header.n_features
        else:
            n_features = tally.n_columns - offset if terms is None else len(terms)
        if n_features < 1:
            raise IngestError("no document has a value; there is nothing to learn from")
        columns = ColumnMap(n_features, offset, tally.whole)
        return CorpusPlan(columns, vocabulary, self._classes(tally), zero_based)


def new_plan(settings: VectorizerSettings, form: str | None, reading: Reading) -> IngestPlan:
    """Return the plan of a corpus that takes nothing from another.

    Raises IngestError, ValueError: the settings are for text and the sources are numbers, or the reverse.
    """
    numeric = form is not None
    if settings.kind == "matrix" and not numeric:
        raise IngestError("settings of kind 'matrix' are for sources of numbers, but these hold text")
    if numeric and settings.kind != "matrix":
        of_text = [f.name for f in dataclasses.fields(settings) if getattr(settings, f.name) != f.default]
        if of_text:
            raise ValueError(f"{', '.join(of_text)} does not apply to sources of numbers")
        settings = VectorizerSettings(kind="matrix")
    zero_based = reading.zero_based if form == "svmlight" else None
    return IngestPlan(settings, zero_based, label_sets=reading.label_separator is not None)


def plan_from_corpus(path: str | Path, form: str | None, reading: Reading) -> IngestPlan:
    """Return the plan of a corpus with the settings, vocabulary and classes of the corpus at `path`.

    Raises CorpusError if there is no corpus.
    Raises IngestError if it does not say how text became its numbers, or the sources are numbers and it was text, or
    the reverse.
    """
    corpus = open_corpus(path)
    header, numeric = corpus.header, form is not None
    if header.vectorizer is None and not numeric:
        raise IngestError(
            f"{path} does not say how text became its numbers, so new text cannot be counted the same way"
        )
    try:
        settings = VectorizerSettings.from_json(header.vectorizer or {"kind": "matrix"})
    except (TypeError, ValueError) as error:
        raise IngestError(
            f"{path} says how text became its numbers, but not in a way that this version understands: {error}"
        ) from error
    if (settings.kind == "matrix") != numeric:
        here, there = ("numbers", "text") if numeric else ("text", "numbers")
        raise IngestError(f"the sources hold {here}, but {path} was made from {there}")
    zero_based: ZeroBased = None
    if form == "svmlight":
        # a small test set may not use the first column; the corpus knows whether there is one
        recorded = header.made_by.get("zero_based")
        zero_based = recorded if reading.zero_based == "auto" and recorded is not None else reading.zero_based
    vocabulary = corpus.vocabulary()
    return IngestPlan(settings, zero_based, corpus, vocabulary, header.label_sets is not None)


def _first_column(zero_based: ZeroBased, tally: Tally) -> tuple[int, bool | None]:
    """Return the column that becomes 0, and whether columns count from 0."""
    if zero_based is None:
        return 0, None
    if zero_based == "auto":
        zero_based = tally.first_column == 0
    if not zero_based and tally.first_column == 0:
        raise IngestError("a document has column 0, so the columns of the sources count from 0, not from 1")
    return (0 if zero_based else 1), bool(zero_based)


@dataclass(frozen=True)
class IngestConfig:
    """The checked arguments of `sdem_dist.text.ingest`, and what follows from them."""

    sources: list[Path]
    destinations: list[str]  # the corpus, and that of held-out documents, if there is to be one
    counting: Counting
    plan: IngestPlan
    gate: RowValidator
    vocabulary_from: str | Path | None
    n_jobs: int | None
    shard_documents: int | None
    overwrite: bool
    keep_text: bool
    progress: Progress

    def check(self, tally: Tally) -> None:
        """Raise IngestError where the sources, or one of both parts, have no document, or none a label.

        Warns of labels that look alike, and of words without spaces between them.
        """
        gate, counting, names = self.gate, self.counting, ", ".join(map(str, self.sources[:3]))
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
        if not counting.targets:
            warn_of_lookalikes(tally.classes)
        if not counting.numeric:
            warn_of_unspaced(tally.scripts, self.plan.settings)

    def made_by(self, corpus_plan: CorpusPlan) -> JsonObject:
        """Return what the manifest says of where the corpus comes from."""
        gate = self.gate
        return {
            "command": "ingest",
            "sources": [str(source) for source in self.sources],
            "vocabulary_from": None if self.vocabulary_from is None else str(self.vocabulary_from),
            "held_out": self.counting.held_out,
            "skipped_lines": gate.skipped,
            "zero_based": corpus_plan.zero_based,
            **({} if gate.separator is None else {"label_separator": gate.separator}),
            **({} if gate.unlabelled is None else {"unlabelled": gate.unlabelled}),
            "random_state": self.counting.random_state,
        }


FORMAT = 5  # of what is kept beside a corpus meanwhile


@contextmanager
def workspace(config: IngestConfig, *, by_tasks: bool) -> Iterator[tuple[Path, Path]]:
    """Yield a folder beside the corpus that all processes see, and one of this machine.

    That of an ingest by tasks keeps what is done if the process is killed; the other one goes in any case.
    """
    beside = place(config.destinations[0]).absolute()
    try:
        if by_tasks:
            # the known classes are those of the reference, and sets have no order
            content = repr((FORMAT, replace(config.counting, known_classes=None)))
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
