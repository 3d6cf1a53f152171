"""Lines and columns of UTF-8, found and checked in one pass."""

import numpy as np

from sdem_dist.kernels.code_points import load64
from sdem_dist.kernels.jit import jit, jit_inline

_HIGH = np.uint64(0x8080808080808080)
_SIXTEENS = np.uint64(0x1010101010101010)
_TAB, _LINE, _RETURN = 9, 10, 13


@jit_inline
def _plain_bytes(data, i, stop):
    """Return the first position from `i` on, in steps of eight, that may precede a control character or no ASCII."""
    while i + 8 <= stop:
        word: np.uint64 = load64(data, i)
        if ((word - _SIXTEENS) | word) & _HIGH:  # a byte below 16, or above 127; a byte after one may be taken for one
            break
        i += 8
    return i


@jit_inline
def _width(data, i, stop):
    """Return the bytes of the code point at `i`, which is not ASCII; 0 if it is not UTF-8."""
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
    """Say whether a range of bytes is UTF-8, without surrogates."""
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
def lines(data, start, label, text, bounds):
    """Find lines from `start` on, and two columns of each, which TABs separate; return their number and where it stops.

    `label`, `text`: numbers of the two columns, from 0, or from the end if negative.
    `bounds`: int64 of shape (n, 8), overwritten, of every line: where it begins and ends (without line end), its
    columns, 1 if it is UTF-8, where the two columns begin and end; -1 and -1 for a column that is not there.
    """
    i, size, n = start, data.size, 0
    tabs = np.empty(64, np.int64)
    while i < size and n < bounds.shape[0]:
        begin, n_tabs, good = i, 0, True
        while True:
            i = _plain_bytes(data, i, size)
            if i == size or data[i] == _LINE:
                break
            c, width = data[i], 1
            if c == _TAB:
                if n_tabs == tabs.size:
                    more = np.empty(2 * n_tabs, np.int64)
                    more[:n_tabs] = tabs
                    tabs = more
                tabs[n_tabs] = i
                n_tabs += 1
            elif c >= 128:
                width = _width(data, i, size)
                if width == 0:
                    good, width = False, 1
            i += width
        end = i
        while end > begin and data[end - 1] == _RETURN:
            end -= 1
        row = bounds[n]
        row[0], row[1], row[2], row[3] = begin, end, n_tabs + 1, good
        for k in range(2):
            column = label if k == 0 else text
            if column < 0:
                column += n_tabs + 1
            if 0 <= column <= n_tabs:
                row[4 + 2 * k] = begin if column == 0 else tabs[column - 1] + 1
                row[5 + 2 * k] = end if column == n_tabs else tabs[column]
            else:
                row[4 + 2 * k], row[5 + 2 * k] = -1, -1
        n += 1
        i += 1  # past the end of the line
    return n, min(i, size)


@jit
def tab_fields(data, begins, ends, starts, stops):
    """Write where the columns of lines start and stop, of shape (n_columns, n_lines): all have as many."""
    for i in range(len(begins)):
        k, first, end = 0, begins[i], ends[i]
        for j in range(first, end):
            if data[j] == _TAB:
                starts[k, i], stops[k, i] = first, j
                k, first = k + 1, j + 1
        starts[k, i], stops[k, i] = first, end


@jit
def join_cells(data, starts, stops, out):
    """Copy ranges of bytes, one after another, into `out`."""
    place = 0
    for i in range(len(starts)):
        part = data[starts[i] : stops[i]]
        target = out[place : place + part.size]
        for j in range(part.size):
            target[j] = part[j]
        place += part.size
