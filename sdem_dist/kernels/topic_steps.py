"""Stochastic mirror descent on topics (Chen et al. 2015, Algorithm 2): outputs of documents, alpha, batches."""

import math
from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.csr import runs
from sdem_dist.kernels.jit import jit, jit_inline
from sdem_dist.kernels.lda import digamma
from sdem_dist.kernels.mirror_descent import FLOOR, inferred, propagate
from sdem_dist.kernels.parts import empty, larger, smaller, zeros
from sdem_dist.kernels.rows import add_row, add_rows_at

SOFTMAX, GAUSSIAN, NONE, POISSON, ORDERED, LABELS = 0, 1, 2, 3, 4, 5  # kinds of outputs
MOST = 20.0  # ln of the largest predicted mean of a count, relative to the mean of all documents
WIDEST = 30.0  # ln of the largest gap between two thresholds, and minus ln of the smallest gap
NO_EVIDENCE = np.zeros(0)
EPSILON = 1e-12  # epsilon of Algorithm 2, line 9
STEEPEST = 1.0  # ln of the largest change of a word's probability in one step
OVERFLOWING = 300.0  # bound of the exponents in the paper's steps
LARGE = 1e50


class Response(NamedTuple):
    """The model of outputs given topics, and the weight of the words in the loss."""

    kind: int
    gamma: float  # factor of U theta; for numbers the precision, for counts the weight of the loss
    words: float = 0.0  # weight of ``-ln p(words | theta)`` in the loss of a document
    labelled: float = 1.0  # number of documents that a labelled one represents, in the gradient by Phi


@jit_inline
def _sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0.0 else 1.0 - 1.0 / (1.0 + math.exp(x))


@jit
def output_error(response, output, theta, label, target, error):
    """Set `error` to the gradient of a document's loss by ``U theta``; `target`: for kinds without `label`."""
    kind, gamma = response.kind, response.gamma
    for c in range(error.size):
        error[c] = 0.0
        for k in range(theta.size):
            error[c] += output[c, k] * theta[k]
    if kind == SOFTMAX:  # gamma (p(c | d) - [c = y])
        top, total = error[0], 0.0
        for c in range(error.size):
            top = larger(top, error[c])
        for c in range(error.size):
            error[c] = np.exp(gamma * (error[c] - top))
            total += error[c]
        for c in range(error.size):
            error[c] = gamma * (error[c] / total - (1.0 if c == label else 0.0))
    elif kind == ORDERED:
        ordered_error(gamma, output[:, 0], label, error)
    elif kind == GAUSSIAN:
        for c in range(error.size):
            error[c] = gamma * (error[c] - target[c])
    elif kind == POISSON:
        for c in range(error.size):
            error[c] = gamma * (math.exp(smaller(error[c], MOST)) - target[c])
    else:
        for c in range(error.size):
            error[c] = gamma * (_sigmoid(gamma * error[c]) - target[c])


@jit_inline
def gap(logarithm):
    return math.exp(smaller(larger(logarithm, -WIDEST), WIDEST))


@jit_inline
def ordered_error(gamma, cuts, label, error):
    """Replace U theta by the gradient of the cumulative logit's ``-ln p(y | d)`` (McCullagh 1980).

    A document's level is at most j with probability ``sigmoid(threshold_(j + 1) - gamma score)``. The first threshold
    is ``cuts[1]``; each later one is the one before plus the exponential of its cut: thresholds are ascending.
    """
    score, low, high, n = gamma * error[0], 0.0, 0.0, error.size
    for c in range(1, smaller(label + 2, n)):
        low, high = high, (cuts[1] if c == 1 else high + gap(cuts[c]))
    if label == n - 1:
        low = high
    above = _sigmoid(score - high) if label < n - 1 else 0.0  # probability above the upper threshold
    below = _sigmoid(low - score) if label > 0 else 0.0
    error[0] = gamma * (above - below)
    for c in range(1, n):
        width = 1.0 if c == 1 else gap(cuts[c])
        if c <= label:
            error[c] = width * (below - above)
        elif c == label + 1:  # the gap of the level itself, or the first threshold of the first level
            within = 1.0 / math.expm1(width) if c > 1 else 0.0
            error[c] = -width * (above + within)
        else:
            error[c] = 0.0


