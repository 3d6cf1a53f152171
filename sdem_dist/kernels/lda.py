"""sdEM for classes that are LDA models (Masegosa 2014, Algorithms 5-7 as corrected)."""

import math

import numpy as np

from sdem_dist.kernels.csr import measured
from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.losses import NLL, advanced, loss_weights, renew_prior
from sdem_dist.kernels.parts import empty, larger, smaller
from sdem_dist.kernels.randomness import advanced as next_counter
from sdem_dist.kernels.randomness import content_key, derived, uniform
from sdem_dist.kernels.topics import EACH, GIBBS, MAP, gibbs, left_to_right, maximum_a_posteriori
from sdem_dist.kernels.vectors import log


@jit
def read_document(documents, d, words, shift, inverse, first, beta):
    """Return the counts of a document as float64, and the slice of `beta` with p(word | topic, class).

    `beta`: buffer, shape (words of the longest document, n_topics, n_chosen), for the n_chosen classes from `first` on.
    """
    start, stop = documents.indptr[d], documents.indptr[d + 1]
    n_classes, own = inverse.size // beta.shape[1], beta[: stop - start]
    for j in range(stop - start):
        row = words[documents.indices[start + j]]
        for z in range(beta.shape[1]):
            for k in range(beta.shape[2]):
                column = z * n_classes + first + k
                own[j, z, k] = (row[column] + shift) * inverse[column]
    return documents.data[start:stop].astype(np.float64), own


@jit
def infer(beta, counts, how, key, first, theta, scores):
    """Replace a document's `beta` by responsibilities; fill `theta` (n_topics, n_chosen) and `scores` (n_chosen,)."""
    n_words, n_topics, n_chosen = beta.shape
    each = how.occurrences == EACH
    n = np.int64(counts.sum()) if each else n_words
    positions, repeats, n = empty(n, np.int64), empty(n), 0
    for j in range(n_words):
        for _ in range(np.int64(counts[j]) if each else 1):
            positions[n], repeats[n] = j, 1.0 if each else counts[j]
            n += 1
    sampled = empty(n_chosen)
    block, q, theta_k = empty((n_words, n_topics)), empty((n_words, n_topics)), empty(n_topics)
    for k in range(n_chosen if how.method == GIBBS or how.n_particles > 0 else 0):
        block[:] = beta[:, :, k]
        key_k = derived(key, first + k)
        if how.method == GIBBS:
            gibbs(block, positions, repeats, how, key_k, q, theta_k)
            beta[:, :, k] = q
            theta[:, k] = theta_k
            if how.n_particles == 0:  # the plug-in estimate, too high on average for sampled proportions
                sampled[k] = 0.0
                for i in range(positions.size):
                    mixture = 0.0
                    for z in range(n_topics):
                        mixture += theta_k[z] * block[positions[i], z]
                    sampled[k] += repeats[i] * log(mixture)
        if how.n_particles > 0:
            alpha = np.full(n_topics, how.alpha)
            sampled[k] = left_to_right(block, positions, repeats, alpha, how.n_particles, derived(key_k, 0))
    if how.method == MAP:
        maximum_a_posteriori(beta, counts, how.alpha, how.n_sweeps, theta, scores)
    if how.method == GIBBS or how.n_particles > 0:
        scores[:] = sampled


@jit
def run_documents(documents, keys, table, schedule, moment, objective, how, rows, class_counts, stepping):
    """Run sdEM over documents in order, with one step per document, or sum their expected statistics (Table 2).

    `documents`: Visited. `keys`: uint64 of shape (n_documents,), keys of each document's random numbers.
    `table`: Table; column ``topic * n_classes + class`` is a topic of a class. `how`: TopicInference.
    `schedule`: Schedule. `moment`: Moment at the start. `objective`: Objective, without component classes.
    `rows`, `class_counts`: steps are added to them. If `stepping`, they are those of the table, else it is not changed.
    Returns `gamma`, `class_gamma`, `t` (float).
    """
    indptr, indices, labels, weights = documents.indptr, documents.indices, documents.labels, documents.weights
    words, totals, _, log_prior, learn_prior, vocabulary_size = table
    loss, tolerance, _ = objective
    n_classes = class_counts.size
    n_topics = totals.size // n_classes
    n_chosen = 1 if loss.kind == NLL else n_classes
    room = empty((measured(documents, words.shape[0])[1], n_topics, n_chosen))
    theta, inverse = empty((n_topics, n_chosen)), empty(totals.size)
    scores, step, stale = empty(n_classes), empty(n_classes), True
    for d in documents.order:
        rho, moment = advanced(schedule, moment, weights[d])
        if stale:
            for c in range(totals.size):
                inverse[c] = 1.0 / (totals[c] + moment.gamma * vocabulary_size)
            renew_prior(table, moment.class_gamma)
            stale = schedule.word_gain > 0.0  # gamma grows with every document
        first = labels[d] if loss.kind == NLL else 0
        counts, beta = read_document(documents, d, words, moment.gamma, inverse, first, room)
        infer(beta, counts, how, keys[d], first, theta, scores[:n_chosen])
        if loss.kind != NLL:
            for k in range(n_classes):
                scores[k] += log_prior[k]
        if weights[d] * loss_weights(loss, scores, np.int64(labels[d]), step) <= tolerance:
            continue
        stale = stale or stepping
        weight = weights[d]
        if schedule.mean_square > 0.0:  # a step is at most that of a mean document
            square = 0.0
            for j in range(counts.size):
                square += counts[j] * counts[j]
            weight = smaller(weight, schedule.mean_square / larger(square, 1e-300))
        for k in range(first, first + n_chosen):
            if weights[d] * abs(step[k]) <= tolerance:
                continue
            factor = rho * weight * step[k]
            if learn_prior or not stepping:
                change = factor * schedule.class_start / schedule.start
                class_counts[k] = larger(class_counts[k] + change, schedule.class_floor)
            for j in range(counts.size):
                row = rows[indices[indptr[d] + j]]
                for z in range(n_topics):
                    column = z * n_classes + k
                    new = larger(row[column] + factor * counts[j] * beta[j, z, k - first], schedule.floor)
                    totals[column] += new - row[column]
                    row[column] = new
    return moment.gamma, moment.class_gamma, moment.t


