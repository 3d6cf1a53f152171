"""What all reports are: figures over documents, and tables of them as text, HTML, Markdown or pandas."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.counted import counted, one_line, visible
from sdem_dist.glossary import named

if TYPE_CHECKING:
    import pandas as pd

    from sdem_dist.corpus.manifest import Header


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


MAX_ROWS = 60
"""Classes, or labels, that a table or a picture shows."""
NAME_WIDTH = 24
"""Characters of a class, or a label, at a terminal."""


class Report(ABC):
    """Figures and tables about documents, for a terminal, a notebook, pandas and JSON."""

    positions: np.ndarray

    @property
    def n_documents(self) -> int:
        """Documents that are reported on."""
        return len(self.positions)

    @property
    @abstractmethod
    def figures(self) -> dict[str, float]:
        """Figures over all documents by name."""

    @abstractmethod
    def tables(self) -> list[Table]:
        """Return the tables that are shown."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON can hold them."""

    @abstractmethod
    def _columns(self) -> tuple[str, Any, dict[str, Any]]:
        """Return what rows are (class, topic), their names, and the columns of `to_frame`."""

    def to_frame(self) -> pd.DataFrame:
        """Return all classes, labels, targets, clusters or topics with their figures, as a pandas table."""
        import pandas as pd

        kind, names, columns = self._columns()
        return pd.DataFrame(columns, index=pd.Index(names, name=kind))

    def figure_table(self) -> Table:
        """Return `figures` as a table."""
        return Table((), [(name, f"{value:.4f}") for name, value in named(self.figures).items()])

    def details(self) -> str:
        """Return the tables for a terminal."""
        return "\n\n".join(table.text() for table in self.tables())

    @property
    def heading(self) -> str:
        """What the report is about, in a line."""
        return counted(self.n_documents, "document")

    def __str__(self) -> str:
        parts = (self.heading, self.figure_table().text(), self.details())
        return "\n\n".join(part for part in parts if part)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tables = [self.figure_table()] if self.figures else []
        return f'<div class="sdem">{"".join(table.html() for table in [*tables, *self.tables()])}</div>'


def by_class_table(
    kind: str, names: np.ndarray, columns: dict[str, np.ndarray], n_wrong: np.ndarray, occurs: np.ndarray
) -> Table:
    """Return figures by class or label, the lowest F1 first; of very many those with most errors.

    `columns`: precision, recall, F1 and number of documents, and perhaps more, by head.
    `n_wrong`: shape (n_classes,): documents of the class that were not found, and others that were taken for it.
    `occurs`: shape (n_classes,), bool: classes that the table could show.
    """
    f1, support = columns["F1"], columns["documents"]
    rows = most_wrong(n_wrong, support)
    rows = rows[occurs[rows]]
    rows = rows[np.lexsort((-support[rows], f1[rows]))]
    caption, left_out = f"By {kind}, lowest F1 first", int(occurs.sum()) - len(rows)
    if left_out:
        caption = (
            f"By {kind}, the {len(rows)} with most errors, lowest F1 first; {counted(left_out, 'other')} "
            f"({counted(int(support.sum() - support[rows].sum()), 'document')}) are in to_frame() and in sdem evaluate "
            "--report --json"
        )
    cells = [
        (names[k], *(f"{c[k]:,}" if c.dtype.kind == "i" else f"{c[k]:.3f}" for c in columns.values())) for k in rows
    ]
    return Table((kind, *columns), cells, caption, widths={0: NAME_WIDTH}, bars=[1 + list(columns).index("F1")])


def most_wrong(n_wrong: np.ndarray, n_documents: np.ndarray) -> np.ndarray:
    """Return the positions of the `MAX_ROWS` classes with most errors, of equals with most documents, ascending."""
    return np.sort(np.lexsort((-n_documents, -n_wrong))[:MAX_ROWS])


CLASSES_SHOWN = 20
"""The largest first."""


def corpus_as_html(path: str, header: Header, has_texts: bool) -> str:
    """Return what a corpus holds, as an HTML table."""
    sizes = sorted(header.documents_by_label.items(), key=lambda pair: -pair[1])
    more = f" and {len(sizes) - CLASSES_SHOWN} more" if len(sizes) > CLASSES_SHOWN else ""
    classes = ", ".join(f"{name} {n:,}" for name, n in sizes[:CLASSES_SHOWN]) + more
    entries = "values" if header.layout == "dense" else "nonzeros"
    rows = [
        ("documents", f"{header.n_documents:,}"),
        ("features", f"{header.n_features:,}"),
        *([("classes" if header.label_sets is None else "labels", classes)] if sizes else []),
        *([("targets", f"{header.n_targets}")] if header.n_targets else []),
        ("layout", f"{header.layout}, {header.n_nonzeros:,} {entries}"),
        ("texts", "kept" if has_texts else "not kept"),
    ]
    return f"<p>Corpus {cell(path)}</p>{Table((), rows, left=(0, 1)).html()}"
