"""UTF-8: decoding, rewriting texts by a table, finding lines and columns and validating them in one pass."""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from sdem_dist.kernels.jit import intrinsic, jit, jit_inline, require_array
from sdem_dist.kernels.parts import larger

PADDING = 16  # kernels may read this many bytes past the end of a text
_HIGH = np.uint64(0x8080808080808080)
_SIXTEENS = np.uint64(0x1010101010101010)


@intrinsic(lambda data, position: data[position : position + 8].view(np.uint64)[0])
def load64(typingctx, data, position):
    """Return the eight bytes of a uint8 array at `position` as one uint64 number."""
    require_array("data", data, types.uint8)

    def codegen(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        here = builder.gep(array.data, [args[1]])
        word = context.get_value_type(types.uint64)
        loaded = builder.load(builder.bitcast(here, word.as_pointer()))
        loaded.align = 1
        return loaded

    return types.uint64(data, types.int64), codegen


def _store64(data, position, word):
    data[position : position + 8] = np.array([word], np.uint64).view(np.uint8)


@intrinsic(_store64)
def store64(typingctx, data, position, word):
    """Write the eight bytes of a uint64 number to a uint8 array at `position`."""
    require_array("data", data, types.uint8)

    def codegen(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        here = builder.gep(array.data, [args[1]])
        store = builder.store(args[2], builder.bitcast(here, args[2].type.as_pointer()))
        store.align = 1
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), codegen


@intrinsic(lambda bits: (int(bits) & -int(bits)).bit_length() - 1)
def low_zeros(typingctx, bits):
    """Return the number of trailing zero bits of a nonzero number."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@jit_inline
def decoded(data, i):
    """Return the code point beyond ASCII that begins at byte `i`, and its number of bytes."""
    c = np.int64(data[i])
    if c < 0xE0:
        return ((c & 0x1F) << 6) | (np.int64(data[i + 1]) & 0x3F), 2
    if c < 0xF0:
        return ((c & 0x0F) << 12) | ((np.int64(data[i + 1]) & 0x3F) << 6) | (np.int64(data[i + 2]) & 0x3F), 3
    high = ((c & 0x07) << 18) | ((np.int64(data[i + 1]) & 0x3F) << 12)
    return high | ((np.int64(data[i + 2]) & 0x3F) << 6) | (np.int64(data[i + 3]) & 0x3F), 4


class Pieces(NamedTuple):
    """Texts within joined bytes."""

    data: np.ndarray  # UTF-8, uint8; `PADDING` readable bytes follow the last text
    starts: np.ndarray  # Text ``d`` is ``data[starts[d]:stops[d]]``, int64
    stops: np.ndarray


class Rules(NamedTuple):
    """Replacements of code points."""

    lower: bool  # convert ASCII to lower case
    entry_of: np.ndarray  # number of each code point's entry, uint16; 0, or beyond the array: unchanged
    entry_offsets: np.ndarray  # Entry ``e`` is ``entries[entry_offsets[e]:entry_offsets[e + 1]]``
    entries: np.ndarray  # UTF-8 bytes of all replacements
    stop_at: int  # code point that stops `rewrite`; -1: none


@jit
def rewrite(texts, rules, rewritten):
    """Write texts with replaced code points to `rewritten`; return False at the code point ``rules.stop_at``."""
    data, starts, stops = texts
    lower, entry_of, entry_offsets, entries, stop_at = rules
    out, out_starts, out_stops = rewritten
    n = 0
    for d in range(starts.size):
        start, stop = starts[d], stops[d]
        out_starts[d] = n
        text, bits = data[start:stop], np.uint8(0)
        for i in range(text.size if entry_of.size else 0):
            bits |= text[i]
        if bits < 128:  # ASCII has no entries
            target = out[n : n + text.size]
            for i in range(text.size):  # two loops, so that each vectorises
                target[i] = text[i]
            for i in range(text.size if lower else 0):
                target[i] = text[i] + np.uint8(32) if np.uint8(text[i] - np.uint8(65)) < 26 else text[i]
            n += text.size
        else:
            i = start
            while i < stop:
                c = data[i]
                if c < 128:
                    out[n] = c + np.uint8(32) if lower and np.uint8(c - np.uint8(65)) < 26 else c
                    n += 1
                    i += 1
                    continue
                point, size = decoded(data, i)
                if point == stop_at:
                    return False
                entry = np.int64(entry_of[point]) if point < entry_of.size else 0
                if entry:
                    for j in range(entry_offsets[entry], entry_offsets[entry + 1]):
                        out[n] = entries[j]
                        n += 1
                else:
                    for j in range(i, i + size):
                        out[n] = data[j]
                        n += 1
                i += size
        out_stops[d] = n
    return True


@jit
def characters(data, starts, stops, is_space, around_words, ids, segments, text_segments):
    """Cut texts into code points `ids`, in segments; return the numbers of code points and of segments.

    `around_words`: each word, with a space before and after it, is a segment (scikit-learn's "char_wb"). Otherwise each
    text is a segment, in which runs of two or more spaces become one space ("char").
    `segments`, `text_segments`: overwritten except the first 0. Segment ``s`` is ``ids[segments[s]:segments[s + 1]]``;
    text ``d`` has the segments ``text_segments[d]`` to ``text_segments[d + 1]``.
    """
    n = n_segments = 0
    for d in range(starts.size):
        i, stop = starts[d], stops[d]
        n_spaces = 1 if around_words else 0
        while i < stop:
            point, size = np.int64(data[i]), 1
            if point >= 128:
                point, size = decoded(data, i)
            i += size
            if not is_space[point]:
                if around_words and n_spaces:
                    ids[n] = 32
                    n += 1
                n_spaces = 0
                ids[n] = point
                n += 1
            elif around_words:
                if n_spaces == 0:
                    ids[n] = 32
                    n += 1
                    n_segments += 1
                    segments[n_segments] = n
                n_spaces = 1
            else:
                n_spaces += 1
                if n_spaces == 1:
                    ids[n] = point
                    n += 1
                else:
                    ids[n - 1] = 32
        if not around_words or n_spaces == 0:
            if around_words:
                ids[n] = 32
                n += 1
            n_segments += 1
            segments[n_segments] = n
        text_segments[d + 1] = n_segments
    return n, n_segments


@jit_inline
def _plain_bytes(data, i, stop):
    """Skip blocks of eight plain bytes; return where the first with a byte below 16 or above 127 may begin."""
    while i + 8 <= stop:
        word: np.uint64 = load64(data, i)
        if ((word - _SIXTEENS) | word) & _HIGH:  # a byte < 16 or > 127; false alarms follow a true one
            break
        i += 8
    return i


@jit_inline
def _width(data, i, stop):
    """Return the number of bytes of the code point beyond ASCII at `i`; 0 if it is not valid UTF-8."""
    c = data[i]
    if c < 0xC2 or c > 0xF4:
        return 0
    width = 2 if c < 0xE0 else 3 if c < 0xF0 else 4
    if i + width > stop:
        return 0
    for j in range(i + 1, i + width):
        if data[j] & 0xC0 != 0x80:
            return 0
    second = data[i + 1]
    overlong = (c == 0xE0 and second < 0xA0) or (c == 0xF0 and second < 0x90)
    surrogate_or_beyond = (c == 0xED and second > 0x9F) or (c == 0xF4 and second > 0x8F)
    return 0 if overlong or surrogate_or_beyond else width


@jit
def is_utf8(data, start, stop):
    """Return whether a range of bytes is valid UTF-8, without surrogates."""
    i = start
    while i < stop:
        i = _plain_bytes(data, i, stop)
        if i < stop:
            width = 1 if data[i] < 128 else _width(data, i, stop)
            if width == 0:
                return False
            i += width
    return True


@jit
def separators(data, out):
    """Write the positions of TABs and line feeds to `out`; return their number, and whether the bytes are UTF-8."""
    i, n, are_valid = np.int64(0), 0, True
    while True:
        i = _plain_bytes(data, i, data.size)
        if i == data.size:
            return n, are_valid
        width = 1 if data[i] < 128 else _width(data, i, data.size)
        if data[i] == 9 or data[i] == 10:
            out[n] = i
            n += 1
        are_valid &= width > 0
        i += larger(width, 1)
