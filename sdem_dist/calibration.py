"""How far probabilities can be trusted: a temperature for scores, Brier score and expected calibration error, as sums."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax

TEMPERATURES = 2.0 ** np.arange(-6.0, 8.25, 0.5)
"""Between which the best one is interpolated: scores are divided by it."""
LARGEST = 345.0
"""Logarithm of the largest number that is squared."""
N_BINS = 15
"""Of the probability of the most probable class, equally wide."""
TEMPERED = tuple(f"tempered {number}" for number in range(len(TEMPERATURES)))
BINS = tuple(f"{what} {bin_}" for what in ("confidence", "hits", "documents") for bin_ in range(N_BINS))
SUMS = ("brier", *BINS, *TEMPERED)


def calibration_sums(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the sums of `SUMS` over documents.

    Parameters
    ----------
    scores : ndarray of shape (n_documents, n_classes), float64
        ln p(y | d), up to a constant of each document.
    labels : ndarray of shape (n_documents,), integers
    weights : ndarray of shape (n_documents,), float64
    """
    used = weights > 0
    scores, labels, weights = scores[used], labels[used], weights[used]
    known = np.isfinite(scores.max(axis=1, keepdims=True)) & ~np.isnan(scores).any(axis=1, keepdims=True)
    scores = np.where(known, scores, 0.0)  # of no class at all: of any
    rows = np.arange(len(labels))
    log_p = log_softmax(scores, axis=1) if len(rows) else scores
    p = np.exp(log_p)
    of_label = p[rows, labels]
    brier = (p * p).sum(axis=1) - 2.0 * of_label + 1.0
    top = p.max(axis=1) if len(rows) else np.empty(0)
    bins = np.minimum((top * N_BINS).astype(np.intp), N_BINS - 1)
    hits = weights * (p.argmax(axis=1) == labels) if len(rows) else top
    binned = [np.bincount(bins, column, N_BINS) for column in (weights * top, hits, weights)]
    least = np.maximum(log_p, -1e300)  # of a class that cannot be
    gaps = least - least[rows, labels][:, None]
    return np.concatenate([[(weights * brier).sum()], *binned, _tempered(gaps, weights)])


def _tempered(gaps: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the sums of log-losses at `TEMPERATURES`: half a temperature is the square, every second one is half."""
    losses = np.empty(len(TEMPERATURES))
    for last in (-1, -2):
        ratios = np.exp(np.minimum(gaps / TEMPERATURES[last], LARGEST))
        for t in range(len(TEMPERATURES))[last::-2]:
            losses[t] = weights @ np.log(ratios.sum(axis=1))
            ratios = np.minimum(ratios, np.exp(LARGEST)) ** 2
    return losses


def nearest_temperature(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray, near: float = 1.0) -> float:
    """Return the temperature with the least log-loss, found from one near it.

    Log-loss is convex in the inverse of the temperature, so going downhill from anywhere finds it.

    Parameters
    ----------
    scores : ndarray of shape (n_documents, n_classes), float64
        ln p(y | d), up to a constant of each document.
    labels : ndarray of shape (n_documents,), integers
    weights : ndarray of shape (n_documents,), float64
    near : float
        Where to begin.
    """
    possible = np.isfinite(scores[np.arange(len(labels)), labels])  # what cannot be, no temperature mends
    scores, labels, weights = scores[possible], labels[possible], weights[possible]
    if not weights.any():
        return 1.0
    gaps = scores - scores[np.arange(len(labels)), labels][:, None]
    most, losses = gaps.max(axis=1), np.full(len(TEMPERATURES), np.inf)
    gaps -= most[:, None]

    def loss(t: int) -> float:
        if not np.isfinite(losses[t]):
            sums = np.log(np.einsum("ij->i", np.exp(gaps / TEMPERATURES[t]))) + most / TEMPERATURES[t]
            losses[t] = weights @ sums
        return float(losses[t])

    best = int(np.clip(np.rint(2.0 * (np.log2(near) - np.log2(TEMPERATURES[0]))), 0, len(TEMPERATURES) - 1))
    while best + 1 < len(TEMPERATURES) and loss(best + 1) < loss(best):
        best += 1
    while best and loss(best - 1) <= loss(best):
        best -= 1
    return best_temperature(losses)[0]


def expected_calibration_error(confidence: np.ndarray, hits: np.ndarray, documents: np.ndarray) -> float:
    """Return the mean, over documents, of how far the accuracy of a bin is from its mean confidence (Guo et al. 2017)."""
    return float(np.abs(hits - confidence).sum() / documents.sum())


def best_temperature(tempered: np.ndarray) -> tuple[float, float]:
    """Return the temperature that has the least log-loss, and that log-loss, by a parabola through the best three.

    Parameters
    ----------
    tempered : ndarray of shape (n_temperatures,)
        Log-loss at each of `TEMPERATURES`.
    """
    best = int(np.argmin(tempered))
    if not 0 < best < len(tempered) - 1:
        return float(TEMPERATURES[best]), float(tempered[best])
    left, middle, right = tempered[best - 1 : best + 2]
    curvature = left - 2.0 * middle + right
    offset = 0.5 * (left - right) / curvature if curvature > 0 else 0.0
    loss = middle - 0.25 * (left - right) * offset
    steps = np.log2(TEMPERATURES[1] / TEMPERATURES[0])
    return float(TEMPERATURES[best] * 2.0 ** (offset * steps)), float(loss)


def finish(sums: np.ndarray, weight: float) -> dict[str, float]:
    """Return Brier score, calibration error, and the temperature that would serve best with the log-loss that it leads to."""
    s, n = sums[1:], N_BINS
    temperature, loss = best_temperature(s[3 * n :] / weight)
    return {
        "brier": float(sums[0] / weight),
        "ece": expected_calibration_error(s[:n], s[n : 2 * n], s[2 * n : 3 * n]),
        "temperature": temperature,
        "tempered_log_loss": loss,
    }
