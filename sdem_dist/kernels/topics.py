"""Topics of one document under one or more classes: maximum a posteriori, collapsed Gibbs sampling, left to right."""

import math
from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline
from sdem_dist.kernels.parts import empty, larger, smaller, zeros
from sdem_dist.kernels.randomness import advanced, uniform
from sdem_dist.kernels.rows import copy_row
from sdem_dist.kernels.vectors import log

MAP, GIBBS = 0, 1  # inference
SHARED, LITERAL, EACH = 0, 1, 2
"""Topics of a word's occurrences: a shared one, a shared one by equation 18 as printed, or one for each occurrence."""
MOST = 10_000  # largest number of sweeps, layers and particles, to bound the running time
MOVES = 32  # number of earlier words whose topics are resampled before each word, left to right
_DIRECT = 16


def check_number(name: str, value: int, least: int, most: int = MOST) -> None:
    """Raise ValueError, with the name, unless ``least <= value <= most``, for sweeps, layers and particles."""
    if not least <= value <= most:
        raise ValueError(f"{name} must be between {least} and {most:,}, got {value:,}")


class TopicInference(NamedTuple):
    """Settings of the inference of a document's topics."""

    method: int
    occurrences: int  # with `LITERAL` a position draws from ``beta (S + alpha)``, else from its exact conditional
    alpha: float  # parameter of the Dirichlet prior of a document's topics
    n_sweeps: int
    burn_in: int  # number of first sweeps whose samples are discarded; less than n_sweeps
    n_particles: int  # for the left-to-right estimate; 0: no estimate


@jit
def maximum_a_posteriori(beta, counts, alpha, n_sweeps, theta, scores):
    """Set `theta` to the maximum of ``sum_j c_j ln sum_z theta_z beta_jz + alpha sum_z ln theta_z``, by EM.

    `beta`: shape (n_words, n_topics, n_classes), p(word | topic, class), overwritten by responsibilities.
    `scores`: shape (n_classes,), overwritten by the maximum: ``ln p(d, theta | class)`` up to a constant.
    """
    n_words, n_topics, n_classes = beta.shape
    mixture, ratio = empty(n_classes), empty(n_classes)
    sums, length = empty((n_topics, n_classes)), counts.sum()
    theta[:] = 1.0 / n_topics
    for _ in range(n_sweeps if n_topics > 1 else 0):
        sums[:] = 0.0
        for j in range(n_words):
            mixture[:] = 0.0
            for z in range(n_topics):
                for k in range(n_classes):
                    mixture[k] += theta[z, k] * beta[j, z, k]
            for k in range(n_classes):
                ratio[k] = counts[j] / mixture[k]
            for z in range(n_topics):
                for k in range(n_classes):
                    sums[z, k] += beta[j, z, k] * ratio[k]
        for z in range(n_topics):
            for k in range(n_classes):
                theta[z, k] = (alpha + theta[z, k] * sums[z, k]) / (length + n_topics * alpha)
    scores[:] = 0.0
    if n_topics > 1:
        for z in range(n_topics):
            for k in range(n_classes):
                scores[k] += alpha * np.log(theta[z, k])
    for j in range(n_words):
        mixture[:] = 0.0
        for z in range(n_topics):
            for k in range(n_classes):
                beta[j, z, k] *= theta[z, k]
                mixture[k] += beta[j, z, k]
        for z in range(n_topics):
            for k in range(n_classes):
                beta[j, z, k] /= mixture[k]
        for k in range(n_classes):
            scores[k] += counts[j] * log(mixture[k])


@jit_inline
def _conditional(beta, sums, alpha, count, out):
    """Fill `out` with a multiple of p(topic of a position, its word | other positions); return ln of the factor.

    The probability is proportional to ``beta^c Gamma(S + c + alpha) / Gamma(S + alpha)`` for c occurrences.
    """
    n_topics = out.size
    if count == 1.0:
        for z in range(n_topics):
            out[z] = beta[z] * (sums[z] + alpha)
        return 0.0
    best, most = 0.0, 0.0
    for z in range(n_topics):
        best, most = larger(best, beta[z]), larger(most, sums[z])
    if count <= _DIRECT and count == np.floor(count):
        scale = 0.0
        for z in range(n_topics):
            out[z] = 1.0
        for i in range(int(count)):
            top = most + alpha + i
            scale += np.log(best * top)
            for z in range(n_topics):
                out[z] *= beta[z] * (sums[z] + alpha + i) / (best * top)
        return -scale
    top = -np.inf
    for z in range(n_topics):
        out[z] = count * np.log(beta[z]) + math.lgamma(sums[z] + count + alpha) - math.lgamma(sums[z] + alpha)
        top = larger(top, out[z])
    for z in range(n_topics):
        out[z] = np.exp(out[z] - top)
    return -top


@jit_inline
def _drawn(weights, u):
    """Return a topic drawn in proportion to `weights`, from the uniform number `u`."""
    left = u * weights.sum()
    for z in range(weights.size - 1):
        left -= weights[z]
        if left < 0.0:
            return z
    return weights.size - 1


