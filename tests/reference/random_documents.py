"""Small random corpora for tests, with what real ones have: empty documents, words of one class, rare words."""

from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, logsumexp

from sdem_dist.documents import Documents
from sdem_dist.learners.protocol import Lane


def random_counts(n_documents: int = 120, n_words: int = 30, n_classes: int = 3, seed: int = 0, length: float = 8.0):
    """Return counts (CSR of integers) and labels; the classes differ, yet not so much that training is at once done."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.4), n_classes)
    y = rng.permutation(np.arange(n_documents) % n_classes)
    X = np.array([rng.multinomial(rng.poisson(length), 0.5 * topics[k] + 0.5 / n_words) for k in y], dtype=np.int64)
    X[:: max(n_documents // 5, 1)] = 0
    return sp.csr_matrix(X), y


def topic_counts(n_documents: int = 400, seed: int = 0):
    """Return counts (CSR), labels and topics: two classes, each of which writes about one of two things, ten words each."""
    rng, words = np.random.default_rng(seed), np.zeros((4, 40))
    for topic in range(4):
        words[topic, 10 * topic : 10 * topic + 10] = rng.dirichlet(np.full(10, 5.0))
    y = np.arange(n_documents) % 2
    topic = 2 * y + rng.integers(0, 2, n_documents)
    return sp.csr_matrix(np.array([rng.multinomial(15, 0.9 * words[t] + 0.1 / 40) for t in topic])), y, topic


def stored_order(n_documents: int, seed: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed)).permutation(n_documents)


def lane_order(n_documents: int, seed: int, epoch: int, round_: int, lane: int) -> np.ndarray:
    key = np.array([seed, epoch * 2**40 + round_ * 2**20 + lane], np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).permutation(n_documents)


def documents_of(X: Any, labels: Any = None, **more: Any) -> Documents:
    csr = sp.csr_matrix(X)
    arrays = csr.data, csr.indices.astype(np.uint32), csr.indptr.astype(np.int64), csr.shape[1]
    return Documents(*arrays, labels=None if labels is None else np.asarray(labels, np.int32), **more)


def one_round(learner: Any, state: Any, documents: Any, epoch: int = 0) -> Any:
    """Return the state after a round of one lane."""
    n = documents.n_documents
    return learner.update(state, learner.map(state, learner.prepare(documents), Lane(epoch, 0, 0, 0, n, n)))


def problem(seed: int, n_topics: int = 4, n_words: int = 9, n_documents: int = 3, n_outputs: int = 3):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(n_words, 0.7), n_topics).T.copy() + 1e-4  # in rows, as in training
    topics /= topics.sum(axis=0)
    counts = rng.poisson(1.5, (n_documents, n_words)).astype(np.float64)
    counts[:, 0] += 1
    labels, targets = rng.integers(0, n_outputs, n_documents), rng.normal(size=(n_documents, n_outputs))
    return topics, rng.normal(size=(n_outputs, n_topics)), counts, labels.astype(np.int32), targets


def csr(counts: np.ndarray):
    rows, columns = np.nonzero(counts)
    indptr = np.searchsorted(rows, np.arange(len(counts) + 1)).astype(np.int64)
    return counts[rows, columns].astype(np.float32), columns.astype(np.uint32), indptr  # compiled for training, too


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
