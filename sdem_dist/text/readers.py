"""Readers of sources with a record a line: columns between TABs, whole lines, JSON Lines and svmlight."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from sdem_dist.corpus.checks import VALUE_RULE, first_invalid
from sdem_dist.counted import counted
from sdem_dist.errors import IngestError
from sdem_dist.kernels.code_points import lines, tab_fields
from sdem_dist.text.files import LineBlock, Part, line_blocks, open_binary
from sdem_dist.text.sources import Reading
from sdem_dist.text.texts import RecordBatch, Texts, arrow_of_texts
from sdem_dist.text.validation import NoLabelError, Problems, not_unicode

if TYPE_CHECKING:
    import scipy.sparse as sp

MATRIX_DOCUMENTS = 2000  # at a time
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
    text_lines: bool | None = False,
    keep: bool | tuple[str, ...] = False,
) -> Iterator[RecordBatch]:
    """Yield lines.

    A blank line is an empty text where lines are texts, and passed over where they have columns. Without numbers of
    label and text every line must have exactly two columns, label and text: another one may give the label away.

    `text_lines`: whole lines are texts, if no number is given. None: unless the first line that is not blank has two
    columns, label and text.
    `keep`: keep all columns, of which lines then have as many as the first; or as these names, where a part is read.
    """
    bounds = np.empty((block_documents, 8), np.int64)
    blocks = line_blocks(path, reading.encoding, part)
    if text_lines is None:
        first = list(islice(blocks, 1))
        text_lines = has_text_lines(path, first[0] if first else None)
        blocks = chain(first, blocks)
    reader = _Lines(path, reading, text_lines, keep)
    is_start = part is None or part[0] == 0
    for block in blocks:
        start = 0
        while start < block.size:
            n_lines, start = lines(block.data, start, reader.label or 0, reader.text or 0, bounds)
            yield reader.batch(block, bounds[:n_lines].copy(), is_start)
            is_start = False


def has_text_lines(path: Path, block: LineBlock | None) -> bool:
    """Say by the first block of a file whether its whole lines are texts; a warning says if not."""
    some = block.raw[: block.size].split(b"\n", 100) if block is not None else []
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

    def __init__(self, path: Path, reading: Reading, text_lines: bool, keep: bool | tuple[str, ...]) -> None:
        self._roles = {role: _number(path, name) for role, name in reading.roles.items() if role != "label"}
        if text_lines and reading.text is None and self._roles:
            raise IngestError(
                f"{path}: --{next(iter(self._roles))} names a column of the lines, so name that of the text, too "
                "(--text NUMBER)"
            )
        is_chosen = reading.text is not None
        first, *self._more_texts = [_number(path, name) for name in reading.texts(())] if is_chosen else [1]
        self.label = _number(path, reading.label or 0) if reading.labelled else None
        self.text = None if text_lines and not is_chosen else first
        self._path, self._labelled, self._n_lines = path, reading.labelled, 0
        self._keep = bool(keep) and self.text is not None
        self._n_columns = None if text_lines or is_chosen or reading.label is not None else 2
        if self._keep and isinstance(keep, tuple):
            self._n_columns = len(keep)
        columns = [self.label, self.text, *self._roles.values(), *self._more_texts]
        self._columns = [column for column in columns if column is not None]

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
        numbers = np.arange(self._n_lines + 1, self._n_lines + 1 + len(bounds))
        self._n_lines += len(bounds)
        if is_start and self._labelled and good[0]:
            label, text = (block.text(*bounds[0, [i, i + 1]].tolist()) for i in (_LABEL, _TEXT))
            if _HEADINGS & {label.strip().lower(), text.strip().lower()}:
                warnings.warn(
                    f"{self._path}, line 1: it looks like a header ({label!r:.40}, {text!r:.40}), and is read as a document: "
                    "such files have none; remove the line, or say that there is one (--header)",
                    stacklevel=2,
                )
        first = 0 if self.text is None else _TEXT
        texts = Texts(block.data, bounds[:, first], bounds[:, first + 1])
        batch = RecordBatch([texts], {}, numbers, escaped=block.escaped, are_valid=True)
        batch.problems = {row: self._problem(block, bounds[row]) for row in np.flatnonzero(~good).tolist()}
        if self._labelled:
            batch.roles["label"] = [block.raw[a:b] for a, b in bounds[:, _LABEL : _LABEL + 2].tolist()]
        if self._roles or self._more_texts:
            cells = [block.text(start, stop).split("\t") for start, stop in bounds[:, :2].tolist()]

            def cells_of(number: int) -> list[object]:
                return [row[number] if ok else None for row, ok in zip(cells, good.tolist(), strict=True)]

            batch.texts += map(cells_of, self._more_texts)
            batch.roles |= {role: cells_of(number) for role, number in self._roles.items()}
        if self._keep and (n := self._n_columns):  # unknown before a good line has told
            rows, fields = np.flatnonzero(good), np.zeros((2, n, len(bounds)), np.int64)
            if len(rows):
                of_rows = np.empty((2, n, len(rows)), np.int64)
                tab_fields(block.data, bounds[rows, 0], bounds[rows, 1], *of_rows)
                fields[:, :, rows] = of_rows
            # as `sdem evaluate --errors` calls them
            names = ["label" if n == 2 and i == 0 else f"column_{i}" for i in range(n)]
            names[self.text or 0] = "text"
            columns = (Texts(block.data, starts, stops) for starts, stops in zip(*fields, strict=True))
            batch.beside = dict(zip(names, map(arrow_of_texts, columns), strict=True))
        return batch

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


def _number(source: Path, column: str | int) -> int:
    try:
        return int(column)
    except ValueError:
        raise IngestError(
            f"{source}: it has no header, so a column is a number from 0, not {column!r}; a file with a header is CSV, or "
            "read with --header"
        ) from None


def read_json_lines(
    path: Path, reading: Reading, block_documents: int, part: Part | None = None, *, keep: bool | tuple[str, ...]
) -> Iterator[RecordBatch]:
    """Yield the objects of lines; blank lines are passed over. A column is a field, or a path with dots between names.

    `keep`: whether to keep all columns, which are those of the first batch; or their names, where a part is read.
    """
    number, names = 1, keep if isinstance(keep, tuple) else ()
    for block in line_blocks(path, reading.encoding, part):
        lines = block.raw[: block.size].removesuffix(b"\n").split(b"\n")
        for first in range(0, len(lines), block_documents):
            problems: Problems = {}
            rows = enumerate(lines[first : first + block_documents])
            records = [_json_object(line, row, block, problems) for row, line in rows]
            roles: Any = {role: _field(records, n, role, problems, reading) for role, n in reading.roles.items()}
            texts: list[Any] = [_field(records, n, "text", problems, reading) for n in reading.texts(records[0])]
            batch = RecordBatch(texts, roles, np.arange(number, number + len(records)), problems=problems, escaped=True)
            number += len(records)
            if keep:
                for row, record in enumerate(records):
                    if bad := next(filter(None, map(not_unicode, record)), None):
                        problems.setdefault(row, (f"the name of a field has {bad}", IngestError))
                fields = dict.fromkeys(name for record in records for name in record)
                names = names or tuple(fields)
                if odd := fields.keys() - set(names):
                    raise IngestError(
                        f"a record has the field {min(odd)!r}, which none of the first {len(records):,} has: give it to one of "
                        "them, with null"
                    )
                batch.beside = {name: [record.get(name) for record in records] for name in names}
            yield batch


def _json_object(line: bytes, row: int, block: LineBlock, problems: Problems) -> dict[str, Any]:
    """Return a line's object; an empty one for a line that has none, and the reason, None for a blank line."""
    try:
        record: Any = orjson.loads(line)
        # beyond 2**53 it makes floats of integers, and Python does not
        if isinstance(record, dict) and not any(isinstance(v, float) and abs(v) > 2.0**53 for v in record.values()):
            return record
    except orjson.JSONDecodeError:
        pass
    text = line.decode("utf-8", "surrogatepass" if block.escaped else "surrogateescape")
    if not text.strip():
        problems[row] = None
        return {}
    if (problem := not_unicode(text)) is not None:
        problem = f"the line has {problem}"
    else:
        try:
            record = json.loads(text)
            if isinstance(record, dict):
                return record
            problem = f"a JSON object is expected, not {type(record).__name__}"
        except (ValueError, RecursionError) as error:
            problem = f"not JSON: {error}"
    problems[row] = problem, IngestError
    return {}


