"""Readers of sources: lines, lines with TABs, JSON Lines and svmlight; tables of text and of Parquet by Arrow."""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from sdem_dist.corpus.manifest import VALUE_RULE, first_invalid
from sdem_dist.counted import counted
from sdem_dist.errors import IngestError
from sdem_dist.kernels.code_points import PADDING, lines
from sdem_dist.storage.buckets import for_a_reader
from sdem_dist.text.sources import LineBlock, Part, Reading, is_utf8_name, line_blocks, open_binary
from sdem_dist.text.texts import Problem, Problems, RecordBatch, Texts, arrow_of_texts, texts_of_binary, texts_of_bytes
from sdem_dist.text.validation import NoLabelError, not_unicode

if TYPE_CHECKING:
    import pyarrow
    import scipy.sparse as sp

MATRIX_DOCUMENTS = 2000  # at a time
PARQUET_ROWS = 1 << 14  # at a time
MAX_RECORD_BYTES = 1 << 26  # of delimited text; no record is longer
DELIMITERS = ",;\t|"
Keep = bool | tuple[str, ...]  # whether all columns of the first records are kept; or their names, for a part
_HEADINGS = frozenset(
    {"label", "labels", "class", "category", "target", "text", "texts", "document", "review", "sentence"}
)
_N_COLUMNS, _GOOD, _LABEL, _TEXT = 2, 3, 4, 6  # columns of the bounds that the kernel fills


def read_lines(
    path: Path, reading: Reading, block_documents: int, part: Part | None, text_lines: bool | None, keep: Keep
) -> Iterator[RecordBatch]:
    """Yield lines: texts with `text_lines` (None: unless the first has two columns) and no number, else columns.

    Without numbers of label and text every line must have these two alone: another column may give the label away.
    """
    bounds, blocks = np.empty((block_documents, 8), np.int64), line_blocks(path, reading.encoding, part)
    if text_lines is None:
        head = list(islice(blocks, 1))
        text_lines, blocks = has_text_lines(path, head[0] if head else None), chain(head, blocks)
    roles = {role: _number(path, name) for role, name in reading.roles.items() if role != "label"}
    plain = text_lines and reading.text is None
    if plain and roles:
        advice = "names a column of the lines, so name that of the text, too (--text NUMBER)"
        raise IngestError(f"{path}: --{next(iter(roles))} {advice}")
    text, *more_texts = [1] if reading.text is None else [_number(path, name) for name in reading.texts(())]
    label = _number(path, reading.label or 0) if reading.labelled else None
    n_columns = None if text_lines or reading.text is not None or reading.label is not None else 2
    if isinstance(keep, tuple) and not plain:
        n_columns = len(keep)
    needed = [column for column in (label, None if plain else text, *roles.values(), *more_texts) if column is not None]
    n_before, is_start, first = 0, part is None or part[0] == 0, 0 if plain else _TEXT
    for block in blocks:
        start, data = 0, block.data
        while start < len(data):
            n_lines, start = lines(data, start, label or 0, 0 if plain else text, bounds)
            own = bounds[:n_lines].copy()
            widths, good = own[:, _N_COLUMNS], own[:, _GOOD] == 1
            if not plain:
                for column in needed:
                    good &= widths >= (-column if column < 0 else column + 1)
                for row in np.flatnonzero(good & (widths == 1)).tolist():
                    good[row] = bool(block.text(*own[row, :2].tolist()).strip())
                if keep and n_columns is None and good.any():
                    n_columns = int(widths[good.argmax()])
            if n_columns is not None:
                good &= widths == n_columns
            if is_start and reading.labelled and good[0]:
                cells = [block.text(*own[0, [i, i + 1]].tolist()) for i in (_LABEL, _TEXT)]
                if _HEADINGS & {cell.strip().lower() for cell in cells}:
                    warnings.warn(
                        f"{path}, line 1: it looks like a header ({cells[0]!r:.40}, {cells[1]!r:.40}), and is read as a "
                        "document: such files have none; remove the line, or say that there is one (--header)",
                        stacklevel=2,
                    )
            texts, numbers = Texts(data, own[:, first], own[:, first + 1]), np.arange(n_before, n_before + n_lines) + 1
            batch = RecordBatch([texts], {}, numbers, escaped=block.escaped, are_valid=True)
            n_before, is_start = n_before + n_lines, False
            for row in np.flatnonzero(~good).tolist():
                line = block.text(*own[row, :2].tolist())
                batch.problems[row] = _problem_of(line, None if plain else needed, n_columns, labelled=reading.labelled)
            if reading.labelled:
                batch.roles["label"] = [block.raw[a:b] for a, b in own[:, _LABEL : _LABEL + 2].tolist()]
            if roles or more_texts:
                rows = [block.text(a, b).split("\t") if ok else None for ok, a, b in np.c_[good, own[:, :2]].tolist()]
                batch.texts += [[row and row[i] for row in rows] for i in more_texts]
                batch.roles |= {role: [row and row[i] for row in rows] for role, i in roles.items()}
            if keep and not plain and n_columns:  # unknown before a good line has told
                fields, (begins, ends) = np.zeros((2, n_columns, n_lines), np.int64), own[good, :2].T
                tabs = np.flatnonzero(data == 0x09)
                tabs = tabs[np.searchsorted(tabs, begins) + np.arange(n_columns - 1)[:, None]]
                fields[0][:, good], fields[1][:, good] = np.vstack([begins, tabs + 1]), np.vstack([tabs, ends])
                # as `sdem evaluate --errors` calls them
                names = ["label" if n_columns == 2 and i == 0 else f"column_{i}" for i in range(n_columns)]
                names[text] = "text"
                columns = (arrow_of_texts(Texts(data, a, b)) for a, b in zip(*fields, strict=True))
                batch.beside = dict(zip(names, columns, strict=True))
            yield batch


