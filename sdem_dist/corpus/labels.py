"""Encoding as numbers: labels, sets of labels, and columns of tables with text, categories or booleans."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus.manifest import Classes, ClassLabel, LabelSet
from sdem_dist.counted import counted, one_line
from sdem_dist.documents import Documents, offsets_of
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import JsonObject

if TYPE_CHECKING:
    import pandas as pd
    import scipy.sparse as sp

TABLE = "table"  # kind of a manifest's `vectorizer` that contains the categories of a table
MANY_CATEGORIES, MOSTLY = 20, 0.9
"""A column with at least so many distinct texts, in at least this share of the rows, is probably not categorical."""
FEW_CLASSES = 10  # so many classes are plausible for any number of documents
_DATES = "dates and times cannot be labels; convert them to text (y.astype(str))"


def array_of(classes: Classes) -> np.ndarray:
    """Return classes as an array; integers beyond int64, such as hashes, are uint64, not floats as in NumPy."""
    all_integers = len(classes) > 0 and all(type(label) is int for label in classes)
    if all_integers and max(cast("Sequence[int]", classes)) >= 1 << 63:
        return np.array(classes, np.uint64 if min(cast("Sequence[int]", classes)) >= 0 else object)
    return np.array(classes)


class LabelEncoder:
    """Encodes labels as codes, batch by batch; at the end, codes are mapped to positions among the classes."""

    def __init__(self, classes: Sequence[object] | None, unlabelled: object = None) -> None:
        # With a value for `unlabelled`, the code of this value, None, NaN and pandas' NA is -1.
        self._unlabelled, self._fixed = unlabelled, classes is not None
        plain = [_plain(label) for label in classes or ()]
        self._codes = {label: code for code, label in enumerate(plain)}
        self._cache: dict[tuple[type, object], int] = {}  # the type is in the key, since True equals 1
        self._counts = np.zeros(len(plain), np.int64)
        if len(self._codes) < len(plain):
            raise CorpusError(f"classes contains {next(c for c in plain if plain.count(c) > 1)!r} twice")
        if self._fixed and not plain:
            raise CorpusError("classes is empty; omit it to use the labels that occur")

    def encode(self, y: ArrayLike | None, n_documents: int, first: int) -> np.ndarray:
        """Return the codes of a batch's labels, int32; zeros without labels. CorpusError for invalid labels."""
        if y is None:
            if self._fixed:
                raise CorpusError("classes can only be passed with labels, but y is None")
            return np.zeros(n_documents, np.int32)
        labels, where = np.asarray(y), f"the batch that starts at document {first}"
        if labels.dtype.kind in "Mm":
            raise CorpusError(f"{where} has labels of type {labels.dtype}: {_DATES}")
        if labels.shape != (n_documents,):
            raise CorpusError(f"{where} has {n_documents} documents, but the labels have shape {labels.shape}")
        of_documents = (self._code(label, first + i) for i, label in enumerate(labels.tolist()))
        codes = np.fromiter(of_documents, np.int32, n_documents)
        counts = np.bincount(codes[codes >= 0], minlength=len(self._codes))
        self._counts = counts + np.pad(self._counts, (0, len(counts) - len(self._counts)))
        return codes

    def _code(self, label: object, document: int) -> int:
        try:
            return self._cache[type(label), label]
        except (KeyError, TypeError):  # a new label, or not hashable
            pass
        if self._unlabelled is not None and (is_missing(label) or label == self._unlabelled):
            return -1
        try:
            plain = _plain(label)
        except CorpusError as error:
            raise CorpusError(f"document {document}: {error}") from error
        if plain not in self._codes and self._fixed:
            raise CorpusError(f"document {document} (counting from 0) has the label {plain!r}, which is not in classes")
        code = self._cache[type(label), label] = self._codes.setdefault(plain, len(self._codes))
        return code

    def finish(self) -> tuple[Classes, np.ndarray, tuple[int, ...]]:
        """Return the classes in final order, the position of each code among them, int32, and documents per class."""
        labels, counts = list(self._codes), self._counts.tolist()
        try:
            order = list(range(len(labels)) if self._fixed else sorted(range(len(labels)), key=labels.__getitem__))
        except TypeError as error:
            raise CorpusError(f"the labels have types that cannot be sorted together: {error}") from error
        positions = np.zeros(max(1, len(labels)), np.int32)
        positions[order] = np.arange(len(labels))
        return tuple(labels[code] for code in order), positions, tuple(counts[code] for code in order)


