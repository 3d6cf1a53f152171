"""Writing one shard: a CSR group with labels and ids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sdem_dist.corpus.manifest import ShardInfo, index_dtype, shard_name
from sdem_dist.storage.encoding import crc32c

if TYPE_CHECKING:
    from sdem_dist.corpus.rows import KeyedRows


class Kind(NamedTuple):
    """What all documents of a corpus have alike."""

    features: int
    targets: int = 0
    weights: bool = False
    labels: bool = False
    groups: bool = False
    ids: str = "positions"  # or "integers", "strings"


def write_shard(
    parent: Path,
    shard: int,
    rows: KeyedRows,
    kind: Kind,
    dense: bool,
    texts: tuple[np.ndarray, np.ndarray] | None = None,
) -> ShardInfo:
    """Write `rows` as the shard number `shard` in the group of shards `parent`; return its entry in the manifest.

    `texts`: their joined bytes and offsets.
    One that a killed process began is replaced. The dtype of its entries is chosen from the shard's own: those they
    arrived with must not matter.
    """
    from sdem_dist.storage import arrays

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
    folder = parent / shard_name(shard)
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