def _field(records: list[dict[str, Any]], key: str, role: str, problems: Problems, reading: Reading) -> list[object]:
    """Return the field of each record, by its name or a path; null for those that have none, and the reason."""
    missing = object()
    values = [record.get(key, missing) for record in records]
    for row, record in enumerate(records) if missing in values else ():
        if values[row] is not missing:
            continue
        value: Any = record
        for name in key.split("."):
            value = value.get(name, missing) if isinstance(value, dict) else missing
        values[row] = None if value is missing else value
        if value is missing and row not in problems and (role != "label" or reading.missing_label is None):
            fields = ", ".join(map(repr, record)) or "none"
            kind = NoLabelError if role == "label" else IngestError
            problems[row] = f"there is no field {key!r}; the fields are {fields}", kind
    return values


def read_svmlight(path: Path, block_documents: int) -> Iterator[RecordBatch]:
    """Yield rows of ``label column:value ... # comment``, with columns as they stand there, without blank lines."""
    from scipy.sparse import csr_matrix
    from sklearn.datasets import load_svmlight_file

    def parsed(lines: list[bytes]) -> tuple[sp.csr_matrix, np.ndarray] | str:
        """Return the matrix and the labels of lines, or what is wrong with them taken together."""
        try:
            matrix, labels = load_svmlight_file(io.BytesIO(b"\n".join(lines)), zero_based=True)
        except (ValueError, OverflowError, IndexError) as error:
            return f"not svmlight: {error}"
        unfit = first_invalid(matrix.data, matrix.indptr)
        return (matrix, labels) if unfit is None else f"the value {unfit[1]}: {VALUE_RULE}"

    with open_binary(path) as stream:
        lines = ((number, line.split(b"#", 1)[0].strip()) for number, line in enumerate(stream, 1))
        documents = (line for line in lines if line[1])
        while block := list(islice(documents, min(block_documents, MATRIX_DOCUMENTS))):
            rows, invalid = parsed([line for _, line in block]), dict[int, str]()
            if isinstance(rows, str):  # then line by line
                invalid = {number: problem for number, line in block if isinstance(problem := parsed([line]), str)}
                block = [(number, line) for number, line in block if number not in invalid]
                rows = parsed([line for _, line in block]) if block else (csr_matrix((0, 0)), np.zeros(0))
                assert not isinstance(rows, str), rows
            matrix, labels = rows
            matrix.sum_duplicates()
            matrix.eliminate_zeros()
            numbers = np.array([number for number, _ in block], int)
            yield RecordBatch([], {"label": labels.tolist()}, numbers, invalid=invalid, matrix=matrix)