def _plain(label: object) -> ClassLabel | LabelSet:
    return tuple(map(plain_label, label)) if isinstance(label, tuple) else plain_label(label)


def plain_label(label: object) -> ClassLabel:
    """Return a label as a Python string, integer, float or boolean; raise CorpusError for anything else."""
    plain = label.item() if isinstance(label, np.generic) else label
    problem = (
        "labels are strings, finite numbers or booleans. Convert it, or, if the label is missing, pass unlabelled=''"
    )
    if isinstance(label, np.datetime64 | np.timedelta64):
        plain, problem = label, _DATES
    elif isinstance(plain, str):
        if plain.endswith("\0"):
            problem = "it ends with a NUL, which NumPy drops"
        elif any("\ud800" <= c <= "\udfff" for c in plain):
            problem = "it contains an unpaired surrogate"
        else:
            return plain
    elif isinstance(plain, int) or (isinstance(plain, float) and math.isfinite(plain)):
        return plain
    raise CorpusError(f"{plain!r} cannot be a class label: {problem}")


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value)


def label_set(labels: Iterable[object]) -> LabelSet:
    """Return distinct labels, sorted; CorpusError if one is invalid, or if they cannot be sorted."""
    try:
        return tuple(sorted({plain_label(label) for label in labels}))  # type: ignore[type-var]
    except TypeError as error:
        raise CorpusError(f"the labels have types that cannot be sorted together: {error}") from error


def are_label_sets(y: object) -> bool:
    """Return whether documents have several labels: an indicator matrix, dense or sparse, or collections of labels."""
    from scipy.sparse import issparse

    if issparse(y):
        return True
    if (shape := getattr(y, "shape", None)) is not None and len(shape) == 2:
        return bool(shape[1] > 1)
    dtype = getattr(y, "dtype", np.dtype(object))
    if str(dtype).lower().startswith("list"):  # of polars, or of Arrow in pandas
        return True
    if dtype != np.dtype(object) or isinstance(y, str) or not isinstance(y, Iterable):
        return False
    first: Any = next(iter(y), None)
    first = first.as_py() if hasattr(first, "as_py") else first  # element of an Arrow array
    return isinstance(first, tuple | set | frozenset | list) or np.shape(cast(ArrayLike, first))[:1] > (1,)


def indicator_of(y: Any) -> sp.csr_matrix | None:
    """Return an indicator matrix, or lists of zeros and ones, as CSR; None for collections of labels."""
    from scipy.sparse import csr_matrix, issparse

    is_list = isinstance(y, list | tuple)
    if not issparse(y):
        rows = y if is_list or isinstance(y, np.ndarray) else ()
        lengths = {np.size(row) if not isinstance(row, str | set | frozenset) else -1 for row in rows}
        if len(lengths) > 1 or (isinstance(y, list) and not {type(row) for row in y} <= {list, np.ndarray}):
            return None
        y = np.asarray(y)
        if y.ndim != 2 or y.dtype.kind not in "buif" or (is_list and not np.isin(y, (0, 1)).all()):
            return None
    matrix = csr_matrix(y, copy=True)  # do not change the caller's matrix
    matrix.eliminate_zeros()
    if (matrix.data != 1).any():
        raise ValueError("y has several columns, but is not an indicator matrix: its values must be 0 or 1")
    matrix.sort_indices()
    return matrix


def sets_of(y: Any, names: Sequence[ClassLabel] | None = None) -> list[LabelSet]:
    """Return the set of labels of each document; `names`: labels of an indicator's columns, default: their numbers."""
    if (indicator := indicator_of(y)) is not None:
        n = indicator.shape[1]
        columns = range(n) if names is None else names
        if len(columns) != n:
            raise ValueError(f"y has {n} columns, but there are {len(columns)} labels: pass one column per label")
        places, bounds = indicator.indices.tolist(), indicator.indptr.tolist()
        return [tuple(columns[k] for k in places[a:b]) for a, b in pairwise(bounds)]
    sets = []
    for i, labels in enumerate(y):
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            raise CorpusError(f"document {i} has the label {labels!r}, but other documents have collections of labels")
        try:
            sets.append(label_set(labels))
        except CorpusError as error:
            raise CorpusError(f"document {i}: {error}") from error
    return sets


