"""Metrics of a model from sums over documents, additive over shards; temperatures and thresholds of several labels."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_softmax

from sdem_dist import calibration, losses
from sdem_dist.calibration import TEMPERATURES, best_temperature

SUMS = ("weight", "nll", "ncll", "hinge", "correct", "log_likelihood", "words")
PLACES = (1, 3, 5)  # k of "precision at k"
EDGES = np.sinh(np.linspace(-8.0, 8.0, 201))  # edges of bins of log-odds, for the choice of thresholds
MORE = 5.0  # documents of all labels that are added to each label when fitting its temperature and threshold
SHARED_DOCUMENTS = 100.0
"""Number of a label's documents for which its own threshold and that of all labels weigh the same. Of 10, 30, 100, 300:
the best mean micro-F1 on 20 Newsgroups, reviews and Bibtex (``tests/benchmarks/several_labels.py``)."""
OF_THRESHOLDS = ("accuracy", "micro_f1", "macro_f1")  # metrics that depend on the thresholds of labels
COUNTS = ("weight", "exact", *(f"hits at {k}" for k in PLACES))
N_BINS = 15  # equal bins of the probability of the most probable class


class Scored(NamedTuple):
    """A batch of documents, scored at a state, see `scored`."""

    scores: np.ndarray  # scores by which classes are predicted, shape (n_documents, n_classes)
    labels: np.ndarray
    weights: np.ndarray
    lengths: np.ndarray  # number of words of each document, or the sum of their weights
    nll: np.ndarray  # ``-ln p(y, d)`` of the labels, or its upper bound, shape (n_documents,)
    log_likelihood: np.ndarray  # ``ln p(d)``, or its lower bound, shape (n_documents,)


def scored(
    scores: np.ndarray, labels: np.ndarray, weights: np.ndarray, lengths: np.ndarray, joint: np.ndarray
) -> Scored:
    """Return documents with losses from `joint`, ln p(y, d) or a bound; documents without a label get weight 0."""
    hidden = labels < 0
    labels, weights = np.where(hidden, 0, labels), np.where(hidden, 0.0, weights)
    return Scored(scores, labels, weights, lengths, losses.nll(joint, labels), losses.marginal_log_likelihood(joint))


def joined(batches: Iterable[Scored]) -> Scored:
    return Scored(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))


class Reliability(NamedTuple):
    """Documents in equal bins of the probability of their prediction, from 0 to 1; float64, weighted."""

    confidence: np.ndarray
    """Mean probability of the predictions, shape (n_bins,); NaN in an empty bin."""
    accuracy: np.ndarray
    """Fraction of correct predictions, shape (n_bins,); NaN in an empty bin."""
    documents: np.ndarray
    """Weight of the documents, shape (n_bins,)."""

    @property
    def ece(self) -> float:
        """Expected calibration error: mean over documents of |accuracy - confidence| of their bin (Guo et al. 2017)."""
        filled = self.documents > 0
        gaps = np.abs(self.accuracy - self.confidence)[filled] * self.documents[filled]
        return float(gaps.sum() / self.documents.sum()) if filled.any() else float("nan")


def bin_sums(confidence: np.ndarray, right: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return sums of confidence, correct predictions and documents per bin, shape (3 * N_BINS,)."""
    bins = np.minimum((confidence * N_BINS).astype(np.intp), N_BINS - 1)
    columns = weights * confidence, weights * right, weights
    return np.concatenate([np.bincount(bins, column, N_BINS) for column in columns])


def reliability(sums: np.ndarray) -> Reliability:
    """Return the reliability from `bin_sums`."""
    confidence, hits, documents = sums.reshape(3, N_BINS)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Reliability(confidence / documents, hits / documents, documents)


