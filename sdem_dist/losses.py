"""Losses over class scores: what a document costs, and with which weight each class's statistics enter the step.

The score of class ``y`` is ``ln p(y, d)``, whatever the model.  Minus the gradient of a loss with respect to the
natural parameters is then ``sum_y weights[y] * E[s(y, d)]`` (Masegosa 2014, Table 1 and Table 2).
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

LOSSES = ("nll", "ncll", "hinge")


def rival_of(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return for each document the strongest class that is not its label.

    Parameters
    ----------
    scores : ndarray of shape (n_documents, n_classes)
    labels : ndarray of shape (n_documents,), integers

    Returns
    -------
    ndarray of shape (n_documents,), integers
    """
    others = scores.copy()
    others[np.arange(len(labels)), labels] = -np.inf
    return others.argmax(axis=1)


def nll(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return ``-ln p(y, d)`` of each document."""
    return -scores[np.arange(len(labels)), labels]


def ncll(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return ``-ln p(y | d)`` of each document."""
    return -log_softmax(scores, axis=1)[np.arange(len(labels)), labels]


def hinge(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return ``max(0, 1 - ln p(y, d) / p(rival, d))`` of each document (equation 17)."""
    return np.maximum(0.0, 1.0 - _margin(scores, labels, rival_of(scores, labels)))


def _margin(scores: np.ndarray, labels: np.ndarray, rivals: np.ndarray) -> np.ndarray:
    each = np.arange(len(labels))
    with np.errstate(invalid="ignore"):  # -inf minus -inf: two impossible classes are a tie
        margin = scores[each, labels] - scores[each, rivals]
    return np.where(np.isnan(margin), 0.0, margin)


def marginal_log_likelihood(scores: np.ndarray) -> np.ndarray:
    """Return ``ln p(d) = ln sum_y p(y, d)`` of each document."""
    return logsumexp(scores, axis=1)


def class_weights(loss: str, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return minus the gradient of a loss with respect to the class scores (Masegosa 2014, Table 1).

    Parameters
    ----------
    loss : {"nll", "ncll", "hinge"}
    scores : ndarray of shape (n_documents, n_classes), float64
    labels : ndarray of shape (n_documents,), integers

    Returns
    -------
    ndarray of shape (n_documents, n_classes), float64
        Their sum over classes is 1 for ``nll`` and 0 for the discriminative losses.
    """
    each = np.arange(len(labels))
    if loss == "ncll":
        weights = -softmax(scores, axis=1)
        weights[each, labels] += 1.0
        return weights
    weights = np.zeros_like(scores)
    weights[each, labels] = 1.0
    if loss == "hinge":
        rivals = rival_of(scores, labels)
        weights[each, rivals] = -1.0
        weights[_margin(scores, labels, rivals) > 1.0] = 0.0
    return weights