def _number(path: Path, column: str | int) -> int:
    try:
        return int(column)
    except ValueError:
        advice = "a file with a header is CSV, or read with --header"
        raise IngestError(
            f"{path}: it has no header, so a column is a number from 0, not {column!r}; {advice}"
        ) from None


def _problem_of(line: str, needed: list[int] | None, n_columns: int | None, *, labelled: bool) -> Problem:
    """Return why a line is no document, None if it is blank. `needed`: numbers of columns; None of whole lines."""
    n = line.count("\t") + 1
    if needed is not None and n == 1 and not line.strip():
        return None
    if (problem := not_unicode(line)) is not None:
        return f"the line has {problem}", IngestError
    if n_columns not in (None, n):
        if labelled and n == 1:
            return "there is no TAB between a label and a text", NoLabelError
        choose = "--label NUMBER --text NUMBER" if labelled else "--text NUMBER (--format lines takes whole lines)"
        return f"{counted(n, 'column')} instead of {n_columns}; choose from 0 on with {choose}", IngestError
    missing = max(column for column in needed or () if not -n <= column < n)
    return f"{counted(n, 'column')}, so there is no column {missing} (from 0)", IngestError


def has_text_lines(path: Path, block: LineBlock | None) -> bool:
    """Say by the first block of a file whether its whole lines are texts; a warning says if not."""
    some = block.raw[:-PADDING].split(b"\n", 100) if block is not None else []
    if next((line for line in some if line.strip()), b"").count(b"\t") != 1:
        return True
    name, advice = "standard input" if str(path) == "-" else path, "--format lines takes whole lines"
    warnings.warn(f"{name}: line 1 is label TAB text, so what follows the TAB is taken as text; {advice}", stacklevel=3)
    return False


def read_json_lines(
    path: Path, reading: Reading, block_documents: int, part: Part | None, keep: Keep
) -> Iterator[RecordBatch]:
    """Yield the objects of lines; blank ones are passed over. A column is a field, or a path with dots between."""
    number, names = 1, keep if isinstance(keep, tuple) else ()
    for block in line_blocks(path, reading.encoding, part):
        lines = block.raw[:-PADDING].removesuffix(b"\n").split(b"\n")
        for first in range(0, len(lines), block_documents):
            some, problems = lines[first : first + block_documents], Problems()
            records = [_json_object(line, row, block, problems) for row, line in enumerate(some)]
            roles: Any = {role: _field(records, n, role, problems, reading) for role, n in reading.roles.items()}
            texts: list[Any] = [_field(records, n, "text", problems, reading) for n in reading.texts(records[0])]
            numbers, beside = np.arange(number, number + len(records)), dict[str, Any]()
            number += len(records)
            if keep:
                for row, record in enumerate(records):
                    if bad := next(filter(None, map(not_unicode, record)), None):
                        problems.setdefault(row, (f"the name of a field has {bad}", IngestError))
                fields = dict.fromkeys(name for record in records for name in record)
                names = names or tuple(fields)
                if odd := fields.keys() - set(names):
                    problem = f"a record has the field {min(odd)!r}, which none of the first {len(records):,} has"
                    raise IngestError(f"{problem}: give it to one of them, with null")
                beside = {name: [record.get(name) for record in records] for name in names}
            yield RecordBatch(texts, roles, numbers, beside=beside, problems=problems, escaped=True)


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
    if (problem := not_unicode(text)) is not None:
        problem = f"the line has {problem}"
    elif text.strip():
        try:
            record = json.loads(text)
            if isinstance(record, dict):
                return record
            problem = f"a JSON object is expected, not {type(record).__name__}"
        except (ValueError, RecursionError) as error:
            problem = f"not JSON: {error}"
    problems[row] = None if problem is None else (problem, IngestError)
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


