"""Batches of documents, as flat CSR arrays or as a dense table, and the caches of a process between epochs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import scipy.sparse


def offsets_of(sizes: ArrayLike) -> np.ndarray:
    """Return the offsets of consecutive ranges of these sizes, and the end of the last: int64, shape (n + 1,)."""
    sizes = np.asarray(sizes)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, dtype=np.int64, out=offsets[1:])
    return offsets


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents in compressed sparse row form."""

    data: np.ndarray  # shape (n_nonzeros,): counts (unsigned integers or float32), or real weights, never negative
    indices: np.ndarray  # shape (n_nonzeros,): words, integers, ascending and without repetition within a document
    indptr: np.ndarray
    """Shape (n_documents + 1,), int64: document i owns the entries indptr[i]:indptr[i + 1], from 0 on."""
    n_features: int  # size of the vocabulary, |W|
    labels: np.ndarray | None = None  # shape (n_documents,), int32: positions in the corpus's list of classes
    weights: np.ndarray | None = None  # shape (n_documents,), float64; None: all weights are 1
    targets: np.ndarray | None = None  # shape (n_documents, n_targets), float64, finite: values to predict

    @property
    def n_documents(self) -> int:
        return len(self.indptr) - 1

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.data, self.indices, self.indptr, *_columns(self).values()))

    def __getitem__(self, rows: slice | np.ndarray) -> Documents:
        """Return the documents ``rows``; a contiguous slice returns views if possible."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.n_documents)
            if step != 1:
                raise ValueError("documents can only be sliced in contiguous ranges")
            entries: slice | np.ndarray = slice(int(self.indptr[start]), int(self.indptr[stop]))
            rows, indptr = slice(start, stop), self.indptr[start : stop + 1] - self.indptr[start]
        else:
            lengths = np.diff(self.indptr)[rows]
            indptr = offsets_of(lengths)
            entries = np.repeat(self.indptr[rows] - indptr[:-1], lengths) + np.arange(indptr[-1])
        data, indices = self.data[entries], self.indices[entries]
        return replace(self, data=data, indices=indices, indptr=indptr, **_columns(self, rows))

    def to_csr(self) -> scipy.sparse.csr_matrix:
        import scipy.sparse

        arrays = self.data, self.indices.astype(np.int64), self.indptr
        return scipy.sparse.csr_matrix(arrays, shape=(self.n_documents, self.n_features))


@dataclass(frozen=True, slots=True)
class DenseDocuments:
    values: np.ndarray  # shape (n_documents, n_features), float32 or float64; NaN where a value is missing
    labels: np.ndarray | None = None  # as in `Documents`; -1 for a document without a label
    weights: np.ndarray | None = None  # shape (n_documents,), float64; None: all weights are 1

    @property
    def n_documents(self) -> int:
        return len(self.values)

    @property
    def n_features(self) -> int:
        return int(self.values.shape[1])

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.values, *_columns(self).values()))

    def __getitem__(self, rows: slice | np.ndarray) -> DenseDocuments:
        """Return the documents ``rows``; a slice returns views."""
        return replace(self, values=self.values[rows], **_columns(self, rows))


Batch = TypeVar("Batch", bound=Documents | DenseDocuments)
Key: TypeAlias = tuple[object, ...]
Value = TypeVar("Value")


def concatenate(parts: Sequence[Batch]) -> Batch:
    """Join batches in order; sparse ones must have the same vocabulary, and `parts` must not be empty."""
    first, joined = parts[0], dict[str, Any]()
    if len(parts) == 1:
        return first
    for name in {"data", "indices", "values", "labels", "weights", "targets"}.intersection(first.__slots__):
        columns = [getattr(part, name) for part in parts]
        joined[name] = None if any(column is None for column in columns) else np.concatenate(columns)
    if isinstance(first, Documents):
        joined["indptr"] = offsets_of(np.concatenate([np.diff(cast(Documents, part).indptr) for part in parts]))
    return replace(first, **joined)


def _columns(documents: Documents | DenseDocuments, rows: Any = slice(None)) -> dict[str, Any]:
    """Return those of the labels, weights and targets that exist, for the documents ``rows``."""
    columns = {name: getattr(documents, name, None) for name in ("labels", "weights", "targets")}
    return {name: column[rows] for name, column in columns.items() if column is not None}


class CorpusLike(Protocol):
    """Documents that are read range by range: `sdem_dist.corpus.Corpus` on disk, or `MemoryCorpus` in memory."""

    @property
    def n_documents(self) -> int: ...
    @property
    def cache_key(self) -> str: ...  # corpora with equal keys have equal documents
    def read(self, start: int, stop: int) -> Documents | DenseDocuments: ...  # documents at positions ``start:stop``
    def place(self, document: int) -> str: ...  # location of the document at a position, for messages


class ByteCache:
    """A cache of values within a budget of bytes. A forked child inherits it unlocked and consistent."""

    def __init__(self, max_bytes: int, *, oldest_leave: bool = False) -> None:
        # Epochs request the same values in a cycle: if the oldest value were evicted, each would be evicted just before
        # its next request. So unless `oldest_leave`, the first values stay, and others are made each time. Only values
        # of an earlier run, whose key has a different first part, are evicted.
        self.max_bytes, self.nbytes, self._oldest_leave = max_bytes, 0, oldest_leave
        self._values: dict[Key, Any] = {}
        lock = self._lock = threading.RLock()
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value of `key`, or ``make()`` if it is absent; values have ``nbytes``."""
        with self._lock:
            if key in self._values:
                return cast(Value, self._values[key])
        value = make()  # outside the lock: if two threads make the value, both are equal
        nbytes: int = cast(Any, value).nbytes
        with self._lock:
            if key not in self._values and nbytes <= self.max_bytes:
                full = self.max_bytes - nbytes
                self.discard(lambda old: self.nbytes > full and (self._oldest_leave or old[0] != key[0]))
                if self.nbytes <= full:
                    self._values[key] = value
                    self.nbytes += nbytes
        return value

    def discard(self, condition: Callable[[Key], bool]) -> None:
        with self._lock:
            for key in list(self._values):
                if condition(key):
                    self.nbytes -= self._values.pop(key).nbytes

    def resize(self, max_bytes: int) -> None:
        if max_bytes != self.max_bytes:  # fast: every task calls this
            self.max_bytes = max_bytes
            self.discard(lambda key: self.nbytes > max_bytes)


prepared_cache = ByteCache(768 << 20)  # documents prepared for learners, for the next epoch
shard_cache = ByteCache(256 << 20, oldest_leave=True)  # decoded shards that are not yet completely read
