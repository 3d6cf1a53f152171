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
from sdem_dist.text.sources import Reading
from sdem_dist.text.texts import RecordBatch, Texts, arrow_of_texts
from sdem_dist.text.validation import NoLabelError, Problems, not_unicode

if TYPE_CHECKING:
    import pyarrow

_HEADINGS = frozenset(
    {"label", "labels", "class", "category", "target", "text", "texts", "document", "review", "sentence"}
)
_N_COLUMNS, _GOOD, _LABEL, _TEXT = 2, 3, 4, 6  # columns of the bounds that the kernel fills


def read_lines(
    path: Path,
    reading: Reading,
    block_documents: int,
    part: Part | None = None,
    *,
    whole: bool | None = False,
    keep: bool | tuple[str, ...] = False,
) -> Iterator[RecordBatch]:
    """Yield lines.

    A blank line is an empty text where lines are texts, and passed over where they have columns. Columns are numbers
    from 0, or from the end if negative. Without numbers of label and text every line must have exactly two columns,
    label and text. With more columns nothing is guessed, since one of them may give the label away.

    `whole`: whole lines are texts, if no number is given. None: unless the first line that is not blank has two
    columns, which are then label and text, as they are where documents have labels. A warning says so.
    `keep`: keep all columns, of which lines then have as many as the first; or as these names, where a part is read.
    Raises IngestError: a column is not a number, or there are ids beside whole lines.
    """
    bounds = np.empty((block_documents, 8), np.int64)
    blocks = line_blocks(path, reading.encoding, part)
    if whole is None:
        first = list(islice(blocks, 1))
        whole = _are_texts(path, first)
        blocks = chain(first, blocks)
    reader = _Lines(path, reading, whole, keep)
    is_start = part is None or part[0] == 0
    for block in blocks:
        start = 0
        while start < block.size:
            n_lines, start = lines(block.data, start, reader.label or 0, reader.text or 0, bounds)
            yield reader.batch(block, bounds[:n_lines].copy(), is_start)
            is_start = False


def are_whole_lines(path: Path, encoding: str) -> bool:
    """Say whether whole lines of a file are texts where no number is given; a warning says if not."""
    return _are_texts(path, list(islice(line_blocks(path, encoding), 1)))


def _are_texts(path: Path, first: list[LineBlock]) -> bool:
    some = first[0].raw[: first[0].size].split(b"\n", 100) if first else []
    if next((line for line in some if line.strip()), b"").count(b"\t") != 1:
        return True
    warnings.warn(
        f"{'standard input' if str(path) == '-' else path}: its first line is label TAB text, so what follows the TAB is "
        "taken as the text of each line; --format lines takes whole lines",
        stacklevel=3,
    )
    return False


