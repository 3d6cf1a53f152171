"""One table for a terminal, a page, Markdown and pandas; whatever comes from data is made harmless here."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from sdem_dist.visible import one_line, visible

if TYPE_CHECKING:
    import pandas as pd

_DOT_IN_NAME = re.compile(r"(?<=[^\W\d]\.)(?=[^\W\d])")
_OF_MARKDOWN = re.compile(r"([\\`*_{}\[\]#|~$])")


class Html(str):
    """A cell that is HTML already."""


def cell(text: object) -> str:
    """Return a text as HTML, with its control characters written out; `Html` as it is."""
    return text if isinstance(text, Html) else escape(visible(text), quote=True)


def bar(share: float) -> Html:
    """Return a number from 0 to 1 with a bar behind it."""
    width = max(0.0, min(share, 1.0)) * 100.0
    background = f"linear-gradient(90deg,rgba(86,180,233,.45) {width:.1f}%,transparent {width:.1f}%)"
    return Html(
        f'<span style="display:inline-block;min-width:4em;padding:0 .3em;background:{background}">{share:.3f}</span>'
    )


def markdown(text: object) -> str:
    """Return a text that Markdown shows letter by letter, on one line."""
    line = _OF_MARKDOWN.sub(r"\\\1", one_line(text))
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@dataclass(frozen=True)
class Table:
    """Rows under heads.

    Attributes
    ----------
    heads : sequence of str
        Empty, or all "": there is no line of heads.
    rows : sequence of sequences
        Cells are texts, or what `str` makes texts of.
    caption, note : str
        What stands above and below.
    left : collection of int
        Columns that stand to the left; the others are numbers.
    widths : mapping of int to int
        Most characters of a column at a terminal.
    bars : collection of int
        Columns of numbers from 0 to 1, behind which a page has bars.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    note: str = ""
    left: Collection[int] = (0,)
    widths: Mapping[int, int] = field(default_factory=dict)
    bars: Collection[int] = ()

    @property
    def _has_heads(self) -> bool:
        return any(self.heads)

    def text(self) -> str:
        """Return the table as aligned lines."""
        lines = [self.heads, *self.rows] if self._has_heads else self.rows
        cells = [[one_line(c, self.widths.get(i)) for i, c in enumerate(line)] for line in lines]
        sizes = [max(map(len, column)) for column in zip(*cells, strict=True)]
        aligned = (
            "  ".join(
                c.ljust(size) if i in self.left else c.rjust(size)
                for i, (c, size) in enumerate(zip(line, sizes, strict=True))
            )
            for line in cells
        )
        body = "\n".join(line.rstrip() for line in aligned)
        caption = f"{one_line(self.caption)}:" if self.caption else ""
        return "\n\n".join(part for part in (caption, body, visible(self.note)) if part)

    def html(self) -> str:
        """Return the table for a page or a notebook."""
        heads = "".join(self._html_cell("th", i, head) for i, head in enumerate(self.heads))
        rows = ("".join(self._html_cell("td", i, c) for i, c in enumerate(row)) for row in self.rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        head = f"<thead><tr>{heads}</tr></thead>" if self._has_heads else ""
        caption = f"<caption>{cell(self.caption)}</caption>" if self.caption else ""
        note = f"<p>{cell(self.note)}</p>" if self.note else ""
        return f'<div class="wide"><table>{caption}{head}<tbody>{body}</tbody></table></div>{note}'

    def _html_cell(self, tag: str, column: int, value: object) -> str:
        if column in self.left:
            shown = value if isinstance(value, Html) else _DOT_IN_NAME.sub("<wbr>", cell(value))
            return f'<{tag} style="text-align:left">{shown}</{tag}>'
        shown = bar(float(str(value))) if tag == "td" and column in self.bars else cell(value)
        return f'<{tag} style="text-align:right;white-space:nowrap">{shown}</{tag}>'

    def markdown(self) -> str:
        """Return the table as Markdown has it."""
        heads = self.heads or [""] * len(self.rows[0])
        lines = [heads, ["---"] * len(heads), *([markdown(c) for c in row] for row in self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def frame(self) -> pd.DataFrame:
        """Return the table for pandas."""
        import pandas as pd

        return pd.DataFrame([list(row) for row in self.rows], columns=list(self.heads) or None)
