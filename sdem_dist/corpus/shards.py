"""Reading and writing one shard: a CSR group with labels and ids, written whole and verified when read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.corpus.manifest import DENSE, Header, ShardInfo, index_dtype, shard_name, shard_path
from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.errors import CorpusError
from sdem_dist.storage.encoding import decode_strings

if TYPE_CHECKING:
    from sdem_dist.corpus.rows import KeyedRows
    from sdem_dist.storage.arrays import Group


TextsAt = Callable[[np.ndarray | list[str]], tuple[np.ndarray, np.ndarray]]
GroupsAt = Callable[[np.ndarray | list[str]], np.ndarray]


def write_shard(
    parent: Group,
    shard: int,
    rows: KeyedRows,
    n_features: int,
    *,
    dense: bool,
    labelled: bool,
    weights: bool = False,
    texts: TextsAt | None = None,
    groups: np.ndarray | None = None,
    overwrite: bool = False,
) -> ShardInfo:
    """Write `rows` as the shard number `shard` in the group of shards `parent`; return its entry in the manifest.

    `texts` gives the joined bytes and the offsets of the texts of documents with these ids; `groups` are the hashes of
    the rows' groups.
    With `overwrite` one that a killed process began is replaced.
    The dtype of its entries is chosen from the shard's own: those they arrived with must not matter.
    """
    data, attributes = rows.data, None
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
    contents |= columns_of(rows, labelled, weights)
    if texts is not None:
        contents["texts_bytes"], contents["texts_offsets"] = texts(ids_of_rows(rows))
    if groups is not None:
        contents["groups"] = groups
    from sdem_dist.storage import arrays
    from sdem_dist.storage.encoding import crc32c

    group = arrays.add_group(parent, shard_name(shard), attributes, overwrite=overwrite)
    arrays.write_arrays(group, contents)
    checksums = {name: crc32c(array) for name, array in contents.items()}
    return ShardInfo(rows.n_documents, data.size, str(data.dtype), checksums)


def narrowed(values: np.ndarray) -> np.ndarray:
    """Return float64 as float32 where that keeps every value, anything else as it is."""
    if values.dtype != np.float64:
        return values
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return narrow if np.array_equal(narrow, values, equal_nan=True) else values


def columns_of(rows: KeyedRows, labelled: bool, weights: bool) -> dict[str, np.ndarray]:
    """Return the labels, targets, weights and ids of a shard's documents as the arrays to store."""
    contents = {}
    if labelled:
        contents["labels"] = rows.labels.astype(np.int32, copy=False)
    targets = rows.targets
    if weights:
        targets, contents["weights"] = np.ascontiguousarray(targets[:, :-1]), np.ascontiguousarray(targets[:, -1])
    if targets.shape[1]:
        contents["targets"] = targets
    if rows.id_bytes is None:
        contents["ids"] = rows.ids
    else:
        contents["ids_bytes"], contents["ids_offsets"] = rows.id_bytes, rows.ids
    return contents


def ids_of_rows(rows: KeyedRows) -> np.ndarray | list[str]:
    """Return the ids of rows: int64, or strings."""
    return rows.ids if rows.id_bytes is None else decode_strings(rows.id_bytes, rows.ids)


def read_shard(root: Group, header: Header, shard: int, where: str) -> Documents | DenseDocuments:
    """Read the shard number `shard` of the corpus at `root`.

    Raises CorpusError: an array is missing, has another shape or dtype than the manifest says, does not match its
    checksum or holds values that no corpus may hold. The message names corpus, shard and array.
    """
    info, dense = header.shards[shard], header.layout == DENSE
    n, n_entries = info.n_documents, info.n_nonzeros
    expected: dict[str, Expected] = (
        {"values": ((n, header.n_features), info.data_dtype)}
        if dense
        else {
            "data": ((n_entries,), info.data_dtype),
            "indices": ((n_entries,), str(index_dtype(header.n_features))),
            "indptr": ((n + 1,), "int64"),
        }
    )
    if header.classes:
        expected["labels"] = (n,), "int32"
    if header.n_targets:
        expected["targets"] = (n, header.n_targets), "float64"
    if header.has_weights:
        expected["weights"] = (n,), "float64"
    contents = read_arrays(root, info, shard, expected, where)
    documents = DenseDocuments(**contents) if dense else Documents(n_features=header.n_features, **contents)
    if (problem := find_problem(documents, len(header.classes))) is not None:
        raise CorpusError(f"{where}: shard {shard}: {problem}")
    return documents


Expected = tuple[tuple[int, ...], str]  # shape and dtype of an array


