"""Whatever a user holds documents in, as a stream of batches ``(X, y, ids, targets, weights)``."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdem_dist.corpus.checks import VALUE_RULE, check_structure, first_invalid
from sdem_dist.corpus.rows import Canonical
from sdem_dist.corpus.shards import narrowed
from sdem_dist.errors import CorpusError

_BATCH_ENTRIES = 1 << 20

Matrix: TypeAlias = "sp.sparray | sp.spmatrix | np.ndarray"
Ids = Sequence[int | str] | np.ndarray
Batch = tuple[Matrix, ArrayLike | None, Ids | None, ArrayLike | None, ArrayLike | None]
Taken = tuple["Matrix | Canonical", ArrayLike | None, Ids | None, ArrayLike | None, ArrayLike | None]


def batches(
    X: object,
    y: ArrayLike | None,
    ids: Ids | None,
    targets: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Iterator[Batch]:
    """Cut a matrix into batches of rows, or pass on the batches of an iterable.

    `y`: must be None if `X` is an iterable of batches, which carries its own. `ids`: the same.
    `targets`: array-like of shape (n_documents,) or (n_documents, n_targets), or None.
    `weights`: array-like of shape (n_documents,), or None.
    """
    if sp.issparse(X) or isinstance(X, np.ndarray) or hasattr(X, "to_delayed"):
        return _of_matrix(X, y, ids, targets, weights)
    if not isinstance(X, Iterable):
        raise CorpusError(f"X is a {type(X).__name__}: give a matrix or an iterable of batches (X, y)")
    first = X[0] if isinstance(X, list | tuple) and X else None
    if isinstance(first, list | tuple | np.ndarray) and len(first) and np.isscalar(first[0]):
        raise CorpusError(f"X is a {type(X).__name__} of rows: pass a matrix, numpy.asarray(X)")
    if isinstance(first, str):
        raise CorpusError(
            f"X is a {type(X).__name__} of texts, and write_corpus takes numbers: sdem ingest, or sdem_dist.text.ingest, makes a "
            "corpus of files of texts; fit takes texts as they are, and vectorizers of scikit-learn make a matrix of them"
        )
    if any(column is not None for column in (y, ids, targets, weights)):
        raise CorpusError(
            f"X, a {type(X).__name__}, is not a matrix, and iterables of batches (X, y) bring labels, ids, targets and weights "
            "with each batch, not as arguments: pass a sparse matrix, an ndarray, a dask array or a DataFrame, or batches alone"
        )
    return _of_iterable(X)


def _of_iterable(X: Iterable[object]) -> Iterator[Batch]:
    for number, batch in enumerate(X):
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3, 4, 5):
            raise CorpusError(
                f"batch {number} of X is not a pair (X, y), a triple (X, y, ids), (X, y, ids, targets) or "
                "(X, y, ids, targets, sample_weight)"
            )
        X_, y, ids, targets, weights = (*batch, None, None, None)[:5]
        if sp.issparse(X_):
            check_structure(X_, f"batch {number} of X")
        yield X_, y, ids, targets, weights


def _of_matrix(
    X: sp.sparray, y: ArrayLike | None, ids: Ids | None, targets: ArrayLike | None, weights: ArrayLike | None
) -> Iterator[Batch]:
    if len(X.shape) != 2:
        raise CorpusError(f"X has {len(X.shape)} dimensions; a matrix of documents by features has two")
    # ids stay a list: of mixed kinds, NumPy would make texts
    y, targets, weights = (None if column is None else np.asarray(column) for column in (y, targets, weights))
    columns = [y, ids, targets, weights]
    position = 0
    for block in _row_blocks(X):
        part = slice(position, position + block.shape[0])
        yield (block, *(None if column is None else column[part] for column in columns))
        position = part.stop
    for name, values in zip(("y", "ids", "targets", "sample_weight"), columns, strict=True):
        if values is not None and len(values) != position:
            raise CorpusError(f"X has {position} documents and {name} has {len(values)}")


def _row_blocks(X: sp.sparray) -> Iterator[sp.sparray]:
    if hasattr(X, "to_delayed"):
        # A row of dask's blocks at a time; their lengths may be unknown before they are computed.
        for block in range(X.numblocks[0]):
            yield from _row_blocks(X.blocks[block].compute())
        return
    if sp.issparse(X):
        check_structure(X, "X")
    rows = X.tocsr() if sp.issparse(X) else X
    n_documents = rows.shape[0]
    entries = rows.nnz if sp.issparse(rows) else rows.size
    step = max(1, _BATCH_ENTRIES * n_documents // max(1, entries))
    for start in range(0, n_documents, step):
        yield rows[start : start + step]


def canonical_csr(X: Matrix, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return a batch as compact CSR arrays.

    `X`: sparse matrix or array-like of shape (n_documents, n_features).
    `first`: position of its first document in the input, for messages.
    Returns `data`, ndarray of uint8, uint16 or uint32 if all entries are whole numbers, else of float32.
    Returns `indices`, ndarray of uint32: ascending within each row, without repetition; explicit zeros are dropped.
    Returns `indptr`, ndarray of int64.
    Raises CorpusError: an entry is negative, NaN or infinite, or beyond float32. The message names the document.
    """
    if not sp.issparse(X):
        X = np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "buif":
        raise CorpusError(
            f"the batch from document {first} on is {X.dtype} of {X.ndim} dimensions, not numbers of two dimensions"
        )
    csr = sp.csr_array(X)
    if not csr.has_canonical_format or (csr.data == 0).any():
        csr = csr.copy() if sp.issparse(X) else csr
        csr.sum_duplicates()
        csr.eliminate_zeros()
    return (
        compact_data(csr.data, csr.indptr, first),
        csr.indices.astype(np.uint32),
        csr.indptr.astype(np.int64),
        X.shape[1],
    )


def dense_rows(X: Matrix, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return a batch of a table as rows that hold every column; otherwise as `canonical_csr`.

    Returns `data`, ndarray of float32 or float64: finite, or NaN where a value is missing; float64 if float32 would
    change a value.
    """
    if sp.issparse(X):
        raise CorpusError("a dense corpus is written from tables, not from sparse matrices")
    table: np.ndarray = np.asarray(X)
    if table.ndim != 2 or table.dtype.kind not in "buif":
        raise CorpusError(
            f"the batch from document {first} on is {table.dtype} of {table.ndim} dimensions, not numbers of two dimensions"
        )
    n, width = table.shape
    if np.isinf(table).any():
        raise CorpusError(f"document {first + int(np.isinf(table).any(axis=1).argmax())} holds an infinity")
    data = narrowed(table.astype(np.float64).ravel())
    return data, np.tile(np.arange(width, dtype=np.uint32), n), np.arange(n + 1, dtype=np.int64) * width, width


def compact_data(data: np.ndarray, indptr: np.ndarray, first: int) -> np.ndarray:
    """Return entries in the smallest dtype of the format that holds them; see `canonical_csr`."""
    if data.dtype.kind == "b" or len(data) == 0:
        return data.astype(np.uint8)
    if (row := first_invalid(data, indptr)) is not None:
        document, entry = row
        raise CorpusError(f"document {first + document} holds the entry {entry}: {VALUE_RULE}")
    top = data.max()
    if top < 2**32 and (data.dtype.kind != "f" or (data == np.floor(data)).all()):
        return data.astype(np.min_scalar_type(int(top)))
    return data.astype(np.float32)
