"""Reading and writing one shard: a CSR group with labels and ids, written at once and verified when read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.corpus.manifest import DENSE, SHARDS, Header, ShardInfo, index_dtype, shard_name
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import crc32c, decode_strings

if TYPE_CHECKING:
    from sdem_dist.corpus.rows import KeyedRows

TextsAt = Callable[[np.ndarray | list[str]], tuple[np.ndarray, np.ndarray]]
"""From ids of documents to the joined bytes and the offsets of their texts."""
DAMAGED = (
    "does not match its checksum: a file is damaged or missing; make the corpus again (training can leave damaged shards "
    "out: skip_damaged)"
)
NOT_STORED = {
    "texts": "holds no texts: they are kept by sdem ingest --keep-text",
    "groups": "has no groups: they are kept by sdem ingest --group COLUMN",
}


def write_shard(
    parent: Path,
    shard: int,
    rows: KeyedRows,
    n_features: int,
    *,
    dense: bool,
    labelled: bool,
    weights: bool = False,
    texts: tuple[np.ndarray, np.ndarray] | None = None,
    groups: np.ndarray | None = None,
) -> ShardInfo:
    """Write `rows` as the shard number `shard` in the group of shards `parent`; return its entry in the manifest.

    `texts` are their joined bytes and offsets, `groups` the hashes of the rows' groups. One that a killed process began
    is replaced.
    The dtype of its entries is chosen from the shard's own: those they arrived with must not matter.
    """
    from sdem_dist.storage import arrays

    data, targets, attributes = rows.data, rows.targets, {}
    if dense:
        data = narrowed(data).reshape(rows.n_documents, n_features)
        contents = {"values": data}
    else:
        if data.dtype.kind == "u":
            data = data.astype(np.min_scalar_type(int(data.max(initial=0))), copy=False)
        indices = rows.indices.astype(index_dtype(n_features), copy=False)
        contents = {"data": data, "indices": indices, "indptr": rows.indptr}
        shape = [rows.n_documents, n_features]  # so that the group is a sparse matrix for anndata
        attributes = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": shape}
    if labelled:
        contents["labels"] = rows.labels.astype(np.int32, copy=False)
    if weights:
        targets, contents["weights"] = np.ascontiguousarray(targets[:, :-1]), np.ascontiguousarray(targets[:, -1])
    if targets.shape[1]:
        contents["targets"] = targets
    if rows.id_bytes is None:
        contents["ids"] = rows.ids
    else:
        contents |= {"ids_bytes": rows.id_bytes, "ids_offsets": rows.ids}
    if texts is not None:
        contents["texts_bytes"], contents["texts_offsets"] = texts
    if groups is not None:
        contents["groups"] = groups
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


def ids_of_rows(rows: KeyedRows) -> np.ndarray | list[str]:
    """Return the ids of rows: int64, or strings."""
    return rows.ids if rows.id_bytes is None else decode_strings(rows.id_bytes, rows.ids)


def read_shard(root: Path, header: Header, shard: int, where: str) -> Documents | DenseDocuments:
    """Read the shard number `shard` of the corpus at `root`; `where` is its path, for messages.

    Raises CorpusError: an array is missing, has another shape or dtype than the manifest says, does not match its
    checksum or holds values that no corpus may hold. The message names corpus, shard and array.
    """
    dense = header.layout == DENSE
    names = ["values"] if dense else ["data", "indices", "indptr"]
    optional = {"labels": header.classes, "targets": header.n_targets, "weights": header.has_weights}
    names += [name for name, present in optional.items() if present]
    contents = read_columns(root, header, shard, names, where)
    documents = DenseDocuments(**contents) if dense else Documents(n_features=header.n_features, **contents)
    if (problem := find_problem(documents, len(header.classes))) is not None:
        raise CorpusError(f"{where}: shard {shard}: {problem}")
    return documents


def read_columns(
    root: Path, header: Header, shard: int, names: Iterable[str], where: str, n_bytes: int = 0
) -> dict[str, np.ndarray]:
    """Read arrays of a shard; `n_bytes` is the length of joined strings. Raises as `read_shard`."""
    from sdem_dist.storage import arrays

    info = header.shards[shard]
    n = info.n_documents
    kinds: dict[str, arrays.Kind] = {
        "values": ((n, header.n_features), info.data_dtype),
        "data": ((info.n_nonzeros,), info.data_dtype),
        "indices": ((info.n_nonzeros,), index_dtype(header.n_features)),
        "indptr": ((n + 1,), np.int64),
        "labels": ((n,), np.int32),
        "targets": ((n, header.n_targets), np.float64),
        "weights": ((n,), np.float64),
        "ids": ((n,), np.int64),
        "groups": ((n,), np.uint64),
    }
    for strings in ("ids", "texts"):
        kinds |= {f"{strings}_offsets": ((n + 1,), np.int64), f"{strings}_bytes": ((n_bytes,), np.uint8)}
    try:
        contents = arrays.read_arrays(root / SHARDS / shard_name(shard), {name: kinds[name] for name in names})
    except CorpusError as error:
        name = Path(error.path or "").name
        raise type(error)(f"{where}: shard {shard}: array {name!r}: {error.problem}") from error
    for name, array in contents.items():
        if crc32c(array) != info.checksums.get(name):
            raise CorpusError(f"{where}: shard {shard}: array {name!r} {DAMAGED}")
    return contents


def read_strings(root: Path, header: Header, shard: int, name: str, where: str) -> np.ndarray | list[str]:
    """Read the "ids", "texts" or "groups" of a shard's documents: numbers, or strings; CorpusError without any."""
    checksums = header.shards[shard].checksums
    if f"{name}_bytes" in checksums:
        offsets = read_columns(root, header, shard, [f"{name}_offsets"], where)[f"{name}_offsets"]
        joined = read_columns(root, header, shard, [f"{name}_bytes"], where, int(offsets[-1]))[f"{name}_bytes"]
        try:
            return decode_strings(joined, offsets)
        except ValueError as error:
            raise CorpusError(f"{where}: shard {shard}: array '{name}_offsets': {error}") from error
    if name not in checksums and name in NOT_STORED:
        raise CorpusError(f"{where} {NOT_STORED[name]}")
    return read_columns(root, header, shard, [name], where)[name]


