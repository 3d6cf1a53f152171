"""Temperature scaling: dividing scores by a temperature calibrates their probabilities."""

import numpy as np

TEMPERATURES = 2.0 ** np.arange(-6.0, 8.25, 0.5)
"""Grid of temperatures between which the best temperature is interpolated."""
_LOG_STEP = np.log2(TEMPERATURES[1] / TEMPERATURES[0])
FAINTEST = -41.0  # least logarithm of a class's probability, relative to that of the most probable class
LEAST = np.exp(np.float32(FAINTEST))


def tempered_sums(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return sums for `cautious_temperature`: `tempered_losses` of labels and of errors, number of documents."""
    mistaken = np.zeros(len(TEMPERATURES))
    if len(labels) and scores.shape[1] > 1:
        best = np.partition(scores, scores.shape[1] - 2, axis=1)[:, -2:]
        mistaken = tempered_losses(best, np.zeros(len(labels), np.intp), weights)
    return np.concatenate([tempered_losses(scores, labels, weights), mistaken, [len(labels)]])


def cautious_temperature(sums: np.ndarray, weight: float) -> tuple[float, float]:
    """Return the temperature with the lowest log-loss, and this log-loss, from `tempered_sums`.

    One additional error is assumed, since predictions without errors do not show how rare errors are. The log-loss is
    interpolated between `TEMPERATURES`, by the polynomial through the nearest six (Lagrange).
    """
    losses, mistaken = sums[:-1].reshape(2, -1)
    temperature = best_temperature((losses + mistaken / sums[-1]) / weight)[0]
    where, n = float(np.log2(temperature / TEMPERATURES[0]) / _LOG_STEP), 6
    first = int(np.clip(np.floor(where) - n // 2 + 1, 0, len(losses) - n))
    near = np.arange(first, first + n)
    shares = [np.prod([(where - j) / (i - j) for j in near if j != i]) for i in near]
    return temperature, max(float(shares @ (losses / weight)[near]), 0.0)  # keeps NaN


def possible(scores: np.ndarray) -> np.ndarray:
    """Return scores in which documents without a possible class have equal scores for all classes."""
    finite = np.isfinite(scores.max(axis=1, keepdims=True, initial=-np.inf))  # the maximum of a row with NaN is NaN
    return np.where(finite, scores, 0.0)


def tempered_losses(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the sum of log-losses at each of `TEMPERATURES`, from ln p(y | d) up to a constant per document."""
    # Every second temperature halves, which squares ratios. One row per class, so that sums over classes add long rows.
    scores = np.maximum(np.ascontiguousarray(scores.T), -1e300)  # a class of probability 0 has -inf
    top = scores.max(axis=0, initial=-1e300)
    behind, lost = scores - top, float(weights @ (top - scores[labels, np.arange(len(labels))]))
    losses = np.empty(len(TEMPERATURES))
    for last in (-1, -2):
        # In float32, which is fast: the most probable class is 1, and the squares of all others are above 0.
        ratios = np.exp(np.maximum(behind / TEMPERATURES[last], FAINTEST, dtype=np.float32))
        for t in range(len(TEMPERATURES))[last::-2]:
            losses[t] = lost / TEMPERATURES[t] + weights @ np.log(ratios.sum(axis=0))
            np.maximum(np.square(ratios, out=ratios), LEAST, out=ratios)
    return losses


def best_temperature(tempered: np.ndarray) -> tuple[float, float]:
    """Return the temperature with the lowest log-loss, and this log-loss, by a parabola through `tempered_losses`."""
    best = int(np.argmin(tempered))
    if not 0 < best < len(tempered) - 1:
        return float(TEMPERATURES[best]), float(tempered[best])
    left, middle, right = tempered[best - 1 : best + 2]
    curvature = left - 2.0 * middle + right
    offset = 0.5 * (left - right) / curvature if curvature > 0 else 0.0
    return float(TEMPERATURES[best] * 2.0 ** (offset * _LOG_STEP)), float(middle - 0.25 * (left - right) * offset)