def too_many_classes(n_classes: int, n_documents: int, example: object) -> str:
    """Return a problem if there are more than half as many classes as documents, else ""."""
    if n_classes <= max(n_documents / 2, FEW_CLASSES):
        return ""
    labels = f"{counted(n_classes, 'distinct label')}, such as {one_line(example, 40)!r}"
    return f"{labels}, in {counted(n_documents, 'document')}"


def column_of(sets: Sequence[object]) -> np.ndarray:
    """Return values, which may be tuples, as an array of objects of shape (n,)."""
    return np.fromiter(sets, object, len(sets))


def all_labels(sets: Iterable[LabelSet]) -> LabelSet:
    return label_set(label for labels in sets for label in labels)


def membership(sets: Sequence[LabelSet], labels: Sequence[ClassLabel]) -> sp.csr_matrix:
    """Return the indicator matrix of sets, uint8 of shape (n_sets, n_labels); KeyError if a label is unknown."""
    from scipy.sparse import csr_matrix

    column = {label: i for i, label in enumerate(labels)}
    indices = [column[label] for members in sets for label in members]
    return csr_matrix(
        (np.ones(len(indices), np.uint8), indices, offsets_of([*map(len, sets)])), (len(sets), len(labels))
    )


class EncodedSets(NamedTuple):
    sets: list[LabelSet]  # distinct sets, in the order of first occurrence
    positions: np.ndarray  # position of each document's set, int32
    labels: list[ClassLabel]  # labels of all sets


def encoded_sets(y: Any, labels: Sequence[ClassLabel] | None = None) -> EncodedSets:
    """Return sets of labels as positions; `labels`: all allowed labels, default: the labels of `y`."""
    of_documents = sets_of(y, labels)
    place = {each: i for i, each in enumerate(dict.fromkeys(of_documents))}
    sets, positions = list(place), np.array([place[each] for each in of_documents], np.int32)
    if labels is None:
        indicator = indicator_of(y)
        labels = list(all_labels(sets) if indicator is None else range(indicator.shape[1]))
    allowed = set(labels)
    if unknown := [label for each in sets for label in each if label not in allowed]:
        raise ValueError(f"y contains the label {unknown[0]!r}, which is not in the model")
    if not labels:
        raise ValueError("y contains no labels")
    return EncodedSets(sets, positions, list(labels))


@dataclass(frozen=True, repr=False)
class Members:
    """A transform of a corpus: adds the label sets of documents as targets of zeros and ones."""

    members: sp.csr_matrix  # see `membership`

    def __repr__(self) -> str:
        return f"with {self.members.shape[1]} labels"

    def __call__(self, documents: Documents, start: int, stop: int) -> Documents:
        return replace(documents, targets=self.members[documents.labels].toarray())


def name_of(labels: LabelSet) -> str:
    """Return the class name of a set of labels during an ingest: a JSON array."""
    return json.dumps(labels, ensure_ascii=False, separators=(",", ":"))


class EncodedTable(NamedTuple):
    values: np.ndarray  # shape (n_rows, n_columns), float64; NaN for missing values and unknown categories
    names: list[object]  # names of the columns
    categories: dict[int, np.ndarray]
    """Categories of each column that is not numeric, in the order of their codes."""


