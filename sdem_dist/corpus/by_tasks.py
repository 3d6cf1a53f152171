"""Writing a corpus from a Dask collection: workers compute its parts, sort and write them, and nothing is gathered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sdem_dist.corpus.collect import Batch, batches, collect
from sdem_dist.corpus.labels import LabelEncoder
from sdem_dist.corpus.manifest import Classes
from sdem_dist.corpus.publishing import destination, reopened, write_contents
from sdem_dist.corpus.reader import Corpus
from sdem_dist.corpus.rows import KeyedRows
from sdem_dist.corpus.shuffle import ROWS, SortedDocuments, SortedRows, stored_keys
from sdem_dist.corpus.tables import (
    TABLE,
    categories_by_column,
    encoded_table,
    facts_of_table,
    joined_categories,
    numbering,
)
from sdem_dist.errors import CorpusError
from sdem_dist.storage import buckets
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.kept import SUMMARY, once
from sdem_dist.storage.urls import is_url
from sdem_dist.storage.urls import place as to_place

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.engine.executor import Executor


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

    `columns`: labels, ids, targets and weights: Dask collections that are cut as `X` is, arrays in memory beside an
    array, or None.
    Raises CorpusError: `X` is none of these, or what stands beside it is not cut as it is.
    """
    if hasattr(X, "rechunk"):
        rows = X.rechunk({1: -1}).to_delayed().ravel()
    elif hasattr(X, "map_partitions") and hasattr(X, "to_delayed"):
        rows = X.to_delayed()
        if not is_frame(X) and any(column is not None for column in columns):
            raise CorpusError(
                "the batches of a bag bring labels, ids, targets and weights with them: leave y and so on at None"
            )
    else:
        raise CorpusError(
            f"a client's workers write dask arrays, DataFrames and bags of batches, not a {type(X).__name__}: leave client out"
        )
    beside = [_cut_alike(X, column, name) for name, column in zip(NAMES, columns, strict=True)]
    return [Part(*part) for part in zip(rows, *beside, strict=True)]


def column_kinds(frame: Any) -> dict[int, list[object]]:
    """Return what the columns of a partition hold that is not a number: a task."""
    try:
        return categories_by_column(frame)
    except ValueError as error:
        raise CorpusError(str(error)) from error


def _cut_alike(X: Any, column: Any, name: str) -> Sequence[Any]:
    """Return a column's part for each part of X: delayed ones of a Dask collection, or arrays in memory."""
    is_array = hasattr(X, "rechunk")
    n_parts = X.numblocks[0] if is_array else X.npartitions
    if column is None:
        return [None] * n_parts
    if is_array and hasattr(column, "rechunk"):
        if not np.array_equal(column.chunks[0], X.chunks[0], equal_nan=True):
            raise CorpusError(
                f"{name} is cut into blocks of {column.chunks[0]} and X into blocks of {X.chunks[0]}: cut both alike, "
                f"{name}.rechunk"
            )
        column = column if column.ndim == 1 else column.rechunk({1: -1})
    elif not hasattr(column, "to_delayed"):
        if not is_array or np.isnan(X.shape[0]):
            raise CorpusError(
                f"the parts of X have no known length, and {name} is in memory: make a Dask collection of it, or of an "
                "array X.compute_chunk_sizes() first"
            )
        if len(column) != X.shape[0]:
            raise CorpusError(f"X has {X.shape[0]} documents and {name} has {len(column)}")
        values = column if isinstance(column, list) else np.asarray(column)
        return [values[start:stop] for start, stop in pairwise(np.cumsum([0, *X.chunks[0]]).tolist())]
    blocks: Sequence[Any] = np.ravel(column.to_delayed()).tolist()
    if len(blocks) != n_parts:
        raise CorpusError(
            f"{name} is cut into {len(blocks)} parts and X into {n_parts}: cut both alike, {name}.repartition"
        )
    return blocks


