"""The stored order of documents: keys, documents sorted by them with bounded memory, and shards made of these."""

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
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.corpus.manifest import Classes, ShardInfo
from sdem_dist.corpus.rows import KeyedRows, Kind, alike, write_shard
from sdem_dist.storage.arrays import REQUESTS
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.kept import SUMMARY, load_array, read_values, save_array
from sdem_dist.storage.threads import in_threads
from sdem_dist.storage.urls import is_url

if TYPE_CHECKING:
    from sdem_dist.engine.executor import Executor

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
RANK_BITS, KEYS_AT_A_TIME = 16, 1 << 20
PIECE_BYTES = 1 << 18  # of what is read together, about: a shard needs some of the documents of each sorted stretch
TASK_ENTRIES = 1 << 22  # entries of the shards that one task writes, about
ROWS = "rows"
Texts = Callable[[KeyedRows], tuple[np.ndarray, np.ndarray]]
"""From rows to the joined bytes of their texts, and the offsets of each."""
Job = tuple[int, list[int], tuple[int, int]]
"""Neighbouring shards: the number of the first, their sizes, and the keys between which they lie."""
Shards = tuple[tuple[ShardInfo, ...], "np.ndarray | None"]
"""Their entries in the manifest, and the document frequencies of counts."""


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
    """Return the keys that have these ranks, counted from 0, among those of `n` documents.

    Memory does not grow with `n`: keys are made twice, some at a time. The first time they are counted by their upper
    bits, which tells the bin of each rank; the second time only the keys of these bins are held.
    """
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

    Whenever memory is full, it is sorted and written, in `pieces` of about `PIECE_BYTES`: of each where it begins and
    ends in the file, and its first and last key. So a document is written once, and any range of keys is read from a
    few pieces of each such stretch.
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
        return cls(folder / ROWS, pieces=json.loads((folder / SUMMARY).read_text(encoding="utf-8"))["pieces"])

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
    memory: SortedRows | None = (
        None  # where this process has them; else `folders` with those of each task, and `scratch`
    )
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
        """Write the documents of a task to a file; return what is known of them, as JSON.

        `first`: where their keys are positions among them, the position of the first of them in the corpus.
        """
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
        """Yield `step` shards at a time."""
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
            first, of_job, between = job
            ((info, words),) = _write(parent, first, of_job, self._between(*between), self.kind, self.dense, texts)
            with counting:
                add_each(frequency, words)
            return info

        with closing(in_threads(self._jobs(sizes, 1), lambda: write, n_jobs)) as shards:
            return tuple(shards), None if self.dense else frequency

    def write_by_tasks(self, executor: Executor, parent: Path, sizes: list[int]) -> Shards:
        """Do the same in tasks."""
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
    parent: Path, first: int, sizes: list[int], parts: list[KeyedRows], kind: Kind, dense: bool, texts: Texts | None
) -> Iterator[tuple[ShardInfo, np.ndarray]]:
    """Write consecutive shards; yield the entry of each in the manifest, and its words as frequencies count them."""
    parts, (order, _) = alike(parts), _order_of(parts)
    for number, stop in enumerate(np.cumsum(sizes).tolist()):
        is_whole = len(parts) == len(sizes) == 1  # then it is sorted already
        rows = parts[0] if is_whole else KeyedRows.gathered(parts, order[stop - sizes[number] : stop])
        info = write_shard(parent, first + number, rows, kind, dense, None if texts is None else texts(rows))
        words = np.zeros(0, np.int64)
        if not dense:  # entries and weights of documents above 0 count
            counts = rows.data != 0
            if kind.weights:
                counts &= np.repeat(rows.targets[:, -1] > 0, np.diff(rows.indptr))
            words = rows.indices if counts.all() else rows.indices[counts]
        yield info, words


def write_shards(
    parent: Path, scratch: Path, folders: list[Path], kind: Kind, dense: bool, job: Job
) -> tuple[list[JsonObject], Path]:
    """Write the shards of a job; return their entries, and a file with words and the documents of each."""
    first, sizes, between = job
    with ThreadPoolExecutor(REQUESTS if is_url(scratch) else 1) as pool:
        of_folders = pool.map(lambda folder: SortedRows.of_folder(folder).between(*between), folders)
        parts = [part for of_folder in of_folders for part in of_folder]
    infos, words = zip(*_write(parent, first, sizes, parts, kind, dense, None), strict=True)
    counts = scratch / f"frequencies-{first}.npy"
    save_array(counts, np.stack(np.unique(np.concatenate(words).astype(np.int64), return_counts=True)))
    return [{**vars(info), "checksums": dict(info.checksums)} for info in infos], counts
