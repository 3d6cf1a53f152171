"""Lanes of counts become one."""

import numpy as np

from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.vectors import fetch_row, log


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
