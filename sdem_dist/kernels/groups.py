"""Groups of documents dealt to folds."""

import numpy as np

from sdem_dist.kernels.jit import jit


@jit
def deal_groups(order, starts, classes, counts, totals, k):
    """Return the fold of each group: in `order`, each goes where classes, and all documents, are spread most evenly.

    The sum over folds and classes of squared shares grows least there.

    `order`: int64 of shape (n_groups,).
    `starts`: int64 of shape (n_groups + 1,), where each group's entries begin in `classes` and `counts`.
    `classes`, `counts`: int64 of shape (n_entries,), a class of a group's documents, and how many have it.
    `totals`: int64 of shape (n_classes,), documents of each class. `k`: int. Returns int16 of shape (n_groups,).
    """
    folds = np.empty(order.size, np.int16)
    held, sizes = np.zeros((k, totals.size)), np.zeros(k)
    whole = float(totals.sum())
    for group in order:
        size = 0.0
        for e in range(starts[group], starts[group + 1]):
            size += counts[e]
        best, least = 0, np.inf
        for fold in range(k):
            cost = sizes[fold] * size / (whole * whole)
            for e in range(starts[group], starts[group + 1]):
                n = float(totals[classes[e]])
                cost += held[fold, classes[e]] * counts[e] / (n * n)
            if cost < least:
                best, least = fold, cost
        folds[group] = best
        sizes[best] += size
        for e in range(starts[group], starts[group + 1]):
            held[best, classes[e]] += counts[e]
    return folds
