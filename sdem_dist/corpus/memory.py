"""Documents in memory, read like a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus.base import BaseCorpus, Which
from sdem_dist.corpus.checks import (
    VALUE_RULE,
    check_structure,
    checked_targets,
    checked_weights,
    document_frequency,
    first_invalid,
)
from sdem_dist.corpus.manifest import DENSE, SPARSE, Classes, ClassLabel, Header, LabelSet, ShardInfo, vocabulary_hash
from sdem_dist.corpus.shards import find_problem
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.errors import CorpusError

_numbers: Iterator[int] = count()
ARRAYS = ("data", "indices", "indptr", "values", "labels", "weights", "targets")
Kind = TypeVar("Kind", Documents, DenseDocuments)


class InMemory(BaseCorpus, Generic[Kind]):
    """The reading interface of `Corpus` over documents in memory.

    `order`: int64 of shape (n_documents,), or None, row of what was given that each document is; None: they are as
    given. `n_rows`: how many rows were given.
    """

    _state = ("_documents", "_classes", "order", "n_rows", "_number", *BaseCorpus._state)

    def __init__(self, documents: Kind, classes: Classes, order: np.ndarray | None, n_rows: int) -> None:
        self._documents: Kind = documents
        self._classes, self.order, self.n_rows, self._number = classes, order, n_rows, next(_numbers)

    def __repr__(self) -> str:
        subsets = "".join(f"{mask.title} of " for mask in reversed(self.subsets))
        return f"{subsets}{type(self).__name__}({self.n_documents} documents, {self._documents.n_features} features)"

    def _key(self) -> str:
        return f"memory {self._number}"

    def _place(self, document: int) -> str:
        return f"row {document if self.order is None else int(self.order[document])} (from 0)"

    def _labels(self) -> np.ndarray | None:
        return self._documents.labels

    def _weights(self) -> np.ndarray | None:
        return self._documents.weights

    def _groups(self) -> None:
        return

    def _read(self, start: int, stop: int) -> Kind:
        return self._documents[start:stop]  # they were verified when this corpus was made

    def _header(self) -> Header:
        return self._stored_header

    @cached_property
    def _stored_header(self) -> Header:
        """The manifest that a corpus of these documents would have, as one shard."""
        from sdem_dist.storage.encoding import crc32c

        documents, classes = self._documents, self._classes
        named = {name: getattr(documents, name, None) for name in ARRAYS}
        arrays = {name: array for name, array in named.items() if array is not None}
        dense = isinstance(documents, DenseDocuments)
        entries = arrays["values" if dense else "data"]
        counts: list[int] = []
        if documents.labels is not None:
            counts = np.bincount(documents.labels[documents.labels >= 0], minlength=len(classes)).tolist()
        checksums = {name: crc32c(array) for name, array in arrays.items()}
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
            n_targets=arrays["targets"].shape[1] if "targets" in arrays else 0,
        )

    @property
    def n_documents(self) -> int:
        """Number of positions to read."""
        return self._documents.n_documents if self.rows is None else len(self.rows)

    def subset(self, which: Which) -> Self:
        """Return some documents, see `sdem_dist.corpus.Corpus.subset`."""
        return self.chosen(which)

    def vocabulary(self) -> None:
        """Return None: a matrix has no words."""
        return

    def _document_frequency(self) -> np.ndarray:
        documents = self._documents
        if isinstance(documents, DenseDocuments):
            raise CorpusError("tables are dense: their columns have no document frequencies")
        return document_frequency(documents.indices, documents.data, documents.n_features)


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
        if (row := first_invalid(matrix.data, matrix.indptr)) is not None:
            raise CorpusError(f"row {row[0]} of the matrix (from 0) holds the entry {row[1]}: {VALUE_RULE}")
        labels = None if y_positions is None else np.asarray(y_positions, np.int32)
        if labels is not None and labels.shape != (n_documents,):
            raise CorpusError(f"the matrix has {n_documents} documents, and the labels have shape {labels.shape}")
        column = None if weights is None else checked_weights(weights, n_documents, "the matrix")
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
        labelled = documents if labels is None else replace(documents, labels=np.where(labels == -1, 0, labels))
        if (problem := find_problem(labelled, len(classes))) is not None:
            raise CorpusError(f"the matrix cannot be used: {problem}")
        super().__init__(documents, tuple(classes), order, n_documents)


class DenseMemoryCorpus(InMemory[DenseDocuments]):
    """Rows of a table behind the reading interface of `Corpus`.

    Parameters
    ----------
    X : ndarray of shape (n_documents, n_features), float32 or float64
        Finite, or NaN for a missing value.
    y_positions : ndarray of shape (n_documents,), integers
        Position of each document's class in `classes`, or -1 for a document without a label.
    classes : sequence of labels
    weights : ndarray of shape (n_documents,), optional
    rows : ndarray of shape (n_chosen,), integers, optional
        The rows of `X`, ascending, that are documents. By default all.
    random_state : int, default 0
        Seed of the order of the documents.
    shuffle : bool, default True
        Permute the documents, once.

    Raises
    ------
    CorpusError
        There is no document or no column, a value is infinite, or weights are negative or not finite.
    """

    def __init__(
        self,
        X: np.ndarray,
        y_positions: np.ndarray,
        classes: Sequence[ClassLabel],
        *,
        weights: np.ndarray | None = None,
        rows: np.ndarray | None = None,
        random_state: int = 0,
        shuffle: bool = True,
    ) -> None:
        if X.ndim != 2 or 0 in X.shape:
            raise CorpusError(f"a table of shape {X.shape} holds no documents")
        if np.isinf(X).any():
            raise CorpusError(f"row {int(np.isinf(X).any(axis=1).argmax())} of the table (from 0) holds an infinity")
        column = None if weights is None else checked_weights(weights, len(X), "the table")
        documents = DenseDocuments(np.ascontiguousarray(X), y_positions.astype(np.int32), column)
        order = order_of(len(X), rows, random_state, shuffle)
        if order is not None:
            documents = documents[order]
        super().__init__(documents, tuple(classes), order, len(X))


def order_of(n_rows: int, rows: np.ndarray | None, random_state: int, shuffle: bool) -> np.ndarray | None:
    """Return the rows in the order in which they are held; None: as they are."""
    if not shuffle:
        return rows
    order = np.random.Generator(np.random.PCG64(random_state)).permutation(n_rows if rows is None else len(rows))
    return order if rows is None else rows[order]


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
