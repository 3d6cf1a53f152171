"""A dense table in memory, read like a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from sdem_dist.corpus.entries import LARGEST
from sdem_dist.corpus.layout import DENSE, ClassLabel, Header, ShardInfo, vocabulary_hash
from sdem_dist.documents import DenseDocuments
from sdem_dist.errors import CorpusError

_count = count()


class DenseMemoryCorpus:
    """Rows of a table behind the reading interface of `Corpus`.

    Parameters
    ----------
    X : ndarray of shape (n_documents, n_features), float32 or float64
        Finite, or NaN for a missing value.
    y_positions : ndarray of shape (n_documents,), integers
        Position of each document's class in `classes`, or -1 for a document without a label.
    classes : sequence of labels
    weights : ndarray of shape (n_documents,), optional
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
        random_state: int = 0,
        shuffle: bool = True,
    ) -> None:
        if X.ndim != 2 or 0 in X.shape:
            raise CorpusError(f"a table of shape {X.shape} holds no documents")
        if np.isinf(X).any():
            raise CorpusError(f"row {int(np.isinf(X).any(axis=1).argmax())} of the table (from 0) holds an infinity")
        if weights is not None and not (weights.min() >= 0 and weights.max() <= LARGEST):
            raise CorpusError(f"the documents' weights are negative, not finite, or above {LARGEST:.3g}")
        labels = y_positions.astype(np.int32)
        self.order: np.ndarray | None = None
        if shuffle:
            order = np.random.Generator(np.random.PCG64(random_state)).permutation(len(X))
            self.order, X, labels = order, X[order], labels[order]
            weights = None if weights is None else weights[order]
        self._documents = DenseDocuments(np.ascontiguousarray(X), labels, weights)
        self._classes = tuple(classes)

    def __repr__(self) -> str:
        return f"DenseMemoryCorpus({self.n_documents} documents, {self._documents.n_features} features)"

    @cached_property
    def cache_key(self) -> str:
        """A name for these documents that no other corpus of this process has."""
        return f"dense memory {next(_count)}"

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return self._documents.n_documents

    def place(self, document: int) -> str:
        """Return which row of the table a document is, for people."""
        return f"row {document if self.order is None else int(self.order[document])} (from 0)"

    @cached_property
    def header(self) -> Header:
        """The manifest that a corpus of these documents would have, as one shard."""
        from sdem_dist.storage.checksum import crc32c

        documents = self._documents
        named = {"values": documents.values, "labels": documents.labels, "weights": documents.weights}
        assert documents.labels is not None
        counts = np.bincount(documents.labels[documents.labels >= 0], minlength=len(self._classes))
        checksums = {name: crc32c(array) for name, array in named.items() if array is not None}
        n_values = int(documents.values.size)
        return Header(
            n_documents=documents.n_documents,
            n_features=documents.n_features,
            n_nonzeros=n_values,
            classes=self._classes,
            class_counts=tuple(counts.tolist()),
            shards=(ShardInfo(documents.n_documents, n_values, str(documents.values.dtype), checksums),),
            vocabulary_hash=vocabulary_hash(documents.n_features, None),
            weighted=True,
            layout=DENSE,
        )

    def read(self, start: int, stop: int, *, verify: bool = True) -> Any:
        """Return the documents `start` up to `stop`, as views: `DenseDocuments`."""
        if not 0 <= start <= stop <= self.n_documents:
            raise IndexError(f"documents {start} to {stop} are not within the {self.n_documents} of {self!r}")
        return self._documents[start:stop]
