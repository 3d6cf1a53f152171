"""Random numbers from counters: what a document draws depends on its key alone (SplitMix64, Steele et al. 2014)."""

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline

_STEP = np.uint64(0x9E3779B97F4A7C15)
_A, _B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_UNIT = 1.0 / (1 << 53)


@jit_inline
def mixed(z):
    """Return 64 bits that each depend on all 64 bits of `z` (uint64)."""
    z = (z ^ (z >> _30)) * _A
    z = (z ^ (z >> _27)) * _B
    return z ^ (z >> _31)


@jit_inline
def derived(key, number):
    """Return the key of a part of what `key` (uint64) stands for, by its number."""
    return mixed(key + _STEP * (np.uint64(number) + np.uint64(1)))


@jit_inline
def advanced(counter):
    """Return the next counter after `counter` (uint64)."""
    return counter + _STEP


@jit_inline
def uniform(counter):
    """Return the number in [0, 1) that belongs to a counter."""
    return np.float64(mixed(counter) >> _11) * _UNIT


@jit
def content_key(words, data):
    """Return a key (uint64) of what a document holds: equal documents draw equal numbers wherever they are."""
    key = _STEP
    for j in range(words.size):
        key = mixed(key ^ np.uint64(words[j])) + mixed(np.uint64(np.int64(data[j] * 1024.0)) + _STEP)
    return key


@jit
def document_keys(seed, epoch, start, stop):
    """Return the keys (uint64) of the documents at stored positions ``start:stop`` in an epoch."""
    key = derived(mixed(np.uint64(seed)), epoch)
    keys = np.empty(stop - start, np.uint64)
    for i in range(keys.size):
        keys[i] = derived(key, start + i)
    return keys


@jit
def log_normal(seed, first, scale, out):
    """Fill `out` with ``exp(scale * normal)``; row i belongs to number ``first + i`` (Box and Muller 1958)."""
    for i in range(out.shape[0]):
        counter = derived(mixed(np.uint64(seed)), first + i)
        for c in range(out.shape[1]):
            counter = advanced(counter)
            radius = np.sqrt(-2.0 * np.log(1.0 - uniform(counter)))
            counter = advanced(counter)
            out[i, c] = np.exp(scale * radius * np.cos(2.0 * np.pi * uniform(counter)))


_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
ROUNDS = 10


@jit_inline
def _high_product(a, b):
    """Return the upper 64 of the 128 bits of a product."""
    a_high, a_low, b_high, b_low = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    middle = a_high * b_low + (a_low * b_low >> _HALF)
    other = a_low * b_high + (middle & _LOW)
    return a_high * b_high + (middle >> _HALF) + (other >> _HALF)


@jit_inline
def _block(number, key, second):
    """Return the four 64-bit numbers of Philox 4x64 that belong to a counter (Salmon et al. 2011)."""
    a, b, c, d = number, np.uint64(0), np.uint64(0), np.uint64(0)
    for _ in range(ROUNDS):
        a, b, c, d = _high_product(_M1, c) ^ b ^ key, _M1 * c, _high_product(_M0, a) ^ d ^ second, _M0 * a
        key, second = key + _W0, second + _W1
    return a, b, c, d


@jit
def permute(key, second, out):
    """Fill `out`, int64, with a permutation of its positions, drawn with a key of two 64-bit numbers.

    The last place is filled first, each with one of those before it or itself: numbers of as many bits are drawn until
    one is not too large.
    """
    draws, number, used, mask = np.empty(4, np.uint64), np.uint64(0), 8, np.uint64(1)
    for i in range(out.size):
        out[i] = i
    while mask < np.uint64(out.size):
        mask = mask << np.uint64(1)
    mask -= np.uint64(1)
    for i in range(out.size - 1, 0, -1):
        if np.uint64(i) <= mask >> np.uint64(1):
            mask = mask >> np.uint64(1)
        j = out.size
        while j > i:
            if used == 8:
                number += np.uint64(1)
                draws[0], draws[1], draws[2], draws[3] = _block(number, key, second)
                used = 0
            draw = draws[used >> 1] >> (_HALF * np.uint64(used & 1))  # the lower half comes first
            used += 1
            j = np.int64(draw & mask)
        out[i], out[j] = out[j], out[i]
