"""Lines without a header: columns that TABs separate, such as ``label<TAB>text``, or one text each."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.counted import counted
from sdem_dist.errors import IngestError
from sdem_dist.kernels.lines import lines, tab_fields
from sdem_dist.text.files import LineBlock, Part, line_blocks
from sdem_dist.text.texts import ROLES, Columns, RecordBatch, Texts, arrow_of_texts
from sdem_dist.text.validation import NoLabelError, Problems, not_unicode

if TYPE_CHECKING:
    import pyarrow

_HEADINGS = frozenset(
    {"label", "labels", "class", "category", "target", "text", "texts", "document", "review", "sentence"}
)
_N_COLUMNS, _GOOD, _LABEL, _TEXT = 2, 3, 4, 6


def read_tab_lines(
    path: Path,
    encoding: str,
    columns: Columns,
    block_documents: int,
    part: Part | None = None,
    *,
    whole: bool | None = False,
) -> Iterator[RecordBatch]:
    """Yield lines.

    A blank line is an empty text where lines are texts, and passed over where they have columns.

    `columns`: numbers from 0, or from the end if negative. Without numbers of label and text every line must have
    exactly two columns, label and text. With more columns nothing is guessed, since one of them may give the label
    away. If all columns are kept, all lines have as many as the first.
    `whole`: whole lines are texts, if no number is given. None: unless the first line that is not blank has two
    columns, which are then label and text, as they are where documents have labels. A warning says so.
    Raises IngestError: a column is not a number, or there are ids beside whole lines.
    """
    bounds = np.empty((block_documents, 8), np.int64)
    blocks = line_blocks(path, encoding, part)
    if whole is None:
        first = list(islice(blocks, 1))
        whole = _are_texts(path, first)
        blocks = chain(first, blocks)
    reader = _Lines(path, columns, whole, is_start=part is None or part[0] == 0)
    for block in blocks:
        start = 0
        while start < block.size:
            n_lines, start = lines(block.data, start, reader.label or 0, reader.text or 0, bounds)
            yield reader.batch(block, bounds[:n_lines].copy())


def whole_lines(path: Path, encoding: str) -> bool:
    """Say whether whole lines of a file are texts where no number is given; a warning says if not."""
    return _are_texts(path, list(islice(line_blocks(path, encoding), 1)))


def _are_texts(path: Path, first: list[LineBlock]) -> bool:
    if not first:
        return True
    rows = (line for line in first[0].raw[: first[0].size].split(b"\n", 100) if line.strip())
    if next(rows, b"").count(b"\t") != 1:
        return True
    where = "standard input" if str(path) == "-" else path
    warnings.warn(
        f"{where}: its first line is label TAB text, so what follows the TAB is taken as the text of each line; "
        "--format lines takes whole lines",
        stacklevel=3,
    )
    return False


class _Lines:
    """Finds the columns of lines, in order."""

    def __init__(self, path: Path, columns: Columns, whole: bool, *, is_start: bool) -> None:
        text = columns.text
        if isinstance(text, str) and "," in text:
            text = tuple(text.split(","))
        numbers = [column_number(path, name) for name in (text if isinstance(text, tuple) else (text,))]
        given = {role: column_number(path, getattr(columns, role)) for role in ROLES}
        chosen = whole or given["label"] is not None or text is not None
        self._others = {role: number for role in ROLES[1:] if (number := given[role]) is not None}
        if whole and text is None and self._others:
            raise IngestError(
                f"{path}: --{next(iter(self._others))} names a column of the lines, so name that of the text, too "
                "(--text NUMBER)"
            )
        self._path, self._labelled, self._is_start = path, columns.labelled, is_start
        self.label = (given["label"] or 0) if columns.labelled else None
        self.text = numbers[0] if whole or text is not None else 1
        self._more_texts = [int(number or 0) for number in numbers[1:]]
        self._keep = columns.keep and self.text is not None
        self._n_columns = None if chosen else 2
        if self._keep and columns.known is not None:
            self._n_columns = len(columns.known)
        self._n_lines = 0

    def batch(self, block: LineBlock, bounds: np.ndarray) -> RecordBatch:
        n_columns, good = bounds[:, _N_COLUMNS], bounds[:, _GOOD] == 1
        if self.text is not None:
            good &= bounds[:, _TEXT] >= 0
            for row in np.flatnonzero(good & (n_columns == 1)).tolist():
                good[row] = bool(block.text(int(bounds[row, 0]), int(bounds[row, 1])).strip())
            if self._labelled:
                good &= bounds[:, _LABEL] >= 0
            if self._keep and self._n_columns is None:
                self._n_columns = self._first_width(block, bounds[good])
        for number in (*self._others.values(), *self._more_texts):
            good &= n_columns >= (-number if number < 0 else number + 1)
        if self._n_columns is not None:
            good &= n_columns == self._n_columns
        problems: Problems = {row: self._problem(block, bounds[row]) for row in np.flatnonzero(~good).tolist()}
        numbers = np.arange(self._n_lines + 1, self._n_lines + 1 + len(bounds))
        self._n_lines += len(bounds)
        if numbers[:1] == 1 and self._is_start and self._labelled and good[0]:
            self._warn_of_header(block, bounds[0])
        first = 0 if self.text is None else _TEXT
        texts: list[Texts | list[object] | pyarrow.Array] = [Texts(block.data, bounds[:, first], bounds[:, first + 1])]
        roles: dict[str, list[object] | Texts | pyarrow.Array] = {}
        if self._labelled:
            raw, places = block.raw, bounds[:, _LABEL : _LABEL + 2].tolist()
            roles["label"] = [raw[start:stop] for start, stop in places]
        if self._others or self._more_texts:
            cells = [block.text(start, stop).split("\t") for start, stop in bounds[:, :2].tolist()]

            def column(number: int) -> list[object]:
                return [row[number] if ok else None for row, ok in zip(cells, good.tolist(), strict=True)]

            texts += [column(number) for number in self._more_texts]
            roles |= {role: column(number) for role, number in self._others.items()}
        beside = {}
        if self._keep:
            beside = {self._name(i): column for i, column in enumerate(self._all_columns(block, bounds, good))}
        return RecordBatch(texts, roles, numbers, "line", beside, problems, escaped=block.escaped, are_valid=True)

    def _all_columns(self, block: LineBlock, bounds: np.ndarray, good: np.ndarray) -> list[pyarrow.Array]:
        """Return all columns of lines, nothing of those that are not good; none before a line has shown how many."""
        starts, stops = np.zeros((2, self._n_columns or 0, len(bounds)), np.int64)
        rows = np.flatnonzero(good)
        if len(rows):
            some = np.empty((2, self._n_columns or 0, len(rows)), np.int64)
            tab_fields(block.data, bounds[rows, 0], bounds[rows, 1], *some)
            starts[:, rows], stops[:, rows] = some
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

    def _problem(self, block: LineBlock, bounds: np.ndarray) -> tuple[str, type[IngestError]] | None:
        """Return why a line is no document, None if it is blank."""
        line = block.text(int(bounds[0]), int(bounds[1]))
        n = line.count("\t") + 1
        if self.text is not None and n == 1 and not line.strip():
            return None
        if (problem := not_unicode(line)) is not None:
            return f"the line has {problem}", IngestError
        if self._n_columns not in (None, n):
            if self._labelled and n == 1:
                return "there is no TAB between a label and a text", NoLabelError
            choose = "--label NUMBER --text NUMBER, from 0"
            if not self._labelled:
                choose = "--text NUMBER, from 0; --format lines takes whole lines"
            return f"{counted(n, 'column')} instead of {self._n_columns}; choose with {choose}", IngestError
        wanted = [self.label, self.text, *self._others.values(), *self._more_texts]
        missing = max(c for c in wanted if c is not None and not -n <= c < n)
        return f"{counted(n, 'column')}, so there is no column {missing} (from 0)", IngestError

    def _warn_of_header(self, block: LineBlock, bounds: np.ndarray) -> None:
        label, text = (block.text(*bounds[[i, i + 1]].tolist()) for i in (_LABEL, _TEXT))
        if _HEADINGS & {label.strip().lower(), text.strip().lower()}:
            warnings.warn(
                f"{self._path}, line 1: it looks like a header ({label!r:.40}, {text!r:.40}), and is read as a document: such "
                "files have none; remove the line, or say that there is one (--header)",
                stacklevel=2,
            )


def column_number(source: Path, wanted: str | int | None) -> int | None:
    """Return the number of a column of a source without a header; IngestError for a name."""
    try:
        return None if wanted is None else int(wanted)
    except ValueError:
        raise IngestError(
            f"{source}: it has no header, so a column is a number from 0, not {wanted!r}; a file with a header is CSV, or "
            "read with --header"
        ) from None
