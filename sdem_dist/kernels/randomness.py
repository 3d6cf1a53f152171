"""Random numbers from counters: a document's draws depend only on its key (SplitMix64, Steele et al. 2014)."""

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline

_STEP = np.uint64(0x9E3779B97F4A7C15)
_A, _B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_UNIT = 1.0 / (1 << 53)


def _mixed(z):
    """Return 64 bits that each depend on all 64 bits of `z` (uint64)."""
    z = (z ^ (z >> _30)) * _A
    z = (z ^ (z >> _27)) * _B
    return z ^ (z >> _31)


mixed = jit(_mixed)  # also called from Python


@jit_inline
def derived(key, number):
    """Return the key of the part with this number, of an object with the key `key` (uint64)."""
    return mixed(key + _STEP * (np.uint64(number) + np.uint64(1)))


@jit_inline
def advanced(counter):
    return counter + _STEP


@jit_inline
def uniform(counter):
    """Return the random number in [0, 1) of a counter."""
    return np.float64(mixed(counter) >> _11) * _UNIT


@jit
def content_key(words, data):
    """Return a key (uint64) of a document's content: equal documents draw equal numbers in any position."""
    key = _STEP
    for j in range(words.size):
        key = mixed(key ^ np.uint64(words[j])) + mixed(np.uint64(np.int64(data[j] * 1024.0)) + _STEP)
    return key


def document_keys(seed: int, epoch: int, start: int, stop: int) -> np.ndarray:
    """Return the keys (uint64) of the documents at stored positions ``start:stop`` in an epoch (`derived` in NumPy)."""
    place = _mixed(np.array([seed % 2**64], np.uint64)) + _STEP * np.array([(epoch + 1) % 2**64], np.uint64)
    return np.asarray(_mixed(_mixed(place) + _STEP * np.arange(start + 1, stop + 1, dtype=np.uint64)))


@jit
def log_normal(seed, first, scale, out):
    """Fill `out` with ``exp(scale * normal)``; row i has the key of number ``first + i`` (Box and Muller 1958)."""
    for i in range(out.shape[0]):
        counter = derived(mixed(np.uint64(seed)), first + i)
        for c in range(out.shape[1]):
            counter = advanced(counter)
            radius = np.sqrt(-2.0 * np.log(1.0 - uniform(counter)))
            counter = advanced(counter)
            out[i, c] = np.exp(scale * radius * np.cos(2.0 * np.pi * uniform(counter)))
