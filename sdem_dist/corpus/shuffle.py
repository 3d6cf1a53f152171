"""The stored order of documents: every document has a 64-bit key, and a corpus is stored by ascending key.

To shuffle is to draw the key from a hash of (seed, position): a pure function of both, so that the order cannot depend
on how the input was cut into batches, and a permutation, since the hash is a bijection.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
