"""Texts as bytes in one buffer, which the kernels read without making a Python object of each."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.documents import offsets_of, offsets_of_lengths
from sdem_dist.errors import IngestError
from sdem_dist.kernels.code_points import PADDING, Pieces
from sdem_dist.kernels.lines import join_cells
from sdem_dist.text.vectorizer import KERNEL_PATTERN, VectorizerSettings

if TYPE_CHECKING:
    import pyarrow


BLOCK_CHARACTERS = 4_000_000
JOINED_CHARACTERS = 1 << 20
LONG = 64
"""Texts of this many characters or more are encoded alone: one that is not ASCII slows down all joined with it."""


@dataclass(frozen=True)
class Texts:
    """Texts in UTF-8, in which surrogates may be spelled as other code points are."""

    data: np.ndarray  # uint8: text ``i`` is ``data[starts[i]:stops[i]]``
    starts: np.ndarray
    stops: np.ndarray  # `starts` and `stops`: shape (n_texts,), int64

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[str]:
        return (self.bytes_of(i).decode("utf-8", "surrogatepass") for i in range(len(self)))

    @property
    def pieces(self) -> Pieces:
        """The same as kernels take it."""
        return Pieces(self.data, self.starts, self.stops)

    @property
    def n_bytes(self) -> int:
        return int((self.stops - self.starts).sum())

    def bytes_of(self, i: int) -> bytes:
        return self.data[self.starts[i] : self.stops[i]].tobytes()

    def take(self, rows: np.ndarray) -> Texts:
        """Return the texts of these numbers, or of a mask, in the same buffer."""
        return Texts(self.data, self.starts[rows], self.stops[rows])

    def part(self, first: int, stop: int) -> Texts:
        """Return the texts `first` up to `stop`, in the same buffer."""
        return Texts(self.data, self.starts[first:stop], self.stops[first:stop])

    def alone(self) -> Texts:
        """Return the same texts in a buffer with little else, for sending."""
        first, last = int(self.starts.min(initial=len(self.data))), int(self.stops.max(initial=0))
        if first >= last:
            return Texts(np.zeros(PADDING, np.uint8), self.starts * 0, self.stops * 0)
        data = np.concatenate([self.data[first:last], np.zeros(PADDING, np.uint8)])
        return Texts(data, self.starts - first, self.stops - first)


@dataclass(frozen=True)
class Columns:
    """What is read of a table; numbers of columns without a header, else names."""

    text: str | int | tuple[str | int, ...] | None = None  # several are joined by a line feed
    label: str | int | None = None
    id: str | int | None = None
    group: str | int | None = None
    weight: str | int | None = None
    labelled: bool = True  # documents have labels, otherwise `label` plays no part
    keep: bool = False  # keep all columns
    known: tuple[str, ...] | None = None
    """Where a part of a source is read: the columns to keep, those of the source's first documents."""

    def of(self, role: str) -> str | int | None:
        """Return the column of "label", "id", "group" or "weight", None for one that is not read."""
        if role == "label" and not self.labelled:
            return None
        column: str | int | None = getattr(self, role)
        return "label" if role == "label" and column is None else column

    @property
    def texts(self) -> tuple[str | int, ...]:
        if isinstance(self.text, tuple):
            return self.text
        return ("text" if self.text is None else self.text,)


ROLES = ("label", "id", "group", "weight")


