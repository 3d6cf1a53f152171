"""Why a document was taken for one class rather than another: log-odds as a sum over its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.reports.html import cell, html_table
from sdem_dist.reports.marked_text import AGAINST, FOR, MarkedText
from sdem_dist.storage.numbers import null_for_nan
from sdem_dist.visible import columns, one_line

if TYPE_CHECKING:
    import pandas as pd

SHOWN, TOPICS = 12, 5
"""Words and topics of a table."""
NOTHING_KNOWN = "The model knows nothing that is in this document: its answer does not come from the document."


class WordPart(NamedTuple):
    """What a word of a document says for one class against another."""

    word: str
    weight: float
    """Of the word in the document: its count, or what the model's weighting makes of it."""
    log_p: float
    """ln p(word | class); NaN for a model that has none."""
    log_p_against: float
    """The same of the other class."""
    part: float
    """Of the log-odds."""


class TopicPart(NamedTuple):
    """A topic of a document under the class that is explained."""

    topic: str
    share: float
    """Of the document."""
    part: float | None
    """Of the log-odds, where they are a sum over topics; else None."""


@dataclass(frozen=True)
class Explanation(MarkedText):
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

    def telling(self, n: int = 5, *, of_the_prediction: bool = True) -> list[str]:
        """Return the words that say most for the class, or against it."""
        sign = 1.0 if of_the_prediction else -1.0
        return [w.word for w in self.words if sign * w.part > 0][:n]

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as JSON can hold them: None for NaN and infinities."""
        found = {
            **{name: getattr(self, name) for name in _PLAIN},
            "topics": [t._asdict() for t in self.topics],
            "words": [w._asdict() for w in self.words],
            "marks": list(self.marks),
        }
        return dict(null_for_nan(found))

    def to_frame(self) -> pd.DataFrame:
        """Return the words with their parts, as a pandas table."""
        import pandas as pd

        return pd.DataFrame(list(self.words), columns=list(WordPart._fields))

    @property
    def _summary(self) -> str:
        return (
            f"{self.label} {self.probability:.3f}, {self.against} {self.probability_against:.3f}; "
            f"log-odds {self.log_odds:+.2f}"
            + ("" if self.temperature == 1.0 else f" (scores divided by the temperature, {self.temperature:.3g})")
        )

    def _rows(self, n: int) -> list[tuple[str, str, str, str, str]]:
        shown, rest = self.words[:n], self.words[n:]
        rows = [
            (w.word, f"{w.part:+.3f}", f"{w.weight:.3g}", _probability(w.log_p), _probability(w.log_p_against))
            for w in shown
        ]
        if rest:
            rows.append((counted(len(rest), "other word"), f"{sum(w.part for w in rest):+.3f}", "", "", ""))
        rows.append(("prior of the classes", f"{self.prior:+.3f}", "", "", ""))
        if self.offset_name:
            rows.append((self.offset_name, f"{self.offset:+.3f}", "", "", ""))
        return rows

    @property
    def _heads(self) -> tuple[str, ...]:
        return ("word", "log-odds", "weight", f"p(word|{self.label})", f"p(word|{self.against})")

    def __str__(self) -> str:
        marked = f"Each place in the text has its share of its word's log-odds:\n{self.marked_text()}"
        text = [marked if self.marks else self.marked_text()] if self.text else []
        return "\n\n".join([self.without_text(), *text])

    __repr__ = __str__

    def without_text(self) -> str:
        """Return the sum as tables for a terminal."""
        heads = tuple(one_line(head, 18) for head in self._heads)
        table = columns(heads, [(one_line(word, 20), *numbers) for word, *numbers in self._rows(SHOWN)])
        known = [] if self.words else [NOTHING_KNOWN]
        return "\n\n".join([one_line(self._summary), *known, *([self._topics()] if self.topics else []), table])

    def _topics(self) -> str:
        return columns(*self._topic_rows(48))

    def _topic_rows(self, width: int | None = None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return heads and rows of a table of topics, with their parts where there are any."""
        shown, summed = self.topics[:TOPICS], any(t.part is not None for t in self.topics)
        parts = [(f"{t.part:+.3f}",) if t.part is not None else () for t in shown]
        rows = [(one_line(t.topic, width), f"{t.share:.0%}", *part) for t, part in zip(shown, parts, strict=True)]
        return ("topic", "of the document", *(("log-odds",) if summed else ())), rows

    def _repr_html_(self) -> str:
        topics = html_table(*self._topic_rows())
        words = html_table(self._heads, self._rows(SHOWN))
        text = f'<p class="text" style="white-space:pre-wrap">{self.html_text()}</p>' if self.text else ""
        key = (
            f'<p class="key"><mark style="color:inherit;background:rgba({FOR},.5)">for {cell(self.label)}</mark> '
            f'<mark style="color:inherit;background:rgba({AGAINST},.5)">for {cell(self.against)}</mark></p>'
        )
        head = f"<p>{cell(self._summary)}</p>" + ("" if self.words else f"<p>{cell(NOTHING_KNOWN)}</p>")
        return f'<div class="sdem">{head}{topics if self.topics else ""}{key if text else ""}{text}{words}</div>'


def _probability(log_p: float) -> str:
    """Return e to the power, or nothing for a model without p(word | class)."""
    return "" if np.isnan(log_p) else f"{np.exp(log_p):.2e}"


class Explanations(list[Explanation]):
    """Explanations that a notebook and a terminal show one after another."""

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "<hr>".join(explanation._repr_html_() for explanation in self)


_PLAIN = (
    "label",
    "against",
    "probability",
    "probability_against",
    "log_odds",
    "prior",
    "offset",
    "offset_name",
    "temperature",
    "text",
)


class DocumentParts(NamedTuple):
    """What a model says of one document, class against class, before words have names."""

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


def word_parts(names: Sequence[str], found: DocumentParts) -> tuple[WordPart, ...]:
    """Return the words of a document, the largest part first."""
    order = np.argsort(-np.abs(found.parts), kind="stable")
    values = (found.weights, found.log_p, found.log_p_against, found.parts)
    return tuple(
        WordPart(names[i], *(float(column[i]) for column in values))  # type: ignore[call-arg]
        for i in order.tolist()
    )
