"""Explanations of predictions: a sum over words, highlighted in the text."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sdem_dist.counted import counted, one_line, visible
from sdem_dist.storage.encoding import to_json
from sdem_dist.table import Table, cell

if TYPE_CHECKING:
    import pandas as pd

FOR, AGAINST = "0,114,178", "213,94,0"  # blue and vermilion, distinct for colour-blind people (Okabe and Ito)
MAX_WORDS, MAX_TOPICS = 12, 5  # most rows of tables


class TopicPart(NamedTuple):
    """A topic of a document, under the explained class."""

    topic: str
    share: float
    """Proportion of the document."""
    part: float | None
    """Contribution to the log-odds or the number, if it is a sum over topics; otherwise None."""


class WordPart(NamedTuple):
    """Contribution of a word, or a column, to the log-odds of two classes, or to a number."""

    word: str
    weight: float
    """Count of the word in the document, or its weighted count; for a column, its value, or 1 for a category."""
    part: float
    """Contribution to the log-odds, or to the prediction in units of the target."""
    log_p: float = float("nan")
    """ln p(word | class); after discriminative training, only differences are meaningful. NaN for other models."""
    log_p_against: float = float("nan")
    """ln p(word | other class)."""


@dataclass(frozen=True, repr=False, kw_only=True)  # __repr__ returns tables
class Explained:
    """A sum over words, or columns, for display.

    Attributes
    ----------
    words : tuple of WordPart
        Sorted by absolute contribution, largest first.
    offset : float
        Remainder that is not attributed to words, see `offset_name`; 0 for naive Bayes and regression on columns.
    topics : tuple of TopicPart
        Most important first; empty for models without topics.
    text : str or None
        The original text of the document.
    marks : tuple of (start, stop, value)
        Positions in `text` with their contributions.
    unknown : tuple of str
        Words of the text that are not in the model's vocabulary.
    kind : str
        "word", or "column" for models of tables.
    """

    words: tuple[WordPart, ...]
    offset: float = 0.0
    offset_name: str = ""
    topics: tuple[TopicPart, ...] = ()
    text: str | None = None
    marks: tuple[tuple[int, int, float], ...] = ()
    unknown: tuple[str, ...] = ()
    kind: str = "word"

    part_name: ClassVar[str]  # heading of the contributions
    digits: ClassVar[tuple[str, str]]  # formats of contributions in tables and in texts
    sides: ClassVar[tuple[str, str]]  # meaning of positive and of negative contributions

    @property
    @abstractmethod
    def summary(self) -> str:
        """The prediction, in one line."""

    @property
    def _tables(self) -> list[Table]:
        """A table of topics, if any; a table of the largest contributions, with the sum of all other words."""
        form, tables, amount = self.digits[0], list[Table](), "weight" if self.kind == "word" else "value"
        if topics := self.topics[:MAX_TOPICS]:
            rows = [(t.topic, f"{t.share:.0%}", "" if t.part is None else format(t.part, form)) for t in topics]
            heads = "topic", "of the document", "" if topics[0].part is None else self.part_name
            tables.append(Table(heads, rows, widths={0: 48}))
        n = sum(float(format(w.part, form)) != 0 for w in self.words[:MAX_WORDS]) or min(len(self.words), 1)
        words = [(w.word, format(w.part, form), f"{w.weight:.4g}") for w in self.words[:n]]
        others = {counted(len(self.words) - n, f"other {self.kind}"): sum(w.part for w in self.words[n:])}
        sums = others if n < len(self.words) else {}
        sums |= {"prior of the classes": self.prior} if isinstance(self, Explanation) else {}
        sums |= {self.offset_name: self.offset} if self.offset_name else {}
        words += [(name, format(value, form), "") for name, value in sums.items()]
        return [*tables, Table((self.kind, self.part_name, amount), words, widths={0: 20})]

    def to_dict(self) -> dict[str, object]:
        """Return values for JSON, with None for NaN and infinities."""
        parts = {"topics": [t._asdict() for t in self.topics], "words": [w._asdict() for w in self.words]}
        return dict(to_json(vars(self) | parts | {"marks": list(self.marks)}, lambda v: None))

    def to_frame(self) -> pd.DataFrame:
        """Return the words and their contributions, as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(list(self.words), columns=list(WordPart._fields))

    def __repr__(self) -> str:
        if not self.text:
            return self.without_text()
        key = f"Words with their {self.part_name}:\n" if self.marks else ""
        return f"{self.without_text()}\n\n{key}{self.marked_text()}"

    def without_text(self) -> str:
        """Return the explanation as tables for a terminal."""
        return "\n\n".join([*self._notes, *(table.text() for table in self._tables)])

    @property
    def _notes(self) -> list[str]:
        notes, more = [one_line(self.summary)], len(self.unknown) - MAX_WORDS
        if self.unknown:
            unknown = " ".join(one_line(word, 20) for word in self.unknown[:MAX_WORDS])
            notes.append(f"Unknown to the model: {unknown}{f' and {more:,} more' if more > 0 else ''}")
        nothing = "No word of this document is in the model, so the prediction does not depend on it."
        return notes if self.words else [*notes, nothing]

    def _repr_html_(self) -> str:
        head, text = "".join(f"<p>{cell(note)}</p>" for note in self._notes), ""
        *topics, words = (table.html() for table in self._tables)
        if self.text:  # a legend of the two colours, and the text with marked words
            key = (highlight(side, color, 0.5) for side, color in zip(self.sides, (FOR, AGAINST), strict=True))
            marked = (
                highlight(text, FOR if v > 0 else AGAINST, 0.15 + 0.45 * share, f"{v:+.3f}") if v else cell(text)
                for text, v, share in self.stretches()
            )
            text = f'<p class="soft">{" ".join(key)}</p><p class="text">{"".join(marked)}</p>'
        return f'<div class="sdem">{head}{"".join(topics)}{text}{words}</div>'

    def stretches(self, least: float = 0.1) -> list[tuple[str, float, float]]:
        """Return the segments of the text with their values, and each value relative to the largest.

        Both are 0 between marks, and for relative values below `least`.
        """
        text, stretches, end = self.text or "", [], 0
        top = max((abs(value) for _, _, value in self.marks), default=0.0) or 1.0
        for start, stop, value in self.marks:
            if start >= end and value != 0 and abs(value) >= least * top:
                stretches += [(text[end:start], 0.0, 0.0), (text[start:stop], value, abs(value) / top)]
                end = stop
        return [one for one in [*stretches, (text[end:], 0.0, 0.0)] if one[0]]

    def marked_text(self) -> str:
        """Return the text with the strongest words and their contributions in brackets, unless these round to 0."""
        values = ((visible(text), format(value, self.digits[1])) for text, value, _ in self.stretches(0.25))
        return "".join(f"[{text} {value}]" if float(value) else text for text, value in values)

    def styled(self) -> list[tuple[str, str]]:
        """Return the text as (segment, style) for rich: blue for the class, orange against it, strong words bold."""
        return [
            (visible(text), f"{'bold ' * (share > 1 / 3)}{'deep_sky_blue1' if v > 0 else 'dark_orange'}" if v else "")
            for text, v, share in self.stretches()
        ]


