"""Words of texts, numbered in the order of first occurrence, by a hash table that contains their first bytes."""

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.code_points import PADDING, decoded, load64, low_zeros
from sdem_dist.kernels.jit import jit, jit_inline
from sdem_dist.kernels.kinds import BEYOND_ASCII, EXTENDS, FLAG, INSIDE, JOINER, SEPARATES, SIGN
from sdem_dist.kernels.parts import larger

UNKNOWN = -1  # number of an unknown word if the table may not grow
_FACTOR, _OTHER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_EIGHT = np.uint64(8)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ALL_INSIDE = np.uint64(0x0101010101010101)


class Splitting(NamedTuple):
    """Rules for splitting texts into tokens."""

    kinds: np.ndarray  # kind of every byte: `SEPARATES`, `INSIDE`, `SIGN` or `BEYOND_ASCII`; uint8
    points: np.ndarray  # kind of every code point; uint8
    shortest: int  # least number of code points of a word; signs have no limit


class Table(NamedTuple):
    """A hash table of words."""

    # Bytes 0 to 7 of a word; bytes 8 to 15, or a hash of all bytes of a word longer than 16; length in bytes plus 1, or
    # 0 for a free slot; number of the word. Most lookups read one cache line.
    slots: np.ndarray  # Shape (n_slots, 4), uint64; `n_slots` is a power of 2
    spelled: np.ndarray  # joined bytes of all words, followed by `PADDING` bytes; uint8
    offsets: np.ndarray  # Word ``w`` is ``spelled[offsets[w]:offsets[w + 1]]``, int64


@jit_inline
def _keys(data, start, length):
    """Return the two numbers that represent a word's bytes in its slot."""
    if length == 0:
        return np.uint64(0), np.uint64(0)
    if length <= 8:
        return load64(data, start) & (_ALL >> (_EIGHT * np.uint64(8 - length))), np.uint64(0)
    first: np.uint64 = load64(data, start)
    if length <= 16:
        return first, load64(data, start + 8) & (_ALL >> (_EIGHT * np.uint64(16 - length)))
    mixed = first
    for i in range(8, length - 8, 8):
        mixed = (mixed ^ load64(data, start + i)) * _OTHER
        mixed ^= mixed >> _HALF
    mixed = (mixed ^ load64(data, start + length - 8)) * _OTHER
    return first, mixed ^ (mixed >> _HALF)


@jit_inline
def first_slot(first, second, length, n_slots):
    h = (first ^ ((second + np.uint64(length)) * _OTHER)) * _FACTOR
    h = (h ^ (h >> _HALF)) * _OTHER
    return np.int64((h >> _HALF) & np.uint64(n_slots - 1))


@jit
def rehash(slots, larger):
    """Copy words of a table, or (key, node) pairs of a tree of n-grams, to a larger empty table; all uint64."""
    used = 2 if slots.shape[1] == 4 else 0
    for i in range(slots.shape[0]):
        if slots[i, used]:
            second, length = (slots[i, 1], np.int64(slots[i, 2]) - 1) if used else (np.uint64(0), np.int64(0))
            j = first_slot(slots[i, 0], second, length, larger.shape[0])
            while larger[j, used]:
                j = (j + 1) & (larger.shape[0] - 1)
            for column in range(slots.shape[1]):  # a row assignment takes two seconds to compile
                larger[j, column] = slots[i, column]


@jit_inline
def _same(data, start, length, spelled, spelled_start):
    for i in range(0, length - 8, 8):
        if load64(data, start + i) != load64(spelled, spelled_start + i):
            return False
    return load64(data, start + length - 8) == load64(spelled, spelled_start + length - 8)


@jit_inline
def _find(data, start, length, table):
    """Return the number of a word and its slot; for a new word, `UNKNOWN` and a free slot."""
    slots, spelled, offsets = table
    first, second = _keys(data, start, length)
    j = first_slot(first, second, length, slots.shape[0])
    while True:
        size = np.int64(slots[j, 2]) - 1
        if size == length and slots[j, 0] == first and slots[j, 1] == second:
            number = np.int64(slots[j, 3])
            if length <= 16 or _same(data, start, length, spelled, offsets[number]):
                return number, j
        if size < 0:
            return UNKNOWN, j
        j = (j + 1) & (slots.shape[0] - 1)


@jit_inline
def _has_room(length, table, n_words):
    slots, spelled, offsets = table
    fits = 4 * (n_words + 1) < 3 * slots.shape[0] and n_words + 1 < offsets.size
    return fits and offsets[n_words] + length + PADDING <= spelled.size