@jit
def add_evidence(weight, alpha, counts, theta, mass, rows, evidence):
    """Add a document's evidence about its topics' pseudo-counts ``alpha - 1``, for the fixed point of Minka (2000).

    A word has topic k with probability ``theta_k Phi_vk / (Phi theta)_v``. A count with an expectation well below 1 is
    mostly 0, so psi is evaluated at the mean of the positive counts and multiplied by their probability (Teh, Newman
    and Welling 2007, section 4).

    `alpha`, `theta`: shape (n_topics,). `counts`, `mass` (Phi theta): shape (n_words,). `rows`: rows of Phi.
    `evidence`: shape (n_topics + 1,), changed in place: adds the mean of ``psi(n_k + alpha_k - 1) - psi(alpha_k - 1)``
    for each topic, and in the last entry the same for the sums over topics.
    """
    expected, absent, length, pseudo = zeros(theta.size), zeros(theta.size), 0.0, 0.0
    for v in range(counts.size):
        length += counts[v]
        for k in range(theta.size):
            share = smaller(theta[k] * rows[v, k] / mass[v], 1.0 - 1e-12)
            expected[k] += counts[v] * share
            absent[k] += counts[v] * math.log1p(-share)
    for k in range(theta.size):
        own = alpha[k] - 1.0
        pseudo += own
        present = -math.expm1(absent[k])
        if present > 0.0:
            evidence[k] += weight * present * (digamma(expected[k] / present + own) - digamma(own))
    evidence[theta.size] += weight * (digamma(length + pseudo) - digamma(pseudo))


class Topics(NamedTuple):
    """Parameters, changed in place; or their sums or gradients, without `totals`."""

    topics: np.ndarray  # Phi, each column times its entry of `totals`: shape (n_words, n_topics), float64
    totals: np.ndarray  # shape (n_topics,), float64
    output: np.ndarray  # U, shape (n_outputs, n_topics), float64
    evidence: np.ndarray = NO_EVIDENCE  # in sums: evidence about alpha; empty unless it is learned


class Rates(NamedTuple):
    """Sizes of batches and steps."""

    batch_size: int
    topic_rate: float  # mu_0 at the start of the run, see `step_topics`; it falls linearly to 0
    output_rate: float  # mu_u at the start of the run; it falls linearly to 0
    prior: float  # ``(beta - 1) / D``; unless it is 0, every batch updates all words
    corpus_scale: float  # number of documents of the corpus that each document represents
    end: float  # total number of documents of the run; infinite: rates do not fall
    n_words: float = 0.0  # size of the vocabulary, for the paper's steps; 0: scaled steps, see `step_topics`


@jit
def add_gradients(documents, response, parameters, how, gradient):
    """Add the gradients of the losses of `documents` (Visited) by Phi and U to `gradient` (Topics)."""
    data, indices, indptr, labels, weights, order, targets = documents
    topics, totals, output, _ = parameters
    kind, n_layers, n_topics, n_outputs = response.kind, how.n_layers, totals.size, output.shape[0]
    ascending, table = np.arange(2 * n_layers).astype(np.uint32), empty((2 * n_layers, n_topics))
    slope, error = empty(n_topics), empty(n_outputs)
    for d in order:
        if weights[d] == 0.0:
            continue
        words, counts = indices[indptr[d] : indptr[d + 1]], data[indptr[d] : indptr[d + 1]]
        n = words.size
        document, layers = inferred(words, counts, topics, totals, how)
        theta = layers.thetas[n_layers]
        if gradient.evidence.size > 0:
            last = layers.masses[n_layers]
            add_evidence(weights[d], how.alpha, counts, theta, last, document.rows, gradient.evidence)
        if kind == NONE:
            for v in range(n):
                add_row(-weights[d] * counts[v] / layers.masses[n_layers, v], theta, gradient.topics[words[v]])
            continue
        has_labels = kind in (SOFTMAX, ORDERED)  # labels, not targets; a label may be missing
        label = labels[d] if has_labels else np.int32(0)
        if label < 0 and response.words == 0.0:
            continue
        for k in range(n_topics):
            slope[k] = 0.0
        if label >= 0:
            output_error(response, output, theta, label, targets[0 if has_labels else d], error)
            for c in range(n_outputs):
                error[c] *= weights[d]
                add_row(response.labelled * error[c], output[c], slope)
                if kind == ORDERED and c > 0:  # a cut is the same for all topics
                    for k in range(n_topics):
                        gradient.output[c, k] += error[c]
                else:
                    add_row(error[c], theta, gradient.output[c])
        if response.words > 0.0:
            for v in range(n):
                pull = -response.words * weights[d] * counts[v] / layers.masses[n_layers, v]
                add_row(pull, theta, gradient.topics[words[v]])
                add_row(pull, document.rows[v], slope)
        factors = empty((n, 2 * n_layers))
        propagate(document, how.alpha, how.method, layers, slope, table, factors)
        for v in range(n):
            add_rows_at(factors[v], ascending, table, gradient.topics[words[v]])


