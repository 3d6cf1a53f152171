"""A few documents of a few topics, at random."""

from itertools import product

import numpy as np
from scipy.special import gammaln, logsumexp


def problem(seed: int, n_topics: int = 4, n_words: int = 9, n_documents: int = 3, n_outputs: int = 3):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.7), n_topics).T + 1e-4
    topics /= topics.sum(axis=0)
    counts = rng.poisson(1.5, (n_documents, n_words)).astype(np.float64)
    counts[:, 0] += 1
    labels, targets = rng.integers(0, n_outputs, n_documents), rng.normal(size=(n_documents, n_outputs))
    return topics, rng.normal(size=(n_outputs, n_topics)), counts, labels.astype(np.int32), targets


def csr(counts: np.ndarray):
    rows, columns = np.nonzero(counts)
    indptr = np.searchsorted(rows, np.arange(len(counts) + 1)).astype(np.int64)
    return counts[rows, columns], columns.astype(np.uint32), indptr


def exact_topics(beta, counts, alpha):
    """Return ln p(document) and the expected share of each topic for each position, by summing over all topics.

    `beta`: shape (n_positions, n_topics). `counts`: occurrences of each position. `alpha`: number, or one a topic.
    """
    n, n_topics = beta.shape
    alpha, log_weights, chosen = np.broadcast_to(alpha, n_topics), [], []
    for z in product(range(n_topics), repeat=n):
        sums = np.bincount(np.array(z, int), counts, n_topics)
        log_p = (counts * np.log(beta[np.arange(n), list(z)])).sum() + (gammaln(sums + alpha) - gammaln(alpha)).sum()
        log_weights.append(log_p + gammaln(alpha.sum()) - gammaln(alpha.sum() + counts.sum()))
        chosen.append(np.eye(n_topics)[list(z)])
    total = logsumexp(log_weights)
    return total, np.tensordot(np.exp(np.array(log_weights) - total), np.array(chosen), 1)
