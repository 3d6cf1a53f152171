"""Readers of sources: lines, TAB-separated lines, JSON Lines and svmlight; delimited tables and Parquet with Arrow."""

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
from sdem_dist.kernels.code_points import PADDING, separators
from sdem_dist.storage.buckets import for_a_reader
from sdem_dist.text.sources import LINES, LINES_OR_TSV, Reading, SourcePart, line_blocks, open_binary
from sdem_dist.text.texts import NoLabelError, Problems, RecordBatch, Texts, listed, not_unicode, texts_of_binary

if TYPE_CHECKING:
    import pyarrow
    import scipy.sparse as sp

MATRIX_DOCUMENTS = 2000  # largest batch of svmlight rows
PARQUET_ROWS = 1 << 14  # largest batch of Parquet rows
MAX_RECORD_BYTES = 1 << 26  # largest record of delimited text
DELIMITERS = ",;\t|"
_HEADINGS = frozenset(
    {"label", "labels", "class", "category", "target", "text", "texts", "document", "review", "sentence"}
)


def read_lines(split: SourcePart) -> Iterator[RecordBatch]:
    """Yield lines: entire lines as texts if the format says so and no text column is chosen, else their columns.

    Unless label or text columns are chosen, lines must have exactly these two: a third one might reveal the label.
    """
    path, reading, keep, n_before = split.source, split.reading, split.keep, 0
    blocks, text_lines = line_blocks(path, reading.encoding, split.part), split.form == LINES
    if split.form == LINES_OR_TSV:
        head = list(islice(blocks, 1))
        text_lines, blocks = has_text_lines(path, b"".join(head)), chain(head, blocks)
    of_lines = text_lines and reading.text is None
    n_columns = None if text_lines or reading.text is not None or reading.label is not None else 2
    if isinstance(keep, tuple) and not of_lines:
        n_columns = len(keep)
    roles, texts = _columns_of_lines(path, reading, of_lines=of_lines)
    needed = [*roles.values(), *texts]
    least = max((-column if column < 0 else column + 1 for column in needed), default=0)
    for block in blocks:
        data = np.frombuffer(block, np.uint8)[:-PADDING]
        starts, stops, ends, are_valid = _bounds_of_columns(data)
        begins = np.append(0, ends[:-1] + 1)
        for start in range(0, len(ends), split.block_documents):
            first, last = (bounds[start : start + split.block_documents] for bounds in (begins, ends))
            lines, widths, problems = Texts(data, starts[first], stops[last]), last - first + 1, Problems()
            if keep and needed and n_columns is None:  # as in the first good line
                filled = widths[(lines.sizes > 0) & (widths >= least)]
                n_columns = int(filled[0]) if len(filled) else None
            odd = np.full(len(lines), not are_valid)
            if needed:
                odd |= (widths == 1) | (widths < least) | (widths != (n_columns or widths))
            spelled = listed(lines, reading.errors) if odd.any() else []
            for row in np.flatnonzero(odd).tolist():
                is_blank = bool(needed) and widths[row] == 1 and not spelled[row].strip()
                problem = _problem_of(spelled[row], int(widths[row]), needed, n_columns, labelled=reading.labelled)
                if is_blank or problem is not None:
                    problems[row] = None if is_blank else problem
            passed, columns = np.ones(len(lines), bool), dict[int, Texts]()
            passed[list(problems)] = False
            n_beside = (n_columns or 0) if keep and needed else 0
            for column in {*needed, *range(n_beside)}:
                at = np.where(passed, first + column if column >= 0 else last + 1 + column, first)
                columns[column] = Texts(data, starts[at], np.where(passed, stops[at], starts[at]))
            if n_before == 0 and (split.part or (0,))[0] == 0 and reading.labelled and passed[0]:
                _warn_of_header(path, *(listed(columns[i].take(slice(1)))[0] for i in (roles["label"], texts[0])))
            beside = _columns_beside(columns, n_beside, texts[0]) if n_beside else {}
            of_text, of_role = [columns[i] for i in texts] or [lines], {role: columns[i] for role, i in roles.items()}
            numbers, how = n_before + 1 + np.arange(len(lines)), dict[str, Any](errors=reading.errors, are_valid=True)
            n_before += len(lines)
            yield RecordBatch(of_text, of_role, numbers, beside=beside, problems=problems, **how)


