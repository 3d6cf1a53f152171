"""How probable documents are under LDA, topics and proportions summed out (Wallach et al. 2009, Algorithm 3)."""

from __future__ import annotations

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline


@jit_inline
def _random(state):  # type: ignore[no-untyped-def]
    """Advance ``state[0]``, uint64, and return a number in [0, 1) (the generator SplitMix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@jit_inline
def _cumulate(row, counts, alpha, cumulated):  # type: ignore[no-untyped-def]
    """Set `cumulated` to running sums of ``p(w | k) (n_k + alpha)``, and return the last."""
    total = 0.0
    for k in range(counts.size):
        total += row[k] * (counts[k] + alpha)
        cumulated[k] = total
    return total


@jit_inline
def _drawn(cumulated, at):  # type: ignore[no-untyped-def]
    """Return the first topic whose running sum exceeds `at`."""
    k = 0
    while k < cumulated.size - 1 and cumulated[k] <= at:
        k += 1
    return k


@jit
def left_to_right(data, indices, indptr, topics, alpha, n_particles, seed, out):  # type: ignore[no-untyped-def]
    """Estimate ln p(document) word by word, each given those before it.

    Parameters
    ----------
    data, indices, indptr : CSR arrays of the documents; whole numbers
    topics : ndarray of shape (n_words, n_topics), float64
        p(word | topic).
    alpha : float
        Of the symmetric Dirichlet prior.
    n_particles : int
    seed : int
        Of the order of a document's words and of all draws for it, with its words: not its neighbours.
    out : ndarray of shape (n_documents,), float64, overwritten
    """
    n_topics = topics.shape[1]
    mass = alpha * n_topics
    state, cumulated = np.empty(1, np.uint64), np.empty(n_topics)
    for d in range(out.size):
        state[0] = np.uint64(seed)
        length = 0
        for j in range(indptr[d], indptr[d + 1]):
            length += int(data[j])
            state[0] += np.uint64(indices[j])
            _random(state)
            state[0] ^= np.uint64(int(data[j])) * np.uint64(0xBF58476D1CE4E5B9)
        words, at = np.empty(length, np.int64), 0
        for j in range(indptr[d], indptr[d + 1]):
            for _ in range(int(data[j])):
                other = int(_random(state) * (at + 1))  # a shuffle that goes along with the filling
                words[at] = words[other]
                words[other] = indices[j]
                at += 1
        assigned, counts = np.empty((n_particles, length), np.int64), np.zeros((n_particles, n_topics))
        out[d] = 0.0
        for n in range(length):
            probability = 0.0
            for r in range(n_particles):
                chosen, own = assigned[r], counts[r]
                for i in range(n):
                    own[chosen[i]] -= 1.0
                    row = topics[words[i]]
                    chosen[i] = _drawn(cumulated, _random(state) * _cumulate(row, own, alpha, cumulated))
                    own[chosen[i]] += 1.0
                total = _cumulate(topics[words[n]], own, alpha, cumulated)
                probability += total / (n + mass)
                chosen[n] = _drawn(cumulated, _random(state) * total)
                own[chosen[n]] += 1.0
            out[d] += np.log(probability / n_particles)
