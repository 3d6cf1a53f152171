"""The parts of Dask collections: blocks of rows of arrays, partitions of DataFrames and of bags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sdem_dist.corpus.tables import categories_by_column
from sdem_dist.errors import CorpusError

if TYPE_CHECKING:
    from distributed import Client

NAMES = ("y", "ids", "targets", "sample_weight")


class Part(NamedTuple):
    """A part of a Dask collection, not yet computed, and the columns beside its documents."""

    X: Any
    y: Any
    ids: Any
    targets: Any
    weights: Any

    def computed(self, client: Client) -> tuple[Any, ...]:
        """Return futures of delayed columns, and the others unchanged."""
        return tuple(client.compute(one) if hasattr(one, "dask") else one for one in self)


def is_frame(X: object) -> bool:
    """Say whether `X` is a DataFrame of Dask, without importing it."""
    return hasattr(X, "map_partitions") and hasattr(X, "columns")


def parts_of(X: Any, columns: tuple[Any, Any, Any, Any]) -> list[Part]:
    """Return the parts of a dask array, DataFrame or bag.

    `X`: dask array, DataFrame or bag.
    `columns`: labels, ids, targets and weights: Dask collections that are cut as `X` is, arrays in memory beside an
    array, or None.
    Raises CorpusError: `X` is none of these, or what stands beside it is not cut as it is.
    """
    if hasattr(X, "rechunk"):
        rows = X.rechunk({1: -1}).to_delayed().ravel()
        beside = [_beside_an_array(X, column, name) for name, column in zip(NAMES, columns, strict=True)]
    elif hasattr(X, "map_partitions") and hasattr(X, "to_delayed"):
        rows = X.to_delayed()
        if not is_frame(X) and any(column is not None for column in columns):
            raise CorpusError(
                "the batches of a bag bring labels, ids, targets and weights with them: leave y and so on at None"
            )
        beside = [_beside_partitions(X, column, name) for name, column in zip(NAMES, columns, strict=True)]
    else:
        raise CorpusError(
            f"a client's workers write dask arrays, DataFrames and bags of batches, not a {type(X).__name__}: leave client out"
        )
    return [Part(*part) for part in zip(rows, *beside, strict=True)]


def column_kinds(frame: Any) -> dict[int, list[object]]:
    """Return what the columns of a partition hold that is not a number: a task."""
    try:
        return categories_by_column(frame)
    except ValueError as error:
        raise CorpusError(str(error)) from error


def _beside_an_array(X: Any, column: Any, name: str) -> Sequence[Any]:
    """Return a column's part for each block of rows: delayed ones of a dask array, or arrays in memory."""
    n_blocks = X.numblocks[0]
    if column is None:
        return [None] * n_blocks
    if hasattr(column, "rechunk"):
        if not np.array_equal(column.chunks[0], X.chunks[0], equal_nan=True):
            raise CorpusError(
                f"{name} is cut into blocks of {column.chunks[0]} and X into blocks of {X.chunks[0]}: cut both alike, "
                f"{name}.rechunk"
            )
        whole = column if column.ndim == 1 else column.rechunk({1: -1})
        found: Sequence[Any] = whole.to_delayed().ravel()
        return found
    if hasattr(column, "to_delayed"):
        return _beside_partitions(X, column, name)
    if np.isnan(X.shape[0]):
        raise CorpusError(
            f"the blocks of X have no known length, and {name} is not a dask array: X.compute_chunk_sizes() first"
        )
    if len(column) != X.shape[0]:
        raise CorpusError(f"X has {X.shape[0]} documents and {name} has {len(column)}")
    return list(_cut(column, np.cumsum([0, *X.chunks[0]]).tolist()))


def _beside_partitions(X: Any, column: Any, name: str) -> Sequence[Any]:
    n_parts = getattr(X, "npartitions", None) or X.numblocks[0]
    if column is None:
        return [None] * n_parts
    if not hasattr(column, "to_delayed"):
        raise CorpusError(
            f"the lengths of the parts of X are not known, and {name} is in memory: make a Dask collection of it"
        )
    found: Sequence[Any] = np.ravel(column.to_delayed()).tolist()
    if len(found) != n_parts:
        raise CorpusError(
            f"{name} is cut into {len(found)} parts and X into {n_parts}: cut both alike, {name}.repartition"
        )
    return found


def _cut(column: Any, bounds: list[int]) -> Iterator[Any]:
    whole = column if isinstance(column, list) else np.asarray(column)
    for start, stop in pairwise(bounds):
        yield whole[start:stop]
