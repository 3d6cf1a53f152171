"""Documents on their way into a corpus: checked rows, sorted by keys with bounded memory, written as shards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from sdem_dist.corpus.manifest import Classes, ShardInfo, index_dtype
from sdem_dist.documents import offsets_of
from sdem_dist.storage import arrays
from sdem_dist.storage.buckets import is_url
from sdem_dist.storage.encoding import JsonObject, crc32c, decode_strings
from sdem_dist.storage.kept import SUMMARY, load_array, read_values, save_array
from sdem_dist.storage.threads import in_threads

if TYPE_CHECKING:
    from sdem_dist.engine.executor import Executor

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
RANK_BITS, KEYS_AT_A_TIME = 16, 1 << 20
PIECE_BYTES = 1 << 18  # of what is read together, about: a shard needs some of the documents of each sorted stretch
TASK_ENTRIES = 1 << 22  # entries of the shards that one task writes, about
ROWS = "rows"
Texts = Callable[["KeyedRows"], tuple[np.ndarray, np.ndarray]]
"""From rows to the joined bytes of their texts, and the offsets of each."""
Job = tuple[int, list[int], tuple[int, int]]
"""Neighbouring shards: the number of the first, their sizes, and the keys between which they lie."""
Shards = tuple[tuple[ShardInfo, ...], "np.ndarray | None"]
"""Their entries in the manifest, and the document frequencies of counts."""


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
    targets: np.ndarray  # shape (n_documents, n_targets), float64: no columns if there are none
    ids: np.ndarray
    """int64: the ids, of shape (n_documents,); with `id_bytes` their offsets there, of shape (n_documents + 1,)."""
    id_bytes: np.ndarray | None = None  # uint8: the UTF-8 bytes of string ids, joined
    groups: np.ndarray | None = None  # shape (n_documents,), uint64: hashes of groups
    weights: np.ndarray | None = None  # shape (n_documents,), float64

    @property
    def n_documents(self) -> int:
        return len(self.keys)

    @property
    def plain_ids(self) -> np.ndarray | list[str]:
        return self.ids if self.id_bytes is None else decode_strings(self.id_bytes, self.ids)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays().values())

    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: array for name in self.__slots__ if (array := getattr(self, name)) is not None}

    @classmethod
    def gathered(cls, parts: Sequence[KeyedRows], order: np.ndarray) -> KeyedRows:
        """Return copies of the documents at the positions `order`, at least one, of `parts`, see `alike`, joined."""
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
        for name in ("keys", "labels", "targets", "ids", "groups", "weights"):
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


def narrowed(values: np.ndarray) -> np.ndarray:
    """Return float64 as float32 where that keeps every value, anything else as it is."""
    if values.dtype != np.float64:
        return values
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return narrow if np.array_equal(narrow, values, equal_nan=True) else values


def shuffle_keys(seed: int, start: int, stop: int) -> np.ndarray:
    """Return the keys of the documents `start` up to `stop` of the input: uint64, all different. `seed`: mod 2**64."""
    seed_hash = mixed((np.array([seed % 2**64], np.uint64) + np.uint64(1)) * GOLDEN)
    return mixed((np.arange(start, stop, dtype=np.uint64) + seed_hash + np.uint64(1)) * GOLDEN)


def mixed(z: np.ndarray) -> np.ndarray:
    """Mix the bits of uint64 numbers, one to one (the finaliser of Steele, Lea and Flood's SplitMix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def stored_keys(seed: int | None, start: int, stop: int) -> np.ndarray:
    """Return the keys that the documents `start` up to `stop` are stored by: their positions without a seed."""
    return np.arange(start, stop, dtype=np.uint64) if seed is None else shuffle_keys(seed, start, stop)


def keys_of_ranks(seed: int, n: int, ranks: Sequence[int]) -> list[int]:
    """Return the keys that have these ranks, counted from 0, among those of `n` documents."""
    # So that memory does not grow with n, keys are made twice, some at a time. First they are counted by their upper
    # bits, which tells the bin of each rank; then only the keys of these bins are held.
    shift, n_bins = np.uint64(64 - RANK_BITS), 1 << RANK_BITS

    def parts() -> Iterator[np.ndarray]:
        return (shuffle_keys(seed, i, min(i + KEYS_AT_A_TIME, n)) for i in range(0, n, KEYS_AT_A_TIME))

    sizes = sum((np.bincount(keys >> shift, minlength=n_bins) for keys in parts()), np.zeros(n_bins, np.int64))
    ends = np.cumsum(sizes)
    bins = np.searchsorted(ends, ranks, side="right")
    wanted = np.zeros(n_bins, bool)
    wanted[bins] = True
    keys = np.sort(np.concatenate([np.zeros(0, np.uint64), *(keys[wanted[keys >> shift]] for keys in parts())]))
    starts = np.searchsorted(keys, bins.astype(np.uint64) << shift)
    return [int(keys[i]) for i in starts + np.asarray(ranks, np.int64) - (ends - sizes)[bins]]


class SortedRows:
    """Documents by key, beyond `memory_limit` bytes in the file `path`.

    Whenever memory is full, it is sorted and written, so that a document is written once, and any range of keys is read
    from a few `pieces`: of each where it begins and ends in the file, and its first and last key.
    """

    def __init__(self, path: Path, memory_limit: int = 0, pieces: Sequence[tuple[int, int, int, int]] = ()) -> None:
        self._path, self._memory_limit = path, memory_limit
        self.pieces = list(pieces)
        self._in_memory: list[KeyedRows] = []
        self._n_bytes = 0
        self._order: tuple[np.ndarray, np.ndarray] | None = None  # and keys, of those in memory, once they are read
        self._lock = Lock()

    @classmethod
    def of_folder(cls, folder: Path) -> SortedRows:
        """Return the documents of `SortedDocuments.write_rows`."""
        return cls(folder / ROWS, pieces=json.loads((folder / SUMMARY).read_bytes())["pieces"])

    def add(self, rows: KeyedRows) -> None:
        self._in_memory.append(rows)
        self._n_bytes += rows.nbytes
        if self._n_bytes > self._memory_limit:
            self.flush()

    def flush(self) -> None:
        if not self._in_memory:
            return
        rows, (order, _), n_bytes = alike(self._in_memory), _order_of(self._in_memory), self._n_bytes
        self._in_memory, self._n_bytes = [], 0
        step = max(1, len(order) * PIECE_BYTES // max(1, n_bytes))
        with self._path.open("ab") as file:
            for first in range(0, len(order), step):
                piece, place = KeyedRows.gathered(rows, order[first : first + step]), file.tell()
                piece.write(file)
                self.pieces.append((place, file.tell(), int(piece.keys[0]), int(piece.keys[-1])))

    def between(self, first: int, stop: int) -> list[KeyedRows]:
        """Return the documents with keys from `first` up to `stop`, in parts that are not sorted among each other."""
        parts = []

        def choose(rows: list[KeyedRows], order: np.ndarray, keys: np.ndarray) -> None:
            end = len(keys) if stop >= 1 << 64 else np.searchsorted(keys, np.uint64(stop))
            chosen = order[np.searchsorted(keys, np.uint64(first)) : end]
            if len(chosen):
                parts.append(KeyedRows.gathered(rows, chosen))  # a copy: no piece is held

        for place, end, low, high in self.pieces:
            if low < stop and high >= first:
                rows = KeyedRows.read(BytesIO(read_values(self._path, np.uint8, place, end).data))
                choose([rows], np.arange(rows.n_documents), rows.keys)
        if self._in_memory:
            with self._lock:
                if self._order is None:
                    self._in_memory = alike(self._in_memory)
                    self._order = _order_of(self._in_memory)
            choose(self._in_memory, *self._order)
        return parts


def _order_of(parts: Sequence[KeyedRows]) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of documents by key, and the keys in it."""
    keys = np.concatenate([rows.keys for rows in parts])
    order = np.argsort(keys)
    return order, keys[order]


@dataclass(frozen=True)
class SortedDocuments:
    """Checked documents that wait for their shards."""

    kind: Kind
    n_documents: int
    n_nonzeros: int
    classes: Classes
    class_counts: tuple[int, ...]
    weighted: bool  # entries are real weights
    dense: bool
    seed: int | None  # of their order; None: that of the input
    memory: SortedRows | None = None  # of this process; else `folders` with those of each task, and `scratch`
    positions: np.ndarray | None = None  # of each label's code among the classes; None: codes are these already
    folders: Sequence[Path] = ()
    scratch: Path | None = None

    def _between(self, first: int, stop: int) -> list[KeyedRows]:
        """Return the documents of a range of keys with their final labels and dtypes."""
        assert self.memory is not None
        parts = self.memory.between(first, stop)
        if self.weighted:
            parts = [replace(r, data=r.data.astype(np.float32)) if r.data.dtype.kind == "u" else r for r in parts]
        if (places := self.positions) is None:
            return parts
        return [replace(r, labels=np.where(r.labels < 0, np.int32(-1), places[r.labels])) for r in parts]

    def write_rows(self, folder: Path, first: int | None = None) -> JsonObject:
        """Write the documents of a task to a file; `first` is the position in the corpus of those keyed by position."""
        rows = SortedRows(folder / ROWS, 1 << 62)
        keys = None if first is None else stored_keys(self.seed, first, first + self.n_documents)
        for part in self._between(0, 1 << 64) if self.n_documents else ():
            if keys is not None:
                ids = part.ids + first if self.kind.ids == "positions" else part.ids
                part = replace(part, keys=keys[part.keys.astype(np.int64)], ids=ids)
            rows.add(part)
        rows.flush()
        names = ("kind", "n_documents", "n_nonzeros", "class_counts", "classes", "weighted")
        return {"pieces": rows.pieces, **{name: getattr(self, name) for name in names}}

    def _jobs(self, sizes: list[int], step: int) -> Iterator[Job]:
        firsts = range(0, len(sizes), step)
        ranks = np.cumsum(sizes)[[first - 1 for first in firsts[1:]]].tolist()
        bounds = ranks if self.seed is None else keys_of_ranks(self.seed, self.n_documents, ranks)
        for first, between in zip(firsts, pairwise([0, *bounds, 1 << 64]), strict=True):
            yield first, sizes[first : first + step], between

    def write_in_threads(
        self, parent: Path, sizes: list[int], n_jobs: int | None, texts: Texts | None = None
    ) -> Shards:
        """Write all documents as shards of these sizes to the folder `parent`."""
        from sdem_dist.kernels.csr import add_each  # numba comes with it

        frequency, counting = np.zeros(self.kind.features, np.int64), Lock()

        def write(job: Job) -> ShardInfo:
            ((info, words),) = _write(parent, job, self._between(*job[2]), self.kind, self.dense, texts)
            with counting:
                add_each(frequency, words)
            return info

        with closing(in_threads(self._jobs(sizes, 1), lambda: write, n_jobs)) as shards:
            return tuple(shards), None if self.dense else frequency

    def write_by_tasks(self, executor: Executor, parent: Path, sizes: list[int]) -> Shards:
        from sdem_dist.engine.executor import in_order

        assert self.scratch is not None
        step = max(1, TASK_ENTRIES * len(sizes) // max(1, self.n_nonzeros))
        fixed = parent, self.scratch, list(self.folders), self.kind, self.dense
        tasks = ((*fixed, job) for job in self._jobs(sizes, step))
        frequency, shards = np.zeros(self.kind.features, np.int64), list[ShardInfo]()
        for infos, counts in in_order(executor, write_shards, tasks):
            shards += [ShardInfo(**info) for info in infos]
            words, documents = load_array(counts)
            frequency[words] += documents
        return tuple(shards), None if self.dense else frequency


def _write(
    parent: Path, job: Job, parts: list[KeyedRows], kind: Kind, dense: bool, texts: Texts | None
) -> Iterator[tuple[ShardInfo, np.ndarray]]:
    """Write consecutive shards; yield the entry of each in the manifest, and its words as frequencies count them."""
    number, sizes, _ = job
    parts, (order, _) = alike(parts), _order_of(parts)
    for shard, (start, stop) in enumerate(pairwise(offsets_of(sizes).tolist()), number):
        is_whole = len(parts) == len(sizes) == 1  # then it is sorted already
        rows = parts[0] if is_whole else KeyedRows.gathered(parts, order[start:stop])
        data, attributes, words = rows.data, {}, np.zeros(0, np.int64)
        # The dtype of entries is chosen from the shard's own: those they arrived with must not matter.
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
            counts = data != 0  # of documents with a weight above 0
            if rows.weights is not None:
                counts &= np.repeat(rows.weights > 0, np.diff(rows.indptr))
            words = indices if counts.all() else indices[counts]
        text_bytes, text_offsets = (None, None) if texts is None else texts(rows)
        optional = {
            "labels": rows.labels if kind.labels else None,
            "weights": rows.weights,
            "targets": rows.targets if kind.targets else None,
            "ids_bytes": rows.id_bytes,
            "ids" if rows.id_bytes is None else "ids_offsets": rows.ids,
            "texts_bytes": text_bytes,
            "texts_offsets": text_offsets,
            "groups": rows.groups,
        }
        contents |= {name: column for name, column in optional.items() if column is not None}
        folder = parent / f"{shard:05d}"
        arrays.write_group(folder, attributes)
        arrays.write_arrays(folder, contents)
        checksums = {name: crc32c(array) for name, array in contents.items()}
        yield ShardInfo(rows.n_documents, data.size, str(data.dtype), checksums), words


def write_shards(
    parent: Path, scratch: Path, folders: list[Path], kind: Kind, dense: bool, job: Job
) -> tuple[list[JsonObject], Path]:
    """Write the shards of a job; return their entries, and a file with words and the documents of each."""
    with ThreadPoolExecutor(arrays.REQUESTS if is_url(scratch) else 1) as pool:
        of_folders = pool.map(lambda folder: SortedRows.of_folder(folder).between(*job[2]), folders)
        parts = [part for of_folder in of_folders for part in of_folder]
    infos, words = zip(*_write(parent, job, parts, kind, dense, None), strict=True)
    file = scratch / f"frequencies-{job[0]}.npy"
    save_array(file, np.stack(np.unique(np.concatenate(words).astype(np.int64), return_counts=True)))
    return [{**vars(info), "checksums": dict(info.checksums)} for info in infos], file
