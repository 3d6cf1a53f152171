"""A batch of documents, as flat CSR arrays or as a dense table; offsets of rows."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import ArrayLike


def offsets_of(sizes: ArrayLike) -> np.ndarray:
    """Return where ranges of these sizes begin, one after another, and where the last ends: int64 of shape (n + 1,)."""
    sizes = np.asarray(sizes)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, dtype=np.int64, out=offsets[1:])
    return offsets


def offsets_of_lengths(values: Sequence[Sized]) -> np.ndarray:
    """Return the same of texts, lists or arrays that are joined."""
    return offsets_of(np.fromiter(map(len, values), np.int64, len(values)))


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents in compressed sparse row form."""

    data: np.ndarray  # shape (n_nonzeros,): counts (unsigned integers or float32), or real weights, never negative
    indices: np.ndarray  # shape (n_nonzeros,): words, integers, ascending and without repetition within a document
    indptr: np.ndarray
    """Shape (n_documents + 1,), int64: document i owns the entries indptr[i]:indptr[i + 1], from 0 on."""
    n_features: int  # size of the vocabulary, |W|
    labels: np.ndarray | None = None  # shape (n_documents,), int32: places in the corpus's list of classes
    weights: np.ndarray | None = None  # shape (n_documents,), float64; None means one each
    targets: np.ndarray | None = None  # shape (n_documents, n_targets), float64, finite: to be predicted

    @property
    def n_documents(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_nonzeros(self) -> int:
        return int(self.indptr[-1])

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.data, self.indices, self.indptr, *_columns(self)) if a is not None)

    def __getitem__(self, rows: slice) -> Documents:
        """Return the contiguous documents ``rows`` as views where possible."""
        start, stop, step = rows.indices(self.n_documents)
        if step != 1:
            raise ValueError("documents are sliced in contiguous ranges only")
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        indptr, columns = self.indptr[start : stop + 1] - first, _columns(self, slice(start, stop))
        return Documents(self.data[first:last], self.indices[first:last], indptr, self.n_features, *columns)

    def taken(self, rows: np.ndarray) -> Documents:
        lengths = np.diff(self.indptr)[rows]
        indptr = offsets_of(lengths)
        entries = np.repeat(self.indptr[rows] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Documents(self.data[entries], self.indices[entries], indptr, self.n_features, *_columns(self, rows))

    def to_csr(self) -> sp.csr_matrix:
        import scipy.sparse as sp

        shape = (self.n_documents, self.n_features)
        return sp.csr_matrix((self.data, self.indices.astype(np.int64), self.indptr), shape=shape)

    @classmethod
    def concatenate(cls, parts: list[Documents]) -> Documents:
        """Join batches over one vocabulary in the given order; `parts` holds at least one."""
        if len(parts) == 1:
            return parts[0]
        starts = offsets_of([p.n_nonzeros for p in parts])
        data, indices = (np.concatenate([getattr(p, name) for p in parts]) for name in ("data", "indices"))
        indptr = np.concatenate([starts[:1], *(p.indptr[1:] + o for p, o in zip(parts, starts[:-1], strict=True))])
        return cls(data, indices, indptr, parts[0].n_features, *_joined_columns(parts))


@dataclass(frozen=True, slots=True)
class DenseDocuments:
    values: np.ndarray  # shape (n_documents, n_features), float32 or float64; NaN where a value is missing
    labels: np.ndarray | None = None  # as those of `Documents`, or -1 where a document has none
    weights: np.ndarray | None = None  # shape (n_documents,), float64; None means one each

    @property
    def n_documents(self) -> int:
        return len(self.values)

    @property
    def n_features(self) -> int:
        return int(self.values.shape[1])

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.values, *_columns(self)) if a is not None)

    def __getitem__(self, rows: slice | np.ndarray) -> DenseDocuments:
        """Return the documents ``rows``, of a slice as views."""
        return DenseDocuments(self.values[rows], *_columns(self, rows))

    taken = __getitem__

    @classmethod
    def concatenate(cls, parts: list[DenseDocuments]) -> DenseDocuments:
        if len(parts) == 1:
            return parts[0]
        return cls(np.concatenate([p.values for p in parts]), *_joined_columns(parts))


def _columns(documents: Documents | DenseDocuments, rows: Any = slice(None)) -> list[np.ndarray | None]:
    """Return the labels, weights and, beside a sparse matrix, targets of some documents."""
    names = ("labels", "weights", "targets")[: 3 if isinstance(documents, Documents) else 2]
    return [None if (column := getattr(documents, name)) is None else column[rows] for name in names]


def _joined_columns(parts: Sequence[Documents | DenseDocuments]) -> list[np.ndarray | None]:
    """Return each column of all parts as one, or None where a part has none."""
    columns = zip(*map(_columns, parts), strict=True)
    return [None if any(part is None for part in column) else np.concatenate(column) for column in columns]


class CorpusLike(Protocol):
    """What is read piece by piece: `sdem_dist.corpus.Corpus` on disk, or `MemoryCorpus` in memory."""

    @property
    def n_documents(self) -> int: ...
    @property
    def cache_key(self) -> str: ...  # names the content: equal keys mean equal documents
    def read(self, start: int, stop: int) -> Documents | DenseDocuments: ...  # those at stored positions ``start:stop``
    def place(self, document: int) -> str: ...  # where the document at a stored position is, for people
