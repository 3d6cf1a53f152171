"""Why a document got its number rather than the mean: the difference as a sum over its words, or columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sdem_dist.reports.explanation import NOTHING_KNOWN, SHOWN, TOPICS, DocumentParts, TopicPart
from sdem_dist.reports.html import cell, html_table
from sdem_dist.reports.marked_text import AGAINST, FOR, MarkedText
from sdem_dist.storage.numbers import null_for_nan
from sdem_dist.visible import columns, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd


class NumberPart(NamedTuple):
    """What a word, or a column, adds to a predicted number."""

    word: str
    weight: float
    """Its count, or the column's value."""
    part: float
    """Of the prediction, in units of the target."""


@dataclass(frozen=True)
class NumberExplanation(MarkedText):
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
    """

    prediction: float
    mean: float
    offset: float
    offset_name: str
    words: tuple[NumberPart, ...]
    topics: tuple[TopicPart, ...] = ()
    text: str | None = None
    marks: tuple[tuple[int, int, float], ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as JSON can hold them."""
        plain = ("prediction", "mean", "offset", "offset_name", "text")
        found = {
            **{name: getattr(self, name) for name in plain},
            "topics": [t._asdict() for t in self.topics],
            "words": [w._asdict() for w in self.words],
            "marks": list(self.marks),
        }
        return dict(null_for_nan(found))

    def to_frame(self) -> pd.DataFrame:
        """Return the words with their parts, as a pandas table."""
        import pandas as pd

        return pd.DataFrame(list(self.words), columns=list(NumberPart._fields))

    @property
    def _summary(self) -> str:
        return f"{self.prediction:.4g}, {self.prediction - self.mean:+.4g} from the mean of training, {self.mean:.4g}"

    def _rows(self) -> list[tuple[str, str, str]]:
        rest = self.words[SHOWN:]
        rows = [(w.word, f"{w.part:+.4g}", f"{w.weight:.4g}") for w in self.words[:SHOWN]]
        if rest:
            rows.append((f"{len(rest):,} more", f"{sum(w.part for w in rest):+.4g}", ""))
        if self.offset_name:
            rows.append((self.offset_name, f"{self.offset:+.4g}", ""))
        return rows

    def _topic_rows(self) -> list[tuple[str, str, str]]:
        return [(t.topic, f"{t.share:.0%}", f"{t.part:+.4g}") for t in self.topics[:TOPICS]]

    _heads = ("word or column", "adds", "value")
    _topic_heads = ("topic", "of the document", "adds")

    def __str__(self) -> str:
        marked = f"Each place in the text has its share of its word's part:\n{self.marked_text()}"
        return "\n\n".join(
            [self.without_text(), *([marked if self.marks else self.marked_text()] if self.text else [])]
        )

    __repr__ = __str__

    def without_text(self) -> str:
        """Return the sum as tables for a terminal."""
        known = [] if self.words else [NOTHING_KNOWN]
        topics = [(one_line(name, 48), *numbers) for name, *numbers in self._topic_rows()]
        table = columns(self._heads, [(one_line(word, 24), *numbers) for word, *numbers in self._rows()])
        return "\n\n".join([self._summary, *known, *([columns(self._topic_heads, topics)] if topics else []), table])

    def _repr_html_(self) -> str:
        topics = html_table(self._topic_heads, self._topic_rows()) if self.topics else ""
        text = f'<p class="text" style="white-space:pre-wrap">{self.html_text()}</p>' if self.text else ""
        key = (
            f'<p class="key"><mark style="color:inherit;background:rgba({FOR},.5)">more</mark> '
            f'<mark style="color:inherit;background:rgba({AGAINST},.5)">less</mark></p>'
        )
        head = f"<p>{cell(self._summary)}</p>" + ("" if self.words else f"<p>{cell(NOTHING_KNOWN)}</p>")
        words = html_table(self._heads, self._rows())
        return f'<div class="sdem">{head}{topics}{key if text else ""}{text}{words}</div>'


class NumberExplanations(list[NumberExplanation]):
    """Explanations that a notebook and a terminal show one after another."""

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "<hr>".join(explanation._repr_html_() for explanation in self)


def number_parts(names: Sequence[str], found: DocumentParts) -> tuple[NumberPart, ...]:
    """Return the words of a document, the largest part first."""
    order = np.argsort(-np.abs(found.parts), kind="stable").tolist()
    return tuple(NumberPart(names[i], float(found.weights[i]), float(found.parts[i])) for i in order)
