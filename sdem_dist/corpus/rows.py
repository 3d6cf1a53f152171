"""Documents before they are in a corpus: CSR arrays with labels and ids, gathered, joined, cut and spilled to files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BufferedReader, BytesIO
from typing import BinaryIO, NamedTuple

import numpy as np

from sdem_dist.documents import offsets_of


class Canonical(NamedTuple):
    """Counts in CSR that need no check: ascending within each row, without repetition, above 0."""

    data: np.ndarray  # uint8, uint16 or uint32
    indices: np.ndarray  # uint16 or uint32
    indptr: np.ndarray  # int64
    n_features: int


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Documents in compressed sparse row form, before they have a shard."""

    keys: np.ndarray  # shape (n_documents,), uint64: the corpus is stored by ascending key
    data: np.ndarray  # shape (n_nonzeros,), uint8, uint16, uint32 or float32
    indices: np.ndarray  # shape (n_nonzeros,), uint16 or uint32
    indptr: np.ndarray  # shape (n_documents + 1,), int64
    labels: np.ndarray  # shape (n_documents,), int32
    targets: np.ndarray
    """Shape (n_documents, n_targets), float64: no columns if there are none. Where documents have weights, these are
    one more column, the last."""
    ids: np.ndarray
    """int64: the ids, of shape (n_documents,); with `id_bytes` their offsets there, of shape (n_documents + 1,)."""
    id_bytes: np.ndarray | None = None  # uint8: the UTF-8 bytes of string ids, joined

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

    def counted_words(self, has_weights: bool) -> np.ndarray:
        """Return the words that document frequencies count: of entries and weights of documents above 0."""
        counts = self.data != 0
        if has_weights:
            counts &= np.repeat(self.targets[:, -1] > 0, np.diff(self.indptr))
        return self.indices if counts.all() else self.indices[counts]

    def take(self, order: np.ndarray) -> KeyedRows:
        """Return the documents at the positions `order`, in that order."""
        return KeyedRows.gathered([self], order)

    def slice(self, start: int, stop: int) -> KeyedRows:
        """Return the documents from `start` up to `stop`, as views where possible."""
        rows, ids, id_bytes = slice(start, stop), self.ids, self.id_bytes
        indptr, data, indices = _sliced(self.indptr, self.data, self.indices, start=start, stop=stop)
        if id_bytes is None:
            ids = ids[rows]
        else:
            ids, id_bytes = _sliced(ids, id_bytes, start=start, stop=stop)
        return KeyedRows(self.keys[rows], data, indices, indptr, self.labels[rows], self.targets[rows], ids, id_bytes)

    @classmethod
    def gathered(cls, parts: Sequence[KeyedRows], order: np.ndarray) -> KeyedRows:
        """Return the documents at the positions `order`, at least one, in `parts` one after another, in that order.

        Without copies of the parts, which have ``data`` of one dtype: see `alike`.
        """
        borders = offsets_of([part.n_documents for part in parts])
        by_position = np.argsort(order, kind="stable")
        cuts = np.searchsorted(order, borders, sorter=by_position).tolist()
        picks = [
            (part, order[by_position[a:b]] - border, by_position[a:b])
            for part, border, a, b in zip(parts, borders.tolist(), cuts, cuts[1:], strict=False)
            if a < b
        ]
        indptr, data, indices = _gathered([((p.indptr, p.data, p.indices), *where) for p, *where in picks], len(order))
        first = picks[0][0]
        keys, labels, targets, ids = (
            np.empty((len(order), *like.shape[1:]), like.dtype)
            for like in (first.keys, first.labels, first.targets, first.ids)
        )
        for part, rows, to in picks:
            keys[to], labels[to], targets[to] = part.keys[rows], part.labels[rows], part.targets[rows]
            if part.id_bytes is None:
                ids[to] = part.ids[rows]
        if first.id_bytes is None:
            return cls(keys, data, indices, indptr, labels, targets, ids)
        ids, id_bytes = _gathered([((p.ids, p.id_bytes), *where) for p, *where in picks], len(order))
        return cls(keys, data, indices, indptr, labels, targets, ids, id_bytes)

    @property
    def layout(self) -> Layout:
        """What `read` needs to find the arrays again."""
        return tuple((str(a.dtype), a.size) for a in self._arrays())

    def write(self, file: BinaryIO) -> None:
        """Append the arrays' raw bytes to `file`."""
        file.writelines(np.ascontiguousarray(a).ravel().view(np.uint8).data for a in self._arrays())

    @classmethod
    def read(cls, file: BufferedReader | BytesIO, layout: Layout) -> KeyedRows:
        """Read what `write` wrote, from the current position of `file`."""
        arrays = [np.empty(n, kind) for kind, n in layout]
        for array in arrays:
            file.readinto(array.view(np.uint8).data)
        keys, data, indices, indptr, labels, targets, *ids = arrays
        return cls(keys, data, indices, indptr, labels, targets.reshape(len(keys), -1), *ids)

    @classmethod
    def concatenate(cls, parts: list[KeyedRows]) -> KeyedRows:
        """Join `parts`, one at least, in the given order; ``data`` takes the widest of their dtypes."""
        if len(parts) == 1:
            return parts[0]
        parts = alike(parts)
        keys, data, indices, labels, targets = (
            np.concatenate([getattr(p, name) for p in parts])
            for name in ("keys", "data", "indices", "labels", "targets")
        )
        indptr = _joined_offsets([p.indptr for p in parts])
        letters = [p.id_bytes for p in parts if p.id_bytes is not None]
        if not letters:
            return cls(keys, data, indices, indptr, labels, targets, np.concatenate([p.ids for p in parts]))
        ids, id_bytes = _joined_offsets([p.ids for p in parts]), np.concatenate(letters)
        return cls(keys, data, indices, indptr, labels, targets, ids, id_bytes)


