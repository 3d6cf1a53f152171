"""Documents in memory, read like a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.corpus import checks
from sdem_dist.corpus.base import AnyDocuments, BaseCorpus
from sdem_dist.corpus.manifest import DENSE, SPARSE, ClassLabel, Header, LabelSet, ShardInfo, vocabulary_hash
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import crc32c

_numbers: Iterator[int] = count()
ARRAYS = ("data", "indices", "indptr", "values", "labels", "weights", "targets")


class MemoryCorpus(BaseCorpus):
    """Documents of a matrix or a table behind the reading interface of `Corpus`.

    `X`: sparse matrix or array of shape (n_documents, n_features): counts or weights, never negative. With `dense` a
    table: finite, or NaN for a missing value.
    `y_positions`: shape (n_documents,): position of each document's class in `classes`; -1 where it is not known, for
    learners that allow for this.
    `classes`: empty if there are no labels.
    `targets`: shape (n_documents, n_targets): real numbers to be predicted, beside a sparse matrix.
    `rows`: the rows of `X`, ascending, that are documents. By default all.
    `random_state`: seed of the order of the documents, which are permuted once if `shuffle`.
    Raises CorpusError: there is no document or column, lengths differ, a position has no class, an entry of a matrix is
    negative, not finite or beyond float32, or a value of a table is infinite.
    """

    _state = ("_documents", "_classes", "order", "n_rows", "_number", *BaseCorpus._state)

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
        dense: bool = False,
    ) -> None:
        import scipy.sparse as sp

        what = "the table" if dense else "the matrix"
        if sp.issparse(X):
            checks.check_structure(X, what)
        matrix: Any = checks.checked_table(X, what) if dense else checks.checked_entries(sp.csr_array(X), what)
        if 0 in matrix.shape:
            raise CorpusError(f"{what} of shape {matrix.shape} holds no documents")
        n, labels = matrix.shape[0], None if y_positions is None else np.asarray(y_positions, np.int32)
        if labels is not None and labels.shape != (n,):
            raise CorpusError(f"{what} has {n} documents, and the labels have shape {labels.shape}")
        if labels is not None and not ((labels >= -1) & (labels < max(1, len(classes)))).all():
            raise CorpusError(f"{what} has labels outside -1 to {len(classes) - 1}")
        columns = [
            labels,
            None if weights is None else checks.checked_weights(weights, n, what),
            None if targets is None else checks.checked_targets(targets, n, what),
        ]
        order = rows
        if shuffle:
            order = np.random.Generator(np.random.PCG64(random_state)).permutation(n if rows is None else len(rows))
            order = order if rows is None else rows[order]
        self._classes, self.n_rows, self._number = tuple(classes), n, next(_numbers)
        self.order = order
        """Row of `X` that each document is: int64; None without shuffling and `rows`."""
        self._documents: AnyDocuments
        if order is not None:
            columns = [None if column is None else column[order] for column in columns]
        if dense:
            values = np.ascontiguousarray(matrix if order is None else matrix[order])
            self._documents = DenseDocuments(values, *columns[:2])
            return
        canonical = matrix.has_canonical_format
        if canonical:  # few bytes are soon permuted
            matrix = sp.csr_array((_compact(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)
        if order is not None:
            matrix = matrix[order]
        if not canonical:
            matrix = matrix if order is not None else matrix.copy()  # the caller's is not changed
            matrix.sum_duplicates()
            checks.checked_entries(matrix, "the matrix, its repeated entries added up")
        data = matrix.data if canonical else _compact(matrix.data)
        self._documents = Documents(data, matrix.indices, matrix.indptr.astype(np.int64), matrix.shape[1], *columns)

    def __repr__(self) -> str:
        n_features = self._documents.n_features
        return f"{self._titles}{type(self).__name__}({self.n_documents} documents, {n_features} features)"

    def _key(self) -> str:
        return f"memory {self._number}"

    def _place(self, document: int) -> str:
        return f"row {document if self.order is None else int(self.order[document])} (from 0)"

    def _array(self, name: str) -> np.ndarray | None:
        return getattr(self._documents, name, None)

    def _read(self, start: int, stop: int) -> AnyDocuments:
        return self._documents[start:stop]

    @cached_property
    def stored_header(self) -> Header:
        """The manifest that a corpus of these documents would have, as one shard."""
        documents, labels = self._documents, self._documents.labels
        arrays = {name: array for name in ARRAYS if (array := getattr(documents, name, None)) is not None}
        dense = isinstance(documents, DenseDocuments)
        entries = arrays["values" if dense else "data"]
        counts = [] if labels is None else np.bincount(labels[labels >= 0], minlength=len(self._classes)).tolist()
        checksums = {name: crc32c(array) for name, array in arrays.items()}
        return Header(
            n_documents=documents.n_documents,
            n_features=documents.n_features,
            n_nonzeros=entries.size,
            classes=self._classes,
            class_counts=tuple(counts),
            shards=(ShardInfo(documents.n_documents, entries.size, str(entries.dtype), checksums),),
            vocabulary_hash=vocabulary_hash(documents.n_features, None),
            weighted=dense or (entries.dtype.kind == "f" and bool((entries != np.floor(entries)).any())),
            layout=DENSE if dense else SPARSE,
            n_targets=arrays["targets"].shape[1] if "targets" in arrays else 0,
        )

    def vocabulary(self) -> None:
        """Return None: a matrix has no words."""

    def _document_frequency(self) -> np.ndarray:
        documents = self._documents
        if isinstance(documents, DenseDocuments):
            raise CorpusError("tables are dense: their columns have no document frequencies")
        return checks.document_frequency(documents.indices, documents.data, documents.n_features)


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
