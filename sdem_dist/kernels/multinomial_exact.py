"""sdEM for documents as multinomial counts, to the letter (Masegosa 2014, Algorithms 2 to 4 as corrected).

Every logarithm is taken at the gamma of the moment, and every class is updated: the reference, and the paper's steps.
`sdem_dist.kernels.multinomial` is several times as fast.
"""

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.csr import measured
from sdem_dist.kernels.jit import jit, jit_inline
from sdem_dist.kernels.losses import advanced, component_weights, loss_weights, renew_prior
from sdem_dist.kernels.rows import add_row, add_rows_at, clip_row, multiply_eighths, ones_first, shift_row
from sdem_dist.kernels.vectors import log


class _Scratch(NamedTuple):
    """Room for the rows of one document."""

    rows: np.ndarray
    ascending: np.ndarray
    positions: np.ndarray
    factors: np.ndarray


@jit
def run_documents(documents, table, schedule, moment, objective):
    """Run sdEM over documents in their order, one step a document, changing the counts in place.

    A step: scores at the parameters before it, mu += rho * weighted statistics, check (counts below zero become
    zero), M-step (logarithms of the rows that changed).

    `documents`: Visited. `table`: Table, a column is a class, or a component of one.  Changed in place.
    `schedule`: Schedule. `moment`: Moment. `objective`: Objective.
    Returns `gamma`, `class_gamma`, `t` (float), of the moment at the end. A NamedTuple would be made by Python code,
    where an interrupt is an error that Numba does not look for: the process would crash.
    """
    data, indices, indptr, labels, weights, order = documents
    words, totals, class_counts, log_prior, learn_prior, vocabulary_size = table
    loss, tolerance, component_class = objective
    n_columns = totals.size
    lengths, longest = measured(documents, words.shape[0])
    scratch = _scratch(longest, n_columns)
    scores, step, log_totals = np.empty(n_columns), np.empty(n_columns), np.empty(n_columns)
    for d in order:
        rho, moment = advanced(schedule, moment, weights[d])
        for k in range(n_columns):
            log_totals[k] = log(totals[k] + moment.gamma * vocabulary_size)
        renew_prior(table, moment.class_gamma)
        start, stop = indptr[d], indptr[d + 1]
        for k in range(n_columns):
            scores[k] = 0.0
        _add_scores(data[start:stop], indices[start:stop], words, moment.gamma, scratch, scores)
        for k in range(n_columns):
            scores[k] += log_prior[k] - lengths[d] * log_totals[k]
        if component_class.size:
            largest = component_weights(loss, scores, labels[d], component_class, step)
        else:
            largest = loss_weights(loss, scores, labels[d], step)
        if weights[d] * largest <= tolerance:
            continue
        factor = rho * weights[d]
        for j in range(start, stop):
            add_row(factor * data[j], step, words[indices[j]])
        for k in range(n_columns):
            totals[k] += factor * lengths[d] * step[k]
            if learn_prior:
                class_counts[k] = max(class_counts[k] + factor * step[k], 0.0)
        for j in range(start, stop):
            clip_row(words[indices[j]], totals)
    return moment.gamma, moment.class_gamma, moment.t


@jit
def _scratch(longest, n_columns):
    return _Scratch(
        np.empty((longest, n_columns)),
        np.arange(longest).astype(np.uint32),
        np.empty(longest + 1, np.uint32),  # one more, for a word that is then dropped
        np.empty(longest + 1),
    )


@jit_inline
def _add_scores(data, indices, words, gamma, scratch, scores):
    """Add a document's ``sum_j data[j] * ln(words[indices[j]] + gamma)`` to `scores`."""
    rows, ascending, positions, factors = scratch
    n = data.size
    n_ones = ones_first(data, indices, positions, factors)
    for j in range(n):
        shift_row(words[positions[j]], gamma, rows[j])
    # Loops over all rows, whatever the number of classes: they vectorise even for two.
    used = rows.reshape(-1)[: n * scores.size]
    # Eight words of count 1 share a logarithm; between 1e-38 and 1e38 their product stays in range.
    eighth = n_ones // 8
    skipped = 7 * eighth
    multiply_eighths(used[: 8 * eighth * scores.size])
    used = used[skipped * scores.size :]
    for i in range(used.size):
        used[i] = log(used[i])
    add_rows_at(factors[skipped:n], ascending[: n - skipped], rows[skipped:n], scores)
