"""The stored order of documents: keys, and sorting by them with bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from sdem_dist.corpus.rows import KeyedRows, alike, cut

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
        parts = alike(list(self.pieces()))
        return KeyedRows.gathered(parts, np.argsort(np.concatenate([rows.keys for rows in parts])))


def _given(rows: KeyedRows) -> KeyedRows:
    return rows
