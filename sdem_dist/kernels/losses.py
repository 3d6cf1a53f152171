"""The losses for one document, and the schedule of steps, as the sequential kernels need them."""

from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.jit import jit, jit_inline, jit_once
from sdem_dist.kernels.parts import larger

NLL, NCLL, HINGE = 0, 1, 2


class LossForm(NamedTuple):
    """A loss as numbers."""

    kind: int  # `NLL`, `NCLL` or `HINGE`
    margin: float  # Margin of the hinge loss: by how much the label is to win
    costs: np.ndarray  # hinge margin of each class against each, float64; shape (0, 0) where all are `margin`
    share: float  # Weight of NLL in a blend with it; 0 where there is none


@jit
def loss_weights(loss, scores, label, out):
    """Write minus the gradient of the loss with respect to the class scores ln p(y, d) into `out`.

    Table 1 of Masegosa 2014: the step of sdEM adds ``out[y] * s(y, d)`` for every class ``y``.

    `loss`: LossForm, `NCLL`: ``out = 1[y] - p(. | d)``.  `HINGE`: 1 on the label and -1 on its strongest rival where
    ``scores[label] - scores[rival] <= margin``, else zeros (equation 17); with costs the rival is the strongest with
    its cost included.  `NLL`: 1 on the label.
    `scores`, `out`: float64 of shape (n_classes,).
    Returns the largest absolute weight of a class: 0 where the document asks for no step.
    """
    n_classes = scores.size
    if loss.kind == NCLL:
        top, total, rest = scores[0], 0.0, 0.0
        for k in range(1, n_classes):
            top = larger(top, scores[k])
        for k in range(n_classes):
            # Below exp(-690) a posterior changes no count, and would make later sums denormal, which is slow.
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
    """Say whether the hinge loss asks for no step; the best rival's score includes its cost."""
    return own >= best if loss.costs.size else own - best > loss.margin


@jit
def component_weights(loss, scores, label, component_class, out):
    """Write minus the gradient of the loss with respect to the components' scores ln p(z, y, d) into `out`.

    A class scores with the logarithm of the sum of its components (Table 2 of Masegosa 2014, the component hidden).

    `scores`, `out`: float64 of shape (n_components,). `component_class`: int64, the class of each, ascending.
    Returns the largest absolute weight of a class: 0 where the document asks for no step.
    """
    n = scores.size
    # The posterior of each component given its class, and which class is the label's strongest rival.
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
    """Write minus the gradient by columns, which are classes, or where `component_class` is not None components."""
    if component_class is None:  # so the other kernel is not compiled
        return loss_weights(loss, scores, label, out)
    return component_weights(loss, scores, label, component_class, out)


class Table(NamedTuple):
    """Expectation parameters of the words at hand, changed in place."""

    words: np.ndarray  # N, expected counts without gamma: shape (n_words, n_columns), float64
    totals: np.ndarray  # M, the sum of N over the whole vocabulary: shape (n_columns,), float64
    class_counts: np.ndarray  # C, shape (n_counts,), float64; changed where `learn_prior`
    log_prior: np.ndarray  # ln p(y), as long as `class_counts`; overwritten where `learn_prior`
    learn_prior: bool
    vocabulary_size: int


class Objective(NamedTuple):
    """What a step lowers."""

    loss: LossForm
    tolerance: float  # Documents whose largest loss weight is not above it ask for no step
    component_class: np.ndarray | None  # The class of each component, ascending, int64; None without components


class Schedule(NamedTuple):
    """How far steps go."""

    start: float  # rho before the first document
    class_start: float  # The same for the class counts
    decay: float  # lambda of ``rho = start / (1 + lambda t)``
    word_gain: float  # What gamma gains for rho = 1 and one document: alpha / n
    class_gain: float
    corpus_scale: float  # Documents of the corpus that one document here stands for
    floor: float  # Least expected count of a word
    class_floor: float
    mean_square: float  # Mean of the documents' squared lengths


class Moment(NamedTuple):
    """Where a run stands."""

    gamma: float  # Running prior correction of words
    class_gamma: float
    t: float  # Documents of the corpus seen, by weight


@jit_inline
def advanced(schedule, moment, weight):
    """Return rho and the moment with one more document seen, as Algorithm 2 counts it before it takes the posterior."""
    t = moment.t + schedule.corpus_scale * weight
    rho = schedule.start / (1.0 + schedule.decay * t)
    gamma = moment.gamma + schedule.word_gain * rho * weight
    class_gamma = moment.class_gamma + schedule.class_gain * rho * weight
    return rho, Moment(gamma, class_gamma, t)


@jit_inline
def renew_prior(table, class_gamma):
    """Take the logarithms of the class counts where the class prior is learned; a class may be impossible: ln 0."""
    if table.learn_prior:
        for k in range(table.class_counts.size):
            table.log_prior[k] = np.log(table.class_counts[k] + class_gamma)
