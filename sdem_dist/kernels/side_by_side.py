"""sdEM of several naive Bayes models at once: `sdem_dist.kernels.multinomial` for tables side by side, the same bits.

A row holds a word's expected counts of every model: a document's words are read once for all models, and few classes
fill registers. Logarithms are taken as documents are scored, not kept: half as much memory is read and written, which
costs more than they do. Rows of two classes keep them behind the counts, since their sums are of double precision.
"""

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline
from sdem_dist.kernels.logarithm import log, log_single
from sdem_dist.kernels.losses import HINGE, LossForm, loss_weights
from sdem_dist.kernels.multinomial import AT_ONCE, MANY, NEGLIGIBLE, in_turn
from sdem_dist.kernels.rows import add_row, copy_row
from sdem_dist.kernels.vectors import (
    AHEAD,
    WIDER,
    WIDTH,
    add_columns,
    add_logarithms,
    fetch_columns,
    fetch_place,
    fetch_row,
    fetch_rows,
    move_eight,
    move_sixteen,
)


class Tables(NamedTuple):
    """Tables of models side by side, changed in place: a column is a class of a model."""

    rows: np.ndarray
    """Counts, shape (n_words, n_columns), float32; of two classes with logarithms, shape (n_words, 2 n_columns)."""
    totals: np.ndarray
    """Shape (n_columns,), as `class_counts` and `log_prior`."""
    class_counts: np.ndarray
    log_prior: np.ndarray
    learn_prior: np.ndarray
    """Of each model, bool."""


class Ways(NamedTuple):
    """How each model steps: arrays (n_models,), but for the tolerance, see `Schedule`, `LossForm` and `Objective`."""

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


def room_of(n_words: int, n_columns: int, bare: bool) -> np.ndarray:
    """Return flat room for `rows_in`, and for eight columns behind the last; `bare`: without logarithms."""
    return np.empty(n_words * n_columns * (1 if bare else 2) + WIDTH, np.float32)


def rows_in(room: np.ndarray, n_words: int, n_columns: int, n_used: int, bare: bool) -> np.ndarray:
    """Return a part of `room` as the rows of `Tables`, of which only the first columns are used."""
    width = n_columns if bare else 2 * n_columns
    rows = room[: n_words * width].reshape(n_words, width)
    rows[:, n_used:n_columns] = 1.0
    if not bare:
        rows[:, n_columns + n_used :] = 0.0
    return rows


