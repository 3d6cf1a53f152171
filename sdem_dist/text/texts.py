"""Texts as bytes in one buffer, which the kernels read; records of them, and what to do with those that are none."""

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
    """Texts in UTF-8, in which surrogates may be spelled as other code points are."""

    data: np.ndarray  # uint8: text ``i`` is ``data[starts[i]:stops[i]]``
    starts: np.ndarray
    stops: np.ndarray  # `starts` and `stops`: shape (n_texts,), int64

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
"""Why rows are no documents; None for rows that are left out without a word, as blank lines are."""


@dataclass
class RecordBatch:
    """Consecutive records as a reader finds them, before they are checked."""

    texts: Sequence[Texts | list[object] | pyarrow.Array]  # columns, which a line feed joins; none beside a `matrix`
    roles: Mapping[str, list[object] | Texts | pyarrow.Array]  # columns of label, id, group and weight, if read
    numbers: np.ndarray  # of each record in its source, from 1
    unit: str = "line"
    beside: dict[str, list[object] | pyarrow.Array] = field(default_factory=dict)  # all columns, where they are kept
    problems: Problems = field(default_factory=dict)
    invalid: dict[int, str] = field(default_factory=dict)  # why records between these are none, by their numbers
    errors: str = "surrogatepass"  # how bytes are decoded, see `Reading.errors`
    are_valid: bool = False  # texts are known to be UTF-8
    matrix: sp.csr_matrix | None = None

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Records:
    texts: Texts  # empty ones where records are rows of `matrix`
    labels: list[str] = field(default_factory=list)  # the class name of each text; empty where labels are not read
    ids: list[object] | None = None  # the ids of the documents, where a column of them was named
    columns: dict[str, list[object] | pyarrow.Array] = field(default_factory=dict)  # all columns, where they are kept
    groups: list[str] | None = None  # the group of each document, where a column of groups was named
    weights: np.ndarray | None = None  # float64: the weight of each document, where a column of weights was named
    matrix: sp.csr_matrix | None = None  # canonical, without zeros; columns as the source numbers them

    def take(self, rows: np.ndarray) -> Records:
        def of(column: Any) -> Any:
            if isinstance(column, dict):
                return {name: of(one) for name, one in column.items()}
            if isinstance(column, list):
                return [column[i] for i in rows.tolist()] if column else column
            return column if column is None else column.take(rows) if hasattr(column, "take") else column[rows]

        return Records(*(of(getattr(self, one.name)) for one in fields(self)))


def listed(column: Any, errors: str = "surrogatepass") -> list[Any]:
    """Return a list, `Texts` or an Arrow column as a list; `errors` is for bytes that are not UTF-8."""
    if isinstance(column, list):
        return column
    if isinstance(column, Texts):
        return [text.decode("utf-8", errors) for text in column.encoded()]
    numbers = str(column.type) in ("int64", "double") and not column.null_count
    return list(column.to_numpy().tolist() if numbers else column.to_pylist())  # the first is much faster


