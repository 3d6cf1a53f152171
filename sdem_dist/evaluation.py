"""Quality of a model over documents, as sums that add up over shards and are finished once."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax

from sdem_dist import calibration, losses

SUMS = ("weight", "nll", "ncll", "hinge", "correct", "log_likelihood", "words")


class Scored(NamedTuple):
    """A batch of documents at a state, see `scored`."""

    scores: np.ndarray  # what decides between classes, shape (n_documents, n_classes)
    labels: np.ndarray
    weights: np.ndarray
    lengths: np.ndarray  # words of each document, or the sum of their weights
    nll: np.ndarray  # ``-ln p(y, d)`` of the labels, or its upper bound, shape (n_documents,)
    log_likelihood: np.ndarray  # ``ln p(d)``, or its lower bound, shape (n_documents,)


def scored(
    scores: np.ndarray, labels: np.ndarray, weights: np.ndarray, lengths: np.ndarray, joint: np.ndarray
) -> Scored:
    """Return documents with what they cost; without a label, -1, they count nowhere.

    `joint`: ``ln p(y, d)`` without the multinomial coefficient, or a lower bound of it: often the scores.
    """
    hidden = labels < 0
    labels, weights = np.where(hidden, 0, labels), np.where(hidden, 0.0, weights)
    return Scored(scores, labels, weights, lengths, losses.nll(joint, labels), losses.marginal_log_likelihood(joint))


def joined(batches: Iterable[Scored]) -> Scored:
    return Scored(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))


def classifier_sums(documents: Scored, *, tempered: bool = False) -> np.ndarray:
    """Return what each classifier has: `evaluation_sums`, `class_sums`, Brier scores, bins; `tempered`: losses, too."""
    scores, labels, weights = documents.scores, documents.labels, documents.weights
    sums, used = [evaluation_sums(documents), class_sums(scores, labels, weights)], weights > 0
    scores, labels, weights = calibration.possible(scores[used]), labels[used], weights[used]
    log_p = log_softmax(scores, axis=1) if len(labels) else scores
    p = np.exp(log_p)
    sums.append(np.atleast_1d((weights * calibration.brier_scores(p, labels)).sum()))
    sums.append(calibration.bin_sums(p.max(axis=1, initial=0.0), p.argmax(axis=1) == labels, weights))
    return np.concatenate([*sums, calibration.tempered_sums(log_p, labels, weights)] if tempered else sums)


def classifier_metrics(sums: np.ndarray, n_classes: int) -> dict[str, float]:
    """Return what people read from `classifier_sums`: `finish`, macro-F1, Brier score and calibration error.

    With sums by temperature, the best one and its log-loss, too. Without any document all are NaN.
    """
    of_classes = len(SUMS) + 3 * n_classes
    binned = of_classes + 1 + 3 * calibration.N_BINS
    with np.errstate(invalid="ignore", divide="ignore"):
        calibrated = {"brier": float(sums[of_classes] / sums[0])}
        calibrated["ece"] = calibration.reliability(sums[of_classes + 1 : binned]).ece
        if len(sums) > binned:
            best = calibration.cautious_temperature(sums[binned:], float(sums[0]))
            calibrated["temperature"], calibrated["tempered_log_loss"] = best
    if sums[0] == 0.0:
        calibrated = dict.fromkeys(calibrated, float("nan"))
    return finish(sums[: len(SUMS)]) | calibrated | {"macro_f1": macro_f1(sums[len(SUMS) : of_classes])}


def choosing_sums(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return sums that held-out documents choose by: weights, log-loss at each temperature, `class_sums`.

    A quarter of the time of `classifier_sums`. Scores are ln p(y | d), up to a constant of each document.
    """
    used = (weights > 0) & (labels >= 0)
    scores, labels, weights = calibration.possible(scores[used]), labels[used], weights[used]
    counts = np.array([weights.sum(), weights[scores.argmax(axis=1) == labels].sum()])
    losses_and_classes = calibration.tempered_losses(scores, labels, weights), class_sums(scores, labels, weights)
    return np.concatenate([counts, *losses_and_classes])


def choosing_metrics(sums: np.ndarray) -> dict[str, float]:
    """Return accuracy, macro-F1, the best temperature and its log-loss from `choosing_sums`; all NaN of no document."""
    last = 2 + len(calibration.TEMPERATURES)
    with np.errstate(invalid="ignore"):
        means = sums[1:last] / sums[0]
    temperature, loss = calibration.best_temperature(means[1:])
    metrics = {"accuracy": float(means[0]), "macro_f1": macro_f1(sums[last:])}
    return metrics | {"temperature": temperature if sums[0] else float("nan"), "tempered_log_loss": loss}


def evaluation_sums(documents: Scored) -> np.ndarray:
    """Return sums over documents in the order of `SUMS`, shape (7,)."""
    used = documents.weights > 0  # a document of weight zero does not count, even with an infinite loss
    scores, labels, weights, lengths, nll, log_likelihood = (column[used] for column in documents)
    if scores.shape[1] == 1:  # a rival that never is
        scores = np.concatenate([scores, np.full((len(scores), 1), -np.inf)], axis=1)
    ncll, hinge, right = losses.ncll(scores, labels), losses.hinge(scores, labels), scores.argmax(axis=1) == labels
    columns = (np.ones(len(labels)), nll, ncll, hinge, right, log_likelihood, lengths)
    # Not a dot product: BLAS splits long ones over its threads, and the bits would depend on their number.
    return np.array([float((weights * c).sum()) for c in columns])


def class_sums(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return how many documents each class has, was predicted for, and rightly predicted for, shape (3 n_classes,)."""
    n_classes, predicted = scores.shape[1], scores.argmax(axis=1)
    right = np.where(predicted == labels, weights, 0.0)
    columns = ((labels, weights), (predicted, weights), (predicted, right))
    return np.concatenate([np.bincount(which, weight, n_classes) for which, weight in columns])


def macro_f1(sums: np.ndarray) -> float:
    """Return the mean F1 of the classes that occur or were predicted, from `class_sums`."""
    present, predicted, right = sums.reshape(3, -1)
    occurring = present + predicted
    return float((2.0 * right[occurring > 0] / occurring[occurring > 0]).mean()) if occurring.any() else float("nan")


def finish(sums: np.ndarray) -> dict[str, float]:
    """Turn sums into means per document: accuracy, the losses (natural logarithms), and the perplexity per word.

    ``perplexity`` is ``exp(-sum ln p(d) / sum of words)`` with ``p(d) = sum_y p(y, d)`` without the multinomial
    coefficient. Where ``ln p(y, d)`` is bounded from below, as by `LDAClassifier`, both "nll" and "perplexity" are
    bounds from above. Without any document all are NaN.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        means = dict(zip(SUMS, (sums / sums[0]).tolist(), strict=True))
        perplexity = float(np.exp(-sums[5] / sums[6])) if sums[6] else float("nan")
    return {"accuracy": means["correct"], **{k: means[k] for k in ("nll", "ncll", "hinge")}, "perplexity": perplexity}
