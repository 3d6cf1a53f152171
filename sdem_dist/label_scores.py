"""How well several labels per document are found: sums that add up, and what is fitted to them."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from sdem_dist.calibration import TEMPERATURES, best_temperature

PLACES = (1, 3, 5)  # k of "precision at k"
EDGES = np.sinh(np.linspace(-8.0, 8.0, 201))  # of bins of log-odds, between which thresholds lie
MORE = 5.0  # documents of all labels that each label borrows where its temperature and its threshold are fitted
SHARED_DOCUMENTS = 100.0
"""Documents of a label that count as much for its threshold as the threshold of all labels does. Of 10, 30, 100 and 300
it has the best micro-F1 in the mean of 20 Newsgroups, reviews and Bibtex (``tests/benchmarks/several_labels.py``)."""
OF_THRESHOLDS = ("accuracy", "micro_f1", "macro_f1")  # metrics that depend on which probability is enough for a label
COUNTS = ("weight", "exact", *(f"hits at {k}" for k in PLACES))


class Decisions(NamedTuple):
    temperatures: np.ndarray  # shape (n_labels,): what log-odds are divided by
    thresholds: np.ndarray  # shape (n_labels,): probability from which on a document gets the label


def probabilities(odds: np.ndarray) -> np.ndarray:
    """Return the probabilities of log-odds, between 0 and 1: nothing is certain."""
    return np.clip(expit(odds), np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg)


def label_sums(odds: np.ndarray, members: np.ndarray, weights: np.ndarray, decisions: Decisions) -> np.ndarray:
    """Return the sums of `COUNTS`, and of each label documents that have it, get it, get it rightly, and log-losses."""
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


def finish(sums: np.ndarray) -> dict[str, float]:
    """Return accuracy (all labels of a document right), micro and macro F1, precision at k, and log-loss per label."""
    weight, exact, *hits = sums[: len(COUNTS)].tolist()
    present, predicted, right, losses = sums[len(COUNTS) :].reshape(4, -1)
    either, total = present + predicted, weight or 1.0
    f1 = 2.0 * right[either > 0] / either[either > 0]
    figures = {
        "accuracy": exact / total,
        "micro_f1": float(2.0 * right.sum() / either.sum()) if len(f1) else 0.0,
        "macro_f1": float(f1.mean()) if len(f1) else 0.0,
        **{f"precision_at_{k}": n / total for k, n in zip(PLACES, hits, strict=True) if k <= max(1, len(present))},
        "label_log_loss": float(losses.sum()) / (total * len(losses)),
    }
    return figures if weight else dict.fromkeys(figures, float("nan"))


def fitting_sums(odds: np.ndarray, members: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return log-losses at `TEMPERATURES`, and histograms of log-odds of documents without each label and with it."""
    n_labels, n_bins = odds.shape[1], len(EDGES) + 1
    signed = np.where(members > 0, -odds, odds)
    column = weights[:, None]
    losses = [(column * np.logaddexp(0.0, signed / t)).sum(axis=0) for t in TEMPERATURES]
    bins = np.searchsorted(EDGES, odds, side="right")
    places = (np.arange(n_labels) * 2 + (members > 0)) * n_bins + bins
    histograms = np.bincount(places.ravel(), np.repeat(weights, n_labels), 2 * n_labels * n_bins)
    return np.concatenate([*losses, histograms])


def fitted(sums: np.ndarray, n_labels: int) -> tuple[Decisions, dict[str, float]]:
    """Return the decisions that held-out documents ask for, and what their log-loss and F1 then are."""
    # For rare labels, `MORE` documents with the label, and their share without it, are added, like those of all labels.
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
    """Return the probability from which on each label is given, shape (n_labels,).

    It lies, on the scale of log-odds, between those with the largest F1 of the label and of all labels together: the
    more documents have the label, the nearer to its own.
    """
    n_labels = len(temperatures)
    counts = sums[len(TEMPERATURES) * n_labels :].reshape(n_labels, 2, -1)
    with_label = counts[:, 1].sum(axis=1)
    of_all = MORE / max(float(with_label.sum()), 1.0)
    own = np.array([_cut(one) for one in counts + of_all * counts.sum(axis=0)]) / temperatures
    middles = np.concatenate([EDGES[:1], (EDGES[1:] + EDGES[:-1]) / 2.0, EDGES[-1:]])
    bins = np.searchsorted(EDGES, middles / temperatures[:, None], side="right").ravel()
    n_bins = counts.shape[2]
    pooled = np.array([np.bincount(bins, column.ravel(), n_bins) for column in counts.transpose(1, 0, 2)])
    weight = with_label / (with_label + SHARED_DOCUMENTS)
    return probabilities(weight * own + (1.0 - weight) * _cut(pooled))


def _cut(histograms: np.ndarray) -> float:
    """Return the log-odds from which on a label is given, for the largest F1; of equal ones in their middle."""
    without, with_ = histograms
    right, predicted = (np.cumsum(h[::-1])[::-1] for h in (with_, without + with_))
    f1 = 2.0 * right[1:] / np.maximum(predicted[1:] + with_.sum(), 1e-300)  # from the edge below each bin on
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    first = np.split(best, np.flatnonzero(np.diff(best) > 1) + 1)[0]
    return float(EDGES[first[0]] + EDGES[first[-1]]) / 2.0