def find_problem(documents: Documents | DenseDocuments, n_classes: int) -> str | None:
    """Return what makes `documents` unfit for the kernels, or None: kernels index tables without checks."""
    problem = (
        _problem_of_table(documents.values) if isinstance(documents, DenseDocuments) else _problem_of_rows(documents)
    )
    if problem is not None:
        return problem
    weights, labels = documents.weights, documents.labels
    if weights is not None and len(weights) and not (weights.min() >= 0 and np.isfinite(weights.max())):
        return "array 'weights' holds negative or non-finite values"
    if labels is not None and len(labels) and not (labels.min() >= -1 and labels.max() < n_classes):
        document = int(np.argmax((labels < -1) | (labels >= n_classes)))
        return f"array 'labels' holds values outside -1 to {n_classes - 1}, first for its document {document}"
    return None


def _problem_of_table(values: np.ndarray) -> str | None:
    if not np.isinf(values).any():
        return None
    return f"array 'values' holds an infinity, first in its document {int(np.isinf(values).any(axis=1).argmax())}"


def _problem_of_rows(documents: Documents) -> str | None:
    indptr, indices, data, targets = documents.indptr, documents.indices, documents.data, documents.targets

    def first(invalid: np.ndarray) -> str:
        return f", first in its document {int(np.searchsorted(indptr, np.argmax(invalid), side='right')) - 1}"

    if indptr[0] != 0 or indptr[-1] != len(data) or np.any(indptr[1:] < indptr[:-1]):
        return "array 'indptr' does not climb from 0 to the number of entries"
    if len(indices) and int(indices.max()) >= documents.n_features:
        beyond = f"beyond the {documents.n_features} features{first(indices >= documents.n_features)}"
        return f"array 'indices' holds {int(indices.max())}, {beyond}"
    falls = indices[1:] <= indices[:-1]
    if len(falls):
        falls[indptr[(indptr > 0) & (indptr < len(indices))] - 1] = False  # it may fall from one row to the next
    if falls.any():
        return "array 'indices' does not ascend within each document"
    # max() returns NaN if there is one, so two reductions see every unfit value
    if data.dtype.kind == "f" and len(data) and not (data.min() >= 0 and np.isfinite(data.max())):
        return f"array 'data' holds negative or non-finite values{first(~(np.isfinite(data) & (data >= 0)))}"
    if targets is not None and not np.isfinite(targets).all():
        document = int((~np.isfinite(targets)).any(axis=1).argmax())
        return f"array 'targets' holds values that are not finite, first for its document {document}"
    return None
