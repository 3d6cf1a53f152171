"""How probable documents are under LDA: estimated from left to right, and bounded from below."""

import math

import numpy as np

from sdem_dist.kernels.csr import measured
from sdem_dist.kernels.jit import jit
from sdem_dist.kernels.lda import gather_beta
from sdem_dist.kernels.randomness import advanced, content_key, uniform
from sdem_dist.kernels.topics import left_to_right
from sdem_dist.kernels.vectors import log


@jit
def estimate_documents(documents, topics, alpha, n_particles, seed, out):
    """Estimate ln p(document) for each document, see `sdem_dist.kernels.topics.left_to_right`.

    `documents`: Counted; a fraction of an occurrence counts as one of that weight.
    `topics`: float64 of shape (n_words, n_topics), p(word | topic).
    `alpha`: shape (n_topics,), of the Dirichlet prior. `n_particles`: int.
    `seed`: uint64, of the order of a document's words and of all draws for it, with what it holds: not its place or
    its neighbours.
    `out`: float64 of shape (n_documents,), overwritten.
    """
    data, indices, indptr = documents
    for d in range(out.size):
        start, stop = indptr[d], indptr[d + 1]
        beta = np.empty((stop - start, topics.shape[1]))
        length = 0
        for j in range(start, stop):
            beta[j - start] = topics[indices[j]]
            length += int(np.ceil(data[j]))
        key = seed ^ content_key(indices[start:stop], data[start:stop])
        positions, counts, at = np.empty(length, np.int64), np.empty(length), 0
        for j in range(start, stop):
            rest = float(data[j])
            while rest > 0.0:
                key = advanced(key)
                other = int(uniform(key) * (at + 1))  # a shuffle that goes along with the filling
                positions[at], counts[at] = positions[other], counts[other]
                positions[other], counts[other] = j - start, min(rest, 1.0)
                rest -= 1.0
                at += 1
        out[d] = left_to_right(beta, positions, counts, alpha, n_particles, advanced(key))


@jit
def digamma(x):
    """Return the derivative of ln Gamma at a positive number, to about 1e-14 relative."""
    below = 0.0
    while x < 10.0:
        below += 1.0 / x
        x += 1.0
    f = 1.0 / (x * x)
    return math.log(x) - 0.5 / x - f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f / 132)))) - below


@jit
def bound_document(beta, counts, alpha, n_sweeps, gamma):
    """Return ``E[ln p(words, z, theta)] - E[ln q(z, theta)]``, theta being Dirichlet(gamma) under q.

    Any gamma gives a bound; each sweep raises it. The q of the topics is the best one given gamma: with it their part
    of the bound is ``sum_j c_j ln sum_z beta_jz exp(E[ln theta_z])``, and theta's is minus its KL divergence from the
    prior.

    `beta`: float64 of shape (n_words, n_topics). `counts`: float64 of shape (n_words,). `alpha`: float.
    `n_sweeps`: int. `gamma`: float64 of shape (n_topics,), changed in place.
    """
    n_topics = gamma.size
    means, sums = np.empty(n_topics), np.empty(n_topics)
    bound = 0.0
    for sweep in range(n_sweeps + 1):
        of_all = digamma(gamma.sum())
        for z in range(n_topics):
            means[z] = math.exp(digamma(gamma[z]) - of_all)
        sums[:] = 0.0
        bound = 0.0
        for j in range(counts.size):
            mixture = 1e-300  # where every term underflows
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
    """Fill lower bounds of ln p(d | class), from topic proportions that inference has found.

    `documents`: Counted. `table`: Table, as for `sdem_dist.kernels.lda.score_documents`. `shift`, `alpha`: float.
    `n_sweeps`: int.
    `thetas`: float64 of shape (n_documents, n_topics, n_classes), posterior means of the proportions, about: where
    sweeps begin.
    `bounds`: float64 of shape (n_documents, n_classes), overwritten.
    """
    data, indices, indptr = documents
    n_topics, n_classes = thetas.shape[1:]
    lengths, longest = measured(documents, table.words.shape[0])
    beta, gamma = np.empty((longest, n_topics, 1)), np.empty(n_topics)
    inverse = 1.0 / (table.totals + shift * table.vocabulary_size)
    for d in range(lengths.size):
        words = indices[indptr[d] : indptr[d + 1]]
        counts = data[indptr[d] : indptr[d + 1]].astype(np.float64)
        for k in range(n_classes):
            gather_beta(table.words, shift, inverse, words, k, beta)
            for z in range(n_topics):
                gamma[z] = thetas[d, z, k] * (lengths[d] + n_topics * alpha)
            bounds[d, k] = bound_document(beta[: words.size, :, 0], counts, alpha, n_sweeps, gamma)