@jit
def step_topics(topics, totals, touched, gradient, weight, squares, t, rates, remaining):
    """Step along the mean gradient of a batch (Algorithm 2, lines 6 to 11), per column; reset `gradient` to zero.

    The length of a gradient is its root mean square over the batch's words, weighted by the square of their
    probabilities, so that `topic_rate` is the relative change of the probabilities of common words in a step. A word's
    entry is about 1 over its probability: without weights, rare words would dominate the length, and common words would
    hardly change. With `n_words`, the length is that of the paper, the root mean square over the entire vocabulary.

    `topics`, `totals`: of `Topics`, changed in place.
    `touched`: integers, the rows with a nonzero gradient.
    `gradient`: shape (n_words, n_topics), sum over the batch. `weight`: weight of the batch's documents.
    `squares`, `t`: as for `run_batches`; `t` counts this batch. `remaining`: factor of `topic_rate`.
    """
    n_topics, prior, n_words = totals.size, rates.prior, rates.n_words
    steepest = OVERFLOWING if n_words > 0.0 else STEEPEST
    start, steps = totals.copy(), empty(n_topics)
    moments, weights = zeros(n_topics), (EPSILON * totals) ** 2
    for i in range(touched.size):
        row, values = gradient[touched[i]], topics[touched[i]]
        for k in range(n_topics):
            row[k] = row[k] / weight - prior * start[k] / values[k]
            share = 1.0 if n_words > 0.0 else values[k]
            moments[k] += (share * row[k]) ** 2
            weights[k] += share**2
    for k in range(n_topics):
        squares[k] += moments[k] / (n_words if n_words > 0.0 else weights[k])
        steps[k] = remaining * rates.topic_rate / (np.sqrt(squares[k] / t) + EPSILON)
    for i in range(touched.size):
        row, values = gradient[touched[i]], topics[touched[i]]
        for k in range(n_topics):
            exponent = smaller(larger(-steps[k] * row[k], -steepest), steepest)
            new = larger(values[k] * np.exp(exponent), FLOOR * start[k])
            totals[k] += new - values[k]
            values[k] = new
            row[k] = 0.0


@jit_inline
def _settle(topics, words, last, cumulated, now, sums):
    """Add to `sums` the normalised rows of `words` in all batches since their last changes, up to batch `now`."""
    for i in range(words.size):
        v = words[i]
        for k in range(topics.shape[1]):
            sums[v, k] += topics[v, k] * (cumulated[now, k] - cumulated[last[v], k])
        last[v] = now


