"""Texts as bytes in one buffer, which the kernels read without making a Python object of each, and records of them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sdem_dist.documents import offsets_of, offsets_of_lengths
from sdem_dist.errors import IngestError
from sdem_dist.kernels.code_points import PADDING, Pieces
from sdem_dist.kernels.csr import gather
from sdem_dist.text.vectorizer import KERNEL_PATTERN, VectorizerSettings

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
        return (self.bytes_of(i).decode("utf-8", "surrogatepass") for i in range(len(self)))

    @property
    def pieces(self) -> Pieces:
        return Pieces(self.data, self.starts, self.stops)

    @property
    def sizes(self) -> np.ndarray:
        return self.stops - self.starts

    @property
    def n_bytes(self) -> int:
        return int(self.sizes.sum())

    def bytes_of(self, i: int) -> bytes:
        return self.data[self.starts[i] : self.stops[i]].tobytes()

    def take(self, rows: np.ndarray | slice) -> Texts:
        return Texts(self.data, self.starts[rows], self.stops[rows])

    def alone(self) -> Texts:
        return texts_of_bytes([self.bytes_of(i) for i in range(len(self))])


Problem = tuple[str, type[IngestError]] | None
Problems = dict[int, Problem]
"""Why rows are no documents; None for rows that are left out without a word, as blank lines are."""


@dataclass
class RecordBatch:
    """Consecutive records as a reader finds them, before they are checked."""

    texts: list[Texts | list[object] | pyarrow.Array]  # columns, which a line feed joins; none beside a `matrix`
    roles: dict[str, list[object] | Texts | pyarrow.Array]  # columns of label, id, group and weight, if read
    numbers: np.ndarray  # of each record in its source, from 1
    unit: str = "line"
    beside: dict[str, list[object] | pyarrow.Array] = field(default_factory=dict)  # all columns, where they are kept
    problems: Problems = field(default_factory=dict)
    invalid: dict[int, str] = field(default_factory=dict)  # why records between these are none, by their numbers
    escaped: bool = False  # bytes that the encoding does not allow are spelled as surrogates
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
            if isinstance(column, list):
                return [column[i] for i in rows.tolist()] if column else column
            return None if column is None else column.take(rows)

        chosen = {name: of(getattr(self, name)) for name in ("texts", "labels", "ids", "groups", "weights")}
        columns = {name: of(column) for name, column in self.columns.items()}
        return Records(**chosen, columns=columns, matrix=None if self.matrix is None else self.matrix[rows])


def listed(column: Any, errors: str = "surrogatepass") -> list[Any]:
    """Return a list, `Texts` or an Arrow column as a list; `errors` is for bytes that are not UTF-8."""
    if isinstance(column, list):
        return column
    if isinstance(column, Texts):
        return [column.bytes_of(i).decode("utf-8", errors) for i in range(len(column))]
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
    offsets = offsets_of_lengths(encoded)
    return Texts(np.frombuffer(b"".join([*encoded, bytes(PADDING)]), np.uint8), offsets[:-1], offsets[1:])


def texts_of_strings(texts: TextColumn) -> Texts:
    """Return a list, an array, a pandas or an Arrow column of texts as one buffer, or raise ValueError."""
    parts = list(parts_of_strings(texts))
    if len(parts) == 1:
        return parts[0]
    offsets = offsets_of(np.concatenate([np.zeros(0, np.int64), *(part.sizes for part in parts)]))
    data = np.concatenate([*(part.data[: part.n_bytes] for part in parts), np.zeros(PADDING, np.uint8)])
    return Texts(data, offsets[:-1], offsets[1:])


def parts_of_strings(texts: TextColumn) -> Iterator[Texts]:
    """Yield the texts that `texts_of_strings` returns in parts of about a million bytes, each made when needed."""
    if isinstance(texts, str):
        raise ValueError("one text is given, where a list of texts belongs")
    if (column := texts_of_arrow(texts, nulls=False)) is not None:
        yield column
        return
    values = list(texts.to_pylist() if hasattr(texts, "to_pylist") else texts)  # of Arrow with nulls, which are named
    try:
        for first, stop in pieces(np.fromiter(map(len, values), np.int64, len(values)), JOINED_CHARACTERS):
            yield texts_of_bytes([str.encode(text, "utf-8", "surrogatepass") for text in values[first:stop]])
    except TypeError:
        row, text = next((row, text) for row, text in enumerate(values) if not isinstance(text, str))
        advice = "decode it, or " if isinstance(text, bytes) else ""
        raise ValueError(
            f"text {row} (from 0) is {text!r:.60}, not a text: {advice}leave it out, or put '' in its place"
        ) from None


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
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
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


def arrow_of_texts(texts: Texts) -> pyarrow.Array:
    import pyarrow as pa

    offsets = offsets_of(texts.sizes)
    joined = np.empty(offsets[-1], np.uint8)
    gather(*texts.pieces, offsets, joined)
    small = offsets[-1] < 1 << 31
    kind, bounds = (pa.string(), offsets.astype(np.int32)) if small else (pa.large_string(), offsets)
    return pa.Array.from_buffers(kind, len(texts), [None, pa.py_buffer(bounds), pa.py_buffer(joined)])


_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Thai, Lao, Burmese, Khmer, Japanese and Chinese; Korean has spaces."""
SAMPLE_TEXTS, SAMPLE_BYTES = 200, 200  # of a block: texts, and bytes of each
MIN_SHARE = 0.3  # of characters
MAX_SPACES = 1 / 8  # for a character of such a script: words have two or three, phrases many


def sample_scripts(texts: Texts) -> np.ndarray:
    """Return of the first texts the numbers of characters, of those of scripts without spaces, and of spaces."""
    firsts = (texts.bytes_of(i)[:SAMPLE_BYTES].decode("utf-8", "ignore") for i in range(min(len(texts), SAMPLE_TEXTS)))
    text = "".join(firsts)
    return np.array([len(text), len(_UNSPACED.findall(text)), sum(map(str.isspace, text))])


def warn_of_unspaced(sample: Sequence[int] | np.ndarray, settings: VectorizerSettings) -> None:
    """Warn where words are taken from text without spaces, and say what to set; `sample`: see `sample_scripts`."""
    if settings.analyzer != "word" or not KERNEL_PATTERN.fullmatch(settings.token_pattern):
        return
    n_characters, n_unspaced, n_spaces = sample
    if n_unspaced > MIN_SHARE * n_characters and n_spaces < MAX_SPACES * n_unspaced:
        warnings.warn(
            "there are no spaces between the words of these texts, as in Chinese, Japanese or Thai, so that whole phrases "
            "count as words, and new texts have hardly any of them: count characters (--analyzer char --ngrams 1,2; "
            "analyzer='char', ngram_range=(1, 2)), or put spaces between words first",
            stacklevel=2,
        )
