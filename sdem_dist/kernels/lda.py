"""sdEM for documents whose classes are LDA models, over word-major arrays (Masegosa 2014, Algorithms 5 to 7 as corrected).

Tables have a column for each topic and class, ``topic * n_classes + class``; with one topic they are naive Bayes's.
`how` is the tuple (inference, occurrences, alpha, n_sweeps, burn_in, n_particles).
"""

from __future__ import annotations

import numpy as np

from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.losses import NLL, class_weights
from sdem_dist.kernels.randomness import content_key, derived
from sdem_dist.kernels.topics import EXACT, PAPER, gibbs, left_to_right, maximum_a_posteriori, plug_in

MAP, GIBBS = 0, 1
"""Inference."""
SHARED, LITERAL, EACH = 0, 1, 2
"""Occurrences of a word: they share a topic, share it by the printed equation 18, or draw one each."""


@jit
def gather_beta(words, shift, inverse, indices, first, beta):  # type: ignore[no-untyped-def]
    """Fill `beta`, shape (n_words, n_topics, n_chosen), with p(word | topic, class) of classes from `first` on."""
    n_classes = inverse.size // beta.shape[1]
    for j in range(indices.size):
        row = words[indices[j]]
        for z in range(beta.shape[1]):
            for k in range(beta.shape[2]):
                column = z * n_classes + first + k
                beta[j, z, k] = (row[column] + shift) * inverse[column]


@jit
def positions_of(counts, how):  # type: ignore[no-untyped-def]
    """Return the word and the occurrences of each position of a document."""
    if how[1] != EACH:
        return np.arange(counts.size), counts
    n_positions = 0
    for j in range(counts.size):
        n_positions += int(counts[j])
    positions = np.empty(n_positions, np.int64)
    i = 0
    for j in range(counts.size):
        for _ in range(int(counts[j])):
            positions[i] = j
            i += 1
    return positions, np.ones(n_positions)


@jit
def infer(beta, counts, how, key, first, theta, scores):  # type: ignore[no-untyped-def]
    """Replace `beta` by responsibilities, and fill `theta` (n_topics, n_chosen) and `scores` (n_chosen,) of a document."""
    inference, occurrences, alpha, n_sweeps, burn_in, n_particles = how
    n_words, n_topics, n_chosen = beta.shape
    positions, repeats = positions_of(counts, how)
    sampled = np.empty(n_chosen)
    block, q, theta_k = np.empty((n_words, n_topics)), np.empty((n_words, n_topics)), np.empty(n_topics)
    if inference == GIBBS or n_particles > 0:
        for k in range(n_chosen):
            block[:] = beta[:, :, k]
            key_k = derived(key, first + k)
            if inference == GIBBS:
                rule = PAPER if occurrences == LITERAL else EXACT
                gibbs(block, positions, repeats, alpha, rule, n_sweeps, burn_in, key_k, q, theta_k)
                beta[:, :, k] = q
                theta[:, k] = theta_k
                if n_particles == 0:
                    scores[k] = plug_in(block, positions, repeats, theta_k)
            if n_particles > 0:
                sampled[k] = left_to_right(block, positions, repeats, alpha, n_particles, derived(key_k, 0))
    if inference == MAP:
        maximum_a_posteriori(beta, counts, alpha, n_sweeps, theta, scores)
    if n_particles > 0:
        scores[:] = sampled


@jit
def longest_document(data, indices, indptr, n_words):  # type: ignore[no-untyped-def]
    """Return the most distinct words of a document, and check that all words are in the table."""
    longest = 0
    for d in range(indptr.size - 1):
        longest = max(longest, indptr[d + 1] - indptr[d])
    for j in range(indptr[indptr.size - 1]):
        if indices[j] >= n_words:
            raise IndexError("a document has a word beyond the table of words")
    return longest