def read_arrays(
    root: Group, info: ShardInfo, shard: int, expected: dict[str, Expected], where: str
) -> dict[str, np.ndarray]:
    """Read arrays of a shard, each of the shape and dtype that it must have; see `read_shard`."""
    from sdem_dist.storage import arrays

    try:
        shapes = {shard_path(shard, name): shape for name, (shape, _) in expected.items()}
        by_name = dict(zip(expected, arrays.read_arrays(root, shapes), strict=True))
    except CorpusError as error:
        raise type(error)(f"{where}: shard {shard}: {error}") from error
    for name, array in by_name.items():
        if array.dtype != np.dtype(expected[name][1]):
            raise CorpusError(f"{where}: shard {shard}: array {name!r} is {array.dtype}, not {expected[name][1]}")
        check_sum(info, name, array, f"{where}: shard {shard}")
    return by_name


def read_ids(root: Group, header: Header, shard: int, where: str) -> np.ndarray | list[str]:
    """Read the ids of a shard's documents: int64, or strings."""
    info = header.shards[shard]
    if "ids" in info.checksums:
        return _read_array(root, header, shard, "ids", info.n_documents, where)
    return _read_strings(root, header, shard, "ids", where)


def read_texts(root: Group, header: Header, shard: int, where: str) -> list[str]:
    """Read the texts of a shard's documents; CorpusError where none were kept."""
    if "texts_bytes" not in header.shards[shard].checksums:
        raise CorpusError(f"{where} holds no texts: they are kept by sdem ingest --keep-text")
    return _read_strings(root, header, shard, "texts", where)


def read_groups(root: Group, header: Header, shard: int, where: str) -> np.ndarray:
    """Read the hashes of the groups of a shard's documents, uint64; CorpusError where none were kept."""
    info = header.shards[shard]
    if "groups" not in info.checksums:
        raise CorpusError(f"{where} has no groups: they are kept by sdem ingest --group COLUMN")
    return read_arrays(root, info, shard, {"groups": ((info.n_documents,), "uint64")}, where)["groups"]


def _read_strings(root: Group, header: Header, shard: int, name: str, where: str) -> list[str]:
    offsets = _read_array(root, header, shard, f"{name}_offsets", header.shards[shard].n_documents + 1, where)
    joined = _read_array(root, header, shard, f"{name}_bytes", int(offsets[-1]), where)
    try:
        return decode_strings(joined, offsets)
    except ValueError as error:
        raise CorpusError(f"{where}: shard {shard}: array '{name}_offsets': {error}") from error


def _read_array(root: Group, header: Header, shard: int, name: str, length: int, where: str) -> np.ndarray:
    from sdem_dist.storage import arrays

    place = f"{where}: shard {shard}"
    try:
        array = arrays.read_array(root, shard_path(shard, name), shape=(length,))
    except CorpusError as error:
        raise type(error)(f"{place}: {error}") from error
    check_sum(header.shards[shard], name, array, place)
    return array


def check_sum(info: ShardInfo, name: str, array: np.ndarray, place: str) -> None:
    """Raise CorpusError unless the array `name` of a shard matches the manifest's checksum."""
    from sdem_dist.storage.encoding import crc32c

    if name not in info.checksums:
        raise CorpusError(f"{place}: the manifest has no checksum for array {name!r}")
    if crc32c(array) != info.checksums[name]:
        raise CorpusError(
            f"{place}: array {name!r} does not match its checksum: a file is damaged or missing; make the corpus again "
            "(training can leave damaged shards out: skip_damaged)"
        )


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
    if indptr[0] != 0 or indptr[-1] != len(data) or np.any(indptr[1:] < indptr[:-1]):
        return "array 'indptr' does not climb from 0 to the number of entries"
    if len(indices) and int(indices.max()) >= documents.n_features:
        where = _document_of(indices >= documents.n_features, indptr)
        return f"array 'indices' holds {int(indices.max())}, beyond the {documents.n_features} features{where}"
    if not ascending_within_rows(indices, indptr):
        return "array 'indices' does not ascend within each document"
    # max() returns NaN if there is one, so two reductions see every unfit value
    if data.dtype.kind == "f" and len(data) and not (data.min() >= 0 and np.isfinite(data.max())):
        return f"array 'data' holds negative or non-finite values{_document_of(~(np.isfinite(data) & (data >= 0)), indptr)}"
    if targets is not None and not np.isfinite(targets).all():
        document = int((~np.isfinite(targets)).any(axis=1).argmax())
        return f"array 'targets' holds values that are not finite, first for its document {document}"
    return None


def _document_of(unfit: np.ndarray, indptr: np.ndarray) -> str:
    return f", first in its document {int(np.searchsorted(indptr, np.argmax(unfit), side='right')) - 1}"


def ascending_within_rows(indices: np.ndarray, indptr: np.ndarray) -> bool:
    """Whether every row's indices strictly ascend; `indptr` is valid."""
    if len(indices) < 2:
        return True
    falls = indices[1:] <= indices[:-1]
    falls[indptr[(indptr > 0) & (indptr < len(indices))] - 1] = False  # it may fall from one row to the next
    return not falls.any()