def highlight(text: object, color: str, strength: float, title: str = "") -> str:
    """Return a text as HTML with a background colour; `strength`: opacity from 0 to 1."""
    return f'<mark title="{title}" style="color:inherit;background:rgba({color},{strength:.2f})">{cell(text)}</mark>'


@dataclass(frozen=True, repr=False, kw_only=True)
class Explanation(Explained):
    """Log-odds of one class against another for one document, as a sum.

    ``log_odds == prior + offset + sum of the words' parts`` up to rounding, all divided by the temperature of the
    model. Both sides are infinite against a class with prior 0. The other attributes are those of `Explained`.
    """

    label: object
    against: object
    probability: float
    probability_against: float
    log_odds: float
    """ln p(label | document) - ln p(against | document)."""
    prior: float
    """Contribution of the class priors."""
    temperature: float = 1.0
    """Number by which the scores are divided."""

    part_name: ClassVar = "log-odds"
    digits: ClassVar = ("+.3f", "+.2f")

    def distinctive(self, n: int = 5, *, of_the_prediction: bool = True) -> list[str]:
        """Return the words with the largest contributions for the class, or against it."""
        return [w.word for w in self.words if w.part != 0 and (w.part > 0) == of_the_prediction][:n]

    @property
    def summary(self) -> str:
        both = f"{self.label} {self.probability:.3f}, {self.against} {self.probability_against:.3f}"
        scaled = "" if self.temperature == 1.0 else f" (divided by the temperature, {self.temperature:.3g})"
        return f"{both}; log-odds {self.log_odds:+.2f}{scaled}"

    @property
    def sides(self) -> tuple[str, str]:  # type: ignore[override]
        return f"for {self.label}", f"for {self.against}"


@dataclass(frozen=True, repr=False, kw_only=True)
class NumberExplanation(Explained):
    """A predicted number as a sum: ``prediction == mean + offset + sum of the words' parts``, up to rounding.

    The other attributes are those of `Explained`.
    """

    prediction: float
    mean: float
    """Mean of the training targets."""

    part_name: ClassVar = "contribution"
    digits: ClassVar = ("+.4g", "+.2g")  # for any unit of the target
    sides: ClassVar = ("more", "less")

    @property
    def summary(self) -> str:
        return f"{self.prediction:.4g} (training mean {self.mean:.4g}, difference {self.prediction - self.mean:+.4g})"


class Explanations(list[Any]):
    """A list of explanations, displayed as tables in notebooks and terminals."""

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self))

    def _repr_html_(self) -> str:
        return "<hr>".join(explanation._repr_html_() for explanation in self)
