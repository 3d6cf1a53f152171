"""From what a user holds documents in to checked rows in their stored order, batch by batch."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdem_dist.corpus.checks import VALUE_RULE, check_structure, checked_targets, checked_weights, first_invalid
from sdem_dist.corpus.labels import LabelEncoder
from sdem_dist.corpus.manifest import index_dtype
from sdem_dist.corpus.rows import Canonical, KeyedRows
from sdem_dist.corpus.shards import narrowed
from sdem_dist.corpus.shuffle import SortedDocuments, SortedRows, stored_keys
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import encode_strings

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


def collect(
    source: Iterable[Taken],
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
    """Check and take in all batches.

    `file`: holds documents beyond `memory_limit` bytes.
    `classes`, `weighted`, `dense`, `unlabelled`: see `write_corpus`.
    `seed`: seed of the order in which to store the documents; None keeps that of the input.
    `first`: position of the first of these documents in the corpus before it is shuffled.
    """
    memory = SortedRows(file, memory_limit)
    encoder = LabelEncoder(classes, unlabelled)
    id_reader = _IdReader()
    counts = np.zeros(0, np.int64)
    n_documents, n_nonzeros = first, 0
    n_features: int | None = None
    n_targets: int | None = None
    has_weights: bool | None = None
    all_integers = True
    for X, y, ids, targets, weights in source:
        how = dense_rows if dense else canonical_csr
        data, indices, indptr, width = X if isinstance(X, Canonical) else how(X, n_documents)
        if n_features is None:
            n_features = width
        if width != n_features:
            raise CorpusError(f"the batch from document {n_documents} on has {width} features, not {n_features}")
        if data.dtype.kind == "f":
            if weighted is False:
                raise CorpusError(f"weighted=False, but the batch from document {n_documents} on is not all counts")
            all_integers = False
        stop = n_documents + len(indptr) - 1
        keys = stored_keys(seed, n_documents, stop)
        codes = encoder.encode(y, len(keys), n_documents)
        of_batch = np.bincount(codes[codes >= 0], minlength=len(counts))
        counts = of_batch + np.pad(counts, (0, len(of_batch) - len(counts)))
        id_array, id_bytes = id_reader.read(ids, n_documents, stop)
        table = np.empty((len(keys), 0))
        if targets is not None and len(keys):
            table = checked_targets(targets, len(keys), f"the batch from document {n_documents} on")
        if len(keys):
            n_targets = table.shape[1] if n_targets is None else n_targets
            has_weights = weights is not None if has_weights is None else has_weights
            if has_weights != (weights is not None):
                raise CorpusError(f"only some documents have weights: the batch from document {n_documents} on differs")
            if table.shape[1] != n_targets:
                raise CorpusError(
                    f"the batch from document {n_documents} on has {table.shape[1]} targets, not {n_targets}"
                )
            if weights is not None:
                beside = checked_weights(weights, len(keys), f"the batch from document {n_documents} on")[:, None]
                table = np.concatenate([table, beside], axis=1)
            indices = indices.astype(index_dtype(width), copy=False)
            memory.add(KeyedRows(keys, data, indices, indptr, codes, table, id_array, id_bytes))
        n_documents, n_nonzeros = stop, n_nonzeros + len(data)
    if n_features is None or n_documents == first:
        raise CorpusError("there are no documents; a corpus has one or more")
    if n_features == 0:
        raise CorpusError("the documents have no features; a corpus has one or more")
    names, positions = encoder.finish()
    final = np.zeros(len(names), np.int64)
    if names:
        final[positions[: len(counts)]] = counts[: len(names)]
    return SortedDocuments(
        n_documents - first,
        n_features,
        n_nonzeros,
        names if encoder.labelled else (),
        tuple(final.tolist()),
        (not all_integers) if weighted is None else weighted,
        dense,
        n_targets or 0,
        bool(has_weights),
        seed,
        memory,
        positions,
    )


class _IdReader:
    """Reads the ids of batches, which are integers throughout or strings throughout."""

    def __init__(self) -> None:
        self._kind: str | None = None

    def read(self, ids: Ids | None, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return int64 ids and None, or the offsets and the joined bytes of string ids."""
        place = f"the batch from document {start} on"
        are_integers = isinstance(ids, np.ndarray) and ids.dtype.kind == "i" and ids.ndim == 1
        plain = ids if ids is None or are_integers else [v.item() if isinstance(v, np.generic) else v for v in ids]
        if plain is not None and len(plain) != stop - start:
            raise CorpusError(f"{place} has {stop - start} documents and {len(plain)} ids")
        if not (plain is None or stop > start):
            return np.zeros(0, np.int64), None
        strings = plain is not None and isinstance(plain[0], str)
        kind = "positions" if plain is None else "strings" if strings else "integers"
        if self._kind not in (None, kind):
            raise CorpusError(f"{place} has {kind} as ids, where {self._kind} came before")
        self._kind = kind
        if plain is None:
            return np.arange(start, stop, dtype=np.int64), None
        try:
            if strings:
                joined, offsets = encode_strings(cast(list[str], plain))
                return offsets, joined
            if not are_integers and not all(type(i) is int for i in plain):
                raise TypeError("they are not all integers")
            return np.array(plain, np.int64), None
        except (TypeError, OverflowError, UnicodeEncodeError) as error:
            raise CorpusError(f"the ids of {place} cannot be stored: {error}") from error
