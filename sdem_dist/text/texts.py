"""Texts as bytes in one buffer for the kernels; records of texts; validation of records."""

from __future__ import annotations

import math
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from sdem_dist.corpus.labels import name_of
from sdem_dist.corpus.manifest import ClassLabel, LabelSet
from sdem_dist.documents import offsets_of
from sdem_dist.errors import IngestError
from sdem_dist.kernels.code_points import PADDING, Pieces, is_utf8

if TYPE_CHECKING:
    import pyarrow
    import scipy.sparse as sp

    TextColumn: TypeAlias = Sequence[str] | np.ndarray | pyarrow.Array

BLOCK_CHARACTERS = 4_000_000
JOINED_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class Texts:
    """Texts in UTF-8, which may contain encoded surrogates ("surrogatepass")."""

    data: np.ndarray  # uint8: text ``i`` is ``data[starts[i]:stops[i]]``
    starts: np.ndarray  # shape (n_texts,), int64
    stops: np.ndarray  # shape (n_texts,), int64

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[str]:
        return iter(listed(self))

    @property
    def pieces(self) -> Pieces:
        return Pieces(self.data, self.starts, self.stops)

    @property
    def sizes(self) -> np.ndarray:
        return self.stops - self.starts

    @property
    def n_bytes(self) -> int:
        return int(self.sizes.sum())

    def encoded(self) -> list[bytes]:
        data = memoryview(cast(Any, self.data))
        return [bytes(data[a:b]) for a, b in zip(self.starts.tolist(), self.stops.tolist(), strict=True)]

    def take(self, rows: np.ndarray | slice) -> Texts:
        return Texts(self.data, self.starts[rows], self.stops[rows])


Problems = dict[int, str | IngestError | None]
"""Problem of each row that is not a document; None for rows that are skipped silently, such as blank lines."""


@dataclass
class RecordBatch:
    """Consecutive records from a reader, before validation."""

    texts: Sequence[Texts | list[object] | pyarrow.Array]  # text columns, joined by line feeds; empty for `matrix`
    roles: Mapping[str, list[object] | Texts | pyarrow.Array]  # columns of label, id, group and weight, if read
    numbers: np.ndarray  # number of each record in its source, from 1
    unit: str = "line"
    beside: dict[str, list[object] | pyarrow.Array] = field(default_factory=dict)  # all columns, if they are kept
    problems: Problems = field(default_factory=dict)
    invalid: dict[int, str] = field(default_factory=dict)  # problems of records that are not in the batch, by number
    errors: str = "surrogatepass"  # error handler for decoding, see `Reading.errors`
    are_valid: bool = False  # the texts have been checked to be UTF-8
    matrix: sp.csr_matrix | None = None

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Records:
    texts: Texts  # empty texts if the records are rows of `matrix`
    labels: list[str] = field(default_factory=list)  # class name of each text; an empty list if labels are not read
    ids: list[object] | None = None  # id of each document, if a column of ids is chosen
    columns: dict[str, list[object] | pyarrow.Array] = field(default_factory=dict)  # all columns, if they are kept
    groups: list[str] | None = None  # group of each document, if a column of groups is chosen
    weights: np.ndarray | None = None  # weight of each document, float64, if a column of weights is chosen
    matrix: sp.csr_matrix | None = None  # canonical, without zeros; with the source's numbers of columns

    def take(self, rows: np.ndarray) -> Records:
        def of(column: Any) -> Any:
            if isinstance(column, dict):
                return {name: of(one) for name, one in column.items()}
            if isinstance(column, list):
                return [column[i] for i in rows.tolist()] if column else column
            return column if column is None else column.take(rows) if hasattr(column, "take") else column[rows]

        return Records(*(of(getattr(self, one.name)) for one in fields(self)))


def listed(column: Any, errors: str = "surrogatepass") -> list[Any]:
    """Return a list, `Texts` or an Arrow column as a list; `errors`: error handler for invalid UTF-8."""
    if isinstance(column, list):
        return column
    if isinstance(column, Texts):
        return [text.decode("utf-8", errors) for text in column.encoded()]
    numbers = str(column.type) in ("int64", "double") and not column.null_count
    return list(column.to_numpy().tolist() if numbers else column.to_pylist())  # NumPy is much faster


