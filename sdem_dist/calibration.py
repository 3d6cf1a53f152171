"""How far probabilities can be trusted: temperatures, Brier score, bins of confidence, and sets of classes."""

from collections.abc import Sequence
from numbers import Real
from typing import NamedTuple

import numpy as np

TEMPERATURES = 2.0 ** np.arange(-6.0, 8.25, 0.5)
"""Between which the best one is interpolated: scores are divided by it."""
_LOG_STEP = np.log2(TEMPERATURES[1] / TEMPERATURES[0])
FAINTEST = -41.0  # logarithm of the least share of the strongest class that another one counts with
LEAST = np.exp(np.float32(FAINTEST))
N_BINS = 15  # of the probability of the most probable class, equally wide
FEW_OF_CLASS = 50
"""Classes with fewer held-out documents share a conformal threshold: their own would be one of their extremes."""


class Reliability(NamedTuple):
    """Documents in bins of the probability of their prediction, equally wide from 0 to 1; float64, by weight."""

    confidence: np.ndarray
    """Mean probability of the predictions, shape (n_bins,); NaN in an empty bin."""
    accuracy: np.ndarray
    """Share of right predictions, shape (n_bins,); NaN in an empty bin."""
    documents: np.ndarray
    """How many, shape (n_bins,)."""

    @property
    def ece(self) -> float:
        """Expected calibration error: mean over documents of how far accuracy is from confidence (Guo et al. 2017)."""
        filled = self.documents > 0
        gaps = np.abs(self.accuracy - self.confidence)[filled] * self.documents[filled]
        return float(gaps.sum() / self.documents.sum()) if filled.any() else float("nan")


def bin_sums(confidence: np.ndarray, right: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the sums of confidence, right predictions and documents in each bin, shape (3 * N_BINS,)."""
    bins = np.minimum((confidence * N_BINS).astype(np.intp), N_BINS - 1)
    columns = weights * confidence, weights * right, weights
    return np.concatenate([np.bincount(bins, column, N_BINS) for column in columns])


def reliability(sums: np.ndarray) -> Reliability:
    """Return bins of documents from `bin_sums`."""
    confidence, hits, documents = sums.reshape(3, N_BINS)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Reliability(confidence / documents, hits / documents, documents)


def brier_scores(p: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the squared distance of each document's probabilities from the truth, summed over classes: 0 to 2."""
    return np.asarray((p * p).sum(axis=1) - 2.0 * p[np.arange(len(labels)), labels] + 1.0)


def tempered_sums(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the sums for `cautious_temperature`: `tempered_losses`, those with the second class right, how many."""
    mistaken = np.zeros(len(TEMPERATURES))
    if len(labels) and scores.shape[1] > 1:
        best = np.partition(scores, scores.shape[1] - 2, axis=1)[:, -2:]
        mistaken = tempered_losses(best, np.zeros(len(labels), np.intp), weights)
    return np.concatenate([tempered_losses(scores, labels, weights), mistaken, [len(labels)]])


def cautious_temperature(sums: np.ndarray, weight: float) -> tuple[float, float]:
    """Return, from `tempered_sums`, the temperature of least log-loss and the log-loss at it.

    The temperature is of one more document that is wrong: if all are right, that does not show how rare errors are. The
    log-loss is interpolated between `TEMPERATURES`, by the polynomial through the nearest six (Lagrange).
    """
    losses, mistaken = sums[:-1].reshape(2, -1)
    temperature = best_temperature((losses + mistaken / sums[-1]) / weight)[0]
    where, n = float(np.log2(temperature / TEMPERATURES[0]) / _LOG_STEP), 6
    first = int(np.clip(np.floor(where) - n // 2 + 1, 0, len(losses) - n))
    near = np.arange(first, first + n)
    shares = [np.prod([(where - j) / (i - j) for j in near if j != i]) for i in near]
    return temperature, max(float(shares @ (losses / weight)[near]), 0.0)  # NaN stays


def possible(scores: np.ndarray) -> np.ndarray:
    """Return scores in which documents without a possible class have all classes equal."""
    finite = np.isfinite(scores.max(axis=1, keepdims=True, initial=-np.inf))  # a NaN is the largest of its row
    return np.where(finite, scores, 0.0)


def tempered_losses(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the sums of log-losses of ln p(y | d), up to a constant of each document, at each of `TEMPERATURES`."""
    # Half a temperature is the square, every second one is half. A class a row: sums over classes then add long rows.
    scores = np.maximum(np.ascontiguousarray(scores.T), -1e300)  # of a class with probability 0
    top = scores.max(axis=0, initial=-1e300)
    behind, lost = scores - top, float(weights @ (top - scores[labels, np.arange(len(labels))]))
    losses = np.empty(len(TEMPERATURES))
    for last in (-1, -2):
        # In single precision, which is fast: the strongest class is 1, others are no less than what still has a square.
        ratios = np.exp(np.maximum(behind / TEMPERATURES[last], FAINTEST, dtype=np.float32))
        for t in range(len(TEMPERATURES))[last::-2]:
            losses[t] = lost / TEMPERATURES[t] + weights @ np.log(ratios.sum(axis=0))
            np.maximum(np.square(ratios, out=ratios), LEAST, out=ratios)
    return losses


def best_temperature(tempered: np.ndarray) -> tuple[float, float]:
    """Return the temperature of least log-loss, and that, by a parabola through the best of `tempered_losses`."""
    best = int(np.argmin(tempered))
    if not 0 < best < len(tempered) - 1:
        return float(TEMPERATURES[best]), float(tempered[best])
    left, middle, right = tempered[best - 1 : best + 2]
    curvature = left - 2.0 * middle + right
    offset = 0.5 * (left - right) / curvature if curvature > 0 else 0.0
    return float(TEMPERATURES[best] * 2.0 ** (offset * _LOG_STEP)), float(middle - 0.25 * (left - right) * offset)


def conformal_scores(probabilities: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """Return the scores of documents under their own class, sorted: for each class an array. Labels may be -1."""
    return [np.sort(1.0 - probabilities[labels == k, k]) for k in range(probabilities.shape[1])]


def conformal_thresholds(scores: Sequence[np.ndarray], coverage: float) -> np.ndarray:
    """Return the largest score with which each class is in a set, shape (n_classes,), float64.

    A document's score under a class is one minus the class's probability; the threshold is a quantile of the scores of
    held-out documents of that class (split conformal prediction: Vovk 2012, Mondrian predictors; Sadinle et al. 2019).
    If new documents of a class are exchangeable with those, their sets have it with the probability `coverage` at
    least, whatever the model. That takes c / (1 - c) documents of a class, nine for 0.9. Classes that have fewer, or
    fewer than `FEW_OF_CLASS`, share a threshold, of their documents together; of too few it is infinite: in every set.

    Raises ValueError: `coverage` is not between 0 and 1.
    """
    if not (isinstance(coverage, Real) and 0.0 < coverage < 1.0):
        raise ValueError(f"coverage is a share between 0 and 1, not {coverage!r}")

    def threshold(of_class: np.ndarray) -> float:
        return float(np.append(of_class, np.inf)[int(np.ceil((len(of_class) + 1) * coverage - 1e-9)) - 1])

    own = np.array(list(map(threshold, scores)))
    few = np.isinf(own) | (np.array(list(map(len, scores))) < FEW_OF_CLASS)
    if few.any():
        own[few] = threshold(np.sort(np.concatenate([scores[k] for k in np.flatnonzero(few)])))
    return own
