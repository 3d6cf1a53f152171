"""Code points of UTF-8: decoding one, and rewriting whole texts by a table."""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from sdem_dist.kernels.jit import intrinsic, jit, jit_inline, require_array

PADDING = 16
"""Bytes that may be read past the end of a text."""


@intrinsic(lambda data, position: data[position : position + 8].view(np.uint64)[0])
def load64(typingctx, data, position):
    """Return the eight bytes of a uint8 array from a position on as one number."""
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
    """Write the eight bytes of a number into a uint8 array from a position on."""
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
    """Return how many of the lowest bits of a number that is not 0 are zero."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@jit_inline
def decoded(data, i):
    """Return the code point that begins at byte `i`, which is not ASCII, and its number of bytes."""
    c = np.int64(data[i])
    if c < 0xE0:
        return ((c & 0x1F) << 6) | (np.int64(data[i + 1]) & 0x3F), 2
    if c < 0xF0:
        return ((c & 0x0F) << 12) | ((np.int64(data[i + 1]) & 0x3F) << 6) | (np.int64(data[i + 2]) & 0x3F), 3
    high = ((c & 0x07) << 18) | ((np.int64(data[i + 1]) & 0x3F) << 12)
    return high | ((np.int64(data[i + 2]) & 0x3F) << 6) | (np.int64(data[i + 3]) & 0x3F), 4


@jit_inline
def all_ascii(data, start, stop):
    part, bits = data[start:stop], np.uint8(0)
    for i in range(part.size):
        bits |= part[i]
    return bits < 128


@jit_inline
def _copy_ascii(source, lower, target):
    if lower:
        for i in range(source.size):
            c = source[i]
            target[i] = c + np.uint8(32) if np.uint8(c - np.uint8(65)) < 26 else c
    else:
        for i in range(source.size):
            target[i] = source[i]


class Pieces(NamedTuple):
    """Texts within joined bytes."""

    data: np.ndarray  # UTF-8, uint8; `PADDING` bytes behind the last text may be read
    starts: np.ndarray  # Text ``d`` is ``data[starts[d]:stops[d]]``, int64
    stops: np.ndarray


class Rules(NamedTuple):
    """What becomes of code points."""

    lower: bool  # ASCII is turned to lower case
    entry_of: np.ndarray
    """Of every code point below its length: the number of its entry, 0 if it stays as it is, uint16. Others stay."""
    entry_offsets: np.ndarray  # Entry ``e`` is ``entries[entry_offsets[e]:entry_offsets[e + 1]]``
    entries: np.ndarray
    stop_at: int  # A code point at which to give up


@jit
def rewrite(texts, rules, rewritten):
    """Copy texts to others, whose data are large enough, with every code point replaced as the rules say.

    Returns whether there was no code point ``rules.stop_at``.
    """
    data, starts, stops = texts
    lower, entry_of, entry_offsets, entries, stop_at = rules
    out, out_starts, out_stops = rewritten
    n = 0
    for d in range(starts.size):
        start, stop = starts[d], stops[d]
        out_starts[d] = n
        if entry_of.size == 0 or all_ascii(data, start, stop):
            _copy_ascii(data[start:stop], lower, out[n : n + stop - start])
            n += stop - start
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
    """Cut texts into code points; return the numbers of these and of segments.

    `is_space`: bool of shape (1114112,).
    `around_words`: every word, with a space before and after it, is a segment of its own (scikit-learn's "char_wb");
    otherwise every text is one, in which runs of two or more spaces become one ("char").
    `ids`: int32, overwritten, the code points. `segments`, `text_segments`: int64, overwritten but the first 0: segment
    ``s`` is ``ids[segments[s]:segments[s + 1]]``, and text ``d`` has those from ``text_segments[d]`` on.
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
