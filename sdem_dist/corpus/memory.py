"""Documents in memory, read like a corpus."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus.entries import FIT, LARGEST, check_structure, document_frequency, unfit_row
from sdem_dist.corpus.layout import DENSE, SPARSE, Classes, ClassLabel, Header, LabelSet, ShardInfo, vocabulary_hash
from sdem_dist.corpus.shards import find_problem
from sdem_dist.corpus.targets import checked_targets
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.errors import CorpusError

_count = count()
_ARRAYS = ("data", "indices", "indptr", "values", "labels", "weights", "targets")
Kind = TypeVar("Kind", Documents, DenseDocuments)


class InMemory(Generic[Kind]):
    """The reading interface of `Corpus` over documents in memory.

    `order`: int64 of shape (n_documents,), or None, row of what was given that each document is; None: they are as
    given. `n_rows`: how many rows were given.
    """

    def __init__(self, documents: Kind, classes: Classes, order: np.ndarray | None, n_rows: int) -> None:
        self._documents: Kind = documents
        self._classes, self.order, self.n_rows = classes, order, n_rows

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_documents} documents, {self._documents.n_features} features)"

    @cached_property
    def cache_key(self) -> str:
        """A name for these documents that no other corpus of this process has."""
        return f"memory {next(_count)}"

    def place(self, document: int) -> str:
        """Return which row of what was given a document is, for people."""
        return f"row {document if self.order is None else int(self.order[document])} (from 0)"

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return self._documents.n_documents

    @cached_property
    def header(self) -> Header:
        """The manifest that a corpus of these documents would have, as one shard."""
        from sdem_dist.storage.checksum import crc32c

        documents, classes = self._documents, self._classes
        named = {name: getattr(documents, name, None) for name in _ARRAYS}
        held = {name: array for name, array in named.items() if array is not None}
        dense = isinstance(documents, DenseDocuments)
        entries = held["values" if dense else "data"]
        counts: list[int] = []
        if documents.labels is not None:
            counts = np.bincount(documents.labels[documents.labels >= 0], minlength=len(classes)).tolist()
        checksums = {name: crc32c(array) for name, array in held.items()}
        return Header(
            n_documents=documents.n_documents,
            n_features=documents.n_features,
            n_nonzeros=entries.size,
            classes=classes,
            class_counts=tuple(counts),
            shards=(ShardInfo(documents.n_documents, entries.size, str(entries.dtype), checksums),),
            vocabulary_hash=vocabulary_hash(documents.n_features, None),
            weighted=dense or (entries.dtype.kind == "f" and bool((entries != np.floor(entries)).any())),
            layout=DENSE if dense else SPARSE,
            n_targets=held["targets"].shape[1] if "targets" in held else 0,
        )

    def read(self, start: int, stop: int) -> Kind:
        """Return the documents `start` up to `stop`, as views; they were verified when this corpus was made."""
        if not 0 <= start <= stop <= self.n_documents:
            raise IndexError(f"documents {start} to {stop} are not within the {self.n_documents} of {self!r}")
        return self._documents[start:stop]

    def vocabulary(self) -> None:
        """Return None: a matrix has no words."""
        return


class MemoryCorpus(InMemory[Documents]):
    """Documents of a sparse matrix behind the reading interface of `Corpus`.

    Parameters
    ----------
    X : sparse matrix or array of shape (n_documents, n_features)
        Counts or weights, never negative.
    y_positions : ndarray of shape (n_documents,), integers, or None
        Position of each document's class in `classes`; -1 where it is not known, for learners that allow for this.
    classes : sequence of labels
        Empty if there are no labels.
    weights : ndarray of shape (n_documents,), optional
        Weight of each document.
    targets : ndarray of shape (n_documents, n_targets), optional
        Real numbers to be predicted.
    rows : ndarray of shape (n_chosen,), integers, optional
        The rows of `X`, ascending, that are documents. By default all.
    random_state : int, default 0
        Seed of the order of the documents.
    shuffle : bool, default True
        Permute the documents, once.

    Attributes
    ----------
    order : ndarray of shape (n_documents,), int64, or None
        Row of `X` that each document is; None without shuffling and `rows`.
    n_rows : int
        Rows of `X`.

    Raises
    ------
    CorpusError
        Lengths differ, an entry is negative, not finite or beyond float32, or a position has no class.
    """

    def __init__(
        self,
        X: object,
        y_positions: ArrayLike | None,
        classes: Sequence[ClassLabel | LabelSet],
        *,
        weights: ArrayLike | None = None,
        targets: ArrayLike | None = None,
        rows: np.ndarray | None = None,
        random_state: int = 0,
        shuffle: bool = True,
    ) -> None:
        import scipy.sparse as sp

        if sp.issparse(X):
            check_structure(X, "the matrix")
        matrix = sp.csr_array(X)
        n_documents, n_features = matrix.shape
        if n_documents == 0 or n_features == 0:
            raise CorpusError(f"a matrix of shape {matrix.shape} holds no documents")
        if matrix.dtype.kind not in "buif":
            raise CorpusError(f"the matrix holds {matrix.dtype}, not numbers")
        if (row := unfit_row(matrix.data, matrix.indptr)) is not None:
            raise CorpusError(f"row {row[0]} of the matrix (from 0) holds the entry {row[1]}: {FIT}")
        labels = _column(y_positions, n_documents, np.int32, "labels")
        column = checked_weights(_column(weights, n_documents, np.float64, "weights"))
        table = None if targets is None else checked_targets(targets, n_documents, "the matrix")
        order = order_of(n_documents, rows, random_state, shuffle)
        if canonical := matrix.has_canonical_format:  # few bytes are soon permuted
            matrix = sp.csr_array((_compact(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)
        if order is not None:
            matrix = matrix[order]
            labels, column, table = (None if a is None else a[order] for a in (labels, column, table))
        if not canonical:
            matrix = matrix if order is not None else matrix.copy()  # the caller's matrix is not changed
            matrix.sum_duplicates()
        data, indptr = matrix.data if canonical else _compact(matrix.data), matrix.indptr.astype(np.int64)
        documents = Documents(data, matrix.indices, indptr, n_features, labels, column, table)
        known = documents if labels is None else replace(documents, labels=np.where(labels == -1, 0, labels))
        if (problem := find_problem(known, len(classes))) is not None:
            raise CorpusError(f"the matrix cannot be used: {problem}")
        super().__init__(documents, tuple(classes), order, n_documents)

    @cached_property
    def document_frequency(self) -> np.ndarray:
        """In how many documents each column occurs, int64 of shape (n_features,)."""
        documents = self._documents
        return document_frequency(documents.indices, documents.data, documents.n_features)


def order_of(n_rows: int, rows: np.ndarray | None, random_state: int, shuffle: bool) -> np.ndarray | None:
    """Return the rows in the order in which they are held; None: as they are."""
    if not shuffle:
        return rows
    order = np.random.Generator(np.random.PCG64(random_state)).permutation(n_rows if rows is None else len(rows))
    return order if rows is None else rows[order]


def checked_weights(weights: np.ndarray | None) -> np.ndarray | None:
    """Return the documents' weights, or raise CorpusError if one is negative, not finite or beyond float32."""
    if weights is not None and not (weights.min() >= 0 and weights.max() <= LARGEST):
        raise CorpusError(f"the documents' weights are negative, not finite, or above {LARGEST:.3g}")
    return weights


def _column(
    values: ArrayLike | None, n_documents: int, dtype: type[np.int32 | np.float64], name: str
) -> np.ndarray | None:
    if values is None:
        return None
    column: np.ndarray = np.asarray(values, dtype)
    if column.shape != (n_documents,):
        raise CorpusError(f"the matrix has {n_documents} documents, and the {name} have shape {column.shape}")
    return column


def _compact(data: np.ndarray) -> np.ndarray:
    """Return entries as unsigned integers or floats, float32 if that keeps every value."""
    if data.dtype.kind == "f":
        if data.dtype == np.float32:
            return data
        single = data.astype(np.float32)
        return single if np.array_equal(single, data) else data.astype(np.float64, copy=False)
    if len(data) and data.max() >= 2**32:
        return data.astype(np.float64)
    return data.astype(np.min_scalar_type(int(data.max())) if len(data) else np.uint8, copy=False)