Layout = tuple[tuple[str, int], ...]
Picks = list[tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray]]


def cut(stream: Iterable[KeyedRows], sizes: Iterable[int]) -> Iterator[KeyedRows]:
    """Cut a stream of documents, in pieces of any length, into pieces of `sizes` documents; these add up to all."""
    source = iter(stream)
    held: list[KeyedRows] = []
    n_held = 0
    for size in sizes:
        while n_held < size:
            rows = next(source)
            held.append(rows)
            n_held += rows.n_documents
        joined_rows = KeyedRows.concatenate(held)
        yield joined_rows.slice(0, size)
        n_held -= size
        held = [joined_rows.slice(size, joined_rows.n_documents)] if n_held else []


def alike(parts: list[KeyedRows]) -> list[KeyedRows]:
    """Return the same documents with ``data`` of one dtype, the widest of theirs."""
    dtypes = {part.data.dtype for part in parts}
    if len(dtypes) < 2:
        return parts
    widest = np.result_type(*dtypes)
    if widest == np.float64 and widest not in dtypes:  # of uint32 and float32
        widest = np.dtype(np.float32)
    return [replace(part, data=part.data.astype(widest, copy=False)) for part in parts]


def _gathered(picks: Picks, n: int) -> list[np.ndarray]:
    """Return the offsets of `n` ranges, and what is in them.

    `picks` are the offsets and values of several sources, which ranges of each are taken, and where they go.
    """
    from sdem_dist.kernels.csr import gather  # numba comes with it

    moved = np.zeros(n + 1, np.int64)
    for (offsets, *_), rows, to in picks:
        moved[to + 1] = offsets[rows + 1] - offsets[rows]
    np.cumsum(moved, out=moved)
    (_, *like), _, _ = picks[0]
    arrays = [np.empty(int(moved[-1]), array.dtype) for array in like]
    for (offsets, *values), rows, to in picks:
        for array, out in zip(values, arrays, strict=True):
            gather(array.view(np.uint8), offsets, rows, array.itemsize, moved[to], out.view(np.uint8))
    return [moved, *arrays]


def _sliced(offsets: np.ndarray, *values: np.ndarray, start: int, stop: int) -> tuple[np.ndarray, ...]:
    """Return the offsets of the ranges from `start` up to `stop`, and what of each array is in them."""
    entries = slice(int(offsets[start]), int(offsets[stop]))
    return offsets[start : stop + 1] - offsets[start], *(array[entries] for array in values)


def _joined_offsets(parts: list[np.ndarray]) -> np.ndarray:
    bases = offsets_of([int(p[-1]) for p in parts])
    return np.concatenate([np.zeros(1, np.int64), *(p[1:] + b for p, b in zip(parts, bases[:-1], strict=True))])
