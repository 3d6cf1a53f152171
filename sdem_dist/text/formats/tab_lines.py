"""Lines without a header: columns that TABs separate, such as ``label<TAB>text``, or one text each."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.errors import IngestError
from sdem_dist.kernels.cells import tab_fields
from sdem_dist.kernels.lines import lines
from sdem_dist.text.files import LineBlock, Part, line_blocks
from sdem_dist.text.texts import Columns, Records, Texts, arrow_of_texts
from sdem_dist.text.validation import NoLabelError, RowValidator, not_unicode

if TYPE_CHECKING:
    import pyarrow

_HEADINGS = frozenset(
    {"label", "labels", "class", "category", "target", "text", "texts", "document", "review", "sentence"}
)
MOST_NAMES = 10_000  # of classes; numbers may be as many as lines
FIRST_LINES = 1024  # looked at one by one: they have nearly all names of classes
_N_COLUMNS, _GOOD, _LABEL, _TEXT = 2, 3, 4, 6


def read_tab_lines(
    path: Path,
    encoding: str,
    gate: RowValidator,
    columns: Columns,
    block_documents: int,
    part: Part | None = None,
    *,
    whole: bool | None = False,
) -> Iterator[Records]:
    """Yield the documents of lines.

    A blank line is an empty text where lines are texts, and passed over where they have columns.

    `columns`: numbers from 0, or from the end if negative. Without numbers of label and text every line must have
    exactly two columns, label and text. With more columns nothing is guessed, since one of them may give the label
    away. If all columns are kept, all lines have as many as the first.
    `block_documents`: lines of a block at most.
    `part`: see `line_blocks`; `gate` knows where it begins.
    `whole`: whole lines are texts, if no number is given. None: unless the first line that is not blank has two
    columns, which are then label and text, as they are where documents have labels. A warning says so.
    Raises IngestError: a column is not a number, or there are ids beside whole lines, or `gate` does not let a line
    pass.
    """
    bounds = np.empty((block_documents, 8), np.int64)
    blocks = line_blocks(path, encoding, part)
    if whole is None:
        known = list(islice(blocks, 1))
        whole = _are_texts(path, known)
        blocks = chain(known, blocks)
    reader = _Lines(path, gate, columns, whole)
    for block in blocks:
        start, data = 0, block.data
        while start < len(data):
            n_lines, start = lines(data, start, reader.label or 0, reader.text or 0, bounds)
            yield reader.documents(block, bounds[:n_lines].copy())


def whole_lines(path: Path, encoding: str) -> bool:
    """Say whether whole lines of a file are texts where no number is given; a warning says if not."""
    return _are_texts(path, list(islice(line_blocks(path, encoding), 1)))


def _are_texts(path: Path, first: list[LineBlock]) -> bool:
    if not first or not _has_label(first[0]):
        return True
    where = "standard input" if str(path) == "-" else path
    warnings.warn(
        f"{where}: its first line is label TAB text, so what follows the TAB is taken as the text of each line; "
        "--format lines takes whole lines",
        stacklevel=3,
    )
    return False


def _has_label(block: LineBlock) -> bool:
    """Say whether the first line that is not blank has two columns."""
    lines = (line for line in block.raw[: block.size].split(b"\n", 100) if line.strip())
    return next(lines, b"").count(b"\t") == 1


class _Lines:
    """Checks lines, in order."""

    def __init__(self, path: Path, gate: RowValidator, columns: Columns, whole: bool) -> None:
        label, text, self._ids = (column_number(path, wanted) for wanted in (columns.label, columns.text, columns.id))
        chosen = whole or label is not None or text is not None
        if whole and text is None and self._ids is not None:
            raise IngestError(
                f"{path}: --id names a column of the lines, so name that of the text, too (--text NUMBER)"
            )
        self._path, self._gate, self._labelled, self._keep = path, gate, columns.labelled, columns.keep
        self.label = (label or 0) if columns.labelled else None
        self.text = text if whole or text is not None else 1
        self._keep &= self.text is not None
        self._n_columns = None if chosen else 2
        if self._keep and columns.known is not None:
            self._n_columns = len(columns.known)
        self._n_lines = 0
        self._names: dict[bytes, str] = {}  # that passed the gate

    def documents(self, block: LineBlock, bounds: np.ndarray) -> Records:
        """Return the documents of consecutive lines."""
        n_columns, good = bounds[:, _N_COLUMNS], bounds[:, _GOOD] == 1
        if self.text is not None:
            good &= (bounds[:, _LABEL] >= 0) & (bounds[:, _TEXT] >= 0)
            if self._keep and self._n_columns is None:
                self._n_columns = self._first_width(block, bounds[good])
            good &= n_columns > 1  # else it may be blank
        if self._ids is not None:
            good &= n_columns >= (-self._ids if self._ids < 0 else self._ids + 1)
        if self._n_columns is not None:
            good &= n_columns == self._n_columns
        kept = good.copy()
        labels = self._labels(block, bounds, good, kept) if self._labelled else []
        for i in () if self._labelled else np.flatnonzero(~good).tolist():
            kept[i] = self._columns(block, bounds[i], self._n_lines + i + 1) is not None
        self._n_lines += len(bounds)
        bounds = bounds[kept]
        first = 0 if self.text is None else _TEXT
        found = Records(Texts(block.data, bounds[:, first].copy(), bounds[:, first + 1].copy()), labels)
        if self._keep:
            columns = self._beside(block, bounds)
            ids: list[object] | None = None if self._ids is None or not columns else columns[self._ids].to_pylist()
            found = replace(found, ids=ids, columns={self._name(i): column for i, column in enumerate(columns)})
        elif self._ids is not None:
            lines_of_ids = (block.text(start, stop).split("\t") for start, stop in bounds[:, :2].tolist())
            found = replace(found, ids=[fields[self._ids] for fields in lines_of_ids])
        return found

    def _beside(self, block: LineBlock, bounds: np.ndarray) -> list[pyarrow.Array]:
        """Return all columns of lines; there are none before a line has shown how many."""
        starts, stops = np.empty((2, self._n_columns or 0, len(bounds)), np.int64)
        if len(bounds):
            tab_fields(block.data, bounds[:, 0].copy(), bounds[:, 1].copy(), starts, stops)
        return [arrow_of_texts(Texts(block.data, *column)) for column in zip(starts, stops, strict=True)]

    def _name(self, column: int) -> str:
        """Return what a column is called beside answers, as `sdem evaluate --errors` calls it."""
        n, text = self._n_columns or 0, self.text or 0
        if column == (text + n if text < 0 else text):
            return "text"
        return "label" if n == 2 and column == 0 else f"column_{column}"

    @staticmethod
    def _first_width(block: LineBlock, bounds: np.ndarray) -> int | None:
        """Return how many columns the first line has that is not blank."""
        for row in bounds.tolist():
            if row[_N_COLUMNS] > 1 or block.text(*row[:2]).strip():
                return int(row[_N_COLUMNS])
        return None

    def _labels(self, block: LineBlock, bounds: np.ndarray, good: np.ndarray, kept: np.ndarray) -> list[str]:
        """Return the labels of lines, and mark in `kept` those that stay."""
        raw, names = block.raw, self._names
        n = 0 if self._n_lines else min(FIRST_LINES, len(bounds))
        labels = self._checked_labels(block, bounds, good, kept, range(n))
        if good[n:].all():
            pairs = zip(bounds[n:, _LABEL].tolist(), bounds[n:, _LABEL + 1].tolist(), strict=True)
            known = [names.get(raw[start:stop]) for start, stop in pairs]
            if None not in known:
                return labels + cast("list[str]", known)
        return labels + self._checked_labels(block, bounds, good, kept, range(n, len(bounds)))

    def _checked_labels(
        self, block: LineBlock, bounds: np.ndarray, good: np.ndarray, kept: np.ndarray, lines: range
    ) -> list[str]:
        """Return the labels of some lines as `_labels` does, one by one."""
        raw, names, some = block.raw, self._names, slice(lines.start, lines.stop)
        labels: list[str] = []
        columns_of = (good[some], bounds[some, _LABEL], bounds[some, _LABEL + 1])
        for i, fine, start, stop in zip(lines, *(column.tolist() for column in columns_of), strict=True):
            name = names.get(raw[start:stop]) if fine else None
            number = self._n_lines + i + 1
            if name is None or number == 1:
                columns = self._columns(block, bounds[i], number)
                name = None if columns is None else self._label(columns, number)
                kept[i] = name is not None
                if name is None:
                    continue
                if len(names) < MOST_NAMES:
                    names[raw[start:stop]] = name
            labels.append(name)
        return labels

    def _columns(self, block: LineBlock, bounds: np.ndarray, number: int) -> list[str] | None:
        """Return the columns of a line, or None if it is blank or refused."""
        line = block.text(int(bounds[0]), int(bounds[1]))
        columns = line.split("\t")
        if self.text is not None and len(columns) == 1 and not line.strip():
            return None
        n, problem, kind = len(columns), not_unicode(line), IngestError
        wanted = [c for c in (self.label, self.text, self._ids) if c is not None]
        if problem is not None:
            problem = f"the line has {problem}"
        elif self._n_columns not in (None, n):
            choose = "--label NUMBER --text NUMBER, from 0"
            if not self._labelled:
                choose = "--text NUMBER, from 0; --format lines takes whole lines"
            problem = f"{counted(n, 'column')} instead of {self._n_columns}; choose with {choose}"
            if self._labelled and n == 1:
                problem, kind = "there is no TAB between a label and a text", NoLabelError
        elif missing := [c for c in wanted if not -n <= c < n]:
            problem = f"{counted(n, 'column')}, so there is no column {max(missing)} (from 0)"
        if problem is not None:
            self._gate.reject(self._path, number, problem, kind=kind)
        return columns if problem is None else None

    def _label(self, columns: list[str], number: int) -> str | None:
        label, text = self.label or 0, self.text or 0
        if (
            number == 1
            and not self._gate.start
            and _HEADINGS & {columns[wanted].strip().lower() for wanted in (label, text)}
        ):
            warnings.warn(
                f"{self._path}, line 1: it looks like a header ({columns[label]!r:.40}, {columns[text]!r:.40}), and is read "
                "as a document: such files have none; remove the line",
                stacklevel=2,
            )
        return self._gate.label(self._path, number, columns[label])


def column_number(source: Path, wanted: str | int | None) -> int | None:
    """Return the number of a column of a source without a header; IngestError for a name."""
    try:
        return None if wanted is None else int(wanted)
    except ValueError:
        raise IngestError(
            f"{source}: it has no header, so a column is a number from 0, not {wanted!r}; a file with a header is CSV"
        ) from None
