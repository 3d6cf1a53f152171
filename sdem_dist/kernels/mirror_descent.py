"""Topic proportions of a document by mirror descent, and back-propagation through it (Chen et al. 2015)."""

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline
from sdem_dist.kernels.parts import empty, larger, smaller, zeros
from sdem_dist.kernels.rows import add_rows_at, copy_row

FLOOR = 1e-12  # least share of a topic, and least probability of a word
SHRINKAGE = 0.5  # eta of Algorithm 1
# If only one topic explains a word, the word's pull on it is 1 / its share: without this bound shares would oscillate,
# and the gradient would grow from layer to layer, to 1e60 and more.
STEEPEST = 1.0  # ln of the largest factor of a topic, relative to the mean, in one step without a line search
TRIALS = 40  # number of step sizes that a line search tries before it takes no step
MIRROR_DESCENT, ACCELERATED, LINE_SEARCH, LINE_SEARCH_L1 = 0, 1, 2, 3  # methods


class Descent(NamedTuple):
    """Settings of the inference of topic proportions."""

    alpha: np.ndarray  # parameters of the Dirichlet prior, shape (n_topics,), float64
    n_layers: int
    step: float  # T times the sum of words and pseudo-counts of a document; a line search first tries 2 T
    method: int  # one of the four above; if a line search fails, the step of its layer is 0


class Words(NamedTuple):
    """One document."""

    rows: np.ndarray  # Phi of its words, shape (n_words, n_topics), C-contiguous, float64
    columns: np.ndarray  # transpose of `rows`, C-contiguous
    counts: np.ndarray  # shape (n_words,)
    ascending: np.ndarray  # 0, 1, 2, ..., uint32, at least as long as words and topics


class Layers(NamedTuple):
    """Results of `infer` for every layer."""

    thetas: np.ndarray  # theta_0 to theta_L, the points of the gradients: shape (n_layers + 1, n_topics)
    points: np.ndarray  # end points of the steps, the same shape; the same array except with `ACCELERATED`
    steps: np.ndarray  # shape (n_layers,)
    masses: np.ndarray  # Phi theta, shape (n_layers + 1, n_words)


@jit_inline
def _descend(theta, pull, step, new):
    """Take one step of mirror descent from `theta` (equation 12); `pull` is minus the gradient."""
    top, total = pull[0], 0.0
    for k in range(pull.size):
        top = larger(top, pull[k])
    for k in range(pull.size):
        new[k] = theta[k] * np.exp(step * (pull[k] - top))
        total += new[k]
    for k in range(pull.size):
        new[k] = larger(new[k] / total, FLOOR)


@jit_inline
def _mixed(theta, columns, ascending, mass):
    """``mass = Phi theta``, for the words of the document."""
    for v in range(mass.size):
        mass[v] = 0.0
    add_rows_at(theta, ascending[: theta.size], columns, mass)


@jit
def objective(counts, mass, theta, alpha):
    """Return f of equation 10 from ``mass = Phi theta``."""
    total = 0.0
    for v in range(counts.size):
        total -= counts[v] * np.log(mass[v])
    for k in range(theta.size):
        total -= (alpha[k] - 1.0) * np.log(theta[k])
    return total


@jit_inline
def _momentum(method, layer):
    """Return the weight of the previous point in the gradient's point of a layer, and in the layer's result."""
    return 2.0 / (layer + 2.0) if method == ACCELERATED else 1.0


@jit
def infer(document, alpha, step, method, layers):
    """Infer a document's topic proportions, layer by layer (Algorithm 1, or accelerated mirror descent).

    Accelerated (Tseng 2008, Algorithm 1): a layer takes the gradient between the current proportions and the previous
    point, steps from that point, with larger steps in later layers, and mixes the new point into the proportions.

    `document`: Words. `alpha`: shape (n_topics,). `layers`: Layers, overwritten.
    `step`: T, the step of every layer, reduced if too steep; a line search first tries 2 T.
    """
    rows, columns, counts, ascending = document
    thetas, points, steps, masses = layers
    n_topics = thetas.shape[1]
    ratios, pull, proportions = empty(counts.size), empty(n_topics), np.full(n_topics, 1.0 / n_topics)
    search = step > 0.0 and method in (LINE_SEARCH, LINE_SEARCH_L1)
    copy_row(proportions, thetas[0])
    copy_row(proportions, points[0])
    _mixed(thetas[0], columns, ascending, masses[0])
    value = objective(counts, masses[0], thetas[0], alpha) if search else 0.0
    for layer in range(steps.size):
        theta, point, new, mass = thetas[layer], points[layer], points[layer + 1], masses[layer]
        for v in range(counts.size):
            ratios[v] = counts[v] / mass[v]
        for k in range(n_topics):
            pull[k] = (alpha[k] - 1.0) / theta[k]
        add_rows_at(ratios, ascending[: counts.size], rows, pull)
        if search:
            step, value = _searched(document, alpha, layers, pull, layer, step, value, method)
            continue
        share = _momentum(method, layer)
        top, mean = pull[0], 0.0
        for k in range(n_topics):
            top = larger(top, pull[k])
            mean += point[k] * pull[k]
        # Limit the step: before normalisation, no share grows by more than a factor of e relative to the mean.
        steps[layer] = STEEPEST / (top - mean) if step / share * (top - mean) > STEEPEST else step / share
        _descend(point, pull, steps[layer], new)
        if method == ACCELERATED:
            extrapolation = _momentum(method, layer + 1) if layer + 1 < steps.size else 0.0
            for k in range(n_topics):
                proportions[k] += share * (new[k] - proportions[k])
                thetas[layer + 1, k] = proportions[k] + extrapolation * (new[k] - proportions[k])
        _mixed(thetas[layer + 1], columns, ascending, masses[layer + 1])


