"""Stochastic mirror descent on topics over batches of documents (Chen et al. 2015, Algorithm 2)."""

from __future__ import annotations

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline
from sdem_dist.kernels.mirror_descent import FLOOR, gather_topics, infer, propagate, step_length
from sdem_dist.kernels.rows import add_row, add_rows_at

SOFTMAX, GAUSSIAN, NONE = 0, 1, 2
"""What follows from the topic proportions: a class, real numbers, or nothing but the words."""
EPSILON = 1e-12
"""epsilon of Algorithm 2, line 9."""
STEEPEST = 1.0
"""No probability of a word changes by more than a factor of e in one step."""
LARGE = 1e50


@jit_inline
def _output_error(kind, output, theta, gamma, label, target, error):  # type: ignore[no-untyped-def]
    """Set `error` to the gradient of the loss by U theta; for classes that is ``gamma (p(c | d) - [c = y])``."""
    for c in range(error.size):
        error[c] = 0.0
        for k in range(theta.size):
            error[c] += output[c, k] * theta[k]
    if kind == GAUSSIAN:
        for c in range(error.size):
            error[c] = gamma * (error[c] - target[c])
        return
    top, total = error[0], 0.0
    for c in range(error.size):
        top = max(top, error[c])
    for c in range(error.size):
        error[c] = np.exp(gamma * (error[c] - top))
        total += error[c]
    for c in range(error.size):
        error[c] = gamma * (error[c] / total - (1.0 if c == label else 0.0))