def brier_scores(p: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the squared distance of each document's probabilities from its label, summed over classes: 0 to 2."""
    return np.asarray((p * p).sum(axis=1) - 2.0 * p[np.arange(len(labels)), labels] + 1.0)


def classifier_sums(documents: Scored, *, tempered: bool = False) -> np.ndarray:
    """Return `evaluation_sums`, `class_sums`, Brier scores and `bin_sums`; if `tempered`, also `tempered_sums`."""
    scores, labels, weights = documents.scores, documents.labels, documents.weights
    sums, used = [evaluation_sums(documents), class_sums(scores, labels, weights)], weights > 0
    scores, labels, weights = calibration.possible(scores[used]), labels[used], weights[used]
    log_p = log_softmax(scores, axis=1) if len(labels) else scores
    p = np.exp(log_p)
    sums.append(np.atleast_1d((weights * brier_scores(p, labels)).sum()))
    sums.append(bin_sums(p.max(axis=1, initial=0.0), p.argmax(axis=1) == labels, weights))
    return np.concatenate([*sums, calibration.tempered_sums(log_p, labels, weights)] if tempered else sums)


def classifier_metrics(sums: np.ndarray, n_classes: int) -> dict[str, float]:
    """Return metrics from `classifier_sums`; the best temperature, too, if they are tempered. NaN without documents."""
    of_classes = len(SUMS) + 3 * n_classes
    binned = of_classes + 1 + 3 * N_BINS
    with np.errstate(invalid="ignore", divide="ignore"):
        calibrated = {"brier": float(sums[of_classes] / sums[0])}
        calibrated["ece"] = reliability(sums[of_classes + 1 : binned]).ece
        if len(sums) > binned:
            best = calibration.cautious_temperature(sums[binned:], float(sums[0]))
            calibrated["temperature"], calibrated["tempered_log_loss"] = best
    if sums[0] == 0.0:
        calibrated = dict.fromkeys(calibrated, float("nan"))
    return finish(sums[: len(SUMS)]) | calibrated | {"macro_f1": macro_f1(sums[len(SUMS) : of_classes])}


def choosing_sums(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return sums for choices on held-out documents, four times as fast; scores are ln p(y | d) up to constants."""
    used = (weights > 0) & (labels >= 0)
    scores, labels, weights = calibration.possible(scores[used]), labels[used], weights[used]
    counts = np.array([weights.sum(), weights[scores.argmax(axis=1) == labels].sum()])
    losses_and_classes = calibration.tempered_losses(scores, labels, weights), class_sums(scores, labels, weights)
    return np.concatenate([counts, *losses_and_classes])


def choosing_metrics(sums: np.ndarray) -> dict[str, float]:
    """Return accuracy, macro-F1, the best temperature and its log-loss from `choosing_sums`; NaN without documents."""
    last = 2 + len(TEMPERATURES)
    with np.errstate(invalid="ignore"):
        means = sums[1:last] / sums[0]
    temperature, loss = best_temperature(means[1:])
    metrics = {"accuracy": float(means[0]), "macro_f1": macro_f1(sums[last:])}
    return metrics | {"temperature": temperature if sums[0] else float("nan"), "tempered_log_loss": loss}


def few_documents_metrics(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> tuple[float, float, float]:
    """Return accuracy, log-loss and temperature of few documents; without documents NaN, and temperature 1."""
    if not len(labels):
        return np.nan, np.nan, 1.0
    gaps = np.maximum(scores, -1e300)
    gaps -= gaps.max(axis=1, keepdims=True)
    # Add three errors with the median margin: few documents without errors do not show how rare errors are.
    wrong = np.full((1, scores.shape[1]), -1e300)
    wrong[0, :2] = 0.0, np.median(-np.partition(gaps, -2, axis=1)[:, -2])
    rows, truth = np.concatenate([gaps, wrong]), np.append(labels, 0).astype(np.intp)
    temperature, _ = best_temperature(calibration.tempered_losses(rows, truth, np.append(weights, 3.0)))
    log_p = log_softmax(gaps / temperature, axis=1)[np.arange(len(labels)), labels]
    columns = np.column_stack([scores.argmax(axis=1) == labels, -log_p])
    accuracy, log_loss = np.average(columns, axis=0, weights=weights).tolist()
    return accuracy, log_loss, temperature


def evaluation_sums(documents: Scored) -> np.ndarray:
    """Return sums over documents in the order of `SUMS`, shape (7,)."""
    used = documents.weights > 0  # a document of weight 0 is ignored, even if its loss is infinite
    scores, labels, weights, lengths, nll, log_likelihood = (column[used] for column in documents)
    if scores.shape[1] == 1:  # add an impossible rival
        scores = np.concatenate([scores, np.full((len(scores), 1), -np.inf)], axis=1)
    ncll, hinge, right = losses.ncll(scores, labels), losses.hinge(scores, labels), scores.argmax(axis=1) == labels
    columns = (np.ones(len(labels)), nll, ncll, hinge, right, log_likelihood, lengths)
    # Not a dot product: BLAS splits long ones over its threads, and the bits would depend on their number.
    return np.array([float((weights * c).sum()) for c in columns])


def class_sums(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return documents per class: with this label, with this prediction, and with both, shape (3 n_classes,)."""
    n_classes, predicted = scores.shape[1], scores.argmax(axis=1)
    right = np.where(predicted == labels, weights, 0.0)
    columns = ((labels, weights), (predicted, weights), (predicted, right))
    return np.concatenate([np.bincount(which, weight, n_classes) for which, weight in columns])


def macro_f1(sums: np.ndarray) -> float:
    """Return the mean F1 of the classes that are present or predicted, from `class_sums`."""
    present, predicted, right = sums.reshape(3, -1)
    occurring = present + predicted
    return float((2.0 * right[occurring > 0] / occurring[occurring > 0]).mean()) if occurring.any() else float("nan")


def finish(sums: np.ndarray) -> dict[str, float]:
    """Return means per document; the perplexity is ``exp(-sum ln p(d) / sum of words)``, with p(d) of word sequences.

    If ``ln p(y, d)`` is a lower bound, "nll" and "perplexity" are upper bounds. Without documents, all are NaN.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        means = dict(zip(SUMS, (sums / sums[0]).tolist(), strict=True))
        perplexity = float(np.exp(-sums[5] / sums[6])) if sums[6] else float("nan")
    return {"accuracy": means["correct"], **{k: means[k] for k in ("nll", "ncll", "hinge")}, "perplexity": perplexity}


class Decisions(NamedTuple):
    temperatures: np.ndarray  # shape (n_labels,): divisors of log-odds
    thresholds: np.ndarray  # shape (n_labels,): least probability for which a document gets the label


def probabilities(odds: np.ndarray) -> np.ndarray:
    """Return the probabilities of log-odds, strictly between 0 and 1."""
    return np.clip(expit(odds), np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg)


def decision_scores(scores: np.ndarray) -> np.ndarray:
    """Return ln p(y | d), or for two classes the log-odds of the second, shape (n, 1); large values grow slowly."""
    scores, far = calibration.possible(scores), -np.log(np.finfo(float).eps)  # log-odds with probability 1 in float64
    odds = scores[:, 1:] - scores[:, :1] if scores.shape[1] == 2 else np.asarray(log_softmax(scores, axis=1))
    beyond = np.maximum(np.minimum(np.abs(odds), np.finfo(float).max) - far, 0.0)
    return np.where(beyond > 0, np.copysign(far + np.log1p(beyond), odds), odds)


def label_sums(odds: np.ndarray, members: np.ndarray, weights: np.ndarray, decisions: Decisions) -> np.ndarray:
    """Return the sums of `COUNTS`, and per label: documents with it, predictions, correct predictions, log-losses."""
    used = weights > 0
    odds, present, weights = odds[used] / decisions.temperatures, members[used] > 0, weights[used]
    predicted = probabilities(odds) >= decisions.thresholds
    exact = float((weights * (predicted == present).all(axis=1)).sum())
    best = np.argsort(-odds, axis=1, kind="stable")[:, : max(PLACES)]
    right = np.take_along_axis(present, best, axis=1)
    hits = [float((weights * right[:, :k].sum(axis=1)).sum()) / k for k in PLACES]
    losses = np.logaddexp(0.0, np.where(present, -odds, odds))
    column = weights[:, None]
    by_label = [(column * values).sum(axis=0) for values in (present, predicted, present & predicted, losses)]
    return np.concatenate([[weights.sum(), exact, *hits], *by_label])


def label_metrics(sums: np.ndarray) -> dict[str, float]:
    """Return accuracy (of complete label sets), micro and macro F1, precision at k, and log-loss per label."""
    weight, exact, *hits = sums[: len(COUNTS)].tolist()
    present, predicted, right, losses = sums[len(COUNTS) :].reshape(4, -1)
    either, total = present + predicted, weight or 1.0
    f1 = 2.0 * right[either > 0] / either[either > 0]
    figures = {
        "accuracy": exact / total,
        "micro_f1": float(2.0 * right.sum() / either.sum()) if len(f1) else 0.0,
        "macro_f1": float(f1.mean()) if len(f1) else 0.0,
        **{f"precision_at_{k}": n / total for k, n in zip(PLACES, hits, strict=True) if k == 1 or k < len(present)},
        "label_log_loss": float(losses.sum()) / (total * len(losses)),
    }
    return figures if weight else dict.fromkeys(figures, float("nan"))


def fitting_sums(odds: np.ndarray, members: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return log-losses at `TEMPERATURES`, and per label histograms of log-odds of documents without it and with it."""
    n_labels, n_bins = odds.shape[1], len(EDGES) + 1
    signed = np.where(members > 0, -odds, odds)
    column = weights[:, None]
    losses = [(column * np.logaddexp(0.0, signed / t)).sum(axis=0) for t in TEMPERATURES]
    bins = np.searchsorted(EDGES, odds, side="right")
    places = (np.arange(n_labels) * 2 + (members > 0)) * n_bins + bins
    histograms = np.bincount(places.ravel(), np.repeat(weights, n_labels), 2 * n_labels * n_bins)
    return np.concatenate([*losses, histograms])


def fitted_decisions(sums: np.ndarray, n_labels: int) -> tuple[Decisions, dict[str, float]]:
    """Return temperatures and thresholds fitted to held-out documents, and the shared temperature and log-loss."""
    # For rare labels, add `MORE` documents with the label, and a matching share without, as among all labels.
    n_losses = len(TEMPERATURES) * n_labels
    losses, histograms = sums[:n_losses].reshape(-1, n_labels), sums[n_losses:].reshape(n_labels, 2, -1)
    weight, present = float(histograms[0].sum()), max(float(histograms[:, 1].sum()), 1.0)
    pulled = losses + MORE / present * losses.sum(axis=1, keepdims=True)
    temperatures = np.array([best_temperature(column / weight)[0] for column in pulled.T])
    thresholds = best_thresholds(sums, temperatures)
    at = np.log(TEMPERATURES)
    own = [np.interp(np.log(t), at, column) for t, column in zip(temperatures, losses.T, strict=True)]
    shared = best_temperature(losses.sum(axis=1) / (weight * n_labels))[0]
    fit = {"temperature": shared, "tempered_log_loss": float(np.sum(own)) / (weight * n_labels)}
    return Decisions(temperatures, thresholds), fit


def best_thresholds(sums: np.ndarray, temperatures: np.ndarray) -> np.ndarray:
    """Return the threshold of each label, shape (n_labels,).

    Its log-odds lie between the optimum for the label's F1 and the optimum for all labels together; the more documents
    have the label, the nearer to its own optimum.
    """

    def cut(histograms: np.ndarray) -> float:
        """Return the threshold of log-odds with the largest F1; of equal ones, the middle of the lowest interval."""
        without, with_ = histograms
        right, predicted = (np.cumsum(h[::-1])[::-1] for h in (with_, without + with_))
        f1 = 2.0 * right[1:] / np.maximum(predicted[1:] + with_.sum(), 1e-300)  # from lower edges of bins
        best = np.flatnonzero(f1 >= f1.max() - 1e-12)
        first = np.split(best, np.flatnonzero(np.diff(best) > 1) + 1)[0]
        return float(EDGES[first[0]] + EDGES[first[-1]]) / 2.0

    n_labels = len(temperatures)
    counts = sums[len(TEMPERATURES) * n_labels :].reshape(n_labels, 2, -1)
    with_label = counts[:, 1].sum(axis=1)
    of_all = MORE / max(float(with_label.sum()), 1.0)
    own = np.array([cut(one) for one in counts + of_all * counts.sum(axis=0)]) / temperatures
    middles = np.concatenate([EDGES[:1], (EDGES[1:] + EDGES[:-1]) / 2.0, EDGES[-1:]])
    bins = np.searchsorted(EDGES, middles / temperatures[:, None], side="right").ravel()
    pooled = np.array([np.bincount(bins, column.ravel(), counts.shape[2]) for column in counts.transpose(1, 0, 2)])
    weight = with_label / (with_label + SHARED_DOCUMENTS)
    # Model files do not accept numbers between 0 and 1e-250, the probability of log-odds -575.
    return probabilities(np.maximum(weight * own + (1.0 - weight) * cut(pooled), -500.0))