@jit_inline
def _searched(document, alpha, layers, pull, layer, step, value, method):
    """Take the first step that the line search accepts, or none; return the step, and f at its end."""
    theta, new, mass = layers.thetas[layer], layers.thetas[layer + 1], layers.masses[layer + 1]
    step /= SHRINKAGE
    for _ in range(TRIALS):
        _descend(theta, pull, step, new)
        _mixed(new, document.columns, document.ascending, mass)
        reached = objective(document.counts, mass, new, alpha)
        slope, divergence, moved = 0.0, 0.0, 0.0
        for k in range(theta.size):
            slope -= pull[k] * (new[k] - theta[k])
            if method == LINE_SEARCH_L1:  # equation 29
                moved += abs(new[k] - theta[k])
            else:  # Algorithm 1
                divergence += new[k] * np.log(new[k] / theta[k]) - new[k] + theta[k]
        # The bound is at most f(theta), up to rounding and floors; min(., 0) ensures that f does not rise then either.
        if reached <= value + smaller(slope + (divergence + 0.5 * moved * moved) / step, 0.0):
            layers.steps[layer] = step
            return step, reached
        step *= SHRINKAGE
    layers.steps[layer] = 0.0
    copy_row(theta, new)
    copy_row(layers.masses[layer], mass)
    return step, value


@jit
def propagate(document, alpha, method, layers, slope, table, factors):
    """Propagate an error back through the layers (Algorithm 3); step sizes are treated as constants.

    `document`: Words. `layers`: Layers, results of `infer`.
    `slope`: shape (n_topics,), gradient of the loss by theta_L, overwritten.
    `table`, `factors`: shapes (2 * n_layers, n_topics) and (n_words, 2 * n_layers), overwritten. ``factors @ table`` is
    the gradient by Phi's rows of the document's words: for every layer ``T (x / Phi theta) g'`` and ``-T (Phi g x /
    (Phi theta)^2) theta'``, where ``g = theta * xi`` of Algorithm 3.
    """
    rows, columns, counts, ascending = document
    thetas, points, steps, masses = layers
    n_layers, n_topics = steps.size, slope.size
    push, back, extrapolation = empty(counts.size), empty(n_topics), zeros(n_topics)
    for layer in range(n_layers - 1, -1, -1):
        theta, point, new, mass, step = thetas[layer], points[layer], points[layer + 1], masses[layer], steps[layer]
        error, share = table[layer], _momentum(method, layer)
        mean = 0.0
        for k in range(n_topics):
            extrapolation[k] += share * slope[k]
            mean += new[k] * extrapolation[k]
        for k in range(n_topics):  # no gradient for shares at the floor
            error[k] = new[k] * (extrapolation[k] - mean) if new[k] > FLOOR else 0.0
            table[n_layers + layer, k] = theta[k]
            back[k] = 0.0
        _mixed(error, columns, ascending, push)
        for v in range(counts.size):
            ratio = counts[v] / mass[v]
            push[v] *= ratio / mass[v]
            factors[v, layer] = step * ratio
            factors[v, n_layers + layer] = -step * push[v]
        add_rows_at(push, ascending[: counts.size], rows, back)
        for k in range(n_topics):
            by_theta = -step * (error[k] * (alpha[k] - 1.0) / (theta[k] * theta[k]) + back[k])
            extrapolation[k] = error[k] / point[k] + share * by_theta
            slope[k] = (1.0 - share) * (slope[k] + by_theta)


@jit
def inferred(words, counts, topics, totals, how):
    """Return a document with rows ``topics[words] / totals``, and the layers of its inference."""
    n, n_topics, n_layers = words.size, totals.size, how.n_layers
    rows, columns = empty((n, n_topics)), empty((n_topics, n))
    for v in range(n):
        source, target = topics[words[v]], rows[v]
        for k in range(n_topics):
            target[k] = source[k] / totals[k]
    for k in range(n_topics):
        column = columns[k]
        for v in range(n):
            column[v] = rows[v, k]
    ascending = np.arange(max(n, n_topics, 2 * n_layers)).astype(np.uint32)
    thetas = empty((n_layers + 1, n_topics))
    points = np.empty_like(thetas) if how.method == ACCELERATED else thetas
    document = Words(rows, columns, counts, ascending)
    layers = Layers(thetas, points, empty(n_layers), empty((n_layers + 1, n)))
    # The gradient is proportional to the number of words plus pseudo-counts. A step longer than 1 over this sum
    # overshoots, and with alpha well above 1 the iteration diverges.
    length = 0.0
    for v in range(n):
        length += counts[v]
    for k in range(n_topics if length > 0.0 else 0):
        length += larger(how.alpha[k] - 1.0, 0.0)
    infer(document, how.alpha, how.step / length if length > 0.0 else 0.0, how.method, layers)
    return document, layers


@jit
def infer_documents(documents, topics, how, out, likelihoods):
    """Set `out` to topic proportions, `likelihoods` to ln p(words | theta_L) (equation 9, without the coefficient)."""
    data, indices, indptr = documents
    ones = np.ones(topics.shape[1])
    for d in range(indptr.size - 1):
        words, counts = indices[indptr[d] : indptr[d + 1]], data[indptr[d] : indptr[d + 1]]
        _, layers = inferred(words, counts, topics, ones, how)
        copy_row(layers.thetas[how.n_layers], out[d])
        likelihoods[d] = -objective(counts, layers.masses[how.n_layers], ones, ones)
