"""sdEM for documents as multinomial counts, over word-major arrays (Masegosa 2014, Algorithms 2 to 4 as corrected)."""

from __future__ import annotations

import numpy as np

from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.logarithm import log
from sdem_dist.kernels.losses import class_weights, component_weights
from sdem_dist.kernels.rows import add_row, add_rows_at, clip_row, log_row, multiply_eighths, ones_first, shift_row


@jit
def run_documents(
    data, indices, indptr, labels, weights, order, batch_size, words, totals, class_counts, logs, frozen, gamma,
    class_gamma, log_prior, learn_prior, word_step, class_step, vocabulary_size, t, t_step, decay, loss, tolerance,
    owners,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Run sdEM over documents in `order`, changing the counts in place.

    One step a batch: scores at the parameters before it, mu += rho * sum of weighted statistics, check (counts
    below zero become zero), M-step (logarithms of the rows that changed).

    Parameters
    ----------
    data, indices, indptr : CSR arrays of the documents; `indices` are rows of `words`
    labels : ndarray of shape (n_documents,), int32
    weights : ndarray of shape (n_documents,), float64
    order : ndarray of int64, the documents to visit
    batch_size : int
    words : ndarray of shape (n_words, n_classes), float64
        Expected counts N of word and class, without gamma.  Changed in place.
    totals : ndarray of shape (n_classes,), float64
        M, the sum of N over the whole vocabulary.  Changed in place.
    class_counts : ndarray of shape (n_classes,), float64
        C.  Changed in place where `learn_prior`.
    logs : ndarray of shape (n_words, n_classes) or (0, 0), float64
        ln(N + frozen), changed in place.  Empty: every logarithm is taken at the gamma of the moment, as the paper
        does, and `frozen` plays no part.
    frozen : float
        The gamma of `logs`, constant through this call: a moving gamma would change every logarithm of the table.
    gamma, class_gamma : float
        Running prior corrections of words and of classes.
    log_prior : ndarray of shape (n_classes,), float64
        The class prior where it is not learned.
    learn_prior : bool
    word_step, class_step : float
        What gamma and class_gamma gain for rho = 1 and one document: alpha / n.
    vocabulary_size : int
    t, t_step : float
        Documents of the corpus seen before, and how many of them one document here stands for.
    decay : float
        lambda of rho = 1 / (1 + lambda t).
    loss : int
    tolerance : float
        Documents whose largest weight is below it ask for no step.
    owners : ndarray of shape (n_classes,), int64, or (0,)
        Where the classes here are components of classes: the class of each, ascending.

    Returns
    -------
    gamma, class_gamma, t : float
    """
    n_classes = totals.size
    exact = logs.size == 0
    # One pass in stored order: it also brings the documents into cache before they are visited in random order.
    lengths = np.zeros(indptr.size - 1)
    longest, beyond = 0, 0
    for d in range(lengths.size):
        longest = max(longest, indptr[d + 1] - indptr[d])
        for j in range(indptr[d], indptr[d + 1]):
            lengths[d] += data[j]
            beyond |= indices[j] >= words.shape[0]
    if beyond:
        raise IndexError("a document has a word beyond the table of words")
    longest = longest if exact else 0
    rows, ascending = np.empty((longest, n_classes)), np.arange(longest).astype(np.uint32)
    positions, factors = np.empty(longest + 1, np.uint32), np.empty(longest + 1)  # with room for one that does not stay
    scores = np.empty(n_classes)
    step = np.empty((batch_size, n_classes))
    largest = np.empty(batch_size)
    log_totals = np.empty(n_classes)
    stale = True
    for first in range(0, order.size, batch_size):
        size = min(batch_size, order.size - first)
        seen = 0.0
        for b in range(size):
            seen += weights[order[first + b]]
        # gamma and rho count the documents of this step as seen, as Algorithm 2 does before it takes the posterior.
        t += t_step * seen
        rho = 1.0 / (1.0 + decay * t)
        gamma += word_step * rho * seen
        class_gamma += class_step * rho * seen
        if exact or stale:
            shift = gamma if exact else frozen
            for k in range(n_classes):
                log_totals[k] = log(totals[k] + shift * vocabulary_size)
            if learn_prior:
                for k in range(n_classes):
                    log_prior[k] = np.log(class_counts[k] + class_gamma)  # a class may be impossible: ln 0
            stale = False
        for b in range(size):
            d = order[first + b]
            start, stop = indptr[d], indptr[d + 1]
            for k in range(n_classes):
                scores[k] = 0.0
            if exact:
                n = stop - start
                n_ones = ones_first(data[start:stop], indices[start:stop], positions, factors)
                for j in range(n):
                    shift_row(words[positions[j]], gamma, rows[j])
                # Loops over all rows, whatever the number of classes: they vectorise even for two.
                used = rows.reshape(-1)[: n * n_classes]
                # Eight words of count 1 share a logarithm; between 1e-38 and 1e38 their product stays in range.
                eighth = n_ones // 8
                skipped = 7 * eighth
                multiply_eighths(used[: 8 * eighth * n_classes])
                used = used[skipped * n_classes :]
                for i in range(used.size):
                    used[i] = log(used[i])
                add_rows_at(factors[skipped:n], ascending[: n - skipped], rows[skipped:n], scores)
            else:
                add_rows_at(data[start:stop], indices[start:stop], logs, scores)
            for k in range(n_classes):
                scores[k] += log_prior[k] - lengths[d] * log_totals[k]
            if owners.size:
                largest[b] = weights[d] * component_weights(loss, scores, labels[d], owners, step[b])
            else:
                largest[b] = weights[d] * class_weights(loss, scores, labels[d], step[b])
        for b in range(size):
            if largest[b] <= tolerance:
                continue
            d = order[first + b]
            stale = True
            factor = rho * weights[d]
            for j in range(indptr[d], indptr[d + 1]):
                add_row(factor * data[j], step[b], words[indices[j]])
            for k in range(n_classes):
                totals[k] += factor * lengths[d] * step[b, k]
                if learn_prior:
                    class_counts[k] += factor * step[b, k]
        for b in range(size):  # check and M-step, after all additions of the batch
            if largest[b] <= tolerance:
                continue
            d = order[first + b]
            for j in range(indptr[d], indptr[d + 1]):
                clip_row(words[indices[j]], totals)
                if not exact:
                    log_row(words[indices[j]], frozen, logs[indices[j]])
        if learn_prior and stale:
            for k in range(n_classes):
                class_counts[k] = max(class_counts[k], 0.0)
    return gamma, class_gamma, t
