"""Reading and writing one shard of a dense corpus: a table with labels and ids, written whole and verified when read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.corpus.layout import Header, ShardInfo
from sdem_dist.corpus.shards import Expected, columns_of, read_arrays, write_arrays
from sdem_dist.documents import DenseDocuments
from sdem_dist.errors import CorpusError

if TYPE_CHECKING:
    from sdem_dist.corpus.rows import KeyedRows
    from sdem_dist.storage.arrays import Group


def write_dense_shard(parent: Group, shard: int, rows: KeyedRows, n_features: int, labelled: bool) -> ShardInfo:
    """Write `rows` as the shard number `shard` in the group of shards `parent`; return its entry in the manifest."""
    data = rows.data
    if data.dtype == np.float64:  # chosen from the shard's own values: those it arrived with must not matter
        with np.errstate(over="ignore"):
            narrow = data.astype(np.float32)
        data = narrow if np.array_equal(narrow, data, equal_nan=True) else data
    values = data.reshape(rows.n_documents, n_features)
    checksums = write_arrays(parent, shard, {"values": values, **columns_of(rows, labelled)}, {})
    return ShardInfo(rows.n_documents, values.size, str(values.dtype), checksums)


def read_dense_shard(root: Group, header: Header, shard: int, where: str, verify: bool) -> DenseDocuments:
    """Read the shard number `shard` of the dense corpus at `root`.

    Raises
    ------
    CorpusError
        As `sdem_dist.corpus.shards.read_shard`.
    """
    info = header.shards[shard]
    expected: dict[str, Expected] = {"values": ((info.n_documents, header.n_features), info.data_dtype)}
    if header.classes:
        expected["labels"] = (info.n_documents,), "int32"
    found = read_arrays(root, info, shard, expected, where, verify)
    values, labels = found["values"], found.get("labels")
    if verify and np.isinf(values).any():
        document = int(np.isinf(values).any(axis=1).argmax())
        raise CorpusError(f"{where}: shard {shard}: array 'values' holds an infinity, first in its document {document}")
    if verify and labels is not None and not ((labels >= -1) & (labels < len(header.classes))).all():
        raise CorpusError(
            f"{where}: shard {shard}: array 'labels' holds values outside -1 to {len(header.classes) - 1}"
        )
    return DenseDocuments(values, labels)