def read_csv(path: Path, reading: Reading, block_documents: int, keep: bool) -> Iterator[RecordBatch]:
    """Yield the records of a table; blank lines are passed over, and numbers count records, the header too."""
    import pyarrow
    import pyarrow.csv

    stream, header = _Stream(path, reading.encoding), reading.header is not False
    names, delimiter = _first_record(path, stream, reading)
    if not header and len(names) == 2 and reading.text is None and reading.label is None:
        reading = replace(reading, label=0 if reading.labelled else None, text=1)
    positions = _positions(path, names, reading, keep)
    columns = list(map(str, range(len(names)) if keep else sorted({i for some in positions.values() for i in some})))
    invalid: dict[int, str] = {}  # why records do not fit the header, by their numbers
    number, last = 1 + header, None

    def skip(row: pyarrow.csv.InvalidRow) -> str:
        invalid[row.number + header] = f"{row.actual_columns} fields under a header of {len(names)}"
        return "skip"

    while not stream.first.strip(b"\r\n"):
        stream.first = stream.next_block()
        if not stream.first:
            return
    try:
        batches = pyarrow.csv.open_csv(
            pyarrow.PythonFile(stream, mode="r"),
            pyarrow.csv.ReadOptions(use_threads=False, block_size=1 << 30, column_names=[*map(str, range(len(names)))]),
            pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip),
            pyarrow.csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(columns, pyarrow.binary()),
                strings_can_be_null=False,
                include_columns=columns,
            ),
        )
        for batch in batches:
            for first in range(0, batch.num_rows, block_documents):
                last = batch.slice(first, block_documents)
                numbers = np.arange(number, number + last.num_rows + len(invalid))
                numbers = numbers[~np.isin(numbers, list(invalid))][: last.num_rows]
                number = int(numbers[-1]) + 1
                of_role = {role: [last.column(str(i)) for i in some] for role, some in positions.items()}
                records = RecordBatch(list(map(texts_of_binary, of_role.pop("text"))), {}, numbers, "record")
                records.roles = {role: texts_of_binary(some[0]) for role, some in of_role.items()}
                if "label" in of_role:  # as bytes labels are found among those that have passed
                    records.roles["label"] = of_role["label"][0].to_pylist()
                records.escaped = not is_utf8_name(reading.encoding)
                for name, column in zip(names, last.columns, strict=True) if keep else ():
                    try:
                        records.beside[name] = column.cast(pyarrow.string())
                        continue
                    except pyarrow.ArrowInvalid:
                        values = [value.decode("utf-8", "surrogateescape") for value in column.to_pylist()]
                    for row, value in enumerate(values):
                        if (problem := not_unicode(value)) is not None:
                            records.problems.setdefault(row, (f"the record has {problem}", IngestError))
                    readable = [value.encode("utf-8", "replace").decode() for value in values]
                    records.beside[name] = pyarrow.array(readable)
                records.invalid = {n: invalid.pop(n) for n in list(invalid) if n < number}
                yield records
    except pyarrow.ArrowInvalid as error:
        if "Empty CSV" not in str(error):
            raise IngestError(f"{path}, after record {number - 1:,}: {error}; is a quote not closed?") from error
    yield RecordBatch([texts_of_bytes([])], {}, np.zeros(0, int), "record", invalid=invalid)
    if stream.n_quotes % 2 and last is not None and any(b"\n" in column[-1].as_py() for column in last.columns):
        raise IngestError(f"{path}, record {number - 1:,}: a quote is not closed before the end of the file")