@dataclass
class RecordBatch:
    """Consecutive records as a reader finds them, before they are checked.

    `texts`: columns of text, joined by a line feed where there are several.
    `roles`: columns of label, id, group and weight, those that are read.
    `numbers`: of each record in its source, from 1.
    `problems`: why rows are no documents; None for rows that are left out without a word, as blank lines are.
    """

    texts: list[Texts | list[object] | pyarrow.Array]
    roles: dict[str, list[object] | Texts | pyarrow.Array]
    numbers: np.ndarray
    unit: str = "line"
    beside: dict[str, list[object] | pyarrow.Array] = field(default_factory=dict)  # all columns, where they are kept
    problems: dict[int, tuple[str, type[IngestError]] | None] = field(default_factory=dict)
    invalid: dict[int, str] = field(default_factory=dict)  # why records between these are none, by their numbers
    escaped: bool = False  # bytes that the encoding does not allow are spelled as surrogates
    are_valid: bool = False  # texts are known to be UTF-8

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Records:
    """Consecutive documents of a source."""

    texts: Texts
    labels: list[str] = field(default_factory=list)  # the class name of each text; empty where labels are not read
    ids: list[object] | None = None  # the ids of the documents, where a column of them was named
    columns: dict[str, list[object] | pyarrow.Array] = field(default_factory=dict)
    """All columns, where they are kept; a value for each text. Sources with types give arrays."""
    groups: list[str] | None = None  # the group of each document, where a column of groups was named
    weights: np.ndarray | None = None  # float64: the weight of each document, where a column of weights was named

    def take(self, rows: np.ndarray) -> Records:
        """Return the documents of these numbers."""

        def of(column: Any) -> Any:
            return [column[i] for i in rows.tolist()] if isinstance(column, list) and column else column

        columns = {name: of(c) if isinstance(c, list) else c.take(rows) for name, c in self.columns.items()}
        weights = None if self.weights is None else self.weights[rows]
        return Records(self.texts.take(rows), of(self.labels), of(self.ids), columns, of(self.groups), weights)


def listed(column: list[object] | Texts | pyarrow.Array, errors: str = "surrogatepass") -> list[object]:
    """Return a column of records as a list; `errors` is for bytes that are not UTF-8."""
    if isinstance(column, list):
        return column
    if isinstance(column, Texts):
        return [column.bytes_of(i).decode("utf-8", errors) for i in range(len(column))]
    numbers = str(column.type) in ("int64", "double") and not column.null_count
    values: list[object] = column.to_numpy().tolist() if numbers else column.to_pylist()  # the first is much faster
    return values


def texts_of_bytes(encoded: Sequence[bytes]) -> Texts:
    offsets = offsets_of_lengths(encoded)
    return Texts(np.frombuffer(b"".join([*encoded, bytes(PADDING)]), np.uint8), offsets[:-1], offsets[1:])


def texts_of_strings(texts: Sequence[str] | np.ndarray | pyarrow.Array) -> Texts:
    """Return a list, an array, a pandas or an Arrow column of texts as one buffer.

    Raises ValueError: an element is not a text, or `texts` is one text.
    """
    held = _column_or_list(texts)
    if isinstance(held, Texts):
        return held
    parts, offsets, n_bytes = [], [np.zeros(1, np.int64)], 0
    for part, ends in _encoded(held):
        parts.append(part)
        offsets.append(ends + n_bytes)
        n_bytes += len(part)
    whole = np.concatenate(offsets)
    return Texts(np.frombuffer(b"".join([*parts, bytes(PADDING)]), np.uint8), whole[:-1], whole[1:])


def parts_of_strings(texts: Sequence[str] | np.ndarray | pyarrow.Array) -> Iterator[Texts]:
    """Yield the texts that `texts_of_strings` returns in parts of about a million bytes, each made when needed."""
    held = _column_or_list(texts)
    if isinstance(held, Texts):
        yield held
        return
    for part, ends in _encoded(held):
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        yield Texts(np.frombuffer(b"".join([part, bytes(PADDING)]), np.uint8), starts, ends)


def _column_or_list(texts: Sequence[str] | np.ndarray | pyarrow.Array) -> Texts | list[str]:
    if isinstance(texts, str):
        raise ValueError("one text is given, where a list of texts belongs")
    column = texts_of_arrow(texts, nulls=False)
    if column is not None:
        return column
    return list(texts.to_pylist() if hasattr(texts, "to_pylist") else texts)  # of Arrow with nulls, which are named