@jit
def run_documents(
    data, indices, indptr, labels, weights, order, keys, words, totals, class_counts, frozen, gamma, class_gamma,
    log_prior, learn_prior, word_step, class_step, vocabulary_size, t, t_step, decay, loss, tolerance, how,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Run sdEM over documents in `order`, one step a document, changing the counts in place.

    Parameters
    ----------
    keys : ndarray of shape (n_documents,), uint64
        What each document's random numbers depend on.
    words : ndarray of shape (n_words, n_topics * n_classes), float64
        Expected counts N of word, topic and class, without gamma.  Changed in place.
    totals : ndarray of shape (n_topics * n_classes,), float64
        M, the sum of N over the whole vocabulary.  Changed in place.
    how : tuple, see the module
    data, indices, ... : as for `sdem_dist.kernels.multinomial.run_documents`

    Returns
    -------
    gamma, class_gamma, t : float
    """
    n_classes = class_counts.size
    n_topics = totals.size // n_classes
    buffer = np.empty(longest_document(data, indices, indptr, words.shape[0]) * totals.size)
    theta = np.empty((n_topics, n_classes))
    scores, step, inverse = np.empty(n_classes), np.empty(n_classes), np.empty(totals.size)
    stale = True
    for d in order:
        t += t_step * weights[d]
        rho = 1.0 / (1.0 + decay * t)
        gamma += word_step * rho * weights[d]
        class_gamma += class_step * rho * weights[d]
        if stale:
            for c in range(totals.size):
                inverse[c] = 1.0 / (totals[c] + frozen * vocabulary_size)
            if learn_prior:
                for k in range(n_classes):
                    log_prior[k] = np.log(class_counts[k] + class_gamma)
            stale = False
        first, n_chosen = (labels[d], 1) if loss == NLL else (0, n_classes)
        start, stop = indptr[d], indptr[d + 1]
        counts = data[start:stop].astype(np.float64)
        beta = buffer[: (stop - start) * n_topics * n_chosen].reshape((stop - start, n_topics, n_chosen))
        gather_beta(words, frozen, inverse, indices[start:stop], first, beta)
        infer(beta, counts, how, keys[d], first, theta[:, :n_chosen], scores[:n_chosen])
        if loss != NLL:
            for k in range(n_classes):
                scores[k] += log_prior[k]
        if weights[d] * class_weights(loss, scores, labels[d], step) <= tolerance:
            continue
        stale = True
        for k in range(first, first + n_chosen):
            if weights[d] * abs(step[k]) <= tolerance:
                continue
            factor = rho * weights[d] * step[k]
            if learn_prior:
                class_counts[k] = max(class_counts[k] + factor, 0.0)
            for j in range(start, stop):
                row = words[indices[j]]
                for z in range(n_topics):
                    column = z * n_classes + k
                    new = max(row[column] + factor * counts[j - start] * beta[j - start, z, k - first], 0.0)
                    totals[column] += new - row[column]
                    row[column] = new
    return gamma, class_gamma, t


@jit
def add_expected_statistics(
    data, indices, indptr, labels, weights, keys, words, totals, shift, log_prior, vocabulary_size, loss, tolerance,
    how, rows, class_counts,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Add every document's expected statistics, weighted by class, at fixed parameters (Table 2).

    Parameters
    ----------
    words, totals, shift : the counts, their sums, and what is added to each
    rows : ndarray of shape (n_words, n_topics * n_classes), float64, added to
    class_counts : ndarray of shape (n_classes,), float64, added to
    """
    n_classes = class_counts.size
    n_topics = totals.size // n_classes
    buffer = np.empty(longest_document(data, indices, indptr, words.shape[0]) * totals.size)
    theta = np.empty((n_topics, n_classes))
    scores, step = np.empty(n_classes), np.empty(n_classes)
    inverse = 1.0 / (totals + shift * vocabulary_size)
    for d in range(indptr.size - 1):
        first, n_chosen = (labels[d], 1) if loss == NLL else (0, n_classes)
        start, stop = indptr[d], indptr[d + 1]
        counts = data[start:stop].astype(np.float64)
        beta = buffer[: (stop - start) * n_topics * n_chosen].reshape((stop - start, n_topics, n_chosen))
        gather_beta(words, shift, inverse, indices[start:stop], first, beta)
        infer(beta, counts, how, keys[d], first, theta[:, :n_chosen], scores[:n_chosen])
        if loss != NLL:
            for k in range(n_classes):
                scores[k] += log_prior[k]
        class_weights(loss, scores, labels[d], step)
        for k in range(first, first + n_chosen):
            factor = weights[d] * step[k]
            if abs(factor) <= tolerance:
                continue
            class_counts[k] += factor
            for j in range(start, stop):
                for z in range(n_topics):
                    rows[indices[j], z * n_classes + k] += factor * counts[j - start] * beta[j - start, z, k - first]


@jit
def score_documents(data, indices, indptr, ids, words, totals, shift, vocabulary_size, seed, how, scores, thetas):  # type: ignore[no-untyped-def]
    """Fill the class scores ln p(d | class) and topic proportions of documents.

    Parameters
    ----------
    ids : ndarray of shape (n_words,), integers
        Word of the corpus of each row of `words`: random numbers depend on what a document holds, not on where it stands.
    seed : uint64
    scores : ndarray of shape (n_documents, n_classes), float64, overwritten
    thetas : ndarray of shape (n_documents, n_topics, n_classes), float64, overwritten
    """
    n_topics, n_classes = thetas.shape[1:]
    buffer = np.empty(longest_document(data, indices, indptr, words.shape[0]) * totals.size)
    inverse = 1.0 / (totals + shift * vocabulary_size)
    for d in range(indptr.size - 1):
        start, stop = indptr[d], indptr[d + 1]
        counts = data[start:stop].astype(np.float64)
        beta = buffer[: (stop - start) * n_topics * n_classes].reshape((stop - start, n_topics, n_classes))
        gather_beta(words, shift, inverse, indices[start:stop], 0, beta)
        key = seed ^ content_key(ids[indices[start:stop]], counts)
        infer(beta, counts, how, key, 0, thetas[d], scores[d])