@jit
def gibbs(beta, positions, counts, how, key, q, theta):
    """Sample the topics of a document under one class, with topic proportions integrated out (equation 18).

    The first sweep initialises: each position is drawn given the earlier positions.

    `beta`: float64 of shape (n_words, n_topics), p(word | topic). `positions`: integers, word of each position; a
    position has one topic, and is all occurrences of a word, or one. `counts`: occurrences of each position.
    `q`: float64 of shape (n_words, n_topics), overwritten: mean share of each topic in a word's occurrences, over the
    sweeps after burn-in.
    `theta`: float64 of shape (n_topics,), overwritten: mean of ``(S + alpha) / (n + n_topics alpha)`` over them.
    """
    alpha, n_sweeps, burn_in = how.alpha, how.n_sweeps, how.burn_in
    n_topics = beta.shape[1]
    topics, sums, weights = empty(positions.size, np.int32), zeros(n_topics), empty(n_topics)
    q[:], theta[:] = 0.0, 0.0
    for sweep in range(n_sweeps):
        for i in range(positions.size):
            j = positions[i]
            if sweep > 0:
                sums[topics[i]] -= counts[i]
            key = advanced(key)
            _conditional(beta[j], sums, alpha, 1.0 if how.occurrences == LITERAL else counts[i], weights)
            topics[i] = _drawn(weights, uniform(key))
            sums[topics[i]] += counts[i]
        if sweep >= burn_in:
            for i in range(positions.size):
                q[positions[i], topics[i]] += counts[i]
            for z in range(n_topics):
                theta[z] += sums[z]
    n_samples, length = n_sweeps - burn_in, counts.sum()
    for z in range(n_topics):
        theta[z] = (theta[z] / n_samples + alpha) / (length + n_topics * alpha)
    for j in range(q.shape[0]):
        total = q[j].sum()
        for z in range(n_topics if total > 0.0 else 0):  # zeros for a stored word with count 0
            q[j, z] /= total


@jit
def left_to_right(beta, positions, counts, alpha, n_particles, key):
    """Return an estimate of ``ln p(document | class)``; its exponential is unbiased.

    Before each word, the topics of earlier words are resampled (Wallach et al. 2009, Algorithm 3): of at most `MOVES`
    words, evenly spaced from a random one on. Any number of such moves leaves the posterior invariant, so the estimate
    is unbiased, and its time is proportional to the document's length, not to its square. After each word, particles
    are resampled in proportion to their probabilities of the word; otherwise the mean over particles would not be
    consistent.

    `beta`, `positions`, `counts`, `key`: as for `gibbs`. `alpha`: shape (n_topics,). `n_particles`: int.
    """
    n_topics, least = beta.shape[1], alpha.min()
    topics = empty((n_particles, positions.size), np.int32)
    sums, weights = empty((n_particles, n_topics)), empty(n_topics)
    other_topics, other_sums = empty(topics.shape, np.int32), empty(sums.shape)
    for r in range(n_particles):  # NumPy's assignments take seconds to compile
        for z in range(n_topics):
            sums[r, z] = alpha[z] - least
    pseudo = n_topics * least + (alpha - least).sum()
    likelihoods, chosen = empty(n_particles), empty(n_particles, np.int64)
    length, score = 0.0, 0.0
    for i in range(positions.size):
        rising = math.lgamma(length + pseudo + counts[i]) - math.lgamma(length + pseudo)
        for r in range(n_particles):
            n_moves, shift = smaller(i, MOVES), 0
            if i > MOVES:
                key = advanced(key)
                shift = int(uniform(key) * i)
            for move in range(n_moves):
                before = (move * i // n_moves + shift) % i
                sums[r, topics[r, before]] -= counts[before]
                _conditional(beta[positions[before]], sums[r], least, counts[before], weights)
                key = advanced(key)
                topics[r, before] = _drawn(weights, uniform(key))
                sums[r, topics[r, before]] += counts[before]
            scale = _conditional(beta[positions[i]], sums[r], least, counts[i], weights)
            likelihoods[r] = np.log(weights.sum()) - scale - rising
            key = advanced(key)
            topics[r, i] = _drawn(weights, uniform(key))
            sums[r, topics[r, i]] += counts[i]
        length += counts[i]
        top = likelihoods.max()
        for r in range(n_particles):
            likelihoods[r] = np.exp(likelihoods[r] - top)
        score += top + np.log(likelihoods.sum() / n_particles)
        if n_particles > 1:  # systematic resampling, from one uniform number
            key = advanced(key)
            u, reached, total, r = uniform(key), 0.0, likelihoods.sum(), -1
            for particle in range(n_particles):
                while reached <= (particle + u) / n_particles * total and r < n_particles - 1:
                    r += 1
                    reached += likelihoods[r]
                chosen[particle] = r
            for r in range(n_particles):
                copy_row(topics[chosen[r], : i + 1], other_topics[r])
                copy_row(sums[chosen[r]], other_sums[r])
            topics, other_topics, sums, other_sums = other_topics, topics, other_sums, sums
    return score