class _Lines:
    """Finds the columns of lines, in order. `label`, `text`: their numbers, None for no label and for whole lines."""

    def __init__(self, path: Path, reading: Reading, whole: bool, keep: bool | tuple[str, ...]) -> None:
        roles = {role: _number(path, name) for role, name in reading.roles.items() if role != "label"}
        if whole and reading.text is None and roles:
            raise IngestError(
                f"{path}: --{next(iter(roles))} names a column of the lines, so name that of the text, too (--text NUMBER)"
            )
        is_chosen = reading.text is not None
        texts = [_number(path, name) for name in reading.texts(())] if is_chosen else [1]
        self.label = _number(path, reading.label or 0) if reading.labelled else None
        self.text = None if whole and not is_chosen else texts[0]
        self._path, self._labelled, self._roles, self._more_texts = path, reading.labelled, roles, texts[1:]
        self._keep = bool(keep) and self.text is not None
        self._n_columns = None if whole or is_chosen or reading.label is not None else 2
        if self._keep and isinstance(keep, tuple):
            self._n_columns = len(keep)
        self._columns = [n for n in (self.label, self.text, *roles.values(), *self._more_texts) if n is not None]
        self._n_lines = 0

    def batch(self, block: LineBlock, bounds: np.ndarray, is_start: bool) -> RecordBatch:
        n_columns, good = bounds[:, _N_COLUMNS], bounds[:, _GOOD] == 1
        if self.text is not None:
            for column in self._columns:
                good &= n_columns >= (-column if column < 0 else column + 1)
            for row in np.flatnonzero(good & (n_columns == 1)).tolist():
                good[row] = bool(block.text(*bounds[row, :2].tolist()).strip())
            if self._keep and self._n_columns is None and good.any():
                self._n_columns = int(n_columns[good.argmax()])
        if self._n_columns is not None:
            good &= n_columns == self._n_columns
        problems: Problems = {row: self._problem(block, bounds[row]) for row in np.flatnonzero(~good).tolist()}
        numbers = np.arange(self._n_lines + 1, self._n_lines + 1 + len(bounds))
        self._n_lines += len(bounds)
        if is_start and self._labelled and good[0]:
            self._warn_of_header(block, bounds[0])
        first = 0 if self.text is None else _TEXT
        batch = RecordBatch([Texts(block.data, bounds[:, first], bounds[:, first + 1])], {}, numbers)
        batch.problems, batch.escaped, batch.are_valid = problems, block.escaped, True
        if self._labelled:
            batch.roles["label"] = [block.raw[a:b] for a, b in bounds[:, _LABEL : _LABEL + 2].tolist()]
        if self._roles or self._more_texts:
            cells = [block.text(start, stop).split("\t") for start, stop in bounds[:, :2].tolist()]

            def cells_of(number: int) -> list[object]:
                return [row[number] if ok else None for row, ok in zip(cells, good.tolist(), strict=True)]

            batch.texts += map(cells_of, self._more_texts)
            batch.roles |= {role: cells_of(number) for role, number in self._roles.items()}
        if self._keep:
            batch.beside = {self._name(i): column for i, column in enumerate(self._all_columns(block, bounds, good))}
        return batch

    def _all_columns(self, block: LineBlock, bounds: np.ndarray, good: np.ndarray) -> list[pyarrow.Array]:
        """Return all columns of lines, nothing of those that are not good; none before a line has told how many."""
        cells = np.zeros((2, self._n_columns or 0, len(bounds)), np.int64)
        rows = np.flatnonzero(good)
        if len(rows):
            some = np.empty((2, self._n_columns or 0, len(rows)), np.int64)
            tab_fields(block.data, bounds[rows, 0], bounds[rows, 1], *some)
            cells[:, :, rows] = some
        return [arrow_of_texts(Texts(block.data, *column)) for column in zip(*cells, strict=True)]

    def _name(self, column: int) -> str:
        """Return what a column is called beside answers, as `sdem evaluate --errors` calls it."""
        n, text = self._n_columns or 0, self.text or 0
        if column == (text + n if text < 0 else text):
            return "text"
        return "label" if n == 2 and column == 0 else f"column_{column}"

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
        missing = max(column for column in self._columns if not -n <= column < n)
        return f"{counted(n, 'column')}, so there is no column {missing} (from 0)", IngestError

    def _warn_of_header(self, block: LineBlock, bounds: np.ndarray) -> None:
        label, text = (block.text(*bounds[[i, i + 1]].tolist()) for i in (_LABEL, _TEXT))
        if _HEADINGS & {label.strip().lower(), text.strip().lower()}:
            warnings.warn(
                f"{self._path}, line 1: it looks like a header ({label!r:.40}, {text!r:.40}), and is read as a document: such "
                "files have none; remove the line, or say that there is one (--header)",
                stacklevel=2,
            )


def _number(source: Path, column: str | int) -> int:
    try:
        return int(column)
    except ValueError:
        raise IngestError(
            f"{source}: it has no header, so a column is a number from 0, not {column!r}; a file with a header is CSV, or "
            "read with --header"
        ) from None
