"""sdEM for multinomial naive Bayes, slow and plain: Algorithms 2, 3 and 4 of Masegosa 2014, as corrected.

What is corrected: the posterior is taken once a document, from the parameters before the update; the hinge steps have
the weights 1 and -1 of Table 1; M is normalised with the size of the vocabulary; t counts from 1; the class prior has
a pseudo-count of 1 and a correction of its own.

Two departures of the package are here as options: gamma frozen in the logarithms of words, and steps of several
documents.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass
class Counts:
    """Expectation parameters: N[k, w], M[k], C[k], and how far the run is."""

    N: np.ndarray
    M: np.ndarray
    C: np.ndarray
    gamma: float = 0.0
    gamma_classes: float = 0.0
    t: float = 0.0

    @classmethod
    def start(cls, n_classes: int, n_words: int, alpha: float) -> Counts:
        return cls(np.full((n_classes, n_words), alpha), np.full(n_classes, alpha * n_words), np.ones(n_classes))

    def copy(self) -> Counts:
        return replace(self, N=self.N.copy(), M=self.M.copy(), C=self.C.copy())

    def log_words(self) -> np.ndarray:
        return np.log((self.N + self.gamma) / (self.M + self.gamma * self.N.shape[1])[:, None])

    def log_classes(self) -> np.ndarray:
        counts = self.C + self.gamma_classes
        return np.log(counts / counts.sum())


def log_joint(counts: Counts, words, times, gamma: float, log_prior) -> np.ndarray:
    """Algorithm 3, up to line 10: ln p(k, d) of each class."""
    n_classes, n_words = counts.N.shape
    scores = np.empty(n_classes)
    for k in range(n_classes):
        scores[k] = log_prior[k]
        for w, c in zip(words, times, strict=True):
            scores[k] += c * np.log(counts.N[k, w] + gamma)
        scores[k] -= sum(times) * np.log(counts.M[k] + gamma * n_words)
    return scores


def table_1(loss: str, scores: np.ndarray, y: int) -> np.ndarray:
    """Weight of each class's statistics in the step."""
    weights = np.zeros(len(scores))
    if loss == "ncll":
        p = np.exp(scores - scores.max())
        p /= p.sum()
        weights -= p
        weights[y] = sum(p[k] for k in range(len(p)) if k != y)
    if loss == "hinge":
        rivals = [k for k in range(len(scores)) if k != y]
        rival = max(rivals, key=lambda k: scores[k])
        if scores[y] - scores[rival] <= 1:
            weights[y], weights[rival] = 1.0, -1.0
    return weights


def run(
    counts: Counts,
    documents,
    labels,
    order,
    *,
    loss: str,
    alpha: float,
    n: float,
    decay: float = 1e-5,
    document_weights=None,
    batch: int = 1,
    frozen_gamma: float | None = None,
    stands_for: float = 1.0,
    log_prior=None,
) -> Counts:
    """Visit documents, pairs of words and their times, in `order`; return the counts after it.

    `frozen_gamma` takes the place of gamma in the logarithms of words; the class prior then is that of the last step.
    A document advances t by `stands_for`.
    """
    counts = counts.copy()
    weight_of = np.ones(len(labels)) if document_weights is None else document_weights
    prior = None
    for first in range(0, len(order), batch):
        visited = order[first : first + batch]
        seen = sum(weight_of[d] for d in visited)
        counts.t += stands_for * seen
        rho = 1 / (1 + decay * counts.t)
        counts.gamma += alpha * rho / n * seen
        counts.gamma_classes += rho / n * seen
        gamma = counts.gamma if frozen_gamma is None else frozen_gamma
        if log_prior is not None:
            prior = log_prior
        elif prior is None or frozen_gamma is None:
            prior = np.log(counts.C + counts.gamma_classes)
        steps = [table_1(loss, log_joint(counts, *documents[d], gamma, prior), labels[d]) for d in visited]
        for d, step in zip(visited, steps, strict=True):
            for k in range(len(step)):
                for w, c in zip(*documents[d], strict=True):
                    change = rho * weight_of[d] * c * step[k]
                    counts.N[k, w] += change
                    counts.M[k] += change
                counts.C[k] += rho * weight_of[d] * step[k] if log_prior is None else 0.0
            if step.any():
                prior = None
        for d in visited:
            for w in documents[d][0]:
                for k in range(len(counts.M)):
                    clipped = max(counts.N[k, w], 0.0)
                    counts.M[k] += clipped - counts.N[k, w]
                    counts.N[k, w] = clipped
        counts.C = np.maximum(counts.C, 0.0)
    return counts


def stored_order(n_documents: int, seed: int) -> np.ndarray:
    """Row of the matrix that each document in memory is."""
    return np.random.Generator(np.random.PCG64(seed)).permutation(n_documents)


def lane_order(n_documents: int, seed: int, epoch: int, round_: int, lane: int) -> np.ndarray:
    """Order in which a lane visits its documents."""
    key = np.array([seed, epoch * 2**40 + round_ * 2**20 + lane], np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).permutation(n_documents)
