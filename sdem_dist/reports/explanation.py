"""Why a document was taken for one class rather than another: log-odds as a sum over its words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.reports.explained import SHOWN, TOPICS, DocumentParts, Explained, ExplainedDocuments, Rows, TopicPart
from sdem_dist.visible import one_line


class WordPart(NamedTuple):
    """What a word of a document adds for one class against another."""

    word: str
    weight: float
    """Of the word in the document: its count, or what the model's weighting makes of it."""
    log_p: float
    """ln p(word | class); NaN for a model that has none."""
    log_p_against: float
    """The same of the other class."""
    part: float
    """Of the log-odds."""


@dataclass(frozen=True, repr=False)  # it is shown as its table
class Explanation(Explained):
    """Log-odds of one class against another for one document, as a sum.

    ``log_odds == prior + offset + sum of the words' parts`` but for rounding, all divided by the model's temperature
    already. Both sides are infinite against a class of prior 0.

    Attributes
    ----------
    label, against : class labels
    probability, probability_against : float
    log_odds : float
        ln p(label | document) - ln p(against | document).
    prior : float
        What the classes' prior probabilities add.
    offset : float
        What no single word adds; `offset_name` says what that is. 0 for naive Bayes.
    offset_name : str
    words : tuple of WordPart
        The largest part, of either sign, first.
    topics : tuple of TopicPart
        The largest share first; empty for models without topics.
    text : str or None
        The document as it was written.
    marks : tuple of (start, stop, value)
        Stretches of `text` with their parts.
    temperature : float
    unknown : tuple of str
        Words of the text that are not in the model's vocabulary.
    generative : bool
        Whether ``log_p`` of words are probabilities that can be read as such. After discriminative training only their
        differences mean something, and tables leave them out.
    """

    label: object
    against: object
    probability: float
    probability_against: float
    log_odds: float
    prior: float
    offset: float
    offset_name: str
    words: tuple[WordPart, ...]
    topics: tuple[TopicPart, ...] = ()
    text: str | None = None
    marks: tuple[tuple[int, int, float], ...] = ()
    temperature: float = 1.0
    unknown: tuple[str, ...] = ()
    generative: bool = True

    _word: ClassVar = WordPart
    _part_name: ClassVar = "log-odds"
    _word_width: ClassVar = 20

    def telling(self, n: int = 5, *, of_the_prediction: bool = True) -> list[str]:
        """Return the words with the largest parts for the class, or against it."""
        sign = 1.0 if of_the_prediction else -1.0
        return [w.word for w in self.words if sign * w.part > 0][:n]

    @property
    def _summary(self) -> str:
        return (
            f"{self.label} {self.probability:.3f}, {self.against} {self.probability_against:.3f}; "
            f"log-odds {self.log_odds:+.2f}" + self._how
        )

    @property
    def _how(self) -> str:
        """Return what a word's part is made of, where the columns of the table give it."""
        divided = "" if self.temperature == 1.0 else f" / temperature {self.temperature:.3g}"
        products = [w.weight * (w.log_p - w.log_p_against) / self.temperature for w in self.words]
        if products and np.allclose([w.part for w in self.words], products, rtol=1e-3, atol=1e-6):
            ratio = f"ln(p(word|{self.label}) / p(word|{self.against}))" if self.generative else "log-odds of the word"
            return f"; of a word: weight x {ratio}{divided}"
        return f" (scores divided by the temperature, {self.temperature:.3g})" if divided else ""

    def _rows(self) -> Rows:
        n = sum(abs(w.part) >= 0.0005 for w in self.words[:SHOWN])  # the others round to 0, and the largest come first
        n = n or min(len(self.words), 1)
        shown, rest = self.words[:n], self.words[n:]
        rows: Rows = [
            (w.word, f"{w.part:+.3f}", f"{w.weight:.3g}", _probability(w.log_p), _probability(w.log_p_against))
            for w in shown
        ]
        if rest:
            rows.append((counted(len(rest), "other word"), f"{sum(w.part for w in rest):+.3f}", "", "", ""))
        rows.append(("prior of the classes", f"{self.prior:+.3f}", "", "", ""))
        if self.offset_name:
            rows.append((self.offset_name, f"{self.offset:+.3f}", "", "", ""))
        return [row[: len(self._heads)] for row in rows]

    @property
    def _heads(self) -> tuple[str, ...]:
        heads = ("word", "log-odds", "weight", f"p(word|{self.label})", f"p(word|{self.against})")
        known = any(w.log_p == w.log_p or w.log_p_against == w.log_p_against for w in self.words)
        return heads if self.generative and known else heads[:3]

    @property
    def _sides(self) -> tuple[str, str]:
        return f"for {self.label}", f"for {self.against}"

    def _topic_table(self) -> tuple[tuple[str, ...], Rows]:
        """Return heads and rows of a table of topics, with their parts where there are any."""
        shown, summed = self.topics[:TOPICS], any(t.part is not None for t in self.topics)
        parts = [(f"{t.part:+.3f}",) if t.part is not None else () for t in shown]
        rows: Rows = [(one_line(t.topic), f"{t.share:.0%}", *part) for t, part in zip(shown, parts, strict=True)]
        return ("topic", "of the document", *(("log-odds",) if summed else ())), rows


def _probability(log_p: float) -> str:
    """Return e to the power, or nothing for a model without p(word | class)."""
    return "" if np.isnan(log_p) else f"{np.exp(log_p):.3e}"


class Explanations(ExplainedDocuments[Explanation]):
    """Explanations that a notebook and a terminal show one after another."""


def word_parts(names: Sequence[str], found: DocumentParts) -> tuple[WordPart, ...]:
    """Return the words of a document, the largest part first."""
    order = np.argsort(-np.abs(found.parts), kind="stable")
    columns = (found.weights, found.log_p, found.log_p_against, found.parts)
    rows = zip(*(np.asarray(column, np.float64)[order].tolist() for column in columns), strict=True)
    return tuple(WordPart(names[i], *row) for i, row in zip(order.tolist(), rows, strict=True))
