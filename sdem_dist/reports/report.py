"""What all reports are: figures over documents, tables, plain values, and a pandas table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.glossary import named
from sdem_dist.reports.table import Table, cell

if TYPE_CHECKING:
    import pandas as pd

    from sdem_dist.corpus.manifest import Header

MAX_ROWS = 60
"""Classes, or labels, that a table or a picture shows."""
NAME_WIDTH = 24
"""Characters of a class, or a label, at a terminal."""


class Report(ABC):
    """Figures and tables about documents, for a terminal, a notebook, pandas and JSON."""

    @property
    @abstractmethod
    def n_documents(self) -> int:
        """Documents."""

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