def pieces(sizes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive ranges (first, stop) of items whose sizes sum to at most `most`, or of a single larger item."""
    ends, first = np.cumsum(sizes), 0
    while first < len(ends):
        before = ends[first - 1] if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield first, stop
        first = stop


def texts_of_bytes(encoded: Sequence[bytes]) -> Texts:
    offsets = offsets_of([*map(len, encoded)])
    return Texts(np.frombuffer(b"".join([*encoded, bytes(PADDING)]), np.uint8), offsets[:-1], offsets[1:])


def texts_of_strings(texts: TextColumn) -> Texts:
    """Return a list, array, pandas column or Arrow column of texts as one buffer; ValueError if one is not a text."""
    return next(parts_of_strings(texts, 1 << 62), None) or texts_of_bytes([])


def parts_of_strings(texts: TextColumn, n_characters: int = JOINED_CHARACTERS) -> Iterator[Texts]:
    """Yield the result of `texts_of_strings` in parts of about `n_characters`; an Arrow column is a single part."""
    if isinstance(texts, str):
        raise ValueError("expected a list of texts, got a single text")
    if (column := texts_of_arrow(texts, nulls=False)) is not None:
        yield column
        return
    values = list(texts.to_pylist() if hasattr(texts, "to_pylist") else texts)  # Arrow with nulls: fails below
    try:
        for first, stop in pieces(np.fromiter(map(len, values), np.int64, len(values)), n_characters):
            yield texts_of_bytes([str.encode(text, "utf-8", "surrogatepass") for text in values[first:stop]])
    except TypeError:
        row, text = next((row, text) for row, text in enumerate(values) if not isinstance(text, str))
        advice = f"{'decode it, or ' * isinstance(text, bytes)}drop it, or replace it with ''"
        raise ValueError(f"text {row} (counting from 0) is {text!r:.60}, not a text: {advice}") from None


def is_text(kind: pyarrow.DataType) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def texts_of_arrow(texts: object, *, nulls: bool = True) -> Texts | None:
    """Return the buffers of an Arrow column; None if it is not text. Nulls are empty texts if `nulls`; else None."""
    if not (hasattr(texts, "__arrow_c_stream__") or hasattr(texts, "__arrow_c_array__")):
        return None
    import pyarrow as pa

    try:
        column = texts if isinstance(texts, pa.Array | pa.ChunkedArray) else pa.chunked_array(texts)
    except (pa.ArrowException, UnicodeError):  # pandas columns of any kind
        return None
    if pa.types.is_dictionary(column.type) and is_text(column.type.value_type):  # more than 2 GB are possible
        column = column.cast(pa.dictionary(column.type.index_type, pa.large_string())).cast(pa.large_string())
    if (column.null_count and not nulls) or not (is_text(column.type) or pa.types.is_null(column.type)):
        return None
    column = column.cast(pa.large_string())
    return texts_of_binary(column.fill_null("") if column.null_count else column)


def texts_of_binary(column: pyarrow.Array | pyarrow.ChunkedArray) -> Texts:
    """Return the buffers of an Arrow column of bytes or texts without nulls."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    column = column if pa.types.is_large_string(column.type) else column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return Texts(content, bounds[:-1], bounds[1:])


MAX_EXAMPLES = 5
MOST_NAMES = 10_000  # most labels in the cache; there may be as many numeric targets as documents
LONGEST = 60  # most characters of an unknown label in a message
NONE = ""
"""Name of a missing label. No class has this name, since empty labels are either errors or missing."""
WITHOUT_LABEL = "to learn from them, use --unlabelled '' or, for several labels per document, --label-separator ','"
MIXED = "is sometimes a string and sometimes a number in the sources: use one type"


class NoLabelError(IngestError):
    """A document without a label."""


@dataclass
class RowValidator:
    """Validates records: valid ones are documents; bad ones raise IngestError, or are skipped and counted."""

    on_error: Literal["raise", "skip"] = "raise"  # stop at the first bad record, or skip and count bad records
    known_classes: frozenset[str] | None = None  # the only allowed labels; None: any
    numeric: bool = False  # labels must be finite numbers
    separator: str | None = None  # separator of several labels, which may also be a list; a document may have no label
    unlabelled: str | None = None  # label that means missing: it and missing labels become `NONE`; None: not allowed
    start: int = 0  # byte offset of the first line, if a part of a file is read
    skipped: int = 0  # number of skipped records
    examples: list[str] = field(default_factory=list)  # the messages of the first few of them
    labelled: bool = False  # whether a record with a label was valid
    texts: dict[str, bool] = field(default_factory=dict)  # for each valid label, by name: whether it was a string
    _passed: dict[str | bytes, str] = field(default_factory=dict)  # cache: class names of valid labels

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip"):
            raise ValueError(f"on_error must be 'raise' or 'skip', got {self.on_error!r}")

    def reject(self, path: Path, line: int, problem: str | IngestError, unit: str = "line") -> None:
        """Count a bad record, number `line` (from 1) of `path`, or raise its problem as IngestError."""
        if self.on_error == "skip" and len(self.examples) >= MAX_EXAMPLES:
            self.skipped += 1
            return
        if self.start:  # the lines before the part are counted only for a message
            with path.open("rb") as file:
                sizes = (min(1 << 22, self.start - at) for at in range(0, self.start, 1 << 22))
                line += sum(file.read(size).count(b"\n") for size in sizes)
        error = problem if isinstance(problem, IngestError) else IngestError(problem)
        error.path, error.record, error.unit, error.hint, advice = str(path), line, unit, "", error.hint
        if self.on_error == "raise":
            if isinstance(error, NoLabelError) and not (self.labelled or self.start):
                topics = "use --no-labels (and --estimator LatentDirichletAllocation)"
                advice = f"{advice}{advice and '; '}if no document has a label, {topics}"
            error.hint = f"use --on-error skip, or on_error in Python, to skip such {unit}s{advice and '; ' + advice}"
            raise error
        self.skipped += 1
        self.examples.append(str(error))

    def merge(self, skipped: int, examples: list[str]) -> None:
        self.skipped += skipped
        self.examples += examples[: MAX_EXAMPLES - len(self.examples)]

    def check(self, path: Path, batch: RecordBatch) -> Records:
        """Return the documents of a batch, and reject its bad records in order. A null text is empty."""
        problems, decode, columns = batch.problems, batch.errors, []
        for column in batch.texts:
            texts = column if isinstance(column, Texts) else texts_of_arrow(column)
            if texts is None:
                values = listed(column)
                for row, value in enumerate(values):
                    if value is not None and not isinstance(value, str):
                        problems.setdefault(row, f"the text is {value!r:.60}, not a string")
                texts = texts_of_strings([value if isinstance(value, str) else "" for value in values])
            columns.append(texts)
            if batch.are_valid or not len(texts) or is_utf8(texts.data, int(texts.starts[0]), int(texts.stops[-1])):
                continue
            for row, text in enumerate(listed(texts, decode)):
                if problem := not_unicode(text):
                    problems.setdefault(row, f"the text has {problem}")
        if len(columns) != 1:  # 0 for a matrix
            parts = zip(*(column.encoded() for column in columns), strict=True)
            columns = [texts_of_bytes(list(map(b"\n".join, parts)) if columns else [b""] * len(batch))]
        labels: list[Any] = [] if self.unlabelled is None else [NONE] * len(batch)
        if "label" in batch.roles:
            # only strings and bytes are cached: 1, 1.0 and True are the same key, and lists cannot be keys
            column, passed_labels = batch.roles["label"], self._passed
            raw: list[Any] = column.encoded() if isinstance(column, Texts) else listed(column)
            labels = [passed_labels.get(label) if isinstance(label, str | bytes) else None for label in raw]
            for row, label in enumerate(raw) if None in labels else ():
                if labels[row] is None and row not in problems:
                    try:
                        labels[row] = self.class_of(label.decode("utf-8", decode) if type(label) is bytes else label)
                    except IngestError as error:
                        problems[row] = error
                        continue
                    if isinstance(label, str | bytes) and len(passed_labels) < MOST_NAMES:
                        passed_labels[label] = labels[row]
        beside = {role: listed(column, decode) for role, column in batch.roles.items() if role != "label"}
        for role in ("id", "group"):
            for row, value in enumerate(beside.get(role, ())):
                if not isinstance(value, str | int):
                    missing = "missing" if value is None else f"{value!r:.60}, neither a string nor an integer"
                    problems.setdefault(row, f"the {role} is {missing}")
                elif isinstance(value, str) and (problem := not_unicode(value)):
                    problems.setdefault(row, f"the {role} has {problem}")
        groups, weights = (list(map(str, beside["group"])) if "group" in beside else None), None
        if "weight" in beside:
            weights = np.full(len(batch), np.nan)
            for row, value in enumerate(beside["weight"]):
                with suppress(ValueError):
                    weights[row] = float(str(value))
                if not 0 <= weights[row] < np.inf:
                    problems.setdefault(row, f"the weight is {value!r:.40}, but weights must be nonnegative numbers")
        passed = np.ones(len(batch), bool)
        passed[list(problems)] = False
        first = int(batch.numbers[passed.argmax()]) if labels and passed.any() else 1 << 62
        rejected = [(int(batch.numbers[row]), why) for row, why in problems.items() if why is not None]
        for number, why in sorted([*rejected, *batch.invalid.items()], key=lambda item: item[0]):
            self.labelled = self.labelled or number > first
            self.reject(path, number, why, batch.unit)
        self.labelled = self.labelled or first < 1 << 62
        records = Records(columns[0], labels, beside.get("id"), batch.beside, groups, weights, batch.matrix)
        return records if passed.all() else records.take(np.flatnonzero(passed))

    def class_of(self, raw: object) -> str:
        """Return the class name of a label or of a set of labels, stripped of blanks; IngestError if it is invalid."""
        if self.unlabelled is not None:
            missing = raw is None or (isinstance(raw, float) and math.isnan(raw))
            if missing or label_name(raw) in (NONE, self.unlabelled.strip()):
                return NONE
        labels, names = [raw], set[str]()
        if self.separator is not None and isinstance(raw, str):
            labels = [part for part in raw.split(self.separator) if part.strip()]
        elif self.separator is not None and isinstance(raw, list):
            labels = raw
        for label in labels:
            name = label_name(label)
            if label is None or name == "":
                what = f"the label is {'missing' if label is None else 'empty'}"
                raise NoLabelError(what, hint=WITHOUT_LABEL if self.separator is None else "")
            if isinstance(label, list):
                raise IngestError(f"the label is a list, {label!r:.60}: use --label-separator ',' for lists of labels")
            if name is None:
                raise IngestError(f"the label is {label!r}, neither a string nor a finite number")
            if name.endswith("\0"):
                raise IngestError(f"the label {name!r} ends with a NUL, which NumPy drops: remove it")
            if problem := not_unicode(name):
                raise IngestError(f"the label has {problem}")
            names.add(name)
            if self.numeric:
                with suppress(ValueError):
                    if math.isfinite(float(name)):
                        continue
                raise IngestError(f"targets must be finite numbers, got the label {name!r}")
            if self.known_classes is not None and name not in self.known_classes:
                classes = ", ".join(sorted(self.known_classes)[:10]) + ", ..." * (len(self.known_classes) > 10)
                hint = f"; the label separator is {self.separator!r} (--label-separator)" * (self.separator is not None)
                if alike := {unicodedata.normalize(form, name) for form in ("NFC", "NFD")} & self.known_classes:
                    hint = f"; {name!r} and {min(alike)!r} differ only by Unicode normalization: use one form for both"
                shown = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"  # swapped columns: a text
                raise IngestError(f"unknown label {shown!r}; the classes are {classes}{hint}")
            if self.texts.setdefault(name, isinstance(label, str)) != isinstance(label, str):
                raise IngestError(f"the label {label!r} {MIXED}")
        return name_of(tuple(sorted(names))) if self.separator is not None else min(names)


def class_name(label: ClassLabel | LabelSet) -> str:
    """Return the class name, as in sources, of a label of a corpus or of a set of labels."""
    if isinstance(label, tuple):
        return name_of(tuple(sorted(str(label_name(one)) for one in label)))
    return str(label_name(label))


def label_name(raw: object) -> str | None:
    """Return a label as text (1.0 becomes "1", True becomes "true"); None if it is neither text nor finite number."""
    if isinstance(raw, str):
        return raw.strip()
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, float):
        return None if not math.isfinite(raw) else str(int(raw)) if raw.is_integer() else str(raw)
    return str(raw) if isinstance(raw, int) else None


def not_unicode(text: str) -> str | None:
    """Return the problem of a text that is not valid UTF-8, or None. Readers decode invalid bytes as surrogates."""
    if text.isascii():
        return None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        if 0xDC80 <= code <= 0xDCFF:
            return f"the byte 0x{code - 0xDC00:02x}, invalid in this encoding: use another, such as --encoding latin-1"
        return f"an unpaired surrogate, U+{code:04X}"
    return None


def warn_of_lookalikes(labels: Iterable[object], stacklevel: int) -> None:
    """Warn of labels that differ only by surrounding spaces or by Unicode normalization."""
    spellings = dict[str, object]()
    for label in labels:
        plain = unicodedata.normalize("NFC", label).strip() if isinstance(label, str) else ""
        if (other := spellings.setdefault(plain, label) if plain else label) != label:
            two = f"{label!r} ({label!a}) and {other!r} ({other!a}) differ only by spaces or Unicode normalization"
            problem = f"two labels look alike, but are different classes: {two}"
            warnings.warn(f"{problem}; write them in the same form", stacklevel=stacklevel)