@dataclass(frozen=True)
class Storing:
    """How the parts of a collection are taken in; see `sdem_dist.corpus.write_corpus`."""

    classes: tuple[object, ...] | None
    weighted: bool | None
    dense: bool
    unlabelled: object = None
    categories: dict[int, np.ndarray] | None = None  # the numbering of a table of pandas


def write_collection(
    path: str | Path,
    X: Any,
    columns: tuple[Any, Any, Any, Any],
    client: Client,
    storing: Storing,
    *,
    vocabulary: Sequence[str] | None,
    vectorizer: JsonObject | None,
    made_by: JsonObject | None,
    seed: int | None,
    shard_documents: int | None,
    overwrite: bool,
) -> Corpus:
    """Write a Dask collection as a corpus, on the workers of a client; see `sdem_dist.corpus.write_corpus`.

    `X`: dask array, DataFrame or bag.
    `columns`: labels, ids, targets and weights.
    Raises CorpusError: `X` is not a Dask collection, labels or other columns are cut otherwise, or a part does not fit.
    """
    from sdem_dist.engine.dask import DaskExecutor
    from sdem_dist.engine.executor import in_order

    executor, parts = DaskExecutor(client), parts_of(X, columns)
    if is_frame(X):
        if vectorizer is not None and vectorizer.get("kind") != TABLE:
            raise CorpusError("vectorizer says how text became words, and X is a table: leave it at None")
        names, categories = list(X.columns), numbering(vectorizer)
        if categories is None:
            frames = ((client.compute(part.X),) for part in parts)
            categories = joined_categories(list(in_order(executor, column_kinds, frames)), names)
        vocabulary, vectorizer = facts_of_table(names, categories, storing.dense, vocabulary, vectorizer)
        storing = replace(storing, categories=categories)
    with destination(path, overwrite) as (where, scratch):
        if is_url(path):  # inside the corpus to be, so that the next writer removes it after a kill
            scratch = to_place(where) / "scratch"
        jobs = ((scratch / f"part-{i}", i, storing, *part.computed(client)) for i, part in enumerate(parts))
        stored_parts = list(in_order(executor, store_part, jobs))
        documents = _sorted_documents(executor, stored_parts, storing, scratch, seed)
        header = write_contents(
            where,
            documents,
            partial(documents.write_by_tasks, executor, to_place(where)),
            vocabulary=vocabulary,
            vectorizer=vectorizer,
            made_by=made_by,
            shard_documents=shard_documents,
        )
        if is_url(path):
            buckets.remove(str(scratch))
    return reopened(path, header)


def _sorted_documents(
    executor: Executor, stored: list[JsonObject], storing: Storing, scratch: Path, seed: int | None
) -> SortedDocuments:
    """Sort the documents of all parts in tasks; `stored` is what `store_part` returned."""
    from sdem_dist.engine.executor import in_order

    starts = list(accumulate((part["n_documents"] for part in stored), initial=0))
    nonempty = [i for i, part in enumerate(stored) if part["n_documents"]]
    if not nonempty:
        raise CorpusError("there are no documents; a corpus has one or more")
    parts = [stored[i] for i in nonempty]
    for what, name in (
        ("numbers of columns", "n_features"),
        ("kinds of ids", "ids"),
        ("numbers of targets", "n_targets"),
        ("answers to whether documents have weights", "has_weights"),
    ):
        if len(values := {part[name] for part in parts}) > 1:
            raise CorpusError(f"the parts of X have different {what}: {', '.join(map(str, sorted(values)))}")
    if len({part["labelled"] for part in parts}) > 1:
        raise CorpusError("some parts of X have labels and some not")
    classes: Classes = ()
    if parts[0]["labelled"]:
        encoder, one = LabelEncoder(storing.classes), np.empty(1, object)
        for part in parts:
            for one[0] in part["names"]:  # one by one: an array would make texts of mixed kinds
                encoder.encode(one, 1, 0)
        classes = encoder.finish()[0]
    weighted = any(part["weighted"] for part in parts) if storing.weighted is None else storing.weighted
    folders = [scratch / f"rows-{i}" for i in nonempty]
    jobs = (
        (scratch / f"part-{i}", folder, classes, weighted and not storing.dense, seed, starts[i])
        for i, folder in zip(nonempty, folders, strict=True)
    )
    summaries = list(in_order(executor, sort_part, jobs))
    return SortedDocuments(
        n_documents=starts[-1],
        n_features=parts[0]["n_features"],
        n_nonzeros=sum(summary["n_nonzeros"] for summary in summaries),
        classes=classes,
        class_counts=tuple(map(sum, zip(*(summary["class_counts"] for summary in summaries), strict=True))),
        weighted=weighted,
        dense=storing.dense,
        n_targets=parts[0]["n_targets"],
        has_weights=parts[0]["has_weights"],
        seed=seed,
        folders=folders,
        scratch=scratch,
    )


