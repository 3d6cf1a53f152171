"""Comma-separated values with a header line: a kernel reads simple records; from the first other one on Python does."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from sdem_dist.errors import IngestError
from sdem_dist.kernels.code_points import PADDING
from sdem_dist.kernels.lines import csv_records
from sdem_dist.text.files import LineBlock, line_blocks
from sdem_dist.text.texts import Columns, Records, Row, Texts, in_blocks, texts_of_bytes
from sdem_dist.text.validation import NoLabelError, RowValidator, not_unicode

LARGEST_FIELD = 1 << 27  # characters; an unclosed quote is cut here
_LINES = re.compile("[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_DOUBLED, _N_LINES = 4, 5


def read_csv(
    path: Path, encoding: str, gate: RowValidator, columns: Columns, block_documents: int
) -> Iterator[Records]:
    """Yield the documents of records, from the columns of these names; blank lines are passed over."""
    csv.field_size_limit(max(csv.field_size_limit(), LARGEST_FIELD))
    blocks = line_blocks(path, encoding)
    block = next(blocks, None) or LineBlock(bytes(PADDING), 0, False)
    header, start = _simple_header(block)
    slow, (label, text, id_) = _Slow(path, gate, columns), columns.names
    if header is None or label in (None, text) or id_ is not None or columns.keep:
        yield from in_blocks(slow.documents(block, 0, blocks), block_documents)
        return
    slow.take_header(header)
    places = (len(header), *slow.positions)
    bounds = np.empty((block_documents, 6), np.int64)
    names: dict[bytes, str] = {}
    after = next(blocks, None)
    while True:
        n, stop, simple = csv_records(block.data, start, after is None, *places, bounds)
        if n:
            yield _documents(block, bounds[:n].copy(), slow, names)
        start = stop
        if not simple or (n == 0 and len(block.raw) - start > LARGEST_FIELD):
            rest = blocks if after is None else chain([after], blocks)
            yield from in_blocks(slow.documents(block, start, rest), block_documents)
            return
        if n == len(bounds) and start < block.size:
            continue
        if after is None:
            return
        raw = block.raw[start : block.size] + after.raw
        block, start, after = LineBlock(raw, len(raw) - PADDING, after.escaped), 0, next(blocks, None)


def _simple_header(block: LineBlock) -> tuple[list[str] | None, int]:
    """Return the names in a first line that is a record by itself, else None, and where the next line begins."""
    end = block.raw.find(b"\n", 0, block.size) + 1
    line = block.text(0, end)
    if not end or "\r" in line.removesuffix("\n").removesuffix("\r") or not_unicode(line) is not None:
        return None, 0
    try:
        records = list(csv.reader([line], strict=True))
    except csv.Error:
        return None, 0
    return (records[0] if len(records) == 1 else None), end


def _documents(block: LineBlock, bounds: np.ndarray, checks: _Slow, names: dict[bytes, str]) -> Records:
    """Return the documents of simple records."""
    labels: list[str] = []
    kept = np.ones(len(bounds), bool)
    raw = block.raw
    for i, (start, stop, _, _, doubled, n_lines) in enumerate(bounds.tolist()):
        name = names.get(raw[start:stop]) if start >= 0 and not doubled & 1 else None
        if name is None and start >= 0:
            given = block.text(start, stop)
            given = given.replace('""', '"') if doubled & 1 else given
            name = checks.gate.label(checks.path, checks.line, given)
            if name is not None and not doubled & 1 and len(names) < 10_000:
                names[raw[start:stop]] = name
        checks.line += n_lines
        if name is None:
            kept[i] = False
        else:
            labels.append(name)
    bounds = bounds[kept]
    if (bounds[:, _DOUBLED] & 2).any():
        spans = bounds[:, 2:5].tolist()
        unquoted = [raw[a:b].replace(b'""', b'"') if doubled & 2 else raw[a:b] for a, b, doubled in spans]
        return Records(texts_of_bytes(unquoted), labels)
    return Records(Texts(block.data, bounds[:, 2].copy(), bounds[:, 3].copy()), labels)


class _Slow:
    """Reads records with Python's reader.

    `line`: number of the line to come, from 1.
    `positions`: where the columns of label, text and id stand, those that are read; empty before the header was met.
    """

    def __init__(self, path: Path, gate: RowValidator, columns: Columns) -> None:
        self.path, self.gate, self._columns = path, gate, columns
        self.line = 1
        self.positions: list[int] = []

    def take_header(self, header: list[str]) -> None:
        """Find the columns."""
        self.positions = column_positions(self.path, header, self._columns)
        self._header = header
        self.line += 1

    def documents(self, block: LineBlock, start: int, rest: Iterator[LineBlock]) -> Iterator[Row]:
        """Yield rows from a place in a block on, to the end of the file."""
        before, columns = self.line - 1, self._columns
        records = csv.reader(_lines(block, start, rest), strict=True)
        if not self.positions:
            try:
                header = next(records, [])
            except csv.Error as error:
                raise IngestError(f"{self.path}, line 1: the header is not CSV: {error}") from error
            self.take_header(header)
        while True:
            line = before + records.line_num + 1
            try:
                fields = next(records)
            except StopIteration:
                return
            except csv.Error as error:
                self.gate.reject(self.path, line, f"not CSV: {error}")
                continue
            if not fields:
                continue
            if len(fields) != len(self._header):
                self.gate.reject(self.path, line, f"{len(fields)} fields under a header of {len(self._header)}")
                continue
            wanted = [fields[p] for p in self.positions]
            given = wanted.pop(0) if columns.labelled else ""
            words, *ids = wanted
            if (problem := not_unicode(words)) is not None:
                self.gate.reject(self.path, line, f"the text has {problem}")
                continue
            if problem := next(filter(None, map(not_unicode, fields if columns.keep else ids)), None):
                self.gate.reject(self.path, line, f"the record has {problem}")
                continue
            name = self.gate.label(self.path, line, given) if columns.labelled else None
            if name is None and columns.labelled:
                continue
            beside = dict(zip(self._header, fields, strict=True)) if columns.keep else None
            yield words, name, ids[0] if ids else None, beside


def _lines(block: LineBlock, start: int, rest: Iterator[LineBlock]) -> Iterator[str]:
    """Yield lines with their ends, which may be carriage returns."""
    yield from _LINES.findall(block.text(start, block.size))
    for block in rest:
        yield from _LINES.findall(block.text(0, block.size))


def column_positions(path: Path, header: list[str], columns: Columns) -> list[int]:
    """Return where label, text and id stand in `header`, those that are read.

    Raises IngestError if the header is empty, or one of them is missing from it, or stands there twice, or any does
    that is kept.
    """
    if not header:
        raise IngestError(f"{path}, line 1: there are no names of columns; is the file empty?")
    names = [name for name in columns.names if name is not None]
    for name in names:
        if header.count(name) != 1:
            times = "no column" if name not in header else "more than one column"
            present = ", ".join(map(repr, header))
            if len(header) == 1 and (mark := next((m for m in ";\t|" if m in header[0]), None)):
                present += f" (of a .csv they stand between commas, and here between {mark!r})"
            kind = NoLabelError if name == columns.names[0] and name not in header else IngestError
            raise kind(
                f"{path}, line 1: there is {times} {name!r}; the columns are {present}. Choose with {columns.options}"
            )
    if columns.keep and (twice := [name for name in header if header.count(name) > 1]):
        raise IngestError(f"{path}: there is more than one column {twice[0]!r}: rename one of them")
    return [header.index(name) for name in names]
