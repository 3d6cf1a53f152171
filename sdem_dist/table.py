"""Tables as text, HTML and Markdown; texts from documents are escaped in each."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from sdem_dist.counted import one_line, visible

if TYPE_CHECKING:
    from sdem_dist.corpus.manifest import Header

_OF_MARKDOWN = re.compile(r"([\\`*_{}\[\]#|~$])")


class Html(str):
    """A cell that already is HTML."""


def cell(text: object) -> str:
    """Return a text as HTML, with escaped control characters; `Html` stays unchanged."""
    return text if isinstance(text, Html) else escape(visible(text), quote=True)


def markdown(text: object) -> str:
    """Return a text that Markdown shows literally, on one line."""
    line = _OF_MARKDOWN.sub(r"\\\1", one_line(text))
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@dataclass(frozen=True)
class Table:
    """Rows under headings."""

    heads: Sequence[str]  # headings; no line of headings if empty, or all ""
    rows: Sequence[Sequence[object]]  # cells: texts, or objects that `str` converts
    caption: str = ""  # above the table
    note: str = ""  # below the table
    left: Collection[int] = (0,)  # left-aligned columns; others are right-aligned
    widths: Mapping[int, int] = field(default_factory=dict)  # most characters of columns as text; 0 omits a column
    bars: Collection[int] = ()  # columns of numbers from 0 to 1, shown as bars in HTML

    def text(self) -> str:
        lines = [self.heads, *self.rows] if any(self.heads) else self.rows
        cells = [[one_line(c, self.widths.get(i)) for i, c in enumerate(line)] for line in lines]
        columns = []
        for i, column in enumerate(zip(*cells, strict=True)):
            size = max(map(len, column))
            if self.widths.get(i) != 0:
                columns.append([c.ljust(size) if i in self.left else c.rjust(size) for c in column])
        body = "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))
        caption = f"{one_line(self.caption)}:" if self.caption else ""
        return "\n\n".join(part for part in (caption, body, visible(self.note)) if part)

    def html(self) -> str:
        head = f"<thead>{self._html_row('th', self.heads)}</thead>" if any(self.heads) else ""
        body = "".join(self._html_row("td", row) for row in self.rows)
        caption = f"<caption>{cell(self.caption)}</caption>" if self.caption else ""
        note = f"<p>{cell(self.note)}</p>" if self.note else ""
        return f'<div class="wide"><table>{caption}{head}<tbody>{body}</tbody></table></div>{note}'

    def _html_row(self, tag: str, row: Sequence[object]) -> str:
        cells = []
        for i, value in enumerate(row):
            style = "text-align:left" if i in self.left else "text-align:right;white-space:nowrap"
            content = cell(value)
            if tag == "td" and i in self.bars:
                end = f"{100 * float(str(value)):.1f}%"
                style += f";background:linear-gradient(90deg,rgba(86,180,233,.45) {end},transparent {end})"
            cells.append(f'<{tag} style="{style}">{content}</{tag}>')
        return f"<tr>{''.join(cells)}</tr>"

    def markdown(self) -> str:
        heads = self.heads or [""] * len(self.rows[0])
        lines = [map(markdown, heads), ["---"] * len(heads), *(map(markdown, row) for row in self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


CLASSES_LISTED = 20  # most classes of a corpus to list, largest first


def corpus_as_html(path: str, header: Header, has_texts: bool) -> str:
    sizes = sorted(header.documents_by_label.items(), key=lambda pair: -pair[1])
    more = f" and {len(sizes) - CLASSES_LISTED} more" if len(sizes) > CLASSES_LISTED else ""
    classes = ", ".join(f"{name} {n:,}" for name, n in sizes[:CLASSES_LISTED]) + more
    size = f"{header.n_features:,}, {header.layout}, {header.n_nonzeros:,} entries"
    rows = {"documents": f"{header.n_documents:,}", "features": size, "targets": f"{header.n_targets or ''}"}
    rows |= {"classes" if header.label_sets is None else "labels": classes, "texts": "kept" if has_texts else ""}
    return f"<p>Corpus {cell(path)}</p>{Table((), [row for row in rows.items() if row[1]], left=(0, 1)).html()}"
