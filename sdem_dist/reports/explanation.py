"""Why a document got its class or its number: a sum over its words, with the words marked in the text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

import numpy as np

from sdem_dist.counted import counted, one_line, visible
from sdem_dist.reports.report import Table, cell
from sdem_dist.storage.encoding import null_for_nan

if TYPE_CHECKING:
    import pandas as pd

FOR, AGAINST = "0,114,178", "213,94,0"
"""Blue and vermilion, which colour-blind people tell apart, too (Okabe and Ito)."""
MAX_WORDS, MAX_TOPICS = 12, 5
"""Words and topics of a table."""
NOTHING_KNOWN = "The model knows nothing that is in this document: its answer does not come from the document."

Rows = list[tuple[str, ...]]


class TopicPart(NamedTuple):
    """A topic of a document under the class that is explained."""

    topic: str
    share: float
    """Of the document."""
    part: float | None
    """Of the log-odds or of the number, where they are a sum over topics; else None."""


class DocumentParts(NamedTuple):
    """Log-odds of one document, class against class, in parts by column, before columns have names."""

    columns: np.ndarray
    """Words of the document, shape (n_words,)."""
    weights: np.ndarray
    log_p: np.ndarray
    log_p_against: np.ndarray
    parts: np.ndarray
    """Of the log-odds, shape (n_words,)."""
    prior: float
    topics: tuple[TopicPart, ...] = ()
    offset_name: str = ""


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


class NumberPart(NamedTuple):
    """What a word, or a column, adds to a predicted number."""

    word: str
    weight: float
    """Its count, or the column's value."""
    part: float
    """Of the prediction, in units of the target."""


