"""Mixtures whose posterior is trained directly by multiplicative updates (Saul and Lee 2001).

``p(y = i | x) = sum_j W_ij exp(theta_j x) / sum_kj W_kj exp(theta_j x)`` for rows x that are not negative.  Everything
is in logarithms: neither W nor the basis functions need be representable.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sdem_dist.kernels.dense import add_column_sums, normalise_rows, shift_rows

LARGEST_RATIO = 30.0
"""Bound of the logarithms of the updates' ratios: a component without examples would have an infinite one."""
BLOCK = 1024
"""Documents that are worked on at once, so that their posteriors stay in cache."""
_ONES = np.empty(0)
"""No weights: each document has weight 1."""


class MixtureWeights(NamedTuple):
    """Parameters of the posterior."""

    log_weights: np.ndarray  # ln W, shape (n_classes, n_components), float64; -inf where a component is not the class's
    theta: np.ndarray  # shape (n_components, n_features), float64


class MixtureSums(NamedTuple):
    """What both updates need: sums over documents, all at one point (equations 11 to 14)."""

    clamped: np.ndarray
    """Sum of the posteriors of each component given the label, by label: shape (n_classes, n_components), float64."""
    free: np.ndarray  # sum of the posteriors of each component, the class not given: shape (n_components,), float64
    clamped_features: np.ndarray  # features times the former, shape (n_components, n_features), float64
    free_features: np.ndarray  # features times the latter
    log_likelihood: float  # conditional log-likelihood ``sum ln p(y | x)`` (equation 10)
    weight: float  # documents, by weight
    largest: float  # largest absolute value of the largest logit of a document


def columns_of(log_weights: np.ndarray) -> list[slice]:
    """Return the components that each class uses, as slices from its first to its last."""
    used = np.isfinite(log_weights)
    first, last = used.argmax(axis=1), used.shape[1] - used[:, ::-1].argmax(axis=1)
    return [slice(int(a), int(b)) for a, b in zip(first, last, strict=True)]


def log_totals(log_weights: np.ndarray) -> np.ndarray:
    """Return the logarithms of W's sums over classes, shape (n_components,)."""
    return np.asarray(np.logaddexp.reduce(log_weights, axis=0))


def class_scores(log_weights: np.ndarray, activations: np.ndarray) -> np.ndarray:
    """Return ``ln sum_j W_ij exp(activations_j)``, shape (n_rows, n_classes) (equation 7, the numerator)."""
    columns = columns_of(log_weights)
    scores = np.empty((len(activations), len(columns)))
    for i, own in enumerate(columns):
        scores[:, i] = _posteriors(activations[:, own].astype(np.float64, order="C"), log_weights[i, own], _ONES)
    return scores


def _posteriors(logits: np.ndarray, added: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Turn logits of shape (n, k), in place, into posteriors times factors; return what they add up to, in logarithms.

    `logits`: shape (n, k), C-contiguous. `added`: float64 of shape (k,), added to every row first.
    `factors`: float64 of shape (n,), or (0,) for 1. Returns float64 of shape (n,).
    """
    top, totals = np.empty(len(logits), logits.dtype), np.empty(len(logits))
    shift_rows(logits, added.astype(logits.dtype), top)
    np.exp(logits, out=logits)
    normalise_rows(logits, factors, totals)
    return np.log(totals) + top


def posterior_sums(
    weights: MixtureWeights,
    starts: np.ndarray,
    document_weights: np.ndarray | None,
    activations: Callable[[slice], np.ndarray],
    add_product: Callable[[slice, np.ndarray, np.ndarray], None],
) -> MixtureSums:
    """Return the sums over documents that are sorted by class.

    `starts`: shape (n_classes + 1,), int: documents ``starts[i]:starts[i + 1]`` have label i.
    `document_weights`: shape (n_documents,), or None for one each.
    `activations`: from a slice of documents to ``theta x``, shape (n, n_components), float32 or float64, to be
    overwritten.
    `add_product`: ``add_product(rows, posteriors, out)`` adds ``posteriors.T @ X[rows]`` to `out`.
    """
    log_weights, theta = weights
    n_classes, n_components = log_weights.shape
    columns, totals = columns_of(log_weights), log_totals(log_weights)
    clamped, free = np.zeros((n_classes, n_components)), np.zeros(n_components)
    clamped_features, free_features = np.zeros(theta.shape), np.zeros(theta.shape)
    log_likelihood, largest, n = 0.0, 0.0, int(starts[-1])
    shares = _ONES if document_weights is None else document_weights
    for first in range(0, n, BLOCK):
        rows = slice(first, min(first + BLOCK, n))
        logits = activations(rows)
        gain = np.empty(len(logits))
        for i in np.flatnonzero((starts[1:] > rows.start) & (starts[:-1] < rows.stop)):
            mine = slice(max(int(starts[i]), rows.start), min(int(starts[i + 1]), rows.stop))
            own, here = columns[i], slice(mine.start - first, mine.stop - first)
            posterior = logits[here, own].copy()
            gain[here] = _posteriors(posterior, log_weights[i, own], shares[mine])
            add_column_sums(posterior, clamped[i, own])
            add_product(mine, posterior, clamped_features[own])
        logs = _posteriors(logits, totals, shares[rows])
        gain -= logs
        largest = max(largest, float(np.abs(logs).max()))
        log_likelihood += float((gain if document_weights is None else gain * shares[rows]).sum())
        add_column_sums(logits, free)
        add_product(rows, logits, free_features)
    weight = float(n if document_weights is None else document_weights.sum())
    return MixtureSums(clamped, free, clamped_features, free_features, log_likelihood, weight, largest)


def multiplied(
    weights: MixtureWeights, sums: MixtureSums, weights_exponent: float, theta_exponent: float
) -> MixtureWeights:
    """Return the parameters after an update (equations 13 and 14), in logarithms.

    The likelihood cannot fall for the exponents (1, 0) and (0, 1 / eta), nor for (c, 1) / (eta + c) with any c > 0. The
    last is the update of theta where every component of every class has one more feature of its own: its value is c,
    and its parameter ln W / c. The proof of the appendix holds for it. The exponents (1, 1 / eta) have no such
    guarantee.
    """
    log_weights, theta = weights
    if weights_exponent:
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = np.log(sums.free) + log_weights - log_totals(log_weights)
            ratio = np.log(sums.clamped) - expected
        log_weights = log_weights + weights_exponent * _bounded(ratio)
    if theta_exponent:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(sums.clamped_features) - np.log(sums.free_features)
        theta = theta + theta_exponent * _bounded(ratio)
    return MixtureWeights(log_weights, theta)


def _bounded(log_ratio: np.ndarray) -> np.ndarray:
    """Return logarithms of ratios within bounds, 0 where there is nothing to compare.

    Any step on the way to the best one raises the bound of the likelihood too, as it is concave.
    """
    return np.clip(np.where(np.isnan(log_ratio), 0.0, log_ratio), -LARGEST_RATIO, LARGEST_RATIO)


def quadratic_expansion(X: np.ndarray) -> np.ndarray:
    """Return ``[1, x_1, ..., x_d, x_1 x_1, x_1 x_2, ..., x_d x_d]`` of every row (equation 9), of X's dtype.

    `X`: shape (n, d). Returns shape (n, 1 + d + d (d + 1) / 2).
    """
    first, second = np.triu_indices(X.shape[1])
    return np.concatenate([np.ones((len(X), 1), X.dtype), X, X[:, first] * X[:, second]], axis=1)
