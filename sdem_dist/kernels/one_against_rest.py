"""sdEM of one naive Bayes classifier a label, each against the rest, over one shared table of words."""

import numpy as np

from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.losses import HINGE, loss_weights
from sdem_dist.kernels.multinomial import add_scores, in_turn, move
from sdem_dist.kernels.vectors import WIDTH, fetch, fetch_rows, log


@jit
def run_labels(documents, members, table, schedule, t, objective):
    """Run sdEM over documents in their order: a document is read once, and takes a step for each label by itself.

    As `sdem_dist.kernels.multinomial.run_documents`. Columns ``2 l`` and ``2 l + 1`` are the documents without and with
    label l: two classes that know nothing of the other labels.

    `documents`: Visited, its labels play no part.
    `members`: uint8 of shape (n_documents, n_labels), 1 where a document has a label.
    `table`, `schedule`, `t`, `objective`: as there. Returns `t` (float), after the last document.
    """
    data, indices, indptr, _, weights, order = documents
    rows, totals, class_counts, log_prior, learn_prior, _ = table
    loss, tolerance, _ = objective
    n_columns = totals.size
    sums, log_totals = np.empty(n_columns + WIDTH, np.float32), np.empty(n_columns)
    scores, step, credit = np.empty(2), np.empty(n_columns), np.full(members.shape[1], 0.5)
    for k in range(n_columns):
        log_totals[k] = log(totals[k])
        if learn_prior:
            log_prior[k] = np.log(class_counts[k])
    last = order.size - 1
    for i in range(order.size):
        d, following, after = order[i], order[min(i + 1, last)], order[min(i + 2, last)]
        fetch(data, indptr[after], indptr[after + 1])
        fetch(indices, indptr[after], indptr[after + 1])
        fetch_rows(indices[indptr[following] : indptr[following + 1]], rows, rows.shape[1] // 2)
        if weights[d] <= 0.0:
            continue
        t += schedule.ahead * weights[d]
        values, words = data[indptr[d] : indptr[d + 1]], indices[indptr[d] : indptr[d + 1]]
        length, square = add_scores(values, words, rows, sums)
        scale = min(weights[d], schedule.mean_square / square) if square > 0.0 else min(weights[d], 1.0)
        scale /= 1.0 + schedule.decay * t
        for label in range(members.shape[1]):
            first = 2 * label
            for side in range(2):
                k = first + side
                scores[side] = sums[k] + log_prior[k] - length * log_totals[k]
            largest = loss_weights(loss, scores, np.int64(members[d, label]), step[first : first + 2])
            if loss.kind == HINGE and largest == loss.share > 0.0:
                credit[label] += loss.share
                largest = in_turn(credit[label], loss.share, step[first : first + 2])
                credit[label] -= largest
            if largest <= tolerance:
                continue
            move(values, words, rows, schedule.start * scale, step, (first, first + 1), schedule.floor, totals)
            for k in range(first, first + 2):
                log_totals[k] = log(totals[k])
                if learn_prior:
                    moved = class_counts[k] + schedule.class_start * scale * step[k]
                    class_counts[k] = max(moved, schedule.class_floor)
                    log_prior[k] = np.log(class_counts[k])
    return t
