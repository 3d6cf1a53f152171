"""The losses for one document, as the sequential kernels need them; `sdem_dist.losses` has them over batches."""

from __future__ import annotations

import numpy as np

from sdem_dist.kernels.jit import jit

NLL, NCLL, HINGE = 0, 1, 2
NUMBERS = {"nll": NLL, "ncll": NCLL, "hinge": HINGE}


@jit
def loss_weights(loss, scores, label, out):
    """Write minus the gradient of the loss with respect to the class scores ln p(y, d) into `out`.

    Table 1 of Masegosa 2014: the step of sdEM adds ``out[y] * s(y, d)`` for every class ``y``.

    Parameters
    ----------
    loss : int
        `NCLL`: ``out = 1[y] - p(. | d)``.  `HINGE`: 1 on the label and -1 on its strongest rival where
        ``scores[label] - scores[rival] <= 1``, else zeros (equation 17).  `NLL`: 1 on the label.
    scores : ndarray of shape (n_classes,), float64
    label : int
    out : ndarray of shape (n_classes,), float64, overwritten

    Returns
    -------
    largest : float
        The largest absolute weight of a class: 0 where the document asks for no step.
    """
    n_classes = scores.size
    if loss == NCLL:
        top = scores[0]
        for k in range(1, n_classes):
            top = max(top, scores[k])
        total = 0.0
        for k in range(n_classes):
            # Below exp(-690) a posterior is nothing beside any count, and would make later sums denormal, thus slow.
            out[k] = np.exp(scores[k] - top) if scores[k] - top > -690.0 else 0.0
            total += out[k]
        rest = 0.0
        for k in range(n_classes):
            out[k] = -out[k] / total
            if k != label:
                rest -= out[k]
        out[label] = rest  # 1 - p(label | d) without cancellation
        return rest
    for k in range(n_classes):
        out[k] = 0.0
    out[label] = 1.0
    if loss == HINGE:
        rival = -1
        for k in range(n_classes):
            if k != label and (rival < 0 or scores[k] > scores[rival]):
                rival = k
        if scores[label] - scores[rival] > 1.0:
            out[label] = 0.0
        else:
            out[rival] = -1.0
    return out[label]


@jit
def component_weights(loss, scores, label, owners, out):
    """Write minus the gradient of the loss with respect to the components' scores ln p(z, y, d) into `out`.

    A class scores with the logarithm of the sum of its components (Table 2 of Masegosa 2014, the component hidden).

    Parameters
    ----------
    loss : int
    scores : ndarray of shape (n_components,), float64
    label : int
    owners : ndarray of shape (n_components,), int64
        The class of each component, ascending.
    out : ndarray of shape (n_components,), float64, overwritten

    Returns
    -------
    largest : float
        The largest absolute weight of a class: 0 where the document asks for no step.
    """
    n = scores.size
    # The posterior of each component given its class, and which class is the label's strongest rival.
    own, best, rival = -np.inf, -np.inf, -1
    first = 0
    while first < n:
        last, top = first, scores[first]
        while last < n and owners[last] == owners[first]:
            top = max(top, scores[last])
            last += 1
        total = 0.0
        for j in range(first, last):
            out[j] = np.exp(scores[j] - top) if scores[j] - top > -690.0 else 0.0
            total += out[j]
        for j in range(first, last):
            out[j] /= total
        score = top + np.log(total)
        if owners[first] == label:
            own = score
        elif rival < 0 or score > best:
            best, rival = score, owners[first]
        first = last
    if loss == NCLL:
        top, total, rest = max(own, best), 0.0, 0.0
        for j in range(n):
            posterior = np.exp(scores[j] - top) if scores[j] - top > -690.0 else 0.0
            total += posterior
            if owners[j] != label:
                out[j] = -posterior
                rest += posterior
        rest /= total
        for j in range(n):
            if owners[j] == label:
                out[j] *= rest  # 1 - p(label | d) without cancellation
            else:
                out[j] /= total
        return rest
    step = 1.0 if loss == NLL or own - best <= 1.0 else 0.0
    for j in range(n):
        if owners[j] == label:
            out[j] *= step
        elif loss == HINGE and owners[j] == rival:
            out[j] *= -step
        else:
            out[j] = 0.0
    return step