@jit
def add_gradients(
    data, indices, indptr, labels, targets, weights, chosen, kind, topics, totals, output, alpha, gamma, n_layers, step,
    search, gradient, output_gradient,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Add the gradients of some documents' losses by Phi and by U.

    Parameters
    ----------
    data, indices, indptr : CSR arrays of the documents; `indices` are rows of `topics`
    labels : ndarray of int32, a class for each document with ``SOFTMAX``
    targets : ndarray of shape (n_documents, n_outputs), float64, with ``GAUSSIAN``
    weights : ndarray of shape (n_documents,), float64
    chosen : ndarray of integers, the documents
    kind : int
    topics : ndarray of shape (n_words, n_topics), float64
        Phi, each column times its entry of `totals`.
    totals : ndarray of shape (n_topics,), float64
    output : ndarray of shape (n_outputs, n_topics), float64
        U.
    alpha, gamma : float
        For ``GAUSSIAN`` gamma is the precision of the targets.
    n_layers : int
    step : float
        T of a document, times its words and pseudo-counts, see `step_length`.
    search : bool
    gradient, output_gradient : ndarray, as `topics` and `output`, changed in place
    """
    n_topics, n_outputs = totals.size, output.shape[0]
    longest = 0
    for i in range(chosen.size):
        longest = max(longest, indptr[chosen[i] + 1] - indptr[chosen[i]])
    ascending = np.arange(max(longest, n_topics, 2 * n_layers)).astype(np.uint32)
    flat_rows, flat_columns = np.empty(longest * n_topics), np.empty(longest * n_topics)
    flat_masses, flat_factors = np.empty((n_layers + 1) * longest), np.empty(2 * n_layers * longest)
    thetas, steps, table = np.empty((n_layers + 1, n_topics)), np.empty(n_layers), np.empty((2 * n_layers, n_topics))
    slope, error = np.empty(n_topics), np.empty(n_outputs)
    for i in range(chosen.size):
        d = chosen[i]
        if weights[d] == 0.0:
            continue
        words, counts = indices[indptr[d] : indptr[d + 1]], data[indptr[d] : indptr[d + 1]]
        n = words.size
        rows = flat_rows[: n * n_topics].reshape(n, n_topics)
        columns = flat_columns[: n * n_topics].reshape(n_topics, n)
        masses = flat_masses[: (n_layers + 1) * n].reshape(n_layers + 1, n)
        gather_topics(words, topics, totals, rows, columns)
        first = step_length(step, counts, alpha, n_topics)
        infer(rows, columns, counts, alpha, first, search and first > 0.0, ascending, thetas, steps, masses)
        theta = thetas[n_layers]
        if kind == NONE:
            for v in range(n):
                add_row(-weights[d] * counts[v] / masses[n_layers, v], theta, gradient[words[v]])
            continue
        label = labels[d] if kind == SOFTMAX else np.int32(0)
        _output_error(kind, output, theta, gamma, label, targets[d if kind == GAUSSIAN else 0], error)
        for k in range(n_topics):
            slope[k] = 0.0
        for c in range(n_outputs):
            error[c] *= weights[d]
            add_row(error[c], theta, output_gradient[c])
            add_row(error[c], output[c], slope)
        factors = flat_factors[: n * 2 * n_layers].reshape(n, 2 * n_layers)
        propagate(rows, columns, counts, alpha, ascending, thetas, steps, masses, slope, table, factors)
        for v in range(n):
            add_rows_at(factors[v], ascending[: 2 * n_layers], table, gradient[words[v]])


@jit
def step_topics(topics, totals, touched, gradient, weight, prior, squares, t, vocabulary_size, rate):  # type: ignore[no-untyped-def]
    """Step along the mean gradient of a batch (Algorithm 2, lines 6 to 11), columns apart; leave `gradient` zero.

    Parameters
    ----------
    topics, totals : changed in place, see `add_gradients`
    touched : ndarray of integers
        The rows whose gradient is not zero.
    gradient : as `topics`, the sum over the batch
    weight : float
        The batch's documents.
    prior : float
        ``(beta - 1) / D``.
    squares : ndarray of shape (n_topics,), changed in place
        Sums over batches of the squared norms of the gradients.
    t : float
        Batches, this one included.
    vocabulary_size : int
    rate : float
        mu_0.
    """
    n_topics = totals.size
    start, rates = totals.copy(), np.empty(n_topics)
    for i in range(touched.size):
        row, values = gradient[touched[i]], topics[touched[i]]
        for k in range(n_topics):
            row[k] = row[k] / weight - prior * start[k] / values[k]
            squares[k] += row[k] * row[k]
    for k in range(n_topics):
        rates[k] = rate / (np.sqrt(squares[k] / (t * vocabulary_size)) + EPSILON)
    for i in range(touched.size):
        row, values = gradient[touched[i]], topics[touched[i]]
        for k in range(n_topics):
            exponent = min(max(-rates[k] * row[k], -STEEPEST), STEEPEST)
            new = max(values[k] * np.exp(exponent), FLOOR * start[k])
            totals[k] += new - values[k]
            values[k] = new
            row[k] = 0.0


@jit
def _settle(topics, cumulated, last, now, sums):  # type: ignore[no-untyped-def]
    """Add to `sums` what rows were since they last changed, after batch `last`, up to batch `now`."""
    for v in range(last.size):
        _settle_row(topics[v], cumulated[last[v]], cumulated[now], sums[v])
        last[v] = now


@jit_inline
def _settle_row(row, before, now, sums):  # type: ignore[no-untyped-def]
    for k in range(row.size):
        sums[k] += row[k] * (now[k] - before[k])


@jit
def run_batches(
    data, indices, indptr, labels, targets, weights, order, batch_size, kind, topics, outside, output, alpha, gamma,
    n_layers, step, search, prior, squares, t, vocabulary_size, topic_rate, output_rate, seen, ahead, end, averaging,
    sums, output_sums,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Run Algorithm 2 over batches of documents in `order`, changing `topics`, `output` and `squares` in place.

    A batch changes the rows of its own words only, and each column's total; so rows are kept unnormalised, and their
    averages are settled when they change.

    Parameters
    ----------
    data, indices, indptr, labels, targets, weights, kind, output, alpha, gamma, n_layers, step, search
        See `add_gradients`.
    order : ndarray of integers, the documents to visit
    batch_size : int
    topics : ndarray of shape (n_words, n_topics), float64
        Rows of Phi; left normalised.
    outside : ndarray of shape (n_topics,), float64
        Mass of the words that no document has.
    prior, squares, t, vocabulary_size
        See `step_topics`; with a `prior` the documents' words must be all.
    topic_rate, output_rate : float
        At the start of the run; both fall linearly to 0.
    seen, ahead, end : float
        Documents seen before, how many each document here stands for, and where the run ends.
    averaging : bool
    sums : ndarray as `topics`, or of shape (0, 0)
        Phi after every batch is added where `averaging`.
    output_sums : ndarray as `output`, likewise

    Returns
    -------
    kept : ndarray of shape (n_topics,)
        What is left of the probabilities of the words outside.
    kept_sums : ndarray of shape (n_topics,)
        Their sum over batches.
    n_batches : int
    t : float
        Batches with documents of any weight, those before included.
    """
    n_words, n_topics = topics.shape
    n_batches = (order.size + batch_size - 1) // batch_size
    kept, kept_sums = np.ones(n_topics), np.zeros(n_topics)
    totals = outside.copy()
    for v in range(n_words):
        add_row(1.0, topics[v], totals)
    gradient, output_gradient = np.zeros((n_words, n_topics)), np.zeros(output.shape)
    stamp, last = np.full(n_words, -1), np.zeros(n_words, np.int64)
    touched = np.arange(n_words)
    cumulated = np.zeros((n_batches + 1 if averaging else 0, n_topics))
    for b in range(n_batches):
        chosen = order[b * batch_size : (b + 1) * batch_size]
        weight, n_touched = 0.0, 0
        for i in range(chosen.size):
            weight += weights[chosen[i]]
            for j in range(indptr[chosen[i]], indptr[chosen[i] + 1]):
                if prior == 0.0 and stamp[indices[j]] != b:
                    stamp[indices[j]] = b
                    touched[n_touched] = indices[j]
                    n_touched += 1
        changed = touched if prior != 0.0 else touched[:n_touched]
        seen += ahead * weight
        if weight > 0.0:
            remaining = max(1.0 - (seen - 0.5 * ahead * weight) / end, 0.0)
            add_gradients(
                data, indices, indptr, labels, targets, weights, chosen, kind, topics, totals, output, alpha, gamma,
                n_layers, step, search, gradient, output_gradient,
            )  # fmt: skip
            t += 1.0
            if averaging:
                for i in range(changed.size):
                    v = changed[i]
                    _settle_row(topics[v], cumulated[last[v]], cumulated[b], sums[v])
                    last[v] = b
            step_topics(
                topics, totals, changed, gradient, weight, prior, squares, t, vocabulary_size, topic_rate * remaining
            )
            for c in range(output.shape[0]):
                add_row(-output_rate * remaining / weight, output_gradient[c], output[c])
                output_gradient[c, :] = 0.0
        if averaging:
            for k in range(n_topics):
                cumulated[b + 1, k] = cumulated[b, k] + 1.0 / totals[k]
                kept_sums[k] += kept[k] / totals[k]
            for c in range(output.shape[0]):
                add_row(1.0, output[c], output_sums[c])
        if totals.max() > LARGE or totals.min() < 1.0 / LARGE or b == n_batches - 1:
            if averaging:
                _settle(topics, cumulated, last, b + 1, sums)
            for v in range(n_words):
                for k in range(n_topics):
                    topics[v, k] /= totals[k]
            for k in range(n_topics):
                kept[k] /= totals[k]
                totals[k] = 1.0
    return kept, kept_sums, n_batches, t
