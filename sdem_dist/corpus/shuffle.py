"""The stored order of documents: keys, documents sorted by them with bounded memory, and shards made of these."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from sdem_dist.corpus.manifest import SHARDS, CorpusStats, ShardInfo
from sdem_dist.corpus.rows import KeyedRows, alike, cut
from sdem_dist.corpus.shards import write_shard
from sdem_dist.storage.arrays import REQUESTS
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.kept import SUMMARY, load_array, read_values, save_array
from sdem_dist.storage.urls import is_url

if TYPE_CHECKING:
    from sdem_dist.engine.executor import Executor


GOLDEN = np.uint64(0x9E3779B97F4A7C15)
RANK_BITS, KEYS_AT_A_TIME = 16, 1 << 20


def shuffle_keys(seed: int, start: int, stop: int) -> np.ndarray:
    """Return the keys of the documents `start` up to `stop`: uint64, all different for one seed.

    `seed`: any integer; its value modulo 2**64 counts.
    `start`, `stop`: positions in the input.
    """
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


PIECE_BYTES = 1 << 18  # of what is read together, about: a shard needs some of the documents of each sorted stretch
Piece = tuple[int, int, int, int]
"""Documents of a file by ascending key: where they begin and end in it, their first and last key."""


class SortedRows:
    """Documents by key, beyond a limit of memory in a file.

    Whenever memory is full, it is sorted and written, in pieces of about `PIECE_BYTES` whose first and last keys are
    known. So a document is written once, and any range of keys is read from a few pieces of each such stretch.

    `path`: a file to write, or the one with `pieces`.
    `memory_limit`: bytes of documents to hold in memory.
    """

    def __init__(self, path: Path, memory_limit: int = 0, pieces: Sequence[Piece] = ()) -> None:
        self._path, self._memory_limit = path, memory_limit
        self.pieces = list(pieces)
        self._held: list[KeyedRows] = []
        self._n_bytes = 0
        self._order: tuple[np.ndarray, np.ndarray] | None = None
        self._lock = Lock()

    def add(self, rows: KeyedRows) -> None:
        self._held.append(rows)
        self._n_bytes += rows.nbytes
        if self._n_bytes > self._memory_limit:
            self.flush()

    def flush(self) -> None:
        held, self._held, n_bytes, self._n_bytes = alike(self._held), [], self._n_bytes, 0
        if not held:
            return
        order = np.argsort(np.concatenate([rows.keys for rows in held]))
        step = max(1, len(order) * PIECE_BYTES // max(1, n_bytes))
        with self._path.open("ab") as file:
            for first in range(0, len(order), step):
                rows, place = KeyedRows.gathered(held, order[first : first + step]), file.tell()
                file.write(json.dumps(rows.layout).encode() + b"\n")
                rows.write(file)
                self.pieces.append((place, file.tell(), int(rows.keys[0]), int(rows.keys[-1])))

    def between(self, first: int, stop: int) -> list[KeyedRows]:
        """Return the documents with keys from `first` up to `stop`, in parts that are not sorted among each other."""
        parts = []
        for place, end, low, high in self.pieces:
            if low < stop and high >= first:
                content = BytesIO(read_values(self._path, np.uint8, place, end).data)
                rows = KeyedRows.read(content, json.loads(content.readline()))
                parts.append(rows.slice(*_range(rows.keys, first, stop)))
        if self._held:
            with self._lock:
                if self._order is None:
                    self._held = alike(self._held)
                    keys = np.concatenate([rows.keys for rows in self._held])
                    order = np.argsort(keys)
                    self._order = order, keys[order]
            order, keys = self._order
            chosen = order[slice(*_range(keys, first, stop))]
            if len(chosen):
                parts.append(KeyedRows.gathered(self._held, chosen))
        return parts


def _range(keys: np.ndarray, first: int, stop: int) -> tuple[int, int]:
    """Return which of ascending keys are from `first` up to `stop`, which may be 2**64."""
    end = len(keys) if stop >= 1 << 64 else int(np.searchsorted(keys, np.uint64(stop)))
    return int(np.searchsorted(keys, np.uint64(first))), end


GROUPS = "groups.npy"
ROWS = "rows"
TASK_ENTRIES = 1 << 22  # entries of the shards that one task writes, about


def write_groups(folder: Path, keys: np.ndarray, hashes: np.ndarray) -> None:
    """Write the hashes of the groups of documents with these keys beside their rows."""
    order = np.argsort(keys)
    np.save(folder / GROUPS, np.stack([keys[order], hashes[order]]))


def _groups_between(folders: Iterable[Path], first: int, stop: int) -> np.ndarray | None:
    """Return hashes of `write_groups` of documents with keys from `first` up to `stop`, by key; None without any."""
    files = [folder / GROUPS for folder in folders if (folder / GROUPS).is_file()]
    parts = [load_array(file) if is_url(file) else np.load(file, mmap_mode="r") for file in files]
    if not parts:
        return None
    keys, hashes = np.concatenate([part[:, slice(*_range(part[0], first, stop))] for part in parts], axis=1)
    return np.asarray(hashes[np.argsort(keys)])


@dataclass(frozen=True)
class SortedDocuments(CorpusStats):
    """Checked documents that wait for their shards.

    `seed`: of their order; None: that of the input.
    `memory`: the documents, where this process has them; else `folders` with those of each task, and `scratch`.
    `positions`: the place of each label's code among the classes; None: codes are these places already.
    """

    seed: int | None
    memory: SortedRows | None = None
    positions: np.ndarray | None = None
    folders: Sequence[Path] = ()
    scratch: Path | None = None

    def _bounds(self, ends: Sequence[int]) -> list[int]:
        """Return the keys between which documents lie that end at these ranks."""
        ranks = list(ends[:-1])
        return [0, *(ranks if self.seed is None else keys_of_ranks(self.seed, self.n_documents, ranks)), 1 << 64]

    @property
    def _kind(self) -> JsonObject:
        return {"dense": self.dense, "labelled": bool(self.classes), "weights": self.has_weights}

    def final(self, rows: KeyedRows) -> KeyedRows:
        """Return documents with their final labels and dtypes."""
        data = rows.data.astype(np.float32, copy=False) if self.weighted and not self.dense else rows.data
        if self.positions is None:
            return replace(rows, data=data)
        return replace(rows, data=data, labels=np.where(rows.labels < 0, np.int32(-1), self.positions[rows.labels]))

    def write_rows(self, folder: Path) -> JsonObject:
        """Write the documents of a task to a file; return what is known of them, as JSON."""
        assert self.memory is not None
        rows = SortedRows(folder / ROWS, 1 << 62)
        for part in self.memory.between(0, 1 << 64):
            rows.add(self.final(part))
        rows.flush()
        return {
            "pieces": rows.pieces,
            "n_documents": self.n_documents,
            "n_nonzeros": self.n_nonzeros,
            "class_counts": list(self.class_counts),
            "n_targets": self.n_targets,
            "has_weights": self.has_weights,
        }

    def write_in_threads(
        self,
        parent: Path,
        sizes: list[int],
        n_jobs: int | None,
        texts: Callable[[KeyedRows], tuple[np.ndarray, np.ndarray]] | None = None,
        groups: Callable[[KeyedRows], np.ndarray] | None = None,
    ) -> tuple[tuple[ShardInfo, ...], np.ndarray | None]:
        """Write all documents; return the shards' entries in the manifest, and the document frequencies of counts.

        `texts`: from rows to the joined bytes of their texts, and the offsets of each. `groups`: to their hashes.
        """
        from sdem_dist.kernels.csr import add_each  # numba comes with it
        from sdem_dist.storage.threads import in_threads

        assert self.memory is not None
        memory = self.memory
        frequency, counting = None if self.dense else np.zeros(self.n_features, np.int64), Lock()

        def write(job: tuple[int, tuple[int, int]]) -> ShardInfo:
            rows = self.final(_sorted(memory.between(*job[1])))
            if frequency is not None:
                with counting:
                    add_each(frequency, rows.counted_words(self.has_weights))
            joined = None if texts is None else texts(rows)
            hashes = None if groups is None else groups(rows)
            return write_shard(parent, job[0], rows, self.n_features, **self._kind, texts=joined, groups=hashes)

        jobs = enumerate(pairwise(self._bounds(np.cumsum(sizes).tolist())))
        with closing(in_threads(jobs, lambda: write, n_jobs)) as shards:
            return tuple(shards), frequency

    def write_by_tasks(
        self, executor: Executor, place: Path, parent: Path, sizes: list[int]
    ) -> tuple[tuple[ShardInfo, ...], np.ndarray | None]:
        """Do the same in tasks; `parent` is at ``place/shards``."""
        from sdem_dist.engine.executor import in_order

        assert self.scratch is not None
        step = max(1, TASK_ENTRIES * len(sizes) // max(1, self.n_nonzeros))
        groups = [sizes[i : i + step] for i in range(0, len(sizes), step)]
        firsts = range(0, len(sizes), step)
        bounds = pairwise(self._bounds(np.cumsum([sum(group) for group in groups]).tolist()))
        jobs = (
            (place / SHARDS, self.scratch, list(self.folders), between, first, group, self.n_features, self._kind)
            for first, group, between in zip(firsts, groups, bounds, strict=True)
        )
        frequency = None if self.dense else np.zeros(self.n_features, np.int64)
        shards: list[ShardInfo] = []
        for first, written in zip(firsts, in_order(executor, write_shards, jobs), strict=True):
            shards += [ShardInfo(**info) for info in written]
            if frequency is not None:
                words, documents = load_array(_frequencies(self.scratch, first))
                frequency[words] += documents
        return tuple(shards), frequency


def _sorted(parts: list[KeyedRows]) -> KeyedRows:
    rows = KeyedRows.concatenate(parts)
    return rows if len(parts) == 1 else rows.take(np.argsort(rows.keys))


def rows_of_folder(folder: Path) -> SortedRows:
    """Return the documents of `SortedDocuments.write_rows`."""
    summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    return SortedRows(folder / ROWS, pieces=summary["pieces"])


def write_shards(
    place: Path,
    scratch: Path,
    folders: list[Path],
    between: tuple[int, int],
    first: int,
    sizes: list[int],
    n_features: int,
    kind: JsonObject,
) -> list[JsonObject]:
    """Write consecutive shards from number `first` on; return their entries in the manifest.

    Their document frequencies are left in a file of `scratch`.
    """

    def read(folder: Path) -> list[KeyedRows]:
        return rows_of_folder(folder).between(*between)

    with ThreadPoolExecutor(REQUESTS if is_url(scratch) else 1) as pool:
        rows = _sorted([part for parts in pool.map(read, folders) for part in parts])
    groups = _groups_between(folders, *between)
    infos, ends = [], np.cumsum(sizes)
    for number, part in enumerate(cut([rows], sizes)):
        own = None if groups is None else groups[ends[number] - sizes[number] : ends[number]]
        info = write_shard(place, first + number, part, n_features, **kind, groups=own)
        infos.append({**vars(info), "checksums": dict(info.checksums)})
    if not kind["dense"]:
        words = rows.counted_words(kind["weights"]).astype(np.int64)
        save_array(_frequencies(scratch, first), np.stack(np.unique(words, return_counts=True)))
    return infos


def _frequencies(scratch: Path, first: int) -> Path:
    return scratch / f"frequencies-{first}.npy"