def _columns_of_lines(path: Path, reading: Reading, *, of_lines: bool) -> tuple[dict[str, int], list[int]]:
    """Return the number of the column of each role, and the text columns: none if entire lines are texts."""
    reading = replace(reading, label=0) if reading.labelled and reading.label is None else reading
    try:
        roles = {role: int(column) for role, column in reading.roles.items()}
        texts = [] if of_lines else [1] if reading.text is None else list(map(int, reading.texts(())))
    except ValueError as error:
        rule = f"without a header, specify columns by number (from 0) instead of {str(error).partition(': ')[2]}"
        raise IngestError(f"{path}: {rule}; if the file has a header, use --header") from None
    if of_lines and roles:
        advice = "selects a column, so also select the text column (--text NUMBER)"
        raise IngestError(f"{path}: --{next(iter(roles))} {advice}")
    return roles, texts


def _bounds_of_columns(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """Return starts and stops of the columns of all lines, indices of each line's last column, and is-valid-UTF-8."""
    stops = np.empty(len(data), np.int64)  # unused pages take no memory
    n_stops, are_valid = separators(data, stops)
    stops = stops[:n_stops] if data[-1] == 10 else np.append(stops[:n_stops], len(data))
    starts, ends = np.append(0, stops[:-1] + 1), np.append(np.flatnonzero(data[stops[:-1]] == 10), len(stops) - 1)
    while len(returns := ends[(stops[ends] > starts[ends]) & (data[stops[ends] - 1] == 13)]):
        stops[returns] -= 1
    return starts, stops, ends, are_valid


def _columns_beside(columns: dict[int, Texts], n: int, text: int) -> dict[str, Any]:
    """Return the first `n` columns as Arrow arrays; that of texts is named "text", as in `sdem evaluate --errors`."""
    import pyarrow

    names = ["label" if n == 2 and i == 0 else f"column_{i}" for i in range(n)]
    names[text] = "text"
    encoded = (pyarrow.array(columns[i].encoded(), pyarrow.binary()) for i in range(n))
    return {name: column.cast(pyarrow.string()) for name, column in zip(names, encoded, strict=True)}


def _problem_of(
    line: str, n: int, needed: list[int], n_columns: int | None, *, labelled: bool
) -> str | IngestError | None:
    """Return the problem of a line of `n` columns, or None if it is a document."""
    if (problem := not_unicode(line)) is not None:
        return f"the line has {problem}"
    if n_columns not in (None, n):
        if labelled and n == 1:
            return NoLabelError("no TAB between label and text")
        choose = "--label NUMBER --text NUMBER" if labelled else "--text NUMBER (--format lines reads entire lines)"
        return f"expected {n_columns} columns, got {n}; choose columns (counting from 0) with {choose}"
    absent = [column for column in needed if not -n <= column < n]
    return f"no column {max(absent)} (counting from 0): the line has {counted(n, 'column')}" if absent else None


def _warn_of_header(path: Path, label: str, text: str) -> None:
    if _HEADINGS & {label.strip().lower(), text.strip().lower()}:
        problem = f"this looks like a header ({label!r:.40}, {text!r:.40}), but would be read as a document"
        advice = "remove the line, or pass --header"
        warnings.warn(f"{path}, line 1: {problem}: {advice}", stacklevel=3)


def has_text_lines(path: Path, block: bytes) -> bool:
    """Return whether entire lines are texts, judged by the first block of the file; warn if not."""
    if next((line for line in block.split(b"\n", 100) if line.strip(b" \t\r\0")), b"").count(b"\t") != 1:
        return True
    name, advice = "standard input" if str(path) == "-" else path, "--format lines reads entire lines"
    warnings.warn(f"{name}: line 1 is label TAB text, so the text after the TAB is used; {advice}", stacklevel=3)
    return False


def read_json_lines(split: SourcePart) -> Iterator[RecordBatch]:
    """Yield the objects of lines, without blank lines. A column is a field, or a path with dots."""
    reading, number, names = split.reading, 1, split.keep if isinstance(split.keep, tuple) else ()
    for block in line_blocks(split.source, reading.encoding, split.part):
        lines = block[:-PADDING].removesuffix(b"\n").split(b"\n")
        for first in range(0, len(lines), split.block_documents):
            chunk, problems = lines[first : first + split.block_documents], Problems()
            records = [_json_object(line, row, reading, problems) for row, line in enumerate(chunk)]
            roles: Any = {role: _field(records, n, role, problems, reading) for role, n in reading.roles.items()}
            texts: list[Any] = [_field(records, n, "text", problems, reading) for n in reading.texts(records[0])]
            numbers, beside = np.arange(number, number + len(records)), dict[str, Any]()
            number += len(records)
            if split.keep:
                for row, record in enumerate(records):
                    if bad := next(filter(None, map(not_unicode, record)), None):
                        problems.setdefault(row, f"a field name contains {bad}")
                fields = dict.fromkeys(name for record in records for name in record)
                names = names or tuple(fields)
                if odd := fields.keys() - set(names):
                    problem = f"a record has the field {min(odd)!r}, but the first {len(records):,} records do not"
                    raise IngestError(f"{problem}: add the field to one of the first records, with the value null")
                beside = {name: [record.get(name) for record in records] for name in names}
            yield RecordBatch(texts, roles, numbers, beside=beside, problems=problems)


def _json_object(line: bytes, row: int, reading: Reading, problems: Problems) -> dict[str, Any]:
    """Return a line's object, or an empty one with an entry in `problems`, which is None for a blank line."""
    try:
        record: Any = orjson.loads(line)
        # orjson converts large integers to floats, Python's json does not
        if isinstance(record, dict) and not any(isinstance(v, float) and abs(v) > 2.0**53 for v in record.values()):
            return record
    except orjson.JSONDecodeError:
        pass
    text = line.decode("utf-8", reading.errors)
    if (problem := not_unicode(text)) is not None:
        problem = f"the line has {problem}"
    elif text.strip():
        try:
            record = json.loads(text)
            if isinstance(record, dict):
                return record
            problem = f"expected a JSON object, got {type(record).__name__}"
        except (ValueError, RecursionError) as error:
            problem = f"not JSON: {error}"
    problems[row] = problem
    return {}


def _field(records: list[dict[str, Any]], key: str, role: str, problems: Problems, reading: Reading) -> list[object]:
    """Return a field of each record, by its name or path; None for missing fields, with an entry in `problems`."""
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
            problem = f"there is no field {key!r}; fields: {fields}"
            problems[row] = NoLabelError(problem) if role == "label" else problem
    return values


def read_svmlight(split: SourcePart) -> Iterator[RecordBatch]:
    """Yield rows of ``label column:value ... # comment`` without blank lines, with the source's numbers of columns."""
    from scipy.sparse import csr_matrix
    from sklearn.datasets import load_svmlight_file

    def parsed(lines: list[bytes]) -> tuple[sp.csr_matrix, np.ndarray] | str:
        try:
            matrix, labels = load_svmlight_file(io.BytesIO(b"\n".join(lines)), zero_based=True)
        except (ValueError, OverflowError, IndexError) as error:
            return f"not svmlight: {error}"
        unfit = first_invalid(matrix.data, matrix.indptr)
        return (matrix, labels) if unfit is None else f"the value {unfit[1]} is invalid: {VALUE_RULE}"

    with open_binary(split.source) as stream:
        lines = ((number, line.split(b"#", 1)[0].strip()) for number, line in enumerate(stream, 1))
        documents = (line for line in lines if line[1])
        while block := list(islice(documents, min(split.block_documents, MATRIX_DOCUMENTS))):
            rows, invalid = parsed([line for _, line in block]), dict[int, str]()
            if isinstance(rows, str):  # parse line by line to find the bad lines
                invalid = {number: problem for number, line in block if isinstance(problem := parsed([line]), str)}
                block = [(number, line) for number, line in block if number not in invalid]
                rows = parsed([line for _, line in block]) if block else (csr_matrix((0, 0)), np.zeros(0))
                assert not isinstance(rows, str), rows
            matrix, labels = rows
            matrix.sum_duplicates()
            matrix.eliminate_zeros()
            numbers = np.array([number for number, _ in block], int)
            yield RecordBatch([], {"label": labels.tolist()}, numbers, invalid=invalid, matrix=matrix)


def read_csv(split: SourcePart) -> Iterator[RecordBatch]:
    """Yield the records of a table without blank lines; numbers count records, including the header."""
    import pyarrow
    import pyarrow.csv

    path, reading, keep = split.source, split.reading, split.keep
    if split.form == "tsv" and reading.delimiter is None:
        reading = replace(reading, delimiter="\t")
    stream, header = _Stream(path, reading.encoding), reading.header is not False
    names, delimiter = _first_record(path, stream, reading)
    if not header and len(names) == 2 and reading.text is None and reading.label is None:
        reading = replace(reading, label=0 if reading.labelled else None, text=1)
    positions = _positions(path, names, reading, bool(keep))
    columns = list(map(str, range(len(names)) if keep else sorted({i for some in positions.values() for i in some})))
    invalid: dict[int, str] = {}  # problems of records that do not fit the header, by number
    number, last = 1 + header, None

    def skip(row: pyarrow.csv.InvalidRow) -> str:
        invalid[row.number + header] = f"the record has {row.actual_columns} fields, but the header has {len(names)}"
        return "skip"

    while not stream.first.strip(b"\r\n"):
        stream.first = stream.next_block()
        if not stream.first:
            return
    all_columns, kinds = list(map(str, range(len(names)))), dict.fromkeys(columns, pyarrow.binary())
    read = pyarrow.csv.ReadOptions(use_threads=False, block_size=1 << 30, column_names=all_columns)
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip)
    convert = pyarrow.csv.ConvertOptions(check_utf8=False, column_types=kinds, include_columns=columns)
    try:
        for batch in pyarrow.csv.open_csv(pyarrow.PythonFile(stream, mode="r"), read, parse, convert):
            for first in range(0, batch.num_rows, split.block_documents):
                last = batch.slice(first, split.block_documents)
                numbers = np.arange(number, number + last.num_rows + len(invalid))
                numbers = numbers[~np.isin(numbers, list(invalid))][: last.num_rows]
                number = int(numbers[-1]) + 1
                of_role = {r: [texts_of_binary(last.column(str(i))) for i in some] for r, some in positions.items()}
                texts, roles = of_role.pop("text"), {role: some[0] for role, some in of_role.items()}
                beside, problems = dict[str, Any](), Problems()
                for name, column in zip(names, last.columns, strict=True) if keep else ():
                    try:
                        beside[name] = column.cast(pyarrow.string())
                    except pyarrow.ArrowInvalid:
                        values = listed(texts_of_binary(column), reading.errors)
                        why = {row: problem for row, value in enumerate(values) if (problem := not_unicode(value))}
                        problems |= {row: f"the record has {problem}" for row, problem in why.items()}
                        beside[name] = pyarrow.array(["" if row in why else value for row, value in enumerate(values)])
                odd = {n: invalid.pop(n) for n in list(invalid) if n < number}
                yield RecordBatch(texts, roles, numbers, "record", beside, problems, odd, reading.errors)
    except pyarrow.ArrowInvalid as error:
        if "Empty CSV" not in str(error):
            raise IngestError(f"{path}, after record {number - 1:,}: {error}; is there an unclosed quote?") from error
    yield RecordBatch([[]], {}, np.zeros(0, int), "record", invalid=invalid)
    if stream.n_quotes % 2 and last is not None and any(b"\n" in column[-1].as_py() for column in last.columns):
        raise IngestError(f"{path}, record {number - 1:,}: unclosed quote at the end of the file")


