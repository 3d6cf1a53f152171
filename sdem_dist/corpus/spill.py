"""The stored order of documents: keys, and sorting by them with bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdem_dist.corpus.manifest import SHARDS, CorpusStats, ShardInfo
from sdem_dist.corpus.rows import KeyedRows, alike, cut
from sdem_dist.corpus.shards import write_shard
from sdem_dist.storage.encoding import JsonObject
from sdem_dist.storage.kept import REQUESTS, load_array, read_values, save_array
from sdem_dist.storage.urls import is_url

if TYPE_CHECKING:
    from sdem_dist.corpus.collect import Collected
    from sdem_dist.engine.executor import Executor
    from sdem_dist.storage.arrays import Group


_RANK_BITS, _AT_A_TIME = 16, 1 << 20
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def shuffle_keys(seed: int, start: int, stop: int) -> np.ndarray:
    """Return the keys of the documents `start` up to `stop`: uint64, all different for one seed.

    `seed`: any integer; its value modulo 2**64 counts.
    `start`, `stop`: positions in the input.
    """
    seed_hash = _splitmix64(np.array([seed % 2**64], np.uint64))
    return _splitmix64(np.arange(start, stop, dtype=np.uint64) + seed_hash)


def keys_of_ranks(seed: int, n: int, ranks: Sequence[int]) -> list[int]:
    """Return the keys that have these ranks, counted from 0, among those of `n` documents.

    Memory does not grow with `n`: keys are made again, some at a time.
    """
    bins = np.zeros(1 << _RANK_BITS, np.int64)
    shift = np.uint64(64 - _RANK_BITS)
    for start in range(0, n, _AT_A_TIME):
        bins += np.bincount(shuffle_keys(seed, start, min(start + _AT_A_TIME, n)) >> shift, minlength=len(bins))
    ends = np.cumsum(bins)
    wanted = np.searchsorted(ends, ranks, side="right")
    held: dict[int, list[np.ndarray]] = {int(b): [] for b in wanted}
    asked = np.zeros(len(bins), bool)
    asked[list(held)] = True
    for start in range(0, n, _AT_A_TIME) if held else ():
        keys = shuffle_keys(seed, start, min(start + _AT_A_TIME, n))
        keys = keys[asked[keys >> shift]]
        for b in np.unique(keys >> shift).tolist():
            held[b].append(keys[keys >> shift == b])
    inside = {b: np.sort(np.concatenate(parts)) for b, parts in held.items()}
    before = ends - bins
    return [int(inside[b][rank - before[b]]) for rank, b in zip(ranks, wanted.tolist(), strict=True)]


def _splitmix64(counter: np.ndarray) -> np.ndarray:
    """Scramble 64-bit counters, one to one (the finaliser of Steele, Lea and Flood's SplitMix64)."""
    return mixed((counter + np.uint64(1)) * GOLDEN)


def mixed(z: np.ndarray) -> np.ndarray:
    """Mix the bits of uint64 numbers, one to one."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


_BITS = 8  # 256 buckets: documents of up to 256 times the memory are written and read once
_FAN_OUT = 1 << _BITS
_AT_ONCE = 32  # buckets gathered together: an eighth of what is in memory is there twice


class Spill:
    """Documents waiting for their place, beyond a limit in files of raw arrays.

    `folder`: existing directory that this object may fill; its owner removes it.
    `memory_limit`: bytes of documents to hold in memory. Sorting a bucket takes a few times as much for a while.
    `ordered`: the documents arrive by ascending key: they are kept as they come.
    """

    def __init__(self, folder: Path, memory_limit: int, *, ordered: bool) -> None:
        self._folder = folder
        self._memory_limit = memory_limit
        self._ordered = ordered
        self._level = 0
        self._buckets: dict[int, _Bucket] = {}
        self._held: list[KeyedRows] = []
        self._held_bytes = 0

    def add(self, rows: KeyedRows) -> None:
        """Take the next documents."""
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > self._memory_limit:
            self._flush()

    def _flush(self) -> None:
        """Write what is in memory to the files of the buckets."""
        held, self._held, self._held_bytes = alike(self._held), [], 0
        if self._ordered:  # a file for each time, so that it goes as soon as it is read
            number = len(self._buckets)
            for rows in held:
                self._bucket(number).add(rows)
        elif held:
            keys = np.concatenate([rows.keys for rows in held])
            digits = (keys >> np.uint64(64 - _BITS * (self._level + 1))) & np.uint64(_FAN_OUT - 1)
            order = np.argsort(digits, kind="stable")
            borders = np.searchsorted(digits, np.arange(_FAN_OUT + 1, dtype=np.uint64), sorter=order).tolist()
            for some in range(0, _FAN_OUT, _AT_ONCE):
                ends = borders[some : some + _AT_ONCE + 1]
                if ends[0] == ends[-1]:
                    continue
                rows = KeyedRows.gathered(held, order[ends[0] : ends[-1]])
                for number, (first, stop) in enumerate(pairwise(ends), some):
                    if first < stop:
                        self._bucket(number).add(rows.slice(first - ends[0], stop - ends[0]))

    def _bucket(self, number: int) -> _Bucket:
        if number not in self._buckets:
            self._buckets[number] = _Bucket(self._folder / str(number))
        return self._buckets[number]

    def parts(self, sizes: Sequence[int]) -> Iterator[Callable[[], KeyedRows]]:
        """Yield functions that make the next documents by key, `sizes` of them each; threads may call them."""
        if self._buckets:
            for rows in cut(self.drain(), sizes):
                yield partial(_given, rows)
            return
        held, self._held = alike(self._held), []
        order = np.argsort(np.concatenate([rows.keys for rows in held]))
        for first, stop in pairwise(accumulate(sizes, initial=0)):
            if first < stop:
                yield partial(KeyedRows.gathered, held, order[first:stop])

    def drain(self) -> Iterator[KeyedRows]:
        """Yield all documents by ascending key, in pieces of any length; each file goes when it has been read."""
        self._flush()
        for number in sorted(self._buckets):
            bucket = self._buckets.pop(number)
            if self._ordered:
                yield from bucket.pieces()
            elif bucket.nbytes <= self._memory_limit or bucket.n_documents < 2 or _BITS * (self._level + 2) > 64:
                yield bucket.sorted()
            else:
                yield from self._dealt_again(bucket)
            bucket.path.unlink(missing_ok=True)

    def _dealt_again(self, bucket: _Bucket) -> Iterator[KeyedRows]:
        folder = bucket.path.with_suffix(".split")
        folder.mkdir()
        finer = Spill(folder, self._memory_limit, ordered=False)
        finer._level = self._level + 1
        for piece in bucket.pieces():
            finer.add(piece)
        bucket.path.unlink()
        yield from finer.drain()


class _Bucket:
    """Pieces of one bucket, in a file: before each a line of JSON with its layout, which memory need not keep."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nbytes = self.n_documents = 0

    def add(self, rows: KeyedRows) -> None:
        with self.path.open("ab") as file:
            file.write(json.dumps(rows.layout).encode() + b"\n")
            rows.write(file)
        self.nbytes += rows.nbytes
        self.n_documents += rows.n_documents

    def pieces(self) -> Iterator[KeyedRows]:
        with self.path.open("rb") as file:
            while line := file.readline():
                yield KeyedRows.read(file, json.loads(line))

    def sorted(self) -> KeyedRows:
        """Return all documents by ascending key."""
        found = alike(list(self.pieces()))
        return KeyedRows.gathered(found, np.argsort(np.concatenate([rows.keys for rows in found])))


def _given(rows: KeyedRows) -> KeyedRows:
    return rows


ROWS = "rows"
PIECE_BYTES = 1 << 20
"""Of what is read together, about: a task that writes shards needs some of the documents of each file."""

Pieces = list[list[Any]]
"""Of each piece of a file: where it begins, its first and last key, and the layout of its arrays; as JSON has them."""


def write_pieces(folder: Path, parts: Iterable[KeyedRows]) -> Pieces:
    """Write documents, which come by ascending key, to a file in pieces of about `PIECE_BYTES`; return these."""
    pieces: Pieces = []
    with (folder / ROWS).open("wb") as file:
        for rows in (piece for part in parts for piece in _small(part)):
            place = file.tell()
            keys = int(rows.keys[0]), int(rows.keys[-1])
            rows.write(file)
            pieces.append([place, *keys, [list(part) for part in rows.layout]])
    return pieces


def _small(rows: KeyedRows) -> Iterator[KeyedRows]:
    step = max(1, rows.n_documents * PIECE_BYTES // max(1, rows.nbytes))
    return (rows.slice(i, min(i + step, rows.n_documents)) for i in range(0, rows.n_documents, step))


def rows_between(folder: Path, pieces: Pieces, first: int, stop: int) -> list[KeyedRows]:
    """Return the documents of `write_pieces` with keys from `first` up to `stop`."""
    found = []
    for place, low, high, layout in pieces:
        if low < stop and high >= first:
            size = sum(np.dtype(kind).itemsize * n for kind, n in layout)
            piece = read_values(folder / ROWS, np.uint8, place, place + size)
            rows = KeyedRows.read(BytesIO(piece.data), tuple((kind, n) for kind, n in layout))
            start = int(np.searchsorted(rows.keys, np.uint64(first)))
            end = rows.n_documents if stop > high else int(np.searchsorted(rows.keys, np.uint64(stop)))
            found.append(rows.slice(start, end))
    return found


GROUPS = "groups.npy"
TASK_ENTRIES = 1 << 22  # entries of the shards that one task writes, about


def write_rows(folder: Path, collected: Collected) -> JsonObject:
    """Write documents to a file by ascending key; return what is known of them, as JSON."""
    return {
        "pieces": write_pieces(folder, collected.rows()),
        "n_documents": collected.n_documents,
        "n_nonzeros": collected.n_nonzeros,
        "class_counts": list(collected.class_counts),
        "n_targets": collected.n_targets,
        "has_weights": collected.has_weights,
    }


def write_groups(folder: Path, keys: np.ndarray, hashes: np.ndarray) -> None:
    """Write the hashes of the groups of documents with these keys beside their rows."""
    order = np.argsort(keys)
    np.save(folder / GROUPS, np.stack([keys[order], hashes[order]]))


def groups_between(folders: Iterable[Path], first: int, stop: int) -> np.ndarray | None:
    """Return hashes of `write_groups` of documents with keys from `first` up to `stop`, by key; None without any."""
    files = [folder / GROUPS for folder in folders if (folder / GROUPS).is_file()]
    parts = [load_array(file) if is_url(file) else np.load(file, mmap_mode="r") for file in files]
    if not parts:
        return None
    last = np.uint64(stop - 1)
    inside = [
        part[:, np.searchsorted(part[0], np.uint64(first)) : np.searchsorted(part[0], last, "right")] for part in parts
    ]
    keys, hashes = np.concatenate(inside, axis=1)
    return np.asarray(hashes[np.argsort(keys)])


@dataclass(frozen=True)
class SortedDocuments(CorpusStats):
    """Documents in files of sorted rows."""

    folders: Sequence[Path]  # one for each task
    seed: int | None  # of their order; None: that of the input
    scratch: Path  # for intermediate files

    def write_shards(
        self, executor: Executor, place: Path, parent: Group, sizes: list[int]
    ) -> tuple[tuple[ShardInfo, ...], np.ndarray | None]:
        """Write the shards of the group at ``place/shards`` in tasks; see `sdem_dist.corpus.writer.WriteShards`."""
        from sdem_dist.engine.executor import in_order

        ends = np.cumsum(sizes)
        step = max(1, TASK_ENTRIES * len(sizes) // max(1, self.n_nonzeros))
        groups = [range(i, min(i + step, len(sizes))) for i in range(0, len(sizes), step)]
        ranks = [int(ends[group[-1]]) for group in groups[:-1]]
        keys = ranks if self.seed is None else keys_of_ranks(self.seed, self.n_documents, ranks)
        bounds = [0, *keys, 1 << 64]
        kind = {
            "n_features": self.n_features,
            "dense": self.dense,
            "labelled": bool(self.classes),
            "weights": self.has_weights,
        }
        jobs = (
            (place / SHARDS, self.scratch, list(self.folders), between, group[0], sizes[group[0] : group[-1] + 1], kind)
            for group, between in zip(groups, pairwise(bounds), strict=True)
        )
        frequency = None if self.dense else np.zeros(self.n_features, np.int64)
        shards: list[ShardInfo] = []
        for number, written in enumerate(in_order(executor, write_some_shards, jobs)):
            shards += [ShardInfo(**info) for info in written]
            if frequency is not None:
                words, documents = load_array(_frequencies(self.scratch, groups[number][0]))
                frequency[words] += documents
        return tuple(shards), frequency


def write_some_shards(
    place: Path,
    scratch: Path,
    folders: list[Path],
    between: tuple[int, int],
    first: int,
    sizes: list[int],
    kind: dict[str, object],
) -> list[JsonObject]:
    """Write consecutive shards from number `first` on; return their entries in the manifest.

    Their document frequencies are left in a file of `scratch`.
    """
    import json

    from sdem_dist.storage import arrays
    from sdem_dist.storage.kept import SUMMARY

    def found(folder: Path) -> list[KeyedRows]:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        return rows_between(folder, summary["pieces"], *between)

    with ThreadPoolExecutor(REQUESTS if is_url(scratch) else 1) as pool:
        rows = KeyedRows.concatenate([part for parts in pool.map(found, folders) for part in parts])
    rows = rows.take(np.argsort(rows.keys))
    groups = groups_between(folders, *between)
    parent = arrays.group_to_fill(place)
    n_features, dense, labelled = int(str(kind["n_features"])), bool(kind["dense"]), bool(kind["labelled"])
    weights = bool(kind["weights"])
    made, ends = [], np.cumsum(sizes)
    for number, part in enumerate(cut([rows], sizes)):
        own = None if groups is None else groups[ends[number] - sizes[number] : ends[number]]
        info = write_shard(
            parent,
            first + number,
            part,
            n_features,
            dense=dense,
            labelled=labelled,
            weights=weights,
            groups=own,
            overwrite=True,
        )
        made.append({**vars(info), "checksums": dict(info.checksums)})
    if not dense:
        save_array(_frequencies(scratch, first), _frequency(rows.counted_words(weights), n_features))
    return made


def _frequency(words: np.ndarray, n_features: int) -> np.ndarray:
    """Return the words that occur, and how often each does."""
    if n_features > 4 * len(words):
        return np.stack(np.unique(words.astype(np.int64), return_counts=True))
    often = np.bincount(words, minlength=n_features)
    there = np.flatnonzero(often)
    return np.stack([there, often[there]])


def _frequencies(scratch: Path, first: int) -> Path:
    return scratch / f"frequencies-{first}.npy"