def run_batches(documents, response, parameters, how, rates, progress, sums):
    """Run Algorithm 2 over batches of documents in order; the parameters and the first entry of `progress` change.

    A batch changes only the rows of its words, and the columns' totals. So rows are stored unnormalised, and added to
    the averages only when they change.

    `parameters`: Topics; rows of Phi, finally normalised; `totals`: mass of words in no document, not changed.
    `sums`: Topics, to which Phi and U after every batch (unless topics have shape (0, 0)), and evidence are added.
    `progress`: before this run: sums of the gradients' mean squares, (n_topics,); number of batches; of documents.
    Returns the factor of the probabilities of words in no document, shape (n_topics,), and its sum over batches; the
    number of batches; `t`, the number of batches of positive weight, including those before this run.
    """
    topics, outside, output, _ = parameters
    (n_words, n_topics), order = topics.shape, documents.order
    n_batches = -(-order.size // rates.batch_size)
    current = Topics(topics, np.concatenate([outside[None], topics]).sum(axis=0), output)
    gradient = Topics(np.zeros_like(topics), outside, np.zeros_like(output), sums.evidence)
    squares, *counts = progress
    counts, decay, decay_sums = np.array(counts), np.ones(n_topics), np.zeros(n_topics)
    stamp, last = np.full(n_words, -1), np.zeros(n_words, np.int64)  # last batch with each word; last that changed it
    cumulated = np.zeros((n_batches + 1 if sums.topics.size else 0, n_topics))  # sums over batches of 1 / totals
    run = squares, decay, decay_sums, counts, stamp, last, np.arange(n_words), cumulated
    for batch in range(n_batches):
        chosen = documents._replace(order=order[batch * rates.batch_size : (batch + 1) * rates.batch_size])
        for part in parts_of(chosen, how, n_topics):
            add_gradients(part, response, current, how, gradient)
        _end_batch(chosen, batch, batch + 1 == n_batches, rates, current, gradient, sums, run)
    return decay, decay_sums, n_batches, float(counts[0])


def parts_of(documents, how, n_topics):
    """Yield documents in parts, each for one call of a kernel that infers topics and propagates errors."""
    for start, stop in runs(np.diff(documents.indptr)[documents.order] * (8.0 * how.n_layers * n_topics)):
        yield documents._replace(order=documents.order[start:stop])


@jit
def _end_batch(documents, batch, at_the_end, rates, current, gradient, sums, run):
    topics, totals, output, _ = current
    squares, decay, decay_sums, counts, stamp, last, touched, cumulated = run
    averaging, n_topics = sums.topics.size > 0, totals.size
    n_touched, weight, labelled = 0, 0.0, 0.0
    for d in documents.order:
        weight += documents.weights[d]
        if documents.labels.size == 0 or documents.labels[d] >= 0:
            labelled += documents.weights[d]
        for j in range(documents.indptr[d], documents.indptr[d + 1]):
            word = documents.indices[j]
            if stamp[word] != batch:
                stamp[word], touched[n_touched] = batch, word
                n_touched += 1
    changed = touched[:n_touched] if rates.prior == 0.0 else np.arange(topics.shape[0])
    counts[1] += rates.corpus_scale * weight
    if weight > 0.0:
        counts[0] += 1.0
        t, seen = counts
        remaining = larger(1.0 - (seen - 0.5 * rates.corpus_scale * weight) / rates.end, 0.0)
        if averaging:
            _settle(topics, changed, last, cumulated, batch, sums.topics)
        step_topics(topics, totals, changed, gradient.topics, weight, squares, t, rates, remaining)
        for c in range(output.shape[0] if labelled > 0.0 else 0):
            add_row(-rates.output_rate * remaining / labelled, gradient.output[c], output[c])
            gradient.output[c, :] = 0.0
    if averaging:
        for k in range(n_topics):
            cumulated[batch + 1, k] = cumulated[batch, k] + 1.0 / totals[k]
            decay_sums[k] += decay[k] / totals[k]
        for c in range(output.shape[0]):
            add_row(1.0, output[c], sums.output[c])
    if totals.max() > LARGE or totals.min() < 1.0 / LARGE or at_the_end:
        if averaging:
            _settle(topics, np.arange(last.size), last, cumulated, batch + 1, sums.topics)
        for v in range(topics.shape[0]):
            for k in range(n_topics):
                topics[v, k] /= totals[k]
        for k in range(n_topics):
            decay[k] /= totals[k]
            totals[k] = 1.0
