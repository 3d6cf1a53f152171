"""Starts in units of the margin: what EM found, tempered to the wished sureness of a class.

A generative model of words is far too sure, and with more documents even more so. Where it is sure, no document asks
for a step, so discriminative training would keep its errors.
"""

import numpy as np

from sdem_dist.documents import Documents
from sdem_dist.models.heads import by_class
from sdem_dist.models.word_counts import SdemState


def start_at(initial: SdemState, generative: SdemState, weight: float) -> SdemState:
    """Return a start whose scores are those of a generative model, times a weight, up to a constant of each document.

    Every word's pseudo-counts keep their geometric mean over columns, which steps are in units of.
    """
    log_words = np.log(generative.words) - np.log(generative.totals)
    log_words -= log_words.mean(axis=1, keepdims=True)
    words = initial.words * np.exp(weight * log_words, out=log_words)
    return initial._replace(words=words, totals=words.sum(axis=0))


def weight_of_margin(generative: SdemState, documents: Documents, margin: float, owners: tuple[int, ...] = ()) -> float:
    """Return the weight at which a generative model's best class leads by a margin in the median document; 1 at most.

    It has two digits, as people read it. Documents count by their weights.

    `owners`: the class of each column, where classes have components.
    """
    weights = np.ones(documents.n_documents) if documents.weights is None else documents.weights
    used = weights > 0
    if not used.any():
        return 1.0
    scores = documents.to_csr()[used] @ (np.log(generative.words) - np.log(generative.totals))
    scores = by_class(scores, owners)[0] if owners else scores
    second, first = np.partition(scores, scores.shape[1] - 2, axis=1)[:, -2:].T
    return float(f"{min(1.0, margin / max(_median(first - second, weights[used]), margin)):.2g}")


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the median by weights, all of which are positive; of equal weights it is NumPy's."""
    order = np.argsort(values)
    values, below = values[order], np.cumsum(weights[order])
    lower, upper = np.searchsorted(below, 0.5 * below[-1], "left"), np.searchsorted(below, 0.5 * below[-1], "right")
    return float(0.5 * (values[lower] + values[upper]))
