"""Documents before they are in a corpus: CSR arrays with labels and ids, gathered, spilled, written as shards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from sdem_dist.corpus.manifest import ShardInfo, index_dtype
from sdem_dist.documents import offsets_of
from sdem_dist.storage import arrays
from sdem_dist.storage.encoding import crc32c, decode_strings


class Canonical(NamedTuple):
    """Counts in CSR that need no check: ascending within each row, without repetition, above 0."""

    data: np.ndarray  # uint8, uint16, uint32 or float32; of tables float32 or float64
    indices: np.ndarray  # uint16 or uint32
    indptr: np.ndarray  # int64
    n_features: int


class Kind(NamedTuple):
    """What all documents of a corpus have alike."""

    features: int
    targets: int = 0
    weights: bool = False
    labels: bool = False
    groups: bool = False
    ids: str = "positions"  # or "integers", "strings"


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
    groups: np.ndarray | None = None  # shape (n_documents,), uint64: hashes of groups

    @property
    def n_documents(self) -> int:
        return len(self.keys)

    @property
    def plain_ids(self) -> np.ndarray | list[str]:
        """The ids: int64, or strings."""
        return self.ids if self.id_bytes is None else decode_strings(self.id_bytes, self.ids)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays().values())

    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: array for name in self.__slots__ if (array := getattr(self, name)) is not None}

    @classmethod
    def gathered(cls, parts: Sequence[KeyedRows], order: np.ndarray) -> KeyedRows:
        """Return copies of the documents at the positions `order`, at least one, in `parts` one after another.

        They come in that order. The parts have ``data`` of one dtype: see `alike`.
        """
        from sdem_dist.kernels.csr import gather  # numba comes with it

        borders = offsets_of([part.n_documents for part in parts])
        by_position = np.argsort(order, kind="stable")
        cuts = np.searchsorted(order, borders, sorter=by_position).tolist()
        # Of each part that has some of them: the part, their rows there, and where they go.
        picks = [
            (part, order[by_position[a:b]] - border, by_position[a:b])
            for part, border, a, b in zip(parts, borders.tolist(), cuts, cuts[1:], strict=False)
            if a < b
        ]
        first = parts[0]
        ragged = {"indptr": ["data", "indices"]} | ({} if first.id_bytes is None else {"ids": ["id_bytes"]})
        columns: dict[str, Any] = {"id_bytes": None}
        for name in ("keys", "labels", "targets", "ids", "groups"):
            if name not in ragged and (like := getattr(first, name)) is not None:
                columns[name] = np.empty((len(order), *like.shape[1:]), like.dtype)
                for part, rows, to in picks:
                    columns[name][to] = getattr(part, name)[rows]
        for offsets, names in ragged.items():
            starts = columns[offsets] = np.zeros(len(order) + 1, np.int64)
            for part, rows, to in picks:
                starts[to + 1] = np.diff(getattr(part, offsets))[rows]
            np.cumsum(starts, out=starts)
            for name in names:
                out = columns[name] = np.empty(int(starts[-1]), getattr(first, name).dtype)
                for part, rows, to in picks:
                    array: np.ndarray = getattr(part, name)
                    source = array.view(np.uint8), getattr(part, offsets), rows, array.itemsize
                    gather(*source, starts[to], out.view(np.uint8))
        return cls(**columns)

    def write(self, file: BinaryIO) -> None:
        arrays = self._arrays()
        layout = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
        file.write(json.dumps(layout).encode() + b"\n")
        file.writelines(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays.values())

    @classmethod
    def read(cls, file: BytesIO) -> KeyedRows:
        """Read what `write` wrote."""
        arrays = {name: np.empty(shape, dtype) for name, dtype, shape in json.loads(file.readline())}
        for array in arrays.values():
            file.readinto(array.reshape(-1).view(np.uint8).data)
        return cls(**arrays)


def alike(parts: Sequence[KeyedRows]) -> list[KeyedRows]:
    """Return the same documents with ``data`` of one dtype, the widest of theirs."""
    dtypes = {part.data.dtype for part in parts}
    if len(dtypes) < 2:
        return list(parts)
    widest = np.result_type(*dtypes)
    if widest == np.float64 and widest not in dtypes:  # of uint32 and float32
        widest = np.dtype(np.float32)
    return [replace(part, data=part.data.astype(widest, copy=False)) for part in parts]


def write_shard(
    parent: Path, shard: int, rows: KeyedRows, kind: Kind, dense: bool, texts: tuple[np.ndarray, np.ndarray] | None
) -> ShardInfo:
    """Write `rows` as the shard number `shard` in the group of shards `parent`; return its entry in the manifest.

    `texts`: their joined bytes and offsets.
    One that a killed process began is replaced. The dtype of its entries is chosen from the shard's own: those they
    arrived with must not matter.
    """
    data, targets, attributes = rows.data, rows.targets, {}
    if dense:
        data = narrowed(data).reshape(rows.n_documents, kind.features)
        contents = {"values": data}
    else:
        if data.dtype.kind == "u":
            data = data.astype(np.min_scalar_type(int(data.max(initial=0))), copy=False)
        indices = rows.indices.astype(index_dtype(kind.features), copy=False)
        contents = {"data": data, "indices": indices, "indptr": rows.indptr}
        shape = [rows.n_documents, kind.features]  # so that the group is a sparse matrix for anndata
        attributes = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": shape}
    if kind.labels:
        contents["labels"] = rows.labels
    if kind.weights:
        targets, contents["weights"] = np.ascontiguousarray(targets[:, :-1]), np.ascontiguousarray(targets[:, -1])
    if targets.shape[1]:
        contents["targets"] = targets
    contents |= {"ids": rows.ids} if rows.id_bytes is None else {"ids_bytes": rows.id_bytes, "ids_offsets": rows.ids}
    if texts is not None:
        contents["texts_bytes"], contents["texts_offsets"] = texts
    if rows.groups is not None:
        contents["groups"] = rows.groups
    folder = parent / f"{shard:05d}"
    arrays.write_group(folder, attributes)
    arrays.write_arrays(folder, contents)
    checksums = {name: crc32c(array) for name, array in contents.items()}
    return ShardInfo(rows.n_documents, data.size, str(data.dtype), checksums)


def narrowed(values: np.ndarray) -> np.ndarray:
    """Return float64 as float32 where that keeps every value, anything else as it is."""
    if values.dtype != np.float64:
        return values
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return narrow if np.array_equal(narrow, values, equal_nan=True) else values
