"""What follows from a document's topic proportions, and its loss's gradient: a function for each kind of output."""

import math
from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline

SOFTMAX, GAUSSIAN, NONE, POISSON, ORDERED, LABELS = 0, 1, 2, 3, 4, 5
"""A class, real numbers, nothing but the words, counts, a level of a scale, or several labels."""
MOST = 20.0
"""ln of the largest mean of a count, in units of the mean of all."""
WIDEST = 30.0
"""ln of the largest gap between two thresholds, and minus ln of the smallest."""


class Response(NamedTuple):
    """How outputs follow from topics, and what the words count beside them."""

    kind: int
    gamma: float
    """Factor of U theta; for ``GAUSSIAN`` the precision of the targets, for ``POISSON`` the weight of their loss."""
    words: float = 0.0  # What a document's ``-ln p(words | theta)`` is multiplied by in its loss
    labelled: float = 1.0  # For how many documents one with a label stands, in the gradient by Phi


@jit_inline
def has_labels(kind):
    """Whether documents bring a label rather than targets; it may be hidden."""
    return kind in (SOFTMAX, ORDERED)


@jit_inline
def _sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0.0 else 1.0 - 1.0 / (1.0 + math.exp(x))


@jit
def output_error(response, output, theta, label, target, error):
    """Set `error` to the gradient of a document's loss by the outputs ``U theta``.

    `response`: Response.
    `output`: shape (n_outputs, n_topics), U. With ``ORDERED`` the first row is that of the score; each other row
    holds one number, see `ordered_error`.
    `theta`: shape (n_topics,). `label`: int. `target`: shape (n_outputs,), unless there are labels.
    `error`: shape (n_outputs,), overwritten.
    """
    kind, gamma = response.kind, response.gamma
    for c in range(error.size):
        error[c] = 0.0
        for k in range(theta.size):
            error[c] += output[c, k] * theta[k]
    if kind == SOFTMAX:
        softmax_error(gamma, label, error)
    elif kind == ORDERED:
        ordered_error(gamma, output[:, 0], label, error)
    elif kind == GAUSSIAN:
        for c in range(error.size):
            error[c] = gamma * (error[c] - target[c])
    elif kind == POISSON:
        for c in range(error.size):
            error[c] = gamma * (math.exp(min(error[c], MOST)) - target[c])
    else:
        for c in range(error.size):
            error[c] = gamma * (_sigmoid(gamma * error[c]) - target[c])


@jit_inline
def softmax_error(gamma, label, error):
    """Make ``gamma (p(c | d) - [c = y])`` of U theta."""
    top, total = error[0], 0.0
    for c in range(error.size):
        top = max(top, error[c])
    for c in range(error.size):
        error[c] = np.exp(gamma * (error[c] - top))
        total += error[c]
    for c in range(error.size):
        error[c] = gamma * (error[c] / total - (1.0 if c == label else 0.0))


@jit_inline
def gap(logarithm):
    return math.exp(min(max(logarithm, -WIDEST), WIDEST))


@jit_inline
def ordered_error(gamma, cuts, label, error):
    """Make the gradient of the cumulative logit's ``-ln p(y | d)`` of U theta (McCullagh 1980).

    A document is at most of level j with probability ``sigmoid(threshold_(j + 1) - gamma score)``. The thresholds are
    ``cuts[1]``, and each further one the exponential of its cut above the last: so they stay in order.
    """
    score, low, high, n = gamma * error[0], 0.0, 0.0, error.size
    for c in range(1, min(label + 2, n)):
        low, high = high, (cuts[1] if c == 1 else high + gap(cuts[c]))
    if label == n - 1:
        low = high
    above = _sigmoid(score - high) if label < n - 1 else 0.0  # share of what is above the upper threshold
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
def add_output_gradient(response, error, theta, gradient):
    """Add the gradient of a loss by U, from that by U theta; a cut is the same for all topics."""
    for c in range(error.size):
        shared = response.kind == ORDERED and c > 0
        for k in range(theta.size):
            gradient[c, k] += error[c] if shared else error[c] * theta[k]
