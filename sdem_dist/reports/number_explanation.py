"""Why a document got its number rather than the mean: the difference as a sum over its words, or columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from sdem_dist.reports.explained import SHOWN, TOPICS, DocumentParts, Explained, ExplainedDocuments, Rows, TopicPart


class NumberPart(NamedTuple):
    """What a word, or a column, adds to a predicted number."""

    word: str
    weight: float
    """Its count, or the column's value."""
    part: float
    """Of the prediction, in units of the target."""


@dataclass(frozen=True, repr=False)  # it is shown as its table
class NumberExplanation(Explained):
    """A predicted number as a sum: ``prediction == mean + offset + sum of the words' parts`` but for rounding.

    Attributes
    ----------
    prediction, mean : float
        The mean is that of the training targets.
    offset : float
        What no single word adds; `offset_name` says what that is. 0 for a regression on columns.
    offset_name : str
    words : tuple of NumberPart
        Words or columns, the largest part, of either sign, first.
    topics : tuple of TopicPart
        Of topic models: the largest part first.
    text : str or None
        The document as it was written.
    marks : tuple of (start, stop, value)
        Stretches of `text` with their parts.
    unknown : tuple of str
        Words of the text that are not in the model's vocabulary.
    """

    prediction: float
    mean: float
    offset: float
    offset_name: str
    words: tuple[NumberPart, ...]
    topics: tuple[TopicPart, ...] = ()
    text: str | None = None
    marks: tuple[tuple[int, int, float], ...] = ()
    unknown: tuple[str, ...] = ()

    _word: ClassVar = NumberPart
    _part_name: ClassVar = "part"
    _word_width: ClassVar = 24
    _heads: ClassVar = ("word or column", "adds", "value")
    _sides: ClassVar = ("more", "less")

    @property
    def _summary(self) -> str:
        return f"{self.prediction:.4g}, {self.prediction - self.mean:+.4g} from the mean of training, {self.mean:.4g}"

    def _shown(self, value: float) -> str:
        return f"{value:+.2g}"  # whatever the unit of the target

    def _rows(self) -> Rows:
        rest = self.words[SHOWN:]
        rows: Rows = [(w.word, f"{w.part:+.4g}", f"{w.weight:.4g}") for w in self.words[:SHOWN]]
        if rest:
            rows.append((f"{len(rest):,} more", f"{sum(w.part for w in rest):+.4g}", ""))
        if self.offset_name:
            rows.append((self.offset_name, f"{self.offset:+.4g}", ""))
        return rows

    def _topic_table(self) -> tuple[tuple[str, ...], Rows]:
        rows: Rows = [(t.topic, f"{t.share:.0%}", f"{t.part:+.4g}") for t in self.topics[:TOPICS]]
        return ("topic", "of the document", "adds"), rows


class NumberExplanations(ExplainedDocuments[NumberExplanation]):
    """Explanations that a notebook and a terminal show one after another."""


def number_parts(names: Sequence[str], found: DocumentParts) -> tuple[NumberPart, ...]:
    """Return the words of a document, the largest part first."""
    order = np.argsort(-np.abs(found.parts), kind="stable").tolist()
    return tuple(NumberPart(names[i], float(found.weights[i]), float(found.parts[i])) for i in order)