class _Stream:
    """The bytes of a file in UTF-8 for Arrow: each read ends at the end of a line, outside of quotes."""

    closed = False

    def __init__(self, path: Path, encoding: str) -> None:
        self._blocks = (block[:-PADDING] for block in line_blocks(path, encoding))
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
        """Do nothing: the generator of blocks closes the file."""


def _first_record(path: Path, stream: _Stream, reading: Reading) -> tuple[list[str], str]:
    """Return the names of the columns and the delimiter; remove the header from the stream."""
    delimiters = DELIMITERS if reading.delimiter is None else reading.delimiter
    if reading.delimiter is not None and (len(delimiters) != 1 or not delimiters.isascii()):
        raise IngestError(f"{path}: the delimiter must be one ASCII character, such as ';', got {reading.delimiter!r}")
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


def read_parquet(split: SourcePart) -> Iterator[RecordBatch]:
    """Yield the rows of a file, or of the row groups of a split; numbers count rows of the file."""
    import pyarrow
    import pyarrow.parquet

    path, keep = split.source, bool(split.keep)
    try:
        with pyarrow.parquet.ParquetFile(for_a_reader(path)) as file:
            names = file.schema_arrow.names
            positions = _positions(path, names, split.reading, keep)
            first, stop = split.part or (0, file.num_row_groups)
            row = 1 + sum(file.metadata.row_group(i).num_rows for i in range(first))
            size = min(split.block_documents, PARQUET_ROWS)
            columns = names if keep else list(dict.fromkeys(names[i] for some in positions.values() for i in some))
            for batch in file.iter_batches(batch_size=size, row_groups=range(first, stop), columns=columns):
                of_role = {role: [batch.column(names[i]) for i in some] for role, some in positions.items()}
                texts = of_role.pop("text")
                beside = dict(zip(batch.schema.names, batch.columns, strict=True)) if keep else {}
                numbers = np.arange(row, row + batch.num_rows)
                row += batch.num_rows
                yield RecordBatch(texts, {role: some[0] for role, some in of_role.items()}, numbers, "row", beside)
    except FileNotFoundError as error:
        raise IngestError(f"{path}: no such file") from error
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise IngestError(f"{path} cannot be read as Parquet: {error}") from error