@jit
def put_table(table, words, first, n_columns, rows):
    """Copy some words of a model's float64 table into its columns from `first` on, with logarithms if there is room."""
    n = table.shape[1]
    at_once = max(1, AT_ONCE // n)
    counts, logs = np.empty(at_once * n, np.float32), np.empty(at_once * n, np.float32)
    for begin in range(0, words.size, at_once):
        end = min(begin + at_once, words.size)
        if rows.shape[1] == n_columns:
            for i in range(begin, end):
                fetch_row(table, words, i)
                copy_row(table[words[i]], rows[i][first : first + n])
            continue
        for i in range(begin, end):
            fetch_row(table, words, i)
            copy_row(table[words[i]], counts[(i - begin) * n : (i - begin + 1) * n])
        for j in range((end - begin) * n):
            logs[j] = log_single(counts[j])
        for i in range(begin, end):
            row, own = rows[i], slice((i - begin) * n, (i - begin + 1) * n)
            copy_row(counts[own], row[first : first + n])
            copy_row(logs[own], row[n_columns + first : n_columns + first + n])


@jit
def take_table(rows, first, places, floor, table):
    """Move a model's table, in place, as far as its columns have gone from it; return the sums of its columns.

    `places` says in which row each word is; -1: in none, and its counts stay.
    """
    n = table.shape[1]
    sums, at_once = np.zeros(n), max(1, AT_ONCE // n)
    counts = np.empty(at_once * n, np.float32)
    for begin in range(0, places.size, at_once):
        end, there = min(begin + at_once, places.size), 0
        for w in range(begin, end):
            fetch_place(rows, places[min(w + AHEAD, places.size - 1)], first, n)
            if places[w] >= 0:
                copy_row(rows[places[w]][first : first + n], counts[(w - begin) * n : (w - begin + 1) * n])
                there += 1
        if there == end - begin:
            move_counts(counts, floor, table[begin:end].reshape(-1))  # of many words, so that it vectorises
        else:
            for w in range(begin, end):
                if places[w] >= 0:
                    move_counts(counts[(w - begin) * n :], floor, table[w])
        for w in range(begin, end):
            add_row(1.0, table[w], sums)
    return sums


@jit_inline
def move_counts(new, floor, counts):
    """``counts = max(counts + (new - counts), floor)``, the difference in single precision."""
    for k in range(counts.size):
        counts[k] = max(counts[k] + float(new[k] - np.float32(counts[k])), floor)


@jit
def run_side_by_side(documents, weights, tables, n, ways, t, due):
    """Run sdEM of all models over documents in their order, each as `run_documents` does alone.

    `documents`: Visited, its `weights` are not used. `weights`: float64 of shape (n_documents, n_models).
    `tables`: Tables, changed in place. `n`: classes. `ways`: Ways.
    `t`, `due`: float64 of shape (n_models,), changed in place, documents of the corpus seen; what blends of the hinge
    loss with NLL have in hand, .5 at first.
    """
    data, indices, indptr, labels, _, order = documents
    rows, totals, class_counts, log_prior, learn_prior = tables
    n_models, n_columns = t.size, totals.size  # fewer than WIDER columns at the end are nobody's
    bare = rows.shape[1] == n_columns
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
        fetch_rows(indices[indptr[ahead] : indptr[ahead + 1]], rows, 0 if bare else n_columns)
        if not np.any(weights[d] > 0.0):
            continue
        values, words = data[indptr[d] : indptr[d + 1]], indices[indptr[d] : indptr[d + 1]]
        length, square = 0.0, 0.0
        for j in range(values.size):
            x = np.float64(values[j])
            length += x
            square += x * x
        if n == 2:  # as alone: summed in double precision, and rounded
            doubles[:] = 0.0
            for j in range(values.size):
                add_row(np.float64(values[j]), rows[words[j]][n_columns:], doubles)
            copy_row(doubles, sums)
        else:
            for first in range(0, n_columns, WIDER):
                add_logarithms(values, words, rows, first, sums)
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
            if k >= done and bare:
                first = k - k % WIDER
                move_sixteen(values, words, rows, first, rhos, lows, totals)
                done = first + WIDER
            elif k >= done:
                first = k - k % WIDTH
                move_eight(values, words, rows, first, rhos, lows, totals)
                done = first + WIDTH
        for k in active[:n_active]:
            log_totals[k] = log(totals[k])
        for m in moved[:n_moved]:
            for k in range(m * n, (m + 1) * n):
                rhos[k], lows[k] = np.float32(0.0), np.float32(-np.inf)


@jit
def score_columns(documents, rows, n_columns, first, out):
    """Set the rows of `out` to ``sum_j x_j ln N_j`` of the documents in `order`, in the columns from `first` on."""
    data, indices, indptr, order = documents.data, documents.indices, documents.indptr, documents.order
    width, sums, behind = out.shape[1], np.empty(n_columns + WIDTH, np.float32), rows.shape[1] - n_columns
    for i in range(order.size):
        ahead = order[min(i + 1, order.size - 1)]
        fetch_columns(indices[indptr[ahead] : indptr[ahead + 1]], rows, behind + first, behind + first + width)
        values = data[indptr[order[i]] : indptr[order[i] + 1]]
        words = indices[indptr[order[i]] : indptr[order[i] + 1]]
        if rows.shape[1] == n_columns:
            for k in range(first - first % WIDER, first + width, WIDER):
                add_logarithms(values, words, rows, k, sums)
        else:
            add_columns(values, words, rows, first, first + width, sums)
        copy_row(sums[first : first + width], out[i])
