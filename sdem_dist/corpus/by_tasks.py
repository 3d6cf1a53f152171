"""Writing a corpus from a Dask collection: workers compute its parts, sort and write them, and nothing is gathered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.corpus.collect import COLUMNS, batches, check_same_kind, collect
from sdem_dist.corpus.folds import group_hashes
from sdem_dist.corpus.labels import LabelEncoder, column_of
from sdem_dist.corpus.rows import Kind
from sdem_dist.corpus.shuffle import SortedDocuments, SortedRows
from sdem_dist.corpus.tables import categories_by_column, encoded_table, joined_categories
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.kept import SUMMARY, once

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.engine.executor import Executor

Part = tuple[Any, ...]
"""A part of a Dask collection, not yet computed, and of each of `COLUMNS`."""


def is_frame(X: object) -> bool:
    """Say whether `X` is a DataFrame of Dask, without importing it."""
    return hasattr(X, "map_partitions") and hasattr(X, "columns")


def parts_of(X: Any, columns: Sequence[Any]) -> list[Part]:
    """Return the parts of a dask array, DataFrame or bag; CorpusError where it is none, or `columns` are cut otherwise.

    `columns`: see `COLUMNS`: Dask collections that are cut as `X` is, arrays in memory beside an array, or None.
    """
    if hasattr(X, "rechunk"):
        rows = X.rechunk({1: -1}).to_delayed().ravel()
    elif hasattr(X, "map_partitions") and hasattr(X, "to_delayed"):
        rows = X.to_delayed()
        if not is_frame(X) and any(column is not None for column in columns):
            raise CorpusError("the batches of a bag bring labels, ids and so on with them: leave y and so on at None")
    else:
        raise CorpusError(
            f"a client's workers write dask arrays, DataFrames and bags of batches, not a {type(X).__name__}: leave client out"
        )
    sizes = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(rows)
    beside: list[Sequence[Any]] = []  # of each column its part for each part of X
    for name, column in zip(COLUMNS, columns, strict=True):
        if column is None:
            beside.append([None] * len(sizes))
        elif hasattr(column, "to_delayed"):
            delayed = (column.rechunk({1: -1}) if column.ndim > 1 else column).to_delayed()
            beside.append(np.ravel(delayed).tolist())
            if len(beside[-1]) != len(sizes):
                raise CorpusError(f"{name} is cut into {len(beside[-1])} parts and X into {len(sizes)}: cut both alike")
        elif np.isnan(sum(sizes)):
            raise CorpusError(
                f"the parts of X have no known length, and {name} is in memory: make a Dask collection of it, or of an "
                "array X.compute_chunk_sizes() first"
            )
        elif len(column) != sum(sizes):
            raise CorpusError(f"X has {sum(sizes)} documents and {name} has {len(column)}")
        else:
            values = column if isinstance(column, list) else np.asarray(column)
            beside.append([values[a:b] for a, b in pairwise(accumulate(map(int, sizes), initial=0))])
    return [tuple(part) for part in zip(rows, *beside, strict=True)]


def categories_of(X: Any, client: Client, executor: Executor) -> dict[int, np.ndarray]:
    """Return the numbering of a DataFrame of Dask, from what each of its parts holds; see `joined_categories`."""
    from sdem_dist.engine.executor import in_order

    frames = ((client.compute(frame),) for frame in X.to_delayed())
    return joined_categories(list(in_order(executor, categories_by_column, frames)), list(X.columns))


def collect_by_tasks(
    executor: Executor,
    client: Client,
    parts: Sequence[Part],
    categories: dict[int, np.ndarray] | None,
    scratch: Path,
    seed: int | None,
    options: JsonObject,
) -> SortedDocuments:
    """Check, take in and sort the parts of a collection in tasks; raises CorpusError as `collect` does.

    `categories`: the numbering of a table. `options`: of `collect`.
    """
    from sdem_dist.engine.executor import in_order

    computed = ([client.compute(one) if hasattr(one, "dask") else one for one in part] for part in parts)
    jobs = ((scratch / f"part-{i}", i, categories, options, *part) for i, part in enumerate(computed))
    summaries = list(in_order(executor, store_part, jobs))
    starts = list(accumulate((summary["n_documents"] for summary in summaries), initial=0))
    nonempty = [i for i, summary in enumerate(summaries) if summary["n_documents"]]
    kinds = {i: Kind(*summaries[i]["kind"]) for i in nonempty}
    kind = next(iter(kinds.values()), Kind(0))
    for i in nonempty:
        check_same_kind(kinds[i], kind, f"part {i} of X (from 0)")
    encoder, weighted = LabelEncoder(options["classes"]), options["weighted"]
    names = [name for i in nonempty for name in summaries[i]["classes"]]
    if kind.labels:
        encoder.encode(column_of(names), len(names), 0)
    classes = encoder.finish()[0]
    weighted = any(summaries[i]["weighted"] for i in nonempty) if weighted is None else weighted
    number_of, counts = {(type(name), name): n for n, name in enumerate(classes)}, np.zeros(len(classes), np.int64)
    sorting = []
    for i in nonempty:
        positions = np.array([number_of[type(name), name] for name in summaries[i]["classes"]], np.int32)
        counts[positions] += np.array(summaries[i]["class_counts"], np.int64)
        sorting.append((scratch / f"part-{i}", scratch / f"rows-{i}", positions, weighted, seed, starts[i]))
    folders = list(in_order(executor, sort_part, sorting))
    n, n_nonzeros, dense = starts[-1], sum(summary["n_nonzeros"] for summary in summaries), options["dense"]
    return SortedDocuments(
        kind, n, n_nonzeros, classes, tuple(counts.tolist()), weighted, dense, seed, folders=folders, scratch=scratch
    )


def store_part(
    folder: Path, number: int, categories: dict[int, np.ndarray] | None, options: JsonObject, X: Any, *columns: Any
) -> JsonObject:
    """Write down a part of a collection, checked, in its order; return what is known of it."""

    def stored(partial_folder: Path) -> JsonObject:
        try:
            if isinstance(X, list | tuple):  # of a bag
                source = batches(list(X), columns)
            else:
                y, *others, groups = columns
                values = X if categories is None else encoded_table(X, categories).values
                hashes = None if groups is None else group_hashes(groups)
                source = iter([(values, None if y is None else np.asarray(y), *others, hashes)])
            documents = collect(source, partial_folder / "unused", 1 << 62, seed=None, **options)
        except CorpusError as error:
            raise CorpusError(f"part {number} of X (from 0), documents counted within it: {error}") from error
        return documents.write_rows(partial_folder)

    return once(folder, stored)


def sort_part(part: Path, folder: Path, positions: np.ndarray, weighted: bool, seed: int | None, first: int) -> Path:
    """Write the rows of a part, from position `first` on, in the corpus's order to `folder`; return that.

    `positions`: the place of each of the part's classes among those of the corpus.
    """

    def sorted_rows(partial_folder: Path) -> JsonObject:
        summary = json.loads((part / SUMMARY).read_text(encoding="utf-8"))
        kind, n, rows = Kind(*summary["kind"]), summary["n_documents"], SortedRows.of_folder(part)
        places = positions if len(positions) else None
        return SortedDocuments(kind, n, 0, (), (), weighted, False, seed, rows, places).write_rows(
            partial_folder, first
        )

    once(folder, sorted_rows)
    return folder
