"""What explanations share: a sum over the words of a document, as tables for a terminal and a notebook."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

from sdem_dist.counted import counted
from sdem_dist.reports.html import cell, html_table
from sdem_dist.reports.marked_text import AGAINST, FOR, MarkedText
from sdem_dist.storage.numbers import null_for_nan
from sdem_dist.visible import columns, one_line

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

SHOWN, TOPICS = 12, 5
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


class Explained(MarkedText):
    """A sum over words that can be shown; the fields and their names are those of a dataclass."""

    words: Sequence[NamedTuple]
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
    def _heads(self) -> tuple[str, ...]: ...

    @property
    @abstractmethod
    def _sides(self) -> tuple[str, str]:
        """Return what the colours of the text stand for."""

    @abstractmethod
    def _rows(self) -> Rows:
        """Return the table of words, the first of each row not yet cut."""

    @abstractmethod
    def _topic_table(self) -> tuple[tuple[str, ...], Rows]:
        """Return heads and rows of the topics."""

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
        more = len(self.unknown) - SHOWN
        shown = ", ".join(one_line(word, self._word_width) for word in self.unknown[:SHOWN])
        return f"Unknown to the model: {shown}{f' and {more:,} more' if more > 0 else ''}"

    def without_text(self) -> str:
        """Return the sum as tables for a terminal."""
        known = [note for note in (self._unknown_words, "" if self.words else NOTHING_KNOWN) if note]
        topic_heads, topics = self._topic_table()
        topic_table = [columns(topic_heads, _cut(topics, 48))] if topics else []
        heads = tuple(one_line(head, 18) for head in self._heads)
        table = columns(heads, _cut(self._rows(), self._word_width))
        return "\n\n".join([one_line(self._summary), *known, *topic_table, table])

    def _repr_html_(self) -> str:
        topics = html_table(*self._topic_table()) if self.topics else ""
        text = f'<p class="text" style="white-space:pre-wrap">{self.html_text()}</p>' if self.text else ""
        marks = (
            f'<mark style="color:inherit;background:rgba({color},.5)">{cell(side)}</mark>'
            for color, side in zip((FOR, AGAINST), self._sides, strict=True)
        )
        key = f'<p class="key">{" ".join(marks)}</p>' if text else ""
        head = f"<p>{cell(self._summary)}</p>" + ("" if self.words else f"<p>{cell(NOTHING_KNOWN)}</p>")
        head += f"<p>{cell(self._unknown_words)}</p>" if self.unknown else ""
        return f'<div class="sdem">{head}{topics}{key}{text}{html_table(self._heads, self._rows())}</div>'


Kind = TypeVar("Kind", bound=Explained)


class ExplainedDocuments(list[Kind]):
    """Explanations that a notebook and a terminal show one after another."""

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "<hr>".join(explanation._repr_html_() for explanation in self)


def _cut(rows: Rows, width: int) -> Rows:
    return [(one_line(name, width), *numbers) for name, *numbers in rows]
