"""From what a user holds documents in to checked rows in their stored order, batch by batch."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from sdem_dist.corpus import checks
from sdem_dist.corpus.folds import group_hashes
from sdem_dist.corpus.labels import LabelEncoder
from sdem_dist.corpus.manifest import index_dtype
from sdem_dist.corpus.rows import Canonical, KeyedRows, Kind, narrowed
from sdem_dist.corpus.shuffle import SortedDocuments, SortedRows, stored_keys
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import encode_strings

BATCH_ENTRIES = 1 << 20
COLUMNS = ("y", "ids", "targets", "sample_weight", "groups")
"""What stands beside the documents: each array-like with a value for every document, or None."""
Batch = tuple[Any, ...]
"""A matrix, a table or `Canonical`, and its columns; groups are hashes."""


def batches(X: object, columns: Sequence[Any]) -> Iterator[Batch]:
    """Cut a matrix into batches of rows, or pass on the batches of an iterable, which bring their `COLUMNS`."""
    if not (sp.issparse(X) or isinstance(X, np.ndarray) or hasattr(X, "to_delayed")):
        yield from _of_iterable(X, columns)
        return
    shape = cast(Any, X).shape
    if len(shape) != 2:
        raise CorpusError(f"X has {len(shape)} dimensions; a matrix of documents by features has two")
    # ids stay a list: of mixed kinds, NumPy would make texts
    arrays = [None if c is None else c if i == 1 else np.asarray(c) for i, c in enumerate(columns)]
    arrays[4] = None if arrays[4] is None else group_hashes(arrays[4])
    stop = 0
    for block in _row_blocks(X):
        start, stop = stop, stop + block.shape[0]
        yield block, *(None if column is None else column[start:stop] for column in arrays)
    for name, column in zip(COLUMNS, arrays, strict=True):
        if column is not None and len(column) != stop:
            raise CorpusError(f"X has {stop} documents and {name} has {len(column)}")


def _of_iterable(X: object, columns: Sequence[Any]) -> Iterator[Batch]:
    kind = type(X).__name__
    if not isinstance(X, Iterable):
        raise CorpusError(f"X is a {kind}: give a matrix or an iterable of batches (X, y)")
    first = X[0] if isinstance(X, list | tuple) and X else None
    if isinstance(first, list | tuple | np.ndarray) and len(first) and np.isscalar(first[0]):
        raise CorpusError(f"X is a {kind} of rows: pass a matrix, numpy.asarray(X)")
    if isinstance(first, str):
        raise CorpusError(
            f"X is a {kind} of texts, and write_corpus takes numbers: sdem ingest, or sdem_dist.text.ingest, makes a corpus of "
            "files of texts; fit takes texts as they are, and vectorizers of scikit-learn make a matrix of them"
        )
    if any(column is not None for column in columns):
        raise CorpusError(
            f"X, a {kind}, is not a matrix, and iterables of batches (X, y) bring labels, ids, targets, weights and groups with "
            "each batch, not as arguments: pass a sparse matrix, an ndarray, a dask array or a DataFrame, or batches alone"
        )
    for number, batch in enumerate(X):
        if not isinstance(batch, tuple | list) or not 2 <= len(batch) <= 1 + len(COLUMNS):
            raise CorpusError(
                f"batch {number} of X is not a pair (X, y), or (X, {', '.join(COLUMNS)}), or some of these"
            )
        matrix, *of_batch = (*batch, *[None] * 5)[:6]
        if sp.issparse(matrix):
            checks.check_structure(matrix, f"batch {number} of X")
        yield matrix, *of_batch[:4], None if of_batch[4] is None else group_hashes(of_batch[4])


def _row_blocks(X: Any) -> Iterator[Any]:
    if hasattr(X, "to_delayed"):
        # A row of dask's blocks at a time; their lengths may be unknown before they are computed.
        for block in range(X.numblocks[0]):
            yield from _row_blocks(X.blocks[block].compute())
        return
    if sp.issparse(X):
        checks.check_structure(X, "X")
        X = X.tocsr()
    n_documents, n_entries = X.shape[0], X.nnz if sp.issparse(X) else X.size
    step = max(1, BATCH_ENTRIES * n_documents // max(1, n_entries))
    for start in range(0, n_documents, step):
        yield X[start : start + step]


def _canonical(X: Any, where: str, first: int, dense: bool) -> Canonical:
    """Return a matrix as counts, if all entries are whole numbers, or weights; or a table as rows of every column.

    Raises CorpusError: an entry cannot be stored. The message names the document, counted from `first`.
    """
    if dense:
        if sp.issparse(X):
            raise CorpusError("a dense corpus is written from tables, not from sparse matrices")
        table = checks.checked_table(X, where, first)
        n, width = table.shape
        indices = np.tile(np.arange(width, dtype=np.uint32), n)
        return Canonical(narrowed(table.astype(np.float64).ravel()), indices, np.arange(n + 1) * width, width)
    matrix = X if sp.issparse(X) else np.asarray(X)
    checks.check_numbers(matrix, where)
    csr = sp.csr_array(matrix)
    if not csr.has_canonical_format or (csr.data == 0).any():
        csr = csr.copy() if sp.issparse(X) else csr
        csr.sum_duplicates()
        csr.eliminate_zeros()
    data = checks.checked_entries(csr, where, first).data
    top, is_whole = data.max(initial=0), data.dtype.kind != "f" or bool((data == np.floor(data)).all())
    data = data.astype(np.min_scalar_type(int(top)) if top < 2**32 and is_whole else np.float32)
    return Canonical(data, csr.indices.astype(np.uint32), csr.indptr.astype(np.int64), csr.shape[1])


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
    """Check and take in all batches; there may be none. Other parameters are those of `write_corpus`.

    `file`: holds documents beyond `memory_limit` bytes.
    `seed`: of the order in which to store the documents; None keeps that of the input.
    `first`: position of the first of these documents in the corpus before it is shuffled.
    """
    memory, encoder, kind = SortedRows(file, memory_limit), LabelEncoder(classes, unlabelled), None
    start, n_nonzeros, all_integers = first, 0, True
    for X, y, ids, targets, weights, groups in source:
        where = f"the batch from document {start} on"
        rows = X if isinstance(X, Canonical) else _canonical(X, where, start, dense)
        n = len(rows.indptr) - 1
        if not n:
            continue
        kind_of_ids, id_array, id_bytes = _encoded_ids(ids, start, start + n, where)
        table = np.empty((n, 0)) if targets is None else checks.checked_targets(targets, n, where)
        of_batch = Kind(
            rows.n_features, table.shape[1], weights is not None, y is not None, groups is not None, kind_of_ids
        )
        kind = kind or of_batch
        check_same_kind(of_batch, kind, where)
        if rows.data.dtype.kind == "f":
            if weighted is False:
                raise CorpusError(f"weighted=False, but {where} is not all counts")
            all_integers = False
        if weights is not None:
            table = np.column_stack([table, checks.checked_weights(weights, n, where)])
        keys, codes = stored_keys(seed, start, start + n), encoder.encode(y, n, start)
        indices = rows.indices.astype(index_dtype(rows.n_features), copy=False)
        memory.add(KeyedRows(keys, rows.data, indices, rows.indptr, codes, table, id_array, id_bytes, groups))
        start, n_nonzeros = start + n, n_nonzeros + len(rows.data)
    names, positions, counts = encoder.finish()
    n, weighted = start - first, (not all_integers) if weighted is None else weighted
    return SortedDocuments(
        kind or Kind(0), n, n_nonzeros, names, counts, weighted, dense, seed, memory, positions=positions
    )


def check_same_kind(kind: Kind, first: Kind, where: str) -> None:
    """Raise CorpusError where documents differ from the first ones in what all of a corpus have alike."""
    for name, value, value_of_first in zip(Kind._fields, kind, first, strict=True):
        if value != value_of_first:
            raise CorpusError(f"{where} differs from the documents before it in {name}: {value}, not {value_of_first}")


def _encoded_ids(ids: Any, start: int, stop: int, where: str) -> tuple[str, np.ndarray, np.ndarray | None]:
    """Return the kind of ids, and int64 ids and None, or the offsets and the joined bytes of string ids."""
    if ids is None:
        return "positions", np.arange(start, stop, dtype=np.int64), None
    are_integers = isinstance(ids, np.ndarray) and ids.dtype.kind == "i" and ids.ndim == 1
    plain = ids if are_integers else [v.item() if isinstance(v, np.generic) else v for v in ids]
    if len(plain) != stop - start:
        raise CorpusError(f"{where} has {stop - start} documents and {len(plain)} ids")
    try:
        if isinstance(plain[0], str):
            joined, offsets = encode_strings(plain)
            return "strings", offsets, joined
        if not are_integers and not all(type(i) is int for i in plain):
            raise TypeError("they are not all integers")
        return "integers", np.array(plain, np.int64), None
    except (TypeError, OverflowError, UnicodeEncodeError) as error:
        raise CorpusError(f"the ids of {where} cannot be stored: {error}") from error
