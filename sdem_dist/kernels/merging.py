"""Sorted runs of texts become one, a window of each at a time; lanes of counts become one."""

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline
from sdem_dist.kernels.vectors import fetch_row, log

FINISHED, FULL = -1, -2


@jit_inline
def _head(texts, offsets, run, position):
    """Return the first eight bytes of a text as a number that sorts as they do."""
    key, start = np.uint64(0), offsets[run, position]
    size = min(8, offsets[run, position + 1] - start)
    for j in range(size):
        key |= np.uint64(texts[run, start + j]) << np.uint64(56 - 8 * j)
    return key


@jit_inline
def _order(texts, offsets, a, i, b, j):
    """Return -1, 0 or 1 as text `i` of run `a` comes before, is, or comes after text `j` of run `b`."""
    start_a, start_b = offsets[a, i], offsets[b, j]
    size_a, size_b = offsets[a, i + 1] - start_a, offsets[b, j + 1] - start_b
    for k in range(min(size_a, size_b)):
        if texts[a, start_a + k] != texts[b, start_b + k]:
            return -1 if texts[a, start_a + k] < texts[b, start_b + k] else 1
    return 0 if size_a == size_b else -1 if size_a < size_b else 1


class Windows(NamedTuple):
    """The part of each run that is in memory."""

    texts: np.ndarray
    """Text ``i`` of run ``r`` is ``texts[r, offsets[r, i]:offsets[r, i + 1]]``, shape (n_runs, n_bytes), uint8."""
    offsets: np.ndarray
    """Shape (n_runs, n + 1), int64."""
    tallies: np.ndarray
    """In how many documents a text is, and how often, shape (n_runs, n, 2), int64."""
    sizes: np.ndarray
    """Texts of each window, int64."""
    positions: np.ndarray
    """Which text of each window comes next, int64; changed in place."""
    ended: np.ndarray
    """The run has no further window, bool."""


class Kept(NamedTuple):
    """Texts that are kept, overwritten."""

    texts: np.ndarray
    offsets: np.ndarray
    totals: np.ndarray
    """How often each occurs."""


@jit
def merge(windows, limits, state, numbers, kept_texts):
    """Merge runs until a window is used up or there is no room for what comes out.

    `windows`: Windows. `limits`: pair of int, fewest and most documents of a text that is kept.
    `state`: int64 of shape (3,), changed in place, texts kept in all, texts and bytes in `out`.
    `numbers`: int32 of shape (n_runs, n), overwritten, the number of each text among those kept, -1 for others.
    `kept_texts`: Kept. Returns the run whose window is used up, `FULL`, or `FINISHED`.
    """
    texts, offsets, tallies, sizes, positions, ended = windows
    out, out_offsets, out_totals = kept_texts
    n_runs = sizes.size
    keys, alike = np.zeros(n_runs, np.uint64), np.zeros(n_runs, np.int64)
    for run in range(n_runs):
        if positions[run] < sizes[run]:
            keys[run] = _head(texts, offsets, run, positions[run])
    n_kept_rows, n, n_bytes = state[0], state[1], state[2]
    waiting = FINISHED
    while True:
        first = -1
        for run in range(n_runs):
            i = positions[run]
            if i == sizes[run]:
                if not ended[run]:
                    waiting = run
                    break
            elif (
                first < 0
                or keys[run] < keys[first]
                or (keys[run] == keys[first] and _order(texts, offsets, run, i, first, positions[first]) < 0)
            ):
                first = run
        if waiting >= 0 or first < 0:
            break
        start = offsets[first, positions[first]]
        size = offsets[first, positions[first] + 1] - start
        if n + 1 == out_offsets.size or n_bytes + size > out.size:
            waiting = FULL
            break
        for j in range(size):
            out[n_bytes + j] = texts[first, start + j]
        documents, total, n_alike = 0, 0, 0
        place = positions[first]
        for run in range(n_runs):
            i = positions[run]
            if i < sizes[run] and keys[run] == keys[first] and _order(texts, offsets, run, i, first, place) == 0:
                documents += tallies[run, i, 0]
                total += tallies[run, i, 1]
                alike[n_alike] = run
                n_alike += 1
        keep = limits[0] <= documents <= limits[1]
        for a in range(n_alike):
            run = alike[a]
            numbers[run, positions[run]] = n_kept_rows if keep else -1
            positions[run] += 1
            if positions[run] < sizes[run]:
                keys[run] = _head(texts, offsets, run, positions[run])
        if keep:
            n_kept_rows += 1
            n_bytes += size
            out_totals[n] = total
            n += 1
            out_offsets[n] = n_bytes
    state[0], state[1], state[2] = n_kept_rows, n, n_bytes
    return waiting


@jit
def damped_changes(changes, met, before, damping):
    """Replace each row's sum of the lanes' changes by ``mean + (sum - mean) / (1 + damping * r)``.

    The mean is over the lanes that changed the row.  r is the largest absolute value of its sum, relative to its mean
    count before.  Small changes add up, as in one long run; large ones, which all lanes make alike, are averaged.

    `changes`: float64 of shape (n_rows, n_columns), changed in place.
    `met`: float64 of shape (n_rows,), how many lanes changed the row. `before`: float64 of shape (n_rows, n_columns).
    `damping`: float.
    """
    n_columns = before.shape[1]
    for i in range(met.size):
        if met[i] > 1.0:
            largest, total = 0.0, 0.0
            for k in range(n_columns):
                largest = max(largest, abs(changes[i, k]))
                total += before[i, k]
            share = 1.0 / met[i]
            factor = share + (1.0 - share) / (1.0 + damping * largest * n_columns / total)
            for k in range(n_columns):
                changes[i, k] *= factor


@jit
def shifts(before, changes, of_mean, factor, entries, totals, floor):
    """Return how far changes move the score of the mean document, and the slope of that by additions of that document.

    `before`, `changes`: float64 of shape (n_words, n_columns).
    `of_mean`: float64 of shape (n_columns,), how often the mean document is added to the changes.
    `factor`: multiplies both. `entries`: float64 of shape (n_words,), of the mean document.
    `totals`: float64 of shape (n_columns,), sums of all words' counts before. `floor`: least count.
    Returns `moved`, shape (n_columns,): ``sum_w x_w d ln N_w - L d ln M``.
    Returns `slopes`, shape (n_columns,): the derivative of that by an addition of the mean document, after the
    changes.
    """
    n_words, n_columns = before.shape
    moved, slopes, gains = np.zeros(n_columns), np.zeros(n_columns), np.zeros(n_columns)
    mean_length = entries.sum()
    for i in range(n_words):
        for k in range(n_columns):
            old = before[i, k]
            new = max(old + factor * (changes[i, k] + entries[i] * of_mean[k]), floor)
            gains[k] += new - old
            moved[k] += entries[i] * log(new / old)
            slopes[k] += entries[i] * entries[i] / new
    for k in range(n_columns):
        total = totals[k] + gains[k]
        moved[k] -= mean_length * log(total / totals[k])
        slopes[k] -= mean_length * mean_length / total
    return moved, slopes


@jit
def add_changes(changes, entries, of_mean, floor, words, table):
    """Add changes, and `of_mean` times the mean document, to the rows of a table; no count falls below the floor."""
    for i in range(words.size):
        fetch_row(table, words, i)
        row = table[words[i]]
        for k in range(row.size):
            row[k] = max(row[k] + changes[i, k] + entries[i] * of_mean[k], floor)
