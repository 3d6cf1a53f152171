"""Tables of pandas as numbers: texts, categories and booleans are numbered, and the corpus keeps the numbering."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import JsonObject

if TYPE_CHECKING:
    import pandas as pd

TABLE = "table"  # the kind of a manifest's `vectorizer` that holds the numbering of a table
MANY_CATEGORIES, MOSTLY = 20, 0.9
"""A column with at least this many different texts, and this share of the rows, does not hold categories."""


class EncodedTable(NamedTuple):
    values: np.ndarray  # shape (n_rows, n_columns), float64; NaN where a value is missing or no category known
    names: list[object]  # of the columns
    categories: dict[int, np.ndarray]
    """The categories of columns that do not hold numbers, in the order of their numbers."""


def is_table(X: object) -> bool:
    """Say whether `X` is a table of pandas, without importing pandas."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def encoded_table(frame: pd.DataFrame, categories: Mapping[int, np.ndarray] | None = None) -> EncodedTable:
    """Return a table of pandas as numbers.

    `categories`: a numbering to keep; unknown values become missing. By default the values that occur, sorted.
    Raises CorpusError: two columns have one name, or one holds what cannot be sorted and stored, or another kind of
    values than it did.
    """
    import pandas as pd  # type: ignore[import-untyped]

    if not frame.columns.is_unique:
        raise CorpusError(f"two columns are named {frame.columns[frame.columns.duplicated()][0]!r}: rename one")
    if categories is None:
        categories = {i: np.array(values) for i, values in categories_by_column(frame).items()}
        for i, of_column in categories.items():
            if of_column.dtype.kind == "U" and len(of_column) >= max(MANY_CATEGORIES, MOSTLY * len(frame)):
                warnings.warn(
                    f"column {frame.columns[i]!r} has {len(of_column):,} different texts in {len(frame):,} rows, each a "
                    "category of its own: raw text becomes counts of words by sdem ingest; leave out what only names a row",
                    stacklevel=3,
                )
    values = np.empty(frame.shape)
    for i in range(frame.shape[1]):
        column = frame.iloc[:, i]
        if i not in categories:
            try:
                values[:, i] = column.to_numpy(np.float64, na_value=np.nan)
            except (TypeError, ValueError) as error:
                raise CorpusError(f"column {column.name!r} must hold numbers: {error}") from error
            continue
        codes = pd.Index(categories[i]).get_indexer(column).astype(np.float64)
        if len(codes) and len(categories[i]) and codes.max() < 0:
            kinds, new_kinds = _kinds(categories[i].tolist()), _kinds(column.dropna().unique().tolist())
            if new_kinds and not kinds & new_kinds:
                raise CorpusError(
                    f"column {column.name!r} holds values of type {', '.join(sorted(new_kinds))}, and held {', '.join(kinds)} "
                    "when its categories were numbered: turn it into the same"
                )
        values[:, i] = np.where(codes < 0, np.nan, codes)
    return EncodedTable(values, frame.columns.tolist(), dict(categories))


def _kinds(values: list[object]) -> set[str]:
    """Return the types of values; integers that are stored as floats are of one."""
    return {"number" if type(v) in (int, float) else type(v).__name__ for v in values}


def categories_by_column(frame: pd.DataFrame) -> dict[int, list[object]]:
    """Return the values of each column of a part of a table that are not numbers, sorted; raises as `encoded_table`."""
    from pandas.api.types import infer_dtype, is_bool_dtype, is_numeric_dtype, is_object_dtype

    categories: dict[int, list[object]] = {}
    for i in range(frame.shape[1]):
        column = frame.iloc[:, i]
        if is_object_dtype(column.dtype):  # numbers where all but the missing ones are
            if infer_dtype(column, skipna=True) in ("integer", "floating", "mixed-integer-float", "decimal"):
                continue
        elif is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype) and column.dtype.kind != "c":
            continue
        values = column.dropna().unique().tolist()
        kinds = {type(c) for c in values}
        if kinds != {bool} and (len(kinds) > 1 or not kinds <= {str, int, float}):
            names = sorted(kind.__name__ for kind in kinds)
            raise CorpusError(
                f"column {column.name!r} holds values of type {', '.join(names)}: categories are all text, all numbers of one "
                "type or all booleans; turn the column into one of these (dates into numbers, such as days since the first)"
            )
        categories[i] = [False, True] if kinds == {bool} else sorted(values)
    return categories


def joined_categories(parts: Sequence[Mapping[int, list[object]]], names: list[object]) -> dict[int, np.ndarray]:
    """Return the numbering of a table from `categories_by_column` of its parts; CorpusError where kinds differ."""
    by_column: dict[int, np.ndarray] = {}
    for i, name in enumerate(names):
        columns = [part[i] for part in parts if i in part]
        values = {value for column in columns for value in column}
        some_are_numbers = len(columns) < len(parts)
        if not values and some_are_numbers:
            continue  # numbers, and parts in which all are missing
        if len({type(value) for value in values}) > 1 or some_are_numbers:
            raise CorpusError(
                f"column {name!r} holds values of several kinds in different parts of the table: make one of them"
            )
        by_column[i] = np.array(sorted(values))  # type: ignore[type-var]
    return by_column


def facts_of_table(
    names: list[object],
    categories: Mapping[int, np.ndarray],
    dense: bool,
    vocabulary: Sequence[str] | None,
    vectorizer: JsonObject | None,
) -> tuple[Sequence[str] | None, JsonObject | None]:
    """Return the vocabulary and `vectorizer` for a table's corpus; a numbering in `vectorizer` is kept.

    Raises CorpusError: the table cannot be a sparse corpus, or its columns are not those of the numbering.
    """
    named = all(isinstance(name, str) for name in names)
    if vectorizer is not None and vectorizer.get("kind") != TABLE:
        raise CorpusError("vectorizer says how text became words, and X is a table of pandas: leave it at None")
    if categories and not dense:
        columns = ", ".join(str(names[i]) for i in categories)
        raise CorpusError(
            f"columns of text, categories or booleans ({columns}) are stored with dense=True, for MixedNB"
        )
    if vectorizer is not None and vectorizer["columns"] != (names if named else None):
        raise CorpusError(f"the table has the columns {names}, and the numbering is of {vectorizer['columns']}")
    if named and vocabulary is None:
        vocabulary = list(map(str, names))
    codes = {str(i): c.tolist() for i, c in categories.items()}
    return vocabulary, {"kind": TABLE, "columns": names if named else None, "categories": codes} if dense else None


def numbering(vectorizer: JsonObject | None) -> dict[int, np.ndarray] | None:
    """Return the categories that a manifest keeps, or None if its corpus was not written from a table."""
    if vectorizer is None or vectorizer.get("kind") != TABLE:
        return None
    return {int(i): np.array(c) for i, c in vectorizer["categories"].items()}