@jit
def score_documents(documents, ids, table, shift, seed, how, scores, thetas):
    """Fill class scores ln p(d | class) and proportions; `ids`: numbers of words in the corpus, for random keys."""
    (n_topics, n_classes), first = thetas.shape[1:], np.int64(0)  # a literal 0 would have another type
    room = empty((measured(documents, table.words.shape[0])[1], n_topics, n_classes))
    inverse = 1.0 / (table.totals + shift * table.vocabulary_size)
    for d in range(documents.indptr.size - 1):
        counts, beta = read_document(documents, d, table.words, shift, inverse, first, room)
        key = seed ^ content_key(ids[documents.indices[documents.indptr[d] : documents.indptr[d + 1]]], counts)
        infer(beta, counts, how, key, first, thetas[d], scores[d])


@jit
def estimate_documents(documents, topics, alpha, n_particles, seed, out):
    """Estimate ln p(document), see `left_to_right`; a fraction of a count is an occurrence with this weight."""
    data, indices, indptr = documents
    for d in range(out.size):
        start, stop = indptr[d], indptr[d + 1]
        beta = empty((stop - start, topics.shape[1]))
        length = 0
        for j in range(start, stop):
            beta[j - start] = topics[indices[j]]
            length += int(np.ceil(data[j]))
        key = seed ^ content_key(indices[start:stop], data[start:stop])
        positions, counts, at = empty(length, np.int64), empty(length), 0
        for j in range(start, stop):
            rest = float(data[j])
            while rest > 0.0:
                key = next_counter(key)
                other = int(uniform(key) * (at + 1))  # shuffle while filling
                positions[at], counts[at] = positions[other], counts[other]
                positions[other], counts[other] = j - start, smaller(rest, 1.0)
                rest -= 1.0
                at += 1
        out[d] = left_to_right(beta, positions, counts, alpha, n_particles, next_counter(key))


@jit
def digamma(x):
    """Return the derivative of ln Gamma at a positive number, with a relative error of about 1e-14."""
    below = 0.0
    while x < 10.0:
        below += 1.0 / x
        x += 1.0
    f = 1.0 / (x * x)
    return math.log(x) - 0.5 / x - f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f / 132)))) - below


@jit
def bound_document(beta, counts, alpha, n_sweeps, gamma):
    """Return ``E[ln p(words, z, theta)] - E[ln q(z, theta)]``, where theta is Dirichlet(gamma) under q.

    Any gamma gives a lower bound, and each sweep raises it. With the optimal q(z) given gamma, the bound is
    ``sum_j c_j ln sum_z beta_jz exp(E[ln theta_z])`` minus the KL divergence of theta's distribution from the prior.

    `beta`: float64 of shape (n_words, n_topics). `gamma`: float64 of shape (n_topics,), changed in place.
    """
    n_topics = gamma.size
    means, sums = empty(n_topics), empty(n_topics)
    bound = 0.0
    for sweep in range(n_sweeps + 1):
        of_all = digamma(gamma.sum())
        for z in range(n_topics):
            means[z] = math.exp(digamma(gamma[z]) - of_all)
        sums[:] = 0.0
        bound = 0.0
        for j in range(counts.size):
            mixture = 1e-300  # if every term underflows
            for z in range(n_topics):
                mixture += means[z] * beta[j, z]
            bound += counts[j] * log(mixture)
            for z in range(n_topics):
                sums[z] += counts[j] * means[z] * beta[j, z] / mixture
        if sweep < n_sweeps:
            for z in range(n_topics):
                gamma[z] = alpha + sums[z]
    bound -= math.lgamma(gamma.sum()) - math.lgamma(n_topics * alpha)
    of_all = digamma(gamma.sum())
    for z in range(n_topics):
        bound += math.lgamma(gamma[z]) - math.lgamma(alpha) - (gamma[z] - alpha) * (digamma(gamma[z]) - of_all)
    return bound


@jit
def bound_documents(documents, table, shift, alpha, n_sweeps, thetas, bounds):
    """Fill lower bounds of ln p(d | class); sweeps begin at `thetas`, approximate posterior means of proportions."""
    n_topics, n_classes = thetas.shape[1:]
    lengths, longest = measured(documents, table.words.shape[0])
    room, gamma = empty((longest, n_topics, 1)), empty(n_topics)
    inverse = 1.0 / (table.totals + shift * table.vocabulary_size)
    for d in range(lengths.size):
        for k in range(n_classes):
            counts, beta = read_document(documents, d, table.words, shift, inverse, k, room)
            for z in range(n_topics):
                gamma[z] = thetas[d, z, k] * (lengths[d] + n_topics * alpha)
            bounds[d, k] = bound_document(beta[:, :, 0], counts, alpha, n_sweeps, gamma)