def is_table(X: object) -> bool:
    """Return whether `X` is a pandas table, without importing pandas."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def as_pandas(X: Any) -> Any:
    """Return a polars or Arrow table as a pandas table, and other objects unchanged."""
    columns = hasattr(X, "columns") or hasattr(X, "column_names")
    try:
        return X.to_pandas() if columns and hasattr(X, "to_pandas") else X
    except ImportError as error:
        raise ImportError("polars and Arrow tables also need pandas: pip install pandas") from error


def encoded_table(frame: pd.DataFrame, categories: Mapping[int, np.ndarray] | None = None) -> EncodedTable:
    """Return a pandas table as numbers; `categories`: encoding to use, with unknown values as NaN. None: a new one."""
    import pandas as pd  # type: ignore[import-untyped]

    if not frame.columns.is_unique:
        raise CorpusError(f"two columns are named {frame.columns[frame.columns.duplicated()][0]!r}: rename one")
    if categories is None:
        categories = {i: np.array(values) for i, values in categories_by_column(frame).items()}
        for i, of_column in categories.items():
            if of_column.dtype.kind == "U" and len(of_column) >= max(MANY_CATEGORIES, MOSTLY * len(frame)):
                warnings.warn(
                    f"column {frame.columns[i]!r} has {len(of_column):,} different strings in {len(frame):,} rows, each a "
                    "separate category: use sdem ingest for raw text; drop columns that only identify rows",
                    stacklevel=3,
                )
    values = np.empty(frame.shape)
    for i in range(frame.shape[1]):
        column = frame.iloc[:, i]
        if i not in categories:
            try:
                values[:, i] = column.to_numpy(np.float64, na_value=np.nan)
            except (TypeError, ValueError) as error:
                raise CorpusError(f"column {column.name!r} must contain numbers: {error}") from error
            continue
        codes = pd.Index(categories[i]).get_indexer(column).astype(np.float64)
        if len(codes) and len(categories[i]) and codes.max() < 0:
            # Integers may be stored as floats, so both are numbers.
            kinds, new_kinds = (
                {"number" if type(v) in (int, float) else type(v).__name__ for v in values_of_column}
                for values_of_column in (categories[i].tolist(), column.dropna().unique().tolist())
            )
            if new_kinds and not kinds & new_kinds:
                raise CorpusError(
                    f"column {column.name!r} has values of type {', '.join(sorted(new_kinds))}; its known "
                    f"categories are of type {', '.join(kinds)}: convert the column"
                )
        values[:, i] = np.where(codes < 0, np.nan, codes)
    return EncodedTable(values, frame.columns.tolist(), dict(categories))


def categories_by_column(frame: pd.DataFrame) -> dict[int, list[object]]:
    """Return the sorted categories of each column that is not numeric; raises like `encoded_table`."""
    from pandas.api.types import infer_dtype, is_bool_dtype, is_numeric_dtype, is_object_dtype

    categories: dict[int, list[object]] = {}
    for i in range(frame.shape[1]):
        column = frame.iloc[:, i]
        if is_object_dtype(column.dtype):  # numeric if all values but the missing ones are
            if infer_dtype(column, skipna=True) in ("integer", "floating", "mixed-integer-float", "decimal"):
                continue
        elif is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype) and column.dtype.kind != "c":
            continue
        values = column.dropna().unique().tolist()
        kinds = {type(c) for c in values}
        if kinds != {bool} and (len(kinds) > 1 or not kinds <= {str, int, float}):
            names = sorted(kind.__name__ for kind in kinds)
            raise CorpusError(
                f"column {column.name!r} contains values of type {', '.join(names)}: categories must be all text, all numbers "
                "of one type or all booleans; convert the column (for dates, to days since the first date)"
            )
        categories[i] = [False, True] if kinds == {bool} else sorted(values)
    return categories


def joined_categories(parts: Sequence[Mapping[int, list[object]]], names: list[object]) -> dict[int, np.ndarray]:
    """Return the categories of a table from `categories_by_column` of its parts; CorpusError if types differ."""
    by_column: dict[int, np.ndarray] = {}
    for i, name in enumerate(names):
        columns = [part[i] for part in parts if i in part]
        values = {value for column in columns for value in column}
        some_are_numbers = len(columns) < len(parts)
        if not values and some_are_numbers:
            continue  # numbers, and parts without any values
        if len({type(value) for value in values}) > 1 or some_are_numbers:
            raise CorpusError(
                f"column {name!r} contains different types of values in different parts of the table: use one type"
            )
        by_column[i] = np.array(sorted(values))  # type: ignore[type-var]
    return by_column


def numbering(vectorizer: JsonObject | None) -> dict[int, np.ndarray] | None:
    """Return the categories in a manifest's `vectorizer`, or None if the corpus was not written from a table."""
    if vectorizer is None or vectorizer.get("kind") != TABLE:
        return None
    return {int(i): np.array(c) for i, c in vectorizer["categories"].items()}