class Explained(ABC):
    """A sum over words that can be shown; the fields and their names are those of a dataclass."""

    words: Sequence[NamedTuple]
    text: str | None
    marks: tuple[tuple[int, int, float], ...]
    topics: tuple[TopicPart, ...]
    unknown: tuple[str, ...]

    _word: ClassVar[type[NamedTuple]]
    """What `words` are."""
    _part_name: ClassVar[str]
    """What the places in the text have shares of."""
    _word_width: ClassVar[int]

    @property
    @abstractmethod
    def _summary(self) -> str: ...

    @property
    @abstractmethod
    def _sides(self) -> tuple[str, str]:
        """Return what the colours of the text stand for."""

    @abstractmethod
    def _word_table(self) -> Table:
        """Return the largest parts, and the sum of the others."""

    @abstractmethod
    def _topic_table(self) -> Table:
        """Return the topics, with their parts where there are any."""

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as JSON can hold them: None for NaN and infinities."""
        parts = {
            "topics": [t._asdict() for t in self.topics],
            "words": [w._asdict() for w in self.words],
            "marks": list(self.marks),
        }
        plain = {name: value for name, value in vars(self).items() if name not in parts}
        return dict(null_for_nan(plain | parts))

    def to_frame(self) -> pd.DataFrame:
        """Return the words with their parts, as a pandas table."""
        import pandas as pd

        return pd.DataFrame(list(self.words), columns=list(self._word._fields))

    def __str__(self) -> str:
        faint = self.n_faint
        left_out = f", but {counted(faint, 'place')} whose share rounds to 0" if faint else ""
        marked = (
            f"Each place in the text has its share of its word's {self._part_name}{left_out}:\n{self.marked_text()}"
        )
        text = [marked if self.marks else self.marked_text()] if self.text else []
        return "\n\n".join([self.without_text(), *text])

    __repr__ = __str__

    @property
    def _unknown_words(self) -> str:
        """Name the words of the text that the model does not know."""
        if not self.unknown:
            return ""
        more = len(self.unknown) - MAX_WORDS
        shown = ", ".join(one_line(word, self._word_width) for word in self.unknown[:MAX_WORDS])
        return f"Unknown to the model: {shown}{f' and {more:,} more' if more > 0 else ''}"

    def without_text(self) -> str:
        """Return the sum as tables for a terminal."""
        notes = [self._unknown_words, "" if self.words else NOTHING_KNOWN]
        topics = self._topic_table().text() if self.topics else ""
        parts = [one_line(self._summary), *notes, topics, self._word_table().text()]
        return "\n\n".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        topics = self._topic_table().html() if self.topics else ""
        text = f'<p class="text" style="white-space:pre-wrap">{self.html_text()}</p>' if self.text else ""
        marks = (
            f'<mark style="color:inherit;background:rgba({color},.5)">{cell(side)}</mark>'
            for color, side in zip((FOR, AGAINST), self._sides, strict=True)
        )
        key = f'<p class="key">{" ".join(marks)}</p>' if text else ""
        head = f"<p>{cell(self._summary)}</p>" + ("" if self.words else f"<p>{cell(NOTHING_KNOWN)}</p>")
        head += f"<p>{cell(self._unknown_words)}</p>" if self.unknown else ""
        return f'<div class="sdem">{head}{topics}{key}{text}{self._word_table().html()}</div>'

    def stretches(self, least: float = 0.1) -> list[tuple[str, float]]:
        """Return the text cut into stretches with the value of each.

        0 for what lies between marks, or says less than `least` of what the loudest says.
        """
        text, found, end = self.text or "", [], 0
        top = max((abs(value) for _, _, value in self.marks), default=0.0)
        for start, stop, value in self.marks:
            if start < end or value == 0 or abs(value) < least * top:
                continue
            found += [(text[end:start], 0.0), (text[start:stop], value)]
            end = stop
        return [(piece, value) for piece, value in [*found, (text[end:], 0.0)] if piece]

    def _shown(self, value: float) -> str:
        """Return a part as brackets show it."""
        return f"{value:+.2f}"

    def _pieces(self) -> list[tuple[str, str]]:
        """Return the text cut into stretches, each with its part as it is shown, or nothing."""
        return [(piece, self._shown(v) if v else "") for piece, v in self.stretches(0.25)]

    def marked_text(self) -> str:
        """Return the text with the loudest words in brackets, with their parts; not those whose part rounds to 0."""
        return "".join(f"[{visible(t)} {v}]" if v and float(v) else visible(t) for t, v in self._pieces())

    @property
    def n_faint(self) -> int:
        """How many of the loudest words have no brackets, since their part rounds to 0."""
        return sum(bool(v) and not float(v) for _, v in self._pieces())

    def styled(self) -> list[tuple[str, str]]:
        """Return the text as (stretch, style) for rich: blue for the class, orange against it, loud words bold."""
        stretches = self.stretches()
        top = max((abs(v) for _, v in stretches), default=0.0)

        def style(value: float) -> str:
            color = "deep_sky_blue1" if value > 0 else "dark_orange"
            return "" if not value else f"bold {color}" if abs(value) > top / 3 else color

        return [(visible(text), style(value)) for text, value in stretches]

    def html_text(self, letters: int | None = None) -> str:
        """Return the text as HTML with its words marked: blue for the class, orange against it, stronger where louder.

        `letters` is how much of the text there is room for.
        """
        stretches = self.stretches()
        top = max((abs(v) for _, v in stretches), default=0.0)

        def piece(text: str, value: float) -> str:
            if not value:
                return cell(text)
            background = f"rgba({FOR if value > 0 else AGAINST},{0.15 + 0.45 * abs(value) / top:.2f})"
            return f'<mark title="{value:+.3f}" style="color:inherit;background:{background}">{cell(text)}</mark>'

        found: list[str] = []
        left = len(self.text or "") if letters is None else letters
        for text, value in stretches:
            if left <= 0:
                return "".join([*found, "…"])
            found.append(piece(text[:left], value))
            left -= len(text)
        return "".join([*found, "…"] if left < 0 else found)


Kind = TypeVar("Kind", bound=Explained)


class ExplainedDocuments(list[Kind]):
    """Explanations that a notebook and a terminal show one after another."""

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "<hr>".join(explanation._repr_html_() for explanation in self)


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

    def distinctive(self, n: int = 5, *, of_the_prediction: bool = True) -> list[str]:
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

    def _word_table(self) -> Table:
        # The largest come first; those that round to 0 are summed up.
        n = sum(abs(w.part) >= 0.0005 for w in self.words[:MAX_WORDS]) or min(len(self.words), 1)
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
        heads = ("word", "log-odds", "weight", f"p(word|{self.label})", f"p(word|{self.against})")
        known = any(w.log_p == w.log_p or w.log_p_against == w.log_p_against for w in self.words)
        n_columns = len(heads) if self.generative and known else 3
        widths = {0: self._word_width, 3: 18, 4: 18}
        return Table(heads[:n_columns], [row[:n_columns] for row in rows], widths=widths)

    @property
    def _sides(self) -> tuple[str, str]:
        return f"for {self.label}", f"for {self.against}"

    def _topic_table(self) -> Table:
        summed = any(t.part is not None for t in self.topics)
        parts = [(f"{t.part:+.3f}",) if t.part is not None else () for t in self.topics[:MAX_TOPICS]]
        rows = [(t.topic, f"{t.share:.0%}", *part) for t, part in zip(self.topics, parts, strict=False)]
        heads = ("topic", "of the document", *(("log-odds",) if summed else ()))
        return Table(heads, rows, widths={0: 48})


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
    _sides: ClassVar = ("more", "less")

    @property
    def _summary(self) -> str:
        return f"{self.prediction:.4g}, {self.prediction - self.mean:+.4g} from the mean of training, {self.mean:.4g}"

    def _shown(self, value: float) -> str:
        return f"{value:+.2g}"  # whatever the unit of the target

    def _word_table(self) -> Table:
        rest = self.words[MAX_WORDS:]
        rows: Rows = [(w.word, f"{w.part:+.4g}", f"{w.weight:.4g}") for w in self.words[:MAX_WORDS]]
        if rest:
            rows.append((f"{len(rest):,} more", f"{sum(w.part for w in rest):+.4g}", ""))
        if self.offset_name:
            rows.append((self.offset_name, f"{self.offset:+.4g}", ""))
        return Table(("word or column", "adds", "value"), rows, widths={0: self._word_width})

    def _topic_table(self) -> Table:
        rows = [(t.topic, f"{t.share:.0%}", f"{t.part:+.4g}") for t in self.topics[:MAX_TOPICS]]
        return Table(("topic", "of the document", "adds"), rows, widths={0: 48})


class NumberExplanations(ExplainedDocuments[NumberExplanation]):
    """Explanations that a notebook and a terminal show one after another."""


def number_parts(names: Sequence[str], found: DocumentParts) -> tuple[NumberPart, ...]:
    """Return the words of a document, the largest part first."""
    order = np.argsort(-np.abs(found.parts), kind="stable").tolist()
    return tuple(NumberPart(names[i], float(found.weights[i]), float(found.parts[i])) for i in order)