def pieces(sizes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Yield first and last + 1 of consecutive things of these sizes, about `most` together."""
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
    """Return a list, an array, a pandas or an Arrow column of texts as one buffer, or raise ValueError."""
    return next(parts_of_strings(texts, 1 << 62), None) or texts_of_bytes([])


def parts_of_strings(texts: TextColumn, n_characters: int = JOINED_CHARACTERS) -> Iterator[Texts]:
    """Yield the texts that `texts_of_strings` returns in parts of about a million bytes, each made when needed."""
    if isinstance(texts, str):
        raise ValueError("expected a list of texts, got a single text")
    if (column := texts_of_arrow(texts, nulls=False)) is not None:
        yield column
        return
    values = list(texts.to_pylist() if hasattr(texts, "to_pylist") else texts)  # of Arrow with nulls, which are named
    try:
        for first, stop in pieces(np.fromiter(map(len, values), np.int64, len(values)), n_characters):
            yield texts_of_bytes([str.encode(text, "utf-8", "surrogatepass") for text in values[first:stop]])
    except TypeError:
        row, text = next((row, text) for row, text in enumerate(values) if not isinstance(text, str))
        advice = f"{'decode it, or ' * isinstance(text, bytes)}drop it, or replace it with ''"
        raise ValueError(f"text {row} (from 0) is {text!r:.60}, not a text: {advice}") from None


def is_text(kind: pyarrow.DataType) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def texts_of_arrow(texts: object, *, nulls: bool = True) -> Texts | None:
    """Return the buffers of an Arrow column, or None if it is not of text; nulls are empty texts, or not allowed."""
    if not (hasattr(texts, "__arrow_c_stream__") or hasattr(texts, "__arrow_c_array__")):
        return None
    import pyarrow as pa

    try:
        column = texts if isinstance(texts, pa.Array | pa.ChunkedArray) else pa.chunked_array(texts)
    except (pa.ArrowException, UnicodeError):  # pandas columns of any kind
        return None
    if pa.types.is_dictionary(column.type) and is_text(column.type.value_type):  # decoded it may be beyond 2 GB
        column = column.cast(pa.dictionary(column.type.index_type, pa.large_string())).cast(pa.large_string())
    if (column.null_count and not nulls) or not (is_text(column.type) or pa.types.is_null(column.type)):
        return None
    column = column.cast(pa.large_string())
    return texts_of_binary(column.fill_null("") if column.null_count else column)


def texts_of_binary(column: pyarrow.Array | pyarrow.ChunkedArray) -> Texts:
    """Return the buffers of an Arrow column of bytes, or of texts, without nulls."""
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
MOST_NAMES = 10_000  # of classes that are remembered; targets may be as many as documents
LONGEST = 60  # characters of an unknown label that a message shows
NONE = ""
"""The name that stands for no label: no class has it, since an empty label is refused where none may be missing."""
MIXED = "is sometimes a string and sometimes a number in the sources: use one type"


class NoLabelError(IngestError):
    first: bool = True
    """Whether no document before it has one, as far as is known."""


@dataclass
class RowValidator:
    """Decides about every record: documents pass, bad records raise or are counted."""

    on_error: Literal["raise", "skip"] = "raise"  # stop at the first bad record, or leave bad ones out and count them
    known_classes: frozenset[str] | None = None  # the only labels allowed; None: any
    numeric: bool = False  # labels have to be finite numbers
    separator: str | None = None  # stands between the labels of a document; or these are a list; it may have none
    unlabelled: str | None = None  # the label that stands for none: such documents, and those without, have `NONE`
    start: int = 0  # the byte of the file that line 1 begins with, where a part of it is read
    skipped: int = 0  # records left out so far
    examples: list[str] = field(default_factory=list)  # the messages of the first few of them
    labelled: bool = False  # whether a record with a label has passed
    texts: dict[str, bool] = field(default_factory=dict)  # whether each label that passed was a text, by its name
    _passed: dict[str | bytes, str] = field(default_factory=dict)  # class names of labels that passed

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip"):
            raise ValueError(f"on_error must be 'raise' or 'skip', got {self.on_error!r}")

    def reject(self, path: Path, line: int, problem: str | IngestError, unit: str = "line") -> None:
        """Record the bad line `line` (counted from 1) of `path`, or raise what is wrong with it as IngestError."""
        if self.on_error == "skip" and len(self.examples) >= MAX_EXAMPLES:
            self.skipped += 1
            return
        if self.start:  # lines are counted only when somebody asks
            rest = self.start
            with path.open("rb") as file:
                while rest > 0 and (chunk := file.read(min(1 << 22, rest))):
                    line += chunk.count(b"\n")
                    rest -= len(chunk)
        error = problem if isinstance(problem, IngestError) else IngestError(problem)
        error.path, error.record, error.unit = str(path), line, unit
        if self.on_error == "raise":
            error.hint = f"use --on-error skip, or on_error in Python, to skip such {unit}s"
            if isinstance(error, NoLabelError):
                error.first = not (self.labelled or self.start)
            raise error
        self.skipped += 1
        self.examples.append(str(error))

    def merge(self, skipped: int, examples: list[str]) -> None:
        self.skipped += skipped
        self.examples += examples[: MAX_EXAMPLES - len(self.examples)]

    def check(self, path: Path, batch: RecordBatch) -> Records:
        """Return the documents of a batch; its other records are rejected, in order. A text that is null is empty."""
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
        if len(columns) != 1:  # of a matrix none
            parts = zip(*(column.encoded() for column in columns), strict=True)
            columns = [texts_of_bytes(list(map(b"\n".join, parts)) if columns else [b""] * len(batch))]
        labels: list[Any] = [] if self.unlabelled is None else [NONE] * len(batch)
        if "label" in batch.roles:
            # labels that have passed are looked up at once; 1, 1.0 and True would be the same key, and lists none
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
                    missing = "missing" if value is None else f"{value!r:.60}"
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
        """Return a label, or the set of several, as a class name without blanks around it, or raise IngestError."""
        if self.unlabelled is not None:
            missing = raw is None or (isinstance(raw, float) and math.isnan(raw))
            if missing or label_name(raw) in (NONE, self.unlabelled.strip()):
                return NONE
        labels, names = [raw], set[str]()
        if self.separator is not None and isinstance(raw, str):
            labels = [part for part in raw.split(self.separator) if part.strip()]
        elif self.separator is not None and isinstance(raw, list):
            labels = raw
        advice = "pass --unlabelled '' to train on such documents anyway"
        for label in labels:
            name = label_name(label)
            if label is None:
                raise NoLabelError(f"the label is missing; {advice}")
            if isinstance(label, list):
                raise IngestError(f"the label is a list, {label!r:.60}: use --label-separator , for lists of labels")
            if name is None:
                raise IngestError(f"the label is {label!r}, neither a string nor a finite number")
            if not name:
                raise NoLabelError(f"the label is empty; {advice}, or --label-separator , for several labels")
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
                    hint = f"; it differs from {min(alike)!r} only by Unicode normalization: use one form for both"
                shown = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"  # a text, where columns are swapped
                raise IngestError(f"unknown label {shown!r}; the classes are {classes}{hint}")
            if self.texts.setdefault(name, isinstance(label, str)) != isinstance(label, str):
                raise IngestError(f"the label {label!r} {MIXED}")
        return name_of(tuple(sorted(names))) if self.separator is not None else min(names)


def class_name(label: ClassLabel | LabelSet) -> str:
    """Return the name that a class of a corpus has in sources: that of a label, or of a set of them."""
    if isinstance(label, tuple):
        return name_of(tuple(sorted(str(label_name(one)) for one in label)))
    return str(label_name(label))


def label_name(raw: object) -> str | None:
    """Return a label as text (1.0 becomes "1", True becomes "true"), or None for anything but a text or a number."""
    if isinstance(raw, str):
        return raw.strip()
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, float):
        return None if not math.isfinite(raw) else str(int(raw)) if raw.is_integer() else str(raw)
    return str(raw) if isinstance(raw, int) else None


def not_unicode(text: str) -> str | None:
    """Return why `text` cannot be stored as UTF-8, if so; readers decode with "surrogateescape" or "surrogatepass"."""
    if text.isascii():
        return None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        if 0xDC80 <= code <= 0xDCFF:
            return f"the byte 0x{code - 0xDC00:02x}, invalid in this encoding: pass --encoding, such as latin-1"
        return f"an unpaired surrogate, U+{code:04X}"
    return None


def warn_of_lookalikes(labels: Iterable[object], stacklevel: int) -> None:
    """Warn of labels that differ only by spaces around them, or by the code points that spell the same letters."""
    spellings = dict[str, object]()
    for label in labels:
        plain = unicodedata.normalize("NFC", label).strip() if isinstance(label, str) else ""
        if (other := spellings.setdefault(plain, label) if plain else label) != label:
            two = f"{label!r} ({label!a}) and {other!r} ({other!a}) differ only by spaces or Unicode normalization"
            problem = f"two labels look alike, but are different classes: {two}"
            warnings.warn(f"{problem}; write them in the same form", stacklevel=stacklevel)