def store_part(
    folder: Path, number: int, storing: Storing, X: Any, y: Any, ids: Any, targets: Any, weights: Any
) -> JsonObject:
    """Write down a part of a collection, checked, in its order; return what is known of it."""

    def stored(partial_folder: Path) -> JsonObject:
        try:
            nonempty = [batch for batch in _batches(storing, X, (y, ids, targets, weights)) if np.shape(batch[0])[0]]
            if not nonempty:
                return {"n_documents": 0}
            collected = collect(
                nonempty,
                partial_folder / "unused",
                1 << 62,
                storing.classes,
                storing.weighted,
                seed=None,
                dense=storing.dense,
                unlabelled=storing.unlabelled,
            )
        except CorpusError as error:
            raise CorpusError(f"part {number} of X (from 0), documents counted within it: {error}") from error
        first = nonempty[0][2]
        kind = "positions" if first is None else "strings" if isinstance(next(iter(first)), str) else "integers"
        return collected.write_rows(partial_folder) | {
            "n_features": collected.n_features,
            "weighted": collected.weighted,
            "labelled": nonempty[0][1] is not None,
            "names": list(collected.classes),
            "ids": kind,
        }

    return once(folder, stored)


def _batches(storing: Storing, X: Any, columns: tuple[Any, Any, Any, Any]) -> Iterator[Batch]:
    """Yield the batches of a part: it is one itself, or a list of some, as the partitions of bags are."""
    if storing.categories is not None:
        X = encoded_table(X, storing.categories).values
    if isinstance(X, list | tuple):
        yield from batches(list(X), *columns)
    else:
        y, *others = columns
        yield X, None if y is None else np.asarray(y), *others


def sort_part(part: Path, folder: Path, classes: Classes, as_weights: bool, seed: int | None, first: int) -> JsonObject:
    """Write the rows of a part in the order of the corpus; `first` is the position of the first of them."""

    def sorted_rows(partial_folder: Path) -> JsonObject:
        summary = json.loads((part / SUMMARY).read_text(encoding="utf-8"))
        rows = KeyedRows.concatenate(SortedRows(part / ROWS, pieces=summary["pieces"]).between(0, 1 << 64))
        labels = rows.labels
        if classes:
            kinds = {(type(name), name): i for i, name in enumerate(classes)}
            places = np.array([kinds[type(name), name] for name in summary["names"]] or [0], np.int32)
            labels = np.where(labels < 0, np.int32(-1), places[labels])
        by_key = SortedRows(partial_folder / ROWS, 1 << 62)
        by_key.add(
            replace(
                rows,
                keys=stored_keys(seed, first, first + rows.n_documents),
                data=rows.data.astype(np.float32, copy=False) if as_weights else rows.data,
                labels=labels,
                ids=rows.ids + first if summary["ids"] == "positions" else rows.ids,
            )
        )
        by_key.flush()
        return {
            "pieces": by_key.pieces,
            "n_nonzeros": len(rows.data),
            "class_counts": np.bincount(labels[labels >= 0], minlength=len(classes))[: len(classes)].tolist(),
        }

    return once(folder, sorted_rows)
