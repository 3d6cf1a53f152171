"""What an ingest decides before it reads, and what it can decide only after it has read all."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np

from sdem_dist.corpus import Corpus, open_corpus
from sdem_dist.corpus.label_sets import all_labels, label_set, set_named
from sdem_dist.corpus.layout import ClassLabel, LabelSet
from sdem_dist.errors import IngestError
from sdem_dist.text.bad_lines import NONE, class_name
from sdem_dist.text.batches import ColumnMap
from sdem_dist.text.counting import Tally
from sdem_dist.text.runs import MergedTerms
from sdem_dist.text.sources import Reading
from sdem_dist.text.vectorizer import VectorizerSettings

ZeroBased = bool | Literal["auto"] | None


@dataclass(frozen=True)
class CorpusPlan:
    """What a corpus will have beside its documents."""

    columns: ColumnMap
    vocabulary: Sequence[str] | None
    classes: Sequence[ClassLabel | LabelSet]
    zero_based: bool | None  # of svmlight sources: their columns count from 0

    def classes_of_codes(self, codes: dict[str, int]) -> np.ndarray:
        """Return the class, as in `classes`, of every code of a class name: objects, as NumPy's texts end at a NUL."""
        named: dict[str, ClassLabel | LabelSet] = {NONE: NONE, **{class_name(name): name for name in self.classes}}
        result = np.empty(len(codes), object)
        for name, code in codes.items():
            result[code] = named[name]
        return result


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
        """Return the labels of the reference."""
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

    def settled(self, tally: Tally, terms: MergedTerms | None) -> CorpusPlan:
        """Decide columns after everything was counted; `terms` are the vocabulary where one was chosen."""
        offset, zero_based = _first_column(self.zero_based, tally)
        if self.reference is not None:
            header = self.reference.header
            return CorpusPlan(
                ColumnMap(header.n_features, offset=offset), self.vocabulary, self._classes(tally), zero_based
            )
        if terms is not None:
            columns = ColumnMap(len(terms), terms)
            return CorpusPlan(columns, terms.strings, self._classes(tally), zero_based)
        columns = ColumnMap(tally.n_columns - offset, offset=offset)
        if columns.n_features < 1:
            raise IngestError("no document has a value; there is nothing to learn from")
        return CorpusPlan(columns, None, self._classes(tally), zero_based)


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
