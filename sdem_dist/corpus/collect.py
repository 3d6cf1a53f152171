"""Conversion of the user's matrices, tables and batches to validated rows in stored order, here or in tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import scipy.sparse as sp

from sdem_dist.corpus import manifest
from sdem_dist.corpus.counts import CsrCounts, arranged
from sdem_dist.corpus.folds import group_hashes
from sdem_dist.corpus.labels import LabelEncoder, column_of, encoded_table
from sdem_dist.corpus.manifest import index_dtype
from sdem_dist.corpus.shuffle import Kind, Rows, SortedDocuments, SortedRows, narrowed, rows_of, stored_keys
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import JsonObject, encode_strings
from sdem_dist.storage.jobs import SUMMARY, once

if TYPE_CHECKING:
    from distributed import Client

    from sdem_dist.engine.executor import Executor

BATCH_ENTRIES = 1 << 20
COLUMNS = ("y", "ids", "targets", "sample_weight", "groups")
"""Columns beside the documents; each is an array-like with a value per document, or None."""
Csr = TypeVar("Csr", sp.csr_array, sp.csr_matrix)
Batch = tuple[Any, ...]
"""A matrix or a table, and its `COLUMNS`; groups are hashes."""
Part = tuple[Any, ...]
"""A part of a Dask collection, not computed yet, and the part of each of `COLUMNS`."""


def batches(X: object, columns: Sequence[Any]) -> Iterator[Batch]:
    """Yield a matrix in batches of rows with their `columns`, or the batches of an iterable, which have their own."""
    if sp.issparse(X) or isinstance(X, np.ndarray) or hasattr(X, "to_delayed"):
        shape = cast(Any, X).shape
        if len(shape) != 2:
            raise CorpusError(f"X must have two dimensions (documents and features), got {len(shape)}")
        # ids stay a list: NumPy would convert mixed types to strings
        arrays = [None if c is None else c if i == 1 else np.asarray(c) for i, c in enumerate(columns)]
        arrays[4] = None if arrays[4] is None else group_hashes(arrays[4])
        stop = 0
        for block in _row_blocks(X):
            start, stop = stop, stop + block.shape[0]
            yield block, *(None if column is None else column[start:stop] for column in arrays)
        for name, column in zip(COLUMNS, arrays, strict=True):
            if column is not None and len(column) != stop:
                raise CorpusError(f"X has {stop} documents, but {name} has {len(column)}")
        return
    kind = type(X).__name__
    if not isinstance(X, Iterable):
        raise CorpusError(f"X must be a matrix or an iterable of batches (X, y), got a {kind}")
    first = X[0] if isinstance(X, list | tuple) and X else None
    if isinstance(first, list | tuple | np.ndarray) and len(first) and np.isscalar(first[0]):
        raise CorpusError(f"X must be a matrix, got a {kind} of rows: pass numpy.asarray(X)")
    if isinstance(first, str):
        raise CorpusError(
            f"X is a {kind} of texts, but write_corpus needs numbers: for text files, use sdem ingest or "
            "sdem_dist.text.ingest; for texts in memory, use fit, or a vectorizer of scikit-learn"
        )
    if any(column is not None for column in columns):
        raise CorpusError(
            f"X is a {kind}: labels, ids, targets, weights and groups can only be passed with a sparse matrix, an ndarray, "
            "a Dask array or a DataFrame, since batches (X, y) contain their own"
        )
    for number, batch in enumerate(X):
        if not isinstance(batch, tuple | list) or not 2 <= len(batch) <= 1 + len(COLUMNS):
            raise CorpusError(f"batch {number} of X must be a tuple of X, y and, optionally, {', '.join(COLUMNS[1:])}")
        matrix, *of_batch = (*batch, *[None] * 5)[:6]
        if sp.issparse(matrix):
            manifest.check_structure(matrix, f"batch {number} of X")
        yield matrix, *of_batch[:4], None if of_batch[4] is None else group_hashes(of_batch[4])


def _row_blocks(X: Any) -> Iterator[Any]:
    if hasattr(X, "to_delayed"):
        # Compute one row of Dask's blocks at a time; their lengths may be unknown before.
        for block in range(X.numblocks[0]):
            yield from _row_blocks(X.blocks[block].compute())
        return
    if sp.issparse(X):
        manifest.check_structure(X, "X")
        X = X.tocsr()
    n_documents, n_entries = X.shape[0], X.nnz if sp.issparse(X) else X.size
    step = max(1, BATCH_ENTRIES * n_documents // max(1, n_entries))
    for start in range(0, n_documents, step):
        yield X[start : start + step]


def collect(
    source: Iterable[Batch],
    file: Path,
    memory_limit: int,
    classes: Sequence[object] | None,
    weighted: bool | None,
    *,
    seed: int | None,
    dense: bool = False,
    unlabelled: object = None,
    first: int = 0,
) -> SortedDocuments:
    """Validate and collect all batches; `first`: position of the first document; `file`: for rows beyond the limit."""
    memory, encoder, kind = SortedRows(file, memory_limit), LabelEncoder(classes, unlabelled), None
    start, n_nonzeros, all_integers = first, 0, True
    for X, y, ids, targets, weights, groups in source:
        where = f"the batch that starts at document {start}"
        rows, n, n_features = _entries(X, where, start, dense)
        if not n:
            continue
        kind_of_ids, rows["ids"] = "positions", np.arange(start, start + n, dtype=np.int64)
        if ids is not None:
            plain = [v.item() if isinstance(v, np.generic) else v for v in getattr(ids, "tolist", ids.__iter__)()]
            if len(plain) != n:
                raise CorpusError(f"{where} has {n} documents, but {len(plain)} IDs")
            try:
                if isinstance(plain[0], str):
                    del rows["ids"]
                    kind_of_ids, (rows["ids_bytes"], rows["ids_offsets"]) = "strings", encode_strings(plain)
                elif all(type(i) is int for i in plain):
                    kind_of_ids, rows["ids"] = "integers", np.array(plain, np.int64)
                else:
                    raise TypeError("they must be all strings or all integers")
            except (TypeError, OverflowError, UnicodeEncodeError) as error:
                raise CorpusError(f"the IDs of {where} cannot be stored: {error}") from error
        if targets is not None:
            rows["targets"] = manifest.checked_targets(targets, n, where)
        n_targets = 0 if targets is None else rows["targets"].shape[1]
        present = weights is not None, y is not None, groups is not None
        of_batch = Kind(n_features, n_targets, *present, kind_of_ids)
        kind = kind or of_batch
        check_same_kind(of_batch, kind, where)
        entries = rows["values" if dense else "data"]
        if entries.dtype.kind == "f":
            if weighted is False:
                raise CorpusError(f"weighted=False needs counts, but {where} contains other values")
            all_integers = False
        if weights is not None:
            rows["weights"] = manifest.checked_weights(weights, n, where)
        if groups is not None:
            rows["groups"] = groups
        codes = encoder.encode(y, n, start)
        if y is not None:
            rows["labels"] = codes
        memory.add({"keys": stored_keys(seed, start, start + n), **rows})
        start, n_nonzeros = start + n, n_nonzeros + entries.size
    names, positions, counts = encoder.finish()
    n, weighted = start - first, (not all_integers) if weighted is None else weighted
    return SortedDocuments(
        kind or Kind(0), n, n_nonzeros, names, counts, weighted, dense, seed, memory, positions=positions
    )


def _entries(X: Any, where: str, first: int, dense: bool) -> tuple[Rows, int, int]:
    """Return the entries of a matrix (unsigned counts if all are integers, else weights) or table, and its shape."""
    if dense:
        if sp.issparse(X):
            raise CorpusError("dense=True needs tables, not sparse matrices")
        table = manifest.checked_table(X, where, first).astype(np.float64)
        return {"values": narrowed(table)}, *table.shape
    matrix = X if sp.issparse(X) else np.asarray(X)
    manifest.check_numbers(matrix, where)
    csr = canonical(sp.csr_array(matrix))
    data = manifest.checked_entries(csr, where, first).data
    top, is_whole = data.max(initial=0), data.dtype.kind != "f" or bool((data == np.floor(data)).all())
    data = data.astype(np.min_scalar_type(int(top)) if top < 2**32 and is_whole else np.float32)
    indices = csr.indices.astype(index_dtype(csr.shape[1]))
    return {"data": data, "indices": indices, "indptr": csr.indptr.astype(np.int64)}, *csr.shape


def canonical(rows: Csr) -> Csr:
    """Return rows with distinct ascending columns, without zeros; the argument is not changed."""
    if rows.has_canonical_format and rows.data.all():
        return rows
    is_counts = rows.data.dtype.kind in "ui"
    if is_counts and rows.data.all() and rows.data.sum(dtype=np.float64) < 2**31:  # twice as fast as SciPy
        counts = CsrCounts(rows.indptr.astype(np.int64), rows.indices, rows.data.astype(np.int32))
        columns = np.arange(rows.shape[1], dtype=np.int32)
        indptr, indices, data = arranged([([counts], columns)], len(columns), np.int32)
        rows = type(rows)((data, indices, indptr), rows.shape)
        rows.has_canonical_format = True
        return rows
    rows = rows.astype(np.int64) if is_counts else rows.copy()  # sums may overflow a small dtype
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def check_same_kind(kind: Kind, first: Kind, where: str) -> None:
    for name, value, value_of_first in zip(Kind._fields, kind, first, strict=True):
        if value != value_of_first:
            raise CorpusError(f"{where} does not match earlier documents: {name} is {value}, but was {value_of_first}")


def is_frame(X: object) -> bool:
    """Return whether `X` is a Dask DataFrame, without importing Dask."""
    return hasattr(X, "map_partitions") and hasattr(X, "columns")


def parts_of(X: Any, columns: Sequence[Any]) -> list[Part]:
    """Return the parts of a Dask array, DataFrame or bag with the parts of `columns`, Dask collections or arrays."""
    if hasattr(X, "rechunk"):
        rows = X.rechunk({1: -1}).to_delayed().ravel()
    elif hasattr(X, "map_partitions") and hasattr(X, "to_delayed"):
        rows = X.to_delayed()
        if not is_frame(X) and any(column is not None for column in columns):
            raise CorpusError("the batches of a bag contain their own labels, IDs and weights: do not pass these")
    else:
        raise CorpusError(
            f"with a client, X must be a Dask array, DataFrame or bag, got a {type(X).__name__}: omit client"
        )
    sizes = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(rows)
    beside: list[Sequence[Any]] = []  # for each column, its parts
    for name, column in zip(COLUMNS, columns, strict=True):
        if column is None:
            beside.append([None] * len(sizes))
        elif hasattr(column, "to_delayed"):
            delayed = (column.rechunk({1: -1}) if column.ndim > 1 else column).to_delayed()
            beside.append(np.ravel(delayed).tolist())
            if len(beside[-1]) != len(sizes):
                raise CorpusError(
                    f"{name} has {len(beside[-1])} partitions, but X has {len(sizes)}: use the same partitions"
                )
        elif np.isnan(sum(sizes)):
            raise CorpusError(
                f"the lengths of X's partitions are unknown, and {name} is in memory: convert it to a Dask collection, or, "
                "for an array, call X.compute_chunk_sizes() first"
            )
        elif len(column) != sum(sizes):
            raise CorpusError(f"X has {sum(sizes)} documents, but {name} has {len(column)}")
        else:
            values = column if isinstance(column, list) else np.asarray(column)
            beside.append([values[a:b] for a, b in pairwise(accumulate(map(int, sizes), initial=0))])
    return [tuple(part) for part in zip(rows, *beside, strict=True)]


def collect_by_tasks(
    executor: Executor,
    client: Client,
    parts: Sequence[Part],
    categories: dict[int, np.ndarray] | None,
    scratch: Path,
    seed: int | None,
    options: JsonObject,
) -> SortedDocuments:
    """Validate, collect and sort the parts of a collection in tasks, with the `options` of `collect`."""
    from sdem_dist.engine.executor import in_order

    computed = ([client.compute(one) if hasattr(one, "dask") else one for one in part] for part in parts)
    jobs = ((scratch / f"part-{i}", i, categories, options, *part) for i, part in enumerate(computed))
    summaries = list(in_order(executor, store_part, jobs))
    starts = list(accumulate((summary["n_documents"] for summary in summaries), initial=0))
    nonempty = [i for i, summary in enumerate(summaries) if summary["n_documents"]]
    kinds = {i: Kind(*summaries[i]["kind"]) for i in nonempty}
    kind = next(iter(kinds.values()), Kind(0))
    for i in nonempty:
        check_same_kind(kinds[i], kind, f"part {i} of X (counting from 0)")
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
        sorting.append(
            (scratch / f"part-{i}", scratch / f"rows-{i}", positions, weighted, options["dense"], seed, starts[i])
        )
    folders = list(in_order(executor, sort_part, sorting))
    n, n_nonzeros, dense = starts[-1], sum(summary["n_nonzeros"] for summary in summaries), options["dense"]
    return SortedDocuments(
        kind, n, n_nonzeros, classes, tuple(counts.tolist()), weighted, dense, seed, folders=folders, scratch=scratch
    )


def store_part(
    folder: Path, number: int, categories: dict[int, np.ndarray] | None, options: JsonObject, X: Any, *columns: Any
) -> JsonObject:
    """Task: validate a part of a collection and write it to `folder` in its order; return a summary."""

    def stored(partial_folder: Path) -> JsonObject:
        try:
            if isinstance(X, list | tuple):  # part of a bag
                source = batches(list(X), columns)
            else:
                y, *others, groups = columns
                values = X if categories is None else encoded_table(X, categories).values
                hashes = None if groups is None else group_hashes(groups)
                source = iter([(values, None if y is None else np.asarray(y), *others, hashes)])
            documents = collect(source, partial_folder / "unused", 1 << 62, seed=None, **options)
        except CorpusError as error:
            raise CorpusError(f"part {number} of X (parts and documents are counted from 0): {error}") from error
        return documents.write_rows(partial_folder)

    return once(folder, stored)


def sort_part(
    part: Path, folder: Path, positions: np.ndarray, weighted: bool, dense: bool, seed: int | None, first: int
) -> Path:
    """Task: write a part's rows in stored order to `folder`; `positions`: its classes among the corpus's classes."""
    summary = json.loads((part / SUMMARY).read_bytes())
    kind, n, places = Kind(*summary["kind"]), summary["n_documents"], positions if len(positions) else None
    documents = SortedDocuments(kind, n, 0, (), (), weighted, dense, seed, rows_of(part), places)
    once(folder, lambda partial_folder: documents.write_rows(partial_folder, first))
    return folder