@jit_inline
def _add(data, start, length, slot, table, n_words):
    slots, spelled, offsets = table
    first, second = _keys(data, start, length)
    slots[slot, 0], slots[slot, 1], slots[slot, 2], slots[slot, 3] = first, second, length + 1, n_words
    end = offsets[n_words]
    for i in range(length):
        spelled[end + i] = data[start + i]
    offsets[n_words + 1] = end + length


@jit_inline
def _is_point_of_number(text, i, size):
    """Whether a sign is ``.`` or ``,`` between two ASCII digits."""
    if (text[i] != 46 and text[i] != 44) or i + 1 >= size:
        return False
    return np.uint8(text[i - 1] - np.uint8(48)) < 10 and np.uint8(text[i + 1] - np.uint8(48)) < 10


@jit
def _end_of_sign(text, i, marks, points):
    """Return the end of the sign at byte `i`, including its extensions; -1 if the code point is a separator."""
    last, width = np.int64(text[i]), 1
    if marks[i] == BEYOND_ASCII:
        last, width = decoded(text, i)
        if points[last] == SEPARATES:
            return -1
    i += width
    may_be_flag = points[last] == FLAG
    while marks[i] == BEYOND_ASCII or (marks[i] == SIGN and last == JOINER):
        point, width = np.int64(text[i]), 1
        if marks[i] == BEYOND_ASCII:
            point, width = decoded(text, i)
        kind = points[point]
        belongs = kind == EXTENDS or (last == JOINER and kind >= SIGN)
        if not (belongs or (may_be_flag and kind == FLAG)):
            break
        may_be_flag = False
        last = point
        i += width
    return i


@jit
def words(texts, splitting, grow, table, done, marks, found):
    """Find the words of texts; return 0 when done, or the number of bytes for which the table needs room.

    `grow`: add new words to the table; otherwise they are `UNKNOWN`.
    `done`: int64, changed: words in the table, words found, text and byte at which to continue.
    `marks`: uint8, overwritten, `PADDING` longer than the longest text. `found`: numbers of words, and texts' offsets.
    """
    data, starts, stops = texts
    kinds, points, shortest = splitting
    ids, text_ids = found
    n_words, n = done[0], done[1]
    for d in range(done[2], starts.size):
        base, size = starts[d], stops[d] - starts[d]
        text = data[base : base + size]
        for i in range(size):
            marks[i] = kinds[text[i]]
        for i in range(size, size + PADDING):  # separators after the end
            marks[i] = 0
        i = larger(0, done[3] - base)
        while i < size:
            word: np.uint64 = load64(marks, i)
            if word == 0:
                i += 8
                continue
            i += low_zeros(word) >> 3
            start, beyond_ascii = i, 0
            while True:
                word = load64(marks, i) ^ _ALL_INSIDE
                if word == 0:
                    i += 8
                    continue
                i += low_zeros(word) >> 3
                if marks[i] == BEYOND_ASCII:
                    point, width = decoded(text, i)
                    kind = points[point]
                    if kind != INSIDE and (kind != EXTENDS or i == start):
                        break
                    i += width
                    beyond_ascii += width - 1
                elif marks[i] == SIGN and i > start and _is_point_of_number(text, i, size):
                    i += 1
                else:
                    break
            is_word = i > start
            if not is_word and marks[i] == SIGN and marks[i + 1] != BEYOND_ASCII:
                i += 1
            elif not is_word:
                i = _end_of_sign(text, i, marks, points)
                if i < 0:  # a separator beyond ASCII
                    i = start + decoded(text, start)[1]
                    continue
            length = i - start
            if not is_word or length - beyond_ascii >= shortest:
                number, slot = _find(data, base + start, length, table)
                if number < 0 and grow:
                    if not _has_room(length, table, n_words):
                        done[0], done[1], done[2], done[3] = n_words, n, d, base + start
                        return length + 1
                    _add(data, base + start, length, slot, table, n_words)
                    number = n_words
                    n_words += 1
                ids[n] = number
                n += 1
        done[3] = 0
        text_ids[d + 1] = n
    done[0], done[1], done[2] = n_words, n, starts.size
    return 0


@jit
def intern(texts, grow, table, done, ids):
    """Look up entire texts as words, and add new ones if `grow`; parameters and result as in `words`."""
    data, starts, stops = texts
    n_words = done[0]
    for d in range(done[2], starts.size):
        length = stops[d] - starts[d]
        number, slot = _find(data, starts[d], length, table)
        if number < 0 and grow:
            if not _has_room(length, table, n_words):
                done[0], done[2] = n_words, d
                return length + 1
            _add(data, starts[d], length, slot, table, n_words)
            number = n_words
            n_words += 1
        ids[d] = number
    done[0], done[2] = n_words, starts.size
    return 0
