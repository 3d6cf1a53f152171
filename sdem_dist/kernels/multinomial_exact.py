"""sdEM for documents as multinomial counts, to the letter (Masegosa 2014, Algorithms 2 to 4 as corrected).

Every logarithm is taken at the gamma of the moment, and every class is updated: the reference, and the paper's steps.
`sdem_dist.kernels.multinomial` is several times as fast.
"""

import numpy as np

from sdem_dist.kernels.csr import measured
from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.losses import advanced, component_weights, loss_weights, renew_prior
from sdem_dist.kernels.rows import add_row, clip_row
from sdem_dist.kernels.vectors import log


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
    lengths, _ = measured(documents, words.shape[0])
    scores, step, log_totals = np.empty(n_columns), np.empty(n_columns), np.empty(n_columns)
    for d in order:
        rho, moment = advanced(schedule, moment, weights[d])
        for k in range(n_columns):
            log_totals[k] = log(totals[k] + moment.gamma * vocabulary_size)
        renew_prior(table, moment.class_gamma)
        start, stop = indptr[d], indptr[d + 1]
        for k in range(n_columns):
            scores[k] = log_prior[k] - lengths[d] * log_totals[k]
        for j in range(start, stop):
            for k in range(n_columns):
                scores[k] += np.float64(data[j]) * log(words[indices[j], k] + moment.gamma)
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