class _Stream:
    """The bytes of a file in UTF-8 as Arrow reads them: whole lines at a time, or more where a quote is open."""

    closed = False

    def __init__(self, path: Path, encoding: str) -> None:
        self._blocks = (block.raw[:-PADDING] for block in line_blocks(path, encoding))
        self.n_quotes, self.first = 0, b""

    def next_block(self) -> bytes:
        block = next(self._blocks, b"")
        self.n_quotes += block.count(b'"')
        return block

    def read(self, size: int) -> bytes:
        blocks = [self.first or self.next_block()]
        self.first = b""
        while self.n_quotes % 2 and sum(map(len, blocks)) < MAX_RECORD_BYTES and (block := self.next_block()):
            blocks.append(block)
        return b"".join(blocks)

    def close(self) -> None:
        """Do nothing: the file is closed at its end."""


def _first_record(path: Path, stream: _Stream, reading: Reading) -> tuple[list[str], str]:
    """Return the names of the columns, which are taken from the stream, and what stands between them."""
    delimiters = DELIMITERS if reading.delimiter is None else reading.delimiter
    if reading.delimiter is not None and (len(delimiters) != 1 or not delimiters.isascii()):
        raise IngestError(f"{path}: the delimiter is one ASCII character, such as ';', not {reading.delimiter!r}")
    stream.first = stream.next_block()
    text = stream.first.decode("utf-8", "surrogateescape")
    names, delimiter, end = list[str](), delimiters[0], 0
    for candidate in delimiters:
        rows = io.StringIO(text, newline="")
        fields = next(csv.reader(rows, delimiter=candidate), [])
        if not names or (len(names) == 1 and len(fields) > 1):
            names, delimiter, end = fields, candidate, rows.tell()
    if reading.header is False:
        return [str(i) for i in range(len(names))], delimiter
    stream.first = stream.first[len(text[:end].encode("utf-8", "surrogateescape")) :]
    return names, delimiter


def read_parquet(
    path: Path, reading: Reading, block_documents: int, groups: Part | None, keep: bool
) -> Iterator[RecordBatch]:
    """Yield the rows of a file, or of some of its row groups; numbers count rows of the file."""
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(for_a_reader(path)) as file:
            names = file.schema_arrow.names
            positions = _positions(path, names, reading, keep)
            first, stop = groups or (0, file.num_row_groups)
            row = 1 + sum(file.metadata.row_group(i).num_rows for i in range(first))
            size = min(block_documents, PARQUET_ROWS)
            columns = names if keep else list(dict.fromkeys(names[i] for some in positions.values() for i in some))
            for batch in file.iter_batches(batch_size=size, row_groups=range(first, stop), columns=columns):
                of_role = {role: [batch.column(names[i]) for i in some] for role, some in positions.items()}
                texts = of_role.pop("text")
                beside = dict(zip(batch.schema.names, batch.columns, strict=True)) if keep else {}
                numbers = np.arange(row, row + batch.num_rows)
                row += batch.num_rows
                yield RecordBatch(texts, {role: some[0] for role, some in of_role.items()}, numbers, "row", beside)
    except FileNotFoundError as error:
        raise IngestError(f"{path}: there is no such file") from error
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise IngestError(f"{path} cannot be read as Parquet: {error}") from error


def _positions(path: Path, names: list[str], reading: Reading, keep: bool) -> dict[str, list[int]]:
    if not names:
        raise IngestError(f"{path}, line 1: there are no names of columns; is the file empty?")
    columns = {**{role: [name] for role, name in reading.roles.items()}, "text": reading.texts(names)}
    for role, name in ((role, name) for role, some in columns.items() for name in some):
        if names.count(name) == 1:
            continue
        times = "more than one column" if name in names else "no column"
        kind = NoLabelError if role == "label" and name not in names else IngestError
        options = "--label and --text" if reading.labelled else "--text (and --id)"
        raise kind(
            f"{path}, line 1: there is {times} {name!r}; the columns are {', '.join(map(repr, names))}. Choose with "
            f"{options if role in ('label', 'text', 'id') else f'--{role}'}"
        )
    if keep and (twice := [name for name in names if names.count(name) > 1]):
        raise IngestError(f"{path}: there is more than one column {twice[0]!r}: rename one of them")
    return {role: [names.index(name) for name in some] for role, some in columns.items()}