def _positions(path: Path, names: list[str], reading: Reading, keep: bool) -> dict[str, list[int]]:
    if not names:
        raise IngestError(f"{path}, line 1: no column names; is the file empty?")
    columns = {**{role: [name] for role, name in reading.roles.items()}, "text": reading.texts(names)}
    for role, name in ((role, name) for role, some in columns.items() for name in some):
        if names.count(name) == 1:
            continue
        times = "more than one column" if name in names else "no column"
        kind = NoLabelError if role == "label" and name not in names else IngestError
        options = "--label and --text" if reading.labelled else "--text (and --id)"
        advice = f"Choose columns with {options if role in ('label', 'text', 'id') else f'--{role}'}"
        if len(names) == 1 and (mark := next(filter(names[0].__contains__, DELIMITERS), "")):
            advice = f"Wrong delimiter? Choose another with --delimiter {mark!r}"
        bad = next(filter(None, map(not_unicode, names)), None)
        columns_are = f"there is {times} {name!r}; the columns are {', '.join(map(repr, names))}"
        raise kind(f"{path}, line 1: {columns_are}. {advice}{f'. The header has {bad}' if bad else ''}")
    if keep and (twice := [name for name in names if names.count(name) > 1]):
        raise IngestError(f"{path}: more than one column is named {twice[0]!r}: rename one of them")
    return {role: [names.index(name) for name in some] for role, some in columns.items()}


READERS = {"csv": read_csv, "jsonl": read_json_lines, "parquet": read_parquet, "svmlight": read_svmlight}