def _encoded(texts: list[str]) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yield joined texts of about `JOINED_CHARACTERS` and where each of them ends, int64."""
    try:
        ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
        first = n_points = 0
        while first < len(texts):
            stop = max(first + 1, int(np.searchsorted(ends, n_points + JOINED_CHARACTERS, side="right")))
            yield _encoded_part(texts[first:stop], ends[first:stop] - n_points)
            first, n_points = stop, int(ends[stop - 1])
    except TypeError:
        for row, text in enumerate(texts):
            if not isinstance(text, str):
                advice = "decode it, or " if isinstance(text, bytes) else ""
                raise ValueError(
                    f"text {row} (from 0) is {text!r:.60}, not a text: {advice}leave it out, or put '' in its place"
                ) from None
        raise


def _encoded_part(texts: list[str], ends: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Return joined texts, which end at these code points, and at which bytes they end."""
    if ends[-1] > LONG * len(texts):
        encoded = [str.encode(text, "utf-8", "surrogatepass") for text in texts]
        return b"".join(encoded), np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
    part = "".join(texts).encode("utf-8", "surrogatepass")
    if len(part) > ends[-1]:  # the bytes that begin code points are those of 0b10...... left out
        begins = np.flatnonzero((np.frombuffer(part, np.uint8) & 0xC0) != 0x80)
        ends = np.append(begins, len(part))[ends]
    return part, ends


def texts_of_arrow(texts: object, *, nulls: bool = True) -> Texts | None:
    """Return the buffers of an Arrow column, or None if it is not of text; nulls are empty texts, or not allowed."""
    if not (hasattr(texts, "__arrow_c_stream__") or hasattr(texts, "__arrow_c_array__")):
        return None
    import pyarrow as pa

    try:
        column = texts if isinstance(texts, pa.Array | pa.ChunkedArray) else pa.chunked_array(texts)
    except (pa.ArrowException, UnicodeError):  # pandas columns of any kind
        return None
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count and not nulls:
        return None
    if not (is_text(column.type) or pa.types.is_null(column.type)):
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


def is_text(kind: pyarrow.DataType) -> bool:
    import pyarrow.types as types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def arrow_of_texts(texts: Texts) -> pyarrow.Array:
    """Return texts in UTF-8 as an Arrow column."""
    import pyarrow as pa

    offsets = offsets_of(texts.stops - texts.starts)
    joined = np.empty(offsets[-1], np.uint8)
    join_cells(texts.data, texts.starts, texts.stops, joined)
    small = offsets[-1] < 1 << 31
    kind, bounds = (pa.string(), offsets.astype(np.int32)) if small else (pa.large_string(), offsets)
    return pa.Array.from_buffers(kind, len(texts), [None, pa.py_buffer(bounds), pa.py_buffer(joined)])


_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese; Korean has spaces."""
SAMPLE_TEXTS, SAMPLE_BYTES = 200, 200  # of a block: texts, and bytes of each
MIN_SHARE = 0.3  # of characters
MAX_SPACES = 1 / 8  # for a character of such a script: words have two or three, phrases many


@dataclass
class ScriptSample:
    """Characters of a sample of texts: all, those of scripts without spaces, and spaces."""

    n_characters: int = 0
    n_unspaced: int = 0
    n_spaces: int = 0

    def add(self, texts: Texts) -> None:
        """Take the first of some texts into the sample."""
        for i in range(min(len(texts), SAMPLE_TEXTS)):
            text = texts.bytes_of(i)[:SAMPLE_BYTES].decode("utf-8", "ignore")
            self.n_characters += len(text)
            if not text.isascii():
                self.n_unspaced += len(_UNSPACED.findall(text))
            self.n_spaces += sum(map(str.isspace, text))

    def merge(self, other: ScriptSample) -> None:
        self.n_characters += other.n_characters
        self.n_unspaced += other.n_unspaced
        self.n_spaces += other.n_spaces

    def warn(self, settings: VectorizerSettings) -> None:
        """Warn where words are taken from text without spaces, and say what to set."""
        if settings.analyzer != "word" or not KERNEL_PATTERN.fullmatch(settings.token_pattern):
            return
        if self.n_unspaced > MIN_SHARE * self.n_characters and self.n_spaces < MAX_SPACES * self.n_unspaced:
            warnings.warn(
                "there are no spaces between the words of these texts, as in Chinese, Japanese or Thai, so that whole phrases "
                "count as words, and new texts have hardly any of them: count characters (--analyzer char --ngrams 1,2; "
                "analyzer='char', ngram_range=(1, 2)), or put spaces between words first",
                stacklevel=2,
            )
