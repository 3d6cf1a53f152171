"""Documents on their way into a corpus: CSR arrays with labels and ids, gathered, joined, cut and spilled to files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import numpy as np


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Documents in compressed sparse row form, before they have a shard.

    Attributes
    ----------
    keys : ndarray of shape (n_documents,), uint64
        The corpus is stored by ascending key.
    data : ndarray of shape (n_nonzeros,), uint8, uint16, uint32 or float32
    indices : ndarray of shape (n_nonzeros,), uint16 or uint32
    indptr : ndarray of shape (n_documents + 1,), int64
    labels : ndarray of shape (n_documents,), int32
    targets : ndarray of shape (n_documents, n_targets), float64
        No columns if there are none. Where documents have weights, these are one more column, the last.
    ids : ndarray of int64
        The ids, of shape (n_documents,); or, with `id_bytes`, their offsets there, of shape (n_documents + 1,).
    id_bytes : ndarray of uint8, or None
        The UTF-8 bytes of string ids, joined.
    """

    keys: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    labels: np.ndarray
    targets: np.ndarray
    ids: np.ndarray
    id_bytes: np.ndarray | None = None

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Bytes held by all arrays."""
        return sum(a.nbytes for a in self._arrays())

    def _arrays(self) -> list[np.ndarray]:
        arrays = [self.keys, self.data, self.indices, self.indptr, self.labels, self.targets, self.ids]
        return arrays if self.id_bytes is None else [*arrays, self.id_bytes]

    def take(self, order: np.ndarray) -> KeyedRows:
        """Return the documents at the positions `order`, in that order."""
        return self._picked(order, partial(_gathered, order=np.ascontiguousarray(order, np.int64)))

    def slice(self, start: int, stop: int) -> KeyedRows:
        """Return the documents from `start` up to `stop`, as views where possible."""
        return self._picked(slice(start, stop), partial(_sliced, start=start, stop=stop))

    def _picked(self, rows: Where, ragged: Callable[..., tuple[np.ndarray, ...]]) -> KeyedRows:
        """Return `rows`; `ragged` gives the offsets of such rows, and their entries in one or more arrays."""
        indptr, data, indices = ragged(self.indptr, self.data, self.indices)
        ids, id_bytes = self.ids, self.id_bytes
        if id_bytes is None:
            ids = ids[rows]
        else:
            ids, id_bytes = ragged(ids, id_bytes)
        return KeyedRows(self.keys[rows], data, indices, indptr, self.labels[rows], self.targets[rows], ids, id_bytes)

    def write(self, file: BinaryIO) -> Layout:
        """Append the arrays' raw bytes to `file`; return what `read` needs to find them again."""
        arrays = self._arrays()
        file.writelines(np.ascontiguousarray(a).ravel().view(np.uint8).data for a in arrays)
        return tuple((str(a.dtype), a.size) for a in arrays)

    @classmethod
    def read(cls, file: BinaryIO, layout: Layout) -> KeyedRows:
        """Read what `write` wrote, from the current position of `file`."""
        arrays = [np.frombuffer(file.read(np.dtype(kind).itemsize * n), kind) for kind, n in layout]
        arrays[_TARGETS] = arrays[_TARGETS].reshape(len(arrays[0]), -1)
        return cls(*arrays)

    @classmethod
    def concatenate(cls, parts: list[KeyedRows]) -> KeyedRows:
        """Join `parts`, one at least, in the given order; ``data`` takes the widest of their dtypes."""
        if len(parts) == 1:
            return parts[0]
        keys, data, indices, labels, targets = (
            np.concatenate([getattr(p, name) for p in parts])
            for name in ("keys", "data", "indices", "labels", "targets")
        )
        if data.dtype == np.float64 and all(p.data.dtype != np.float64 for p in parts):  # of uint32 and float32
            data = data.astype(np.float32)
        indptr = _joined_offsets([p.indptr for p in parts])
        letters = [p.id_bytes for p in parts if p.id_bytes is not None]
        if not letters:
            return cls(keys, data, indices, indptr, labels, targets, np.concatenate([p.ids for p in parts]))
        ids, id_bytes = _joined_offsets([p.ids for p in parts]), np.concatenate(letters)
        return cls(keys, data, indices, indptr, labels, targets, ids, id_bytes)


_TARGETS = 5  # the position of the table among the arrays
Layout = tuple[tuple[str, int], ...]
Where = np.ndarray | slice


def cut(stream: Iterable[KeyedRows], sizes: Iterable[int]) -> Iterator[KeyedRows]:
    """Cut a stream of documents, however it comes, into pieces of `sizes` documents, which sum to the stream's."""
    source = iter(stream)
    held: list[KeyedRows] = []
    n_held = 0
    for size in sizes:
        while n_held < size:
            rows = next(source)
            held.append(rows)
            n_held += rows.n_documents
        whole = KeyedRows.concatenate(held)
        yield whole.slice(0, size)
        n_held -= size
        held = [whole.slice(size, whole.n_documents)] if n_held else []


def _gathered(offsets: np.ndarray, *values: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the offsets of the ranges `order`, and what of each array is in them, one range after another."""
    from sdem_dist.kernels.ragged import gather  # numba comes with it

    moved = np.zeros(len(order) + 1, np.int64)
    np.cumsum(np.diff(offsets)[order], out=moved[1:])
    found = [np.empty(int(moved[-1]), array.dtype) for array in values]
    for array, out in zip(values, found, strict=True):
        gather(array.view(np.uint8), offsets, order, array.itemsize, out.view(np.uint8))
    return moved, *found


def _sliced(offsets: np.ndarray, *values: np.ndarray, start: int, stop: int) -> tuple[np.ndarray, ...]:
    """Return the offsets of the ranges from `start` up to `stop`, and what of each array is in them."""
    entries = slice(int(offsets[start]), int(offsets[stop]))
    return offsets[start : stop + 1] - offsets[start], *(array[entries] for array in values)


def _joined_offsets(parts: list[np.ndarray]) -> np.ndarray:
    bases = np.cumsum([0] + [int(p[-1]) for p in parts])
    return np.concatenate([np.zeros(1, np.int64), *(p[1:] + b for p, b in zip(parts, bases[:-1], strict=True))])
