"""Losses of one document, and the schedule of steps, for the sequential kernels."""

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline, jit_once
from sdem_dist.kernels.parts import larger

NLL, NCLL, HINGE = 0, 1, 2


class LossForm(NamedTuple):
    """A loss as numbers."""

    kind: int  # `NLL`, `NCLL` or `HINGE`
    margin: float  # margin of the hinge loss: least difference of the scores of label and rival
    costs: np.ndarray  # hinge margin of each class against each other, float64; shape (0, 0) if all are `margin`
    share: float  # weight of NLL in a blend; 0: no blend


@jit
def loss_weights(loss, scores, label, out):
    """Write minus the gradient of the loss with respect to the class scores ln p(y, d) into `out`.

    Table 1 of Masegosa 2014: the step of sdEM adds ``out[y] * s(y, d)`` for every class ``y``.

    `loss`: LossForm. `NCLL`: ``out = 1[y] - p(. | d)``. `HINGE`: 1 for the label and -1 for its strongest rival if
    ``scores[label] - scores[rival] <= margin``, else zeros (equation 17); with costs, scores of rivals include them.
    `NLL`: 1 for the label.
    `scores`, `out`: float64 of shape (n_classes,).
    Returns the largest absolute weight of a class: 0 if the document needs no step.
    """
    n_classes = scores.size
    if loss.kind == NCLL:
        top, total, rest = scores[0], 0.0, 0.0
        for k in range(1, n_classes):
            top = larger(top, scores[k])
        for k in range(n_classes):
            # A posterior below exp(-690) changes no count, and would cause slow denormal numbers in later sums.
            out[k] = np.exp(scores[k] - top) if scores[k] - top > -690.0 else 0.0
            total += out[k]
        for k in range(n_classes):
            out[k] = -out[k] / total
            if k != label:
                rest -= out[k]
        out[label] = rest  # 1 - p(label | d) without cancellation
        largest = rest
    else:
        for k in range(n_classes):
            out[k] = 0.0
        out[label] = 1.0
        if loss.kind == HINGE:
            rival, best = -1, 0.0
            for k in range(n_classes):
                if k != label:
                    score = scores[k] + loss.costs[label, k] if loss.costs.size else scores[k]
                    if rival < 0 or score > best:
                        rival, best = k, score
            if _wins(loss, scores[label], best):
                out[label] = 0.0
            else:
                out[rival] = -1.0
        largest = out[label]
    if loss.share > 0.0:
        for k in range(n_classes):
            out[k] *= 1.0 - loss.share
        out[label] += loss.share
        largest = out[label]
    return largest


@jit_once
def _wins(loss, own, best):
    """Return whether the hinge loss needs no step; the best rival's score includes its cost."""
    return own >= best if loss.costs.size else own - best > loss.margin


@jit
def component_weights(loss, scores, label, component_class, out):
    """Write minus the gradient of the loss with respect to the components' scores ln p(z, y, d) into `out`.

    The score of a class is ln of the sum over its components (Table 2 of Masegosa 2014, with hidden components).

    `scores`, `out`: float64 of shape (n_components,). `component_class`: class of each component, int64, ascending.
    Returns the largest absolute weight of a class: 0 if the document needs no step.
    """
    n = scores.size
    # Find the posterior of each component given its class, and the strongest rival of the label.
    own, best, rival = -np.inf, -np.inf, -1
    first = 0
    while first < n:
        last, top = first, scores[first]
        while last < n and component_class[last] == component_class[first]:
            top = larger(top, scores[last])
            last += 1
        total = 0.0
        for j in range(first, last):
            out[j] = np.exp(scores[j] - top) if scores[j] - top > -690.0 else 0.0
            total += out[j]
        for j in range(first, last):
            out[j] /= total
        score = top + np.log(total)
        if loss.costs.size:
            score += loss.costs[label, component_class[first]]
        if component_class[first] == label:
            own = score
        elif rival < 0 or score > best:
            best, rival = score, component_class[first]
        first = last
    if loss.kind == NCLL:
        top, total, rest = larger(own, best), 0.0, 0.0
        for j in range(n):
            posterior = np.exp(scores[j] - top) if scores[j] - top > -690.0 else 0.0
            total += posterior
            if component_class[j] != label:
                out[j] = -posterior
                rest += posterior
        rest /= total
        for j in range(n):
            if component_class[j] == label:
                out[j] *= (1.0 - loss.share) * rest + loss.share  # 1 - p(label | d) without cancellation
            else:
                out[j] *= (1.0 - loss.share) / total
        return (1.0 - loss.share) * rest + loss.share
    step = 1.0 if loss.kind == NLL or not _wins(loss, own, best) else 0.0
    for j in range(n):
        if component_class[j] == label:
            out[j] *= (1.0 - loss.share) * step + loss.share
        elif loss.kind == HINGE and component_class[j] == rival:
            out[j] *= -(1.0 - loss.share) * step
        else:
            out[j] = 0.0
    return (1.0 - loss.share) * step + loss.share


@jit_inline
def column_weights(loss, scores, label, component_class, out):
    """Write minus the gradient by columns: components, or classes if `component_class` is None."""
    if component_class is None:  # known at compilation: the other kernel is not compiled
        return loss_weights(loss, scores, label, out)
    return component_weights(loss, scores, label, component_class, out)


class Table(NamedTuple):
    """Expectation parameters of the lane's words, changed in place."""

    words: np.ndarray  # N, expected counts without gamma: shape (n_words, n_columns), float64
    totals: np.ndarray  # M, the sum of N over the whole vocabulary: shape (n_columns,), float64
    class_counts: np.ndarray  # C, shape (n_counts,), float64; changed if `learn_prior`
    log_prior: np.ndarray  # ln p(y), as long as `class_counts`; overwritten if `learn_prior`
    learn_prior: bool
    vocabulary_size: int


class Objective(NamedTuple):
    """The objective of the steps."""

    loss: LossForm
    tolerance: float  # no step for documents whose largest loss weight is at most this
    component_class: np.ndarray | None  # class of each component, ascending, int64; None without components


class Schedule(NamedTuple):
    """Sizes of steps."""

    start: float  # rho before the first document
    class_start: float  # rho of the class counts before the first document
    decay: float  # lambda of ``rho = start / (1 + lambda t)``
    word_gain: float  # increase of gamma for rho = 1 and one document: alpha / n
    class_gain: float  # the same for class_gamma
    corpus_scale: float  # number of documents of the corpus that one document of the lane represents
    floor: float  # least expected count of a word
    class_floor: float  # least expected count of a class
    mean_square: float  # mean squared length of the documents


class Moment(NamedTuple):
    """Progress of a run."""

    gamma: float  # running prior correction of words
    class_gamma: float  # running prior correction of classes
    t: float  # weight of the documents of the corpus seen


@jit_inline
def advanced(schedule, moment, weight):
    """Return rho and the moment after one more document; Algorithm 2 counts a document before its posterior."""
    t = moment.t + schedule.corpus_scale * weight
    rho = schedule.start / (1.0 + schedule.decay * t)
    gamma = moment.gamma + schedule.word_gain * rho * weight
    class_gamma = moment.class_gamma + schedule.class_gain * rho * weight
    return rho, Moment(gamma, class_gamma, t)


@jit_inline
def renew_prior(table, class_gamma):
    """Update the class prior if it is learned; ln 0 = -inf for an impossible class."""
    if table.learn_prior:
        for k in range(table.class_counts.size):
            table.log_prior[k] = np.log(table.class_counts[k] + class_gamma)
