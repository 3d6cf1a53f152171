"""Documents before they are in a corpus: CSR arrays with labels and ids, gathered, joined, cut and spilled to files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BufferedReader, BytesIO
from typing import BinaryIO, NamedTuple

import numpy as np

from sdem_dist.documents import offsets_of

Layout = tuple[tuple[str, int], ...]
Ragged = tuple[np.ndarray, ...]
"""Offsets of ranges, and the arrays that they cut."""


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
        return len(self.keys)

    @property
    def nbytes(self) -> int:
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
        return KeyedRows.gathered([self], order)

    def slice(self, start: int, stop: int) -> KeyedRows:
        """Return the documents from `start` up to `stop`, as views where possible."""

        def ragged(sources: Sequence[Ragged]) -> Ragged:
            offsets, *values = sources[0]
            entries = slice(int(offsets[start]), int(offsets[stop]))
            return offsets[start : stop + 1] - offsets[start], *(array[entries] for array in values)

        return _combined([self], lambda columns: columns[0][start:stop], ragged)

    @classmethod
    def gathered(cls, parts: Sequence[KeyedRows], order: np.ndarray) -> KeyedRows:
        """Return the documents at the positions `order`, at least one, in `parts` one after another, in that order.

        Without copies of the parts, which have ``data`` of one dtype: see `alike`.
        """
        from sdem_dist.kernels.csr import gather  # numba comes with it

        borders = offsets_of([part.n_documents for part in parts])
        by_position = np.argsort(order, kind="stable")
        cuts = np.searchsorted(order, borders, sorter=by_position).tolist()
        # Of each part that has some of them: its number, their rows there, and where they go.
        picks = [
            (number, order[by_position[a:b]] - border, by_position[a:b])
            for number, (border, a, b) in enumerate(zip(borders.tolist(), cuts, cuts[1:], strict=False))
            if a < b
        ]

        def column(columns: Sequence[np.ndarray]) -> np.ndarray:
            taken = np.empty((len(order), *columns[0].shape[1:]), columns[0].dtype)
            for number, rows, to in picks:
                taken[to] = columns[number][rows]
            return taken

        def ragged(sources: Sequence[Ragged]) -> Ragged:
            moved = np.zeros(len(order) + 1, np.int64)
            for number, rows, to in picks:
                offsets = sources[number][0]
                moved[to + 1] = offsets[rows + 1] - offsets[rows]
            np.cumsum(moved, out=moved)
            arrays = [np.empty(int(moved[-1]), values.dtype) for values in sources[0][1:]]
            for number, rows, to in picks:
                offsets, *values = sources[number]
                for array, out in zip(values, arrays, strict=True):
                    gather(array.view(np.uint8), offsets, rows, array.itemsize, moved[to], out.view(np.uint8))
            return moved, *arrays

        return _combined(parts, column, ragged)

    @property
    def layout(self) -> Layout:
        return tuple((str(a.dtype), a.size) for a in self._arrays())

    def write(self, file: BinaryIO) -> None:
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
        """Join `parts`, one at least, in the given order; ``data`` has the widest of their dtypes."""

        def ragged(sources: Sequence[Ragged]) -> Ragged:
            starts = offsets_of([int(offsets[-1]) for offsets, *_ in sources])
            ends = [offsets[1:] + start for (offsets, *_), start in zip(sources, starts[:-1], strict=True)]
            values = list(zip(*sources, strict=True))[1:]
            return np.concatenate([starts[:1], *ends]), *map(np.concatenate, values)

        return parts[0] if len(parts) == 1 else _combined(alike(parts), np.concatenate, ragged)


def _combined(
    parts: Sequence[KeyedRows],
    column: Callable[[Sequence[np.ndarray]], np.ndarray],
    ragged: Callable[[Sequence[Ragged]], Ragged],
) -> KeyedRows:
    """Return rows whose arrays two functions make of those of all parts: of columns, and of ranges."""
    keys, labels, targets = (column([getattr(p, name) for p in parts]) for name in ("keys", "labels", "targets"))
    indptr, data, indices = ragged([(p.indptr, p.data, p.indices) for p in parts])
    with_bytes = [(p.ids, p.id_bytes) for p in parts if p.id_bytes is not None]
    ids = ragged(with_bytes) if with_bytes else (column([p.ids for p in parts]),)
    return KeyedRows(keys, data, indices, indptr, labels, targets, *ids)


def cut(stream: Iterable[KeyedRows], sizes: Iterable[int]) -> Iterator[KeyedRows]:
    """Cut a stream of documents, in pieces of any length, into pieces of `sizes` documents; these add up to all."""
    source = iter(stream)
    pieces: list[KeyedRows] = []
    n_read = 0
    for size in sizes:
        while n_read < size:
            pieces.append(next(source))
            n_read += pieces[-1].n_documents
        rows = KeyedRows.concatenate(pieces)
        yield rows.slice(0, size)
        n_read -= size
        pieces = [rows.slice(size, rows.n_documents)] if n_read else []


def alike(parts: list[KeyedRows]) -> list[KeyedRows]:
    """Return the same documents with ``data`` of one dtype, the widest of theirs."""
    dtypes = {part.data.dtype for part in parts}
    if len(dtypes) < 2:
        return parts
    widest = np.result_type(*dtypes)
    if widest == np.float64 and widest not in dtypes:  # of uint32 and float32
        widest = np.dtype(np.float32)
    return [replace(part, data=part.data.astype(widest, copy=False)) for part in parts]
