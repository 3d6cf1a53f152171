"""sdEM of several naive Bayes models at once: `sdem_dist.kernels.multinomial` for tables side by side, with the same bits.

A row holds a word's expected counts of every model, and behind them their logarithms: a document's words are read once for
all models, and few classes fill registers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.logarithm import log, log_single
from sdem_dist.kernels.losses import HINGE, LossForm, loss_weights
from sdem_dist.kernels.multinomial import AT_ONCE, MANY, NEGLIGIBLE, in_turn
from sdem_dist.kernels.rows import add_row, copy_row
from sdem_dist.kernels.vectors import WIDTH, add_columns, fetch_rows, move_eight


class Tables(NamedTuple):
    """Tables of models side by side, changed in place: a column is a class of a model."""

    rows: np.ndarray
    """Counts, and their logarithms: shape (n_words, 2 n_columns), float32."""
    totals: np.ndarray
    """Shape (n_columns,), as `class_counts` and `log_prior`."""
    class_counts: np.ndarray
    log_prior: np.ndarray
    learn_prior: np.ndarray
    """Of each model, bool."""


class Ways(NamedTuple):
    """How each model steps: arrays of shape (n_models,), but for the tolerance, see `Schedule`, `LossForm` and `Objective`."""

    start: np.ndarray
    class_start: np.ndarray
    decay: np.ndarray
    ahead: np.ndarray
    floor: np.ndarray
    class_floor: np.ndarray
    mean_square: np.ndarray
    kind: np.ndarray
    margin: np.ndarray
    share: np.ndarray
    tolerance: np.ndarray


def empty_rows(n_words: int, n_columns: int, n_used: int) -> np.ndarray:
    """Return room for the rows of `Tables`, of which only the first columns are used, and for eight columns behind the last."""
    size = n_words * 2 * n_columns
    rows = np.empty(size + WIDTH, np.float32)[:size].reshape(n_words, 2 * n_columns)
    rows[:, n_used:n_columns], rows[:, n_columns + n_used :] = 1.0, 0.0
    return rows


@jit
def put_table(table, words, first, rows):
    """Copy a model's table, float64, of some words into its columns, from `first` on, with logarithms."""
    n, n_columns = table.shape[1], rows.shape[1] // 2
    at_once = max(1, AT_ONCE // n)
    counts, logs = np.empty(at_once * n, np.float32), np.empty(at_once * n, np.float32)
    for begin in range(0, words.size, at_once):
        end = min(begin + at_once, words.size)
        for i in range(begin, end):
            copy_row(table[words[i]], counts[(i - begin) * n : (i - begin + 1) * n])
        for j in range((end - begin) * n):
            logs[j] = log_single(counts[j])
        for i in range(begin, end):
            row, own = rows[i], slice((i - begin) * n, (i - begin + 1) * n)
            copy_row(counts[own], row[first : first + n])
            copy_row(logs[own], row[n_columns + first : n_columns + first + n])


@jit
def take_table(rows, first, words, floor, table):
    """Move a model's table, in place, as far as its columns have gone from it; return the sums of its columns."""
    n = table.shape[1]
    sums = np.zeros(n)
    for i in range(words.size):
        old, new = table[words[i]], rows[i][first : first + n]
        for k in range(n):
            old[k] = max(old[k] + float(new[k] - np.float32(old[k])), floor)
    for i in range(table.shape[0]):
        add_row(1.0, table[i], sums)
    return sums


@jit
def run_side_by_side(documents, weights, tables, n, ways, t, due):
    """Run sdEM of all models over documents in their order, each as `run_documents` does alone.

    Parameters
    ----------
    documents : Visited
        Its `weights` are not used.
    weights : ndarray of shape (n_documents, n_models), float64
    tables : Tables
        Changed in place.
    n : int
        Classes.
    ways : Ways
    t, due : ndarray of shape (n_models,), float64, changed in place
        Documents of the corpus seen; what blends of the hinge loss with NLL have in hand, .5 at first.
    """
    data, indices, indptr, labels, _, order = documents
    rows, totals, class_counts, log_prior, learn_prior = tables
    n_models, n_columns = t.size, totals.size  # fewer than WIDTH columns at the end are nobody's
    share, no_costs = min(NEGLIGIBLE, 0.5 / n), np.empty((0, 0))
    sums, doubles = np.empty(n_columns, np.float32), np.empty(n_columns)
    scores, step, log_totals = np.empty(n), np.empty(n), np.empty(n_columns)
    rhos, lows = np.zeros(n_columns, np.float32), np.full(n_columns, -np.inf, np.float32)
    active, touched = np.empty(n_columns, np.int64), np.empty(n_columns, np.int64)
    moved, many = np.empty(n_models, np.int64), np.zeros(n_models, np.bool_)
    for k in range(n * n_models):
        log_totals[k] = log(totals[k])
        if learn_prior[k // n]:
            log_prior[k] = np.log(class_counts[k])
    for i in range(order.size):
        d, ahead = order[i], order[min(i + 1, order.size - 1)]
        fetch_rows(indices[indptr[ahead] : indptr[ahead + 1]], rows, n_columns)
        if not np.any(weights[d] > 0.0):
            continue
        values, words = data[indptr[d] : indptr[d + 1]], indices[indptr[d] : indptr[d + 1]]
        if n == 2:  # as alone: summed in double precision, and rounded
            doubles[:], length, square = 0.0, 0.0, 0.0
            for j in range(values.size):
                x = float(values[j])
                length += x
                square += x * x
                add_row(x, rows[words[j]][n_columns:], doubles)
            copy_row(doubles, sums)
        else:
            length, square = add_columns(values, words, rows, 0, n_columns, sums)
        n_active, n_moved, n_touched = 0, 0, 0
        for m in range(n_models):
            if weights[d, m] <= 0.0:
                continue
            t[m] += ways.ahead[m] * weights[d, m]
            for k in range(n):
                scores[k] = sums[m * n + k] + log_prior[m * n + k] - length * log_totals[m * n + k]
            loss = LossForm(ways.kind[m], ways.margin[m], no_costs, ways.share[m])
            largest = loss_weights(loss, scores, labels[d], step)
            if loss.kind == HINGE and largest == loss.share > 0.0:
                due[m] += loss.share
                largest = in_turn(due[m], loss.share, step)
                due[m] -= largest
            if largest <= ways.tolerance[m]:
                continue
            before = n_active
            for k in range(n):
                if abs(step[k]) > share * largest:
                    active[n_active] = m * n + k
                    n_active += 1
            reach = min(weights[d, m], ways.mean_square[m] / square) if square > 0.0 else min(weights[d, m], 1.0)
            reach /= 1.0 + ways.decay[m] * t[m]
            rho = ways.start[m] * reach
            many[m] = MANY * (n_active - before) > n > 2
            for k in range(n):
                steps = abs(step[k]) > share * largest
                if steps or many[m]:
                    touched[n_touched] = m * n + k
                    n_touched += 1
                rhos[m * n + k] = np.float32(rho * step[k]) if steps else np.float32(0.0)
                lows[m * n + k] = np.float32(ways.floor[m]) if steps or many[m] else np.float32(-np.inf)
                if learn_prior[m] and steps:
                    c = class_counts[m * n + k] + ways.class_start[m] * reach * step[k]
                    class_counts[m * n + k] = max(c, ways.class_floor[m])
                    log_prior[m * n + k] = np.log(class_counts[m * n + k])
            moved[n_moved] = m
            n_moved += 1
        done = 0
        for k in touched[:n_touched]:
            if k >= done:
                first = k - k % WIDTH
                move_eight(values, words, rows, first, rhos, lows, totals)
                done = first + WIDTH
        for k in active[:n_active]:
            log_totals[k] = log(totals[k])
        for m in moved[:n_moved]:
            for k in range(m * n, (m + 1) * n):
                rhos[k], lows[k] = np.float32(0.0), np.float32(-np.inf)


@jit
def score_columns(documents, rows, first, out):
    """Set the rows of `out` to ``sum_j x_j ln N_j`` of the documents in `order`, in the columns from `first` on."""
    data, indices, indptr, order = documents.data, documents.indices, documents.indptr, documents.order
    width, sums = out.shape[1], np.empty(rows.shape[1] // 2 + WIDTH, np.float32)
    for i in range(order.size):
        values = data[indptr[order[i]] : indptr[order[i] + 1]]
        words = indices[indptr[order[i]] : indptr[order[i] + 1]]
        add_columns(values, words, rows, first, first + width, sums)
        copy_row(sums[first : first + width], out[i])
