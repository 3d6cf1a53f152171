"""Stochastic discriminative EM in one file of plain NumPy: the algorithm of this package, to be read.

A generative model p(y, x | theta) is an exponential family. Its sufficient statistics s(y, x) have the expectation
mu(theta). EM moves mu towards the statistics of the data, and so maximizes the likelihood. Stochastic discriminative
EM (Masegosa 2014) does the same for losses that tell classes apart. For one document (x, y), with step size rho:

1. Score each class: E_k = ln p(k, x | theta).
2. Weigh each class: w = -d loss / d E (Table 1). NLL: 1 for y. NCLL: [k = y] - p(k | x). Hinge: 1 for y and -1 for the
   strongest rival while their margin is below 1.
3. Step in the expectation parameters: mu += rho * sum_k w_k s(k, x), and a share rho / n of the prior. This is a step
   along the natural gradient in theta (Theorem 2), although no Fisher information is ever computed.
4. Check: move mu back into the set of expectation parameters where it left it.
5. Make theta of mu (M-step).

Run: python examples/sdem_in_one_file.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np

# --- losses: Table 1, the weight of each class's statistics in a step, from the scores E_k = ln p(k, x) ---


def nll_weights(scores: np.ndarray, y: int) -> np.ndarray:
    """Return the weights of the negative log-likelihood -ln p(y, x): steps then count, as EM does."""
    return np.eye(len(scores))[y]


def ncll_weights(scores: np.ndarray, y: int) -> np.ndarray:
    """Return the weights of the negative conditional log-likelihood -ln p(y | x)."""
    posterior = np.exp(scores - scores.max())
    weights = -posterior / posterior.sum()
    weights[y] = -np.delete(weights, y).sum()  # 1 - p(y | x), without the loss of digits where p(y | x) is near 1
    return weights


def hinge_weights(scores: np.ndarray, y: int) -> np.ndarray:
    """Return the weights of max(0, 1 - ln p(y, x) / p(rival, x)), equation 17."""
    rivals = scores.copy()
    rivals[y] = -np.inf
    rival, weights = int(rivals.argmax()), np.zeros(len(scores))
    if scores[y] - scores[rival] <= 1.0:
        weights[y], weights[rival] = 1.0, -1.0
    return weights


WEIGHTS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "nll": nll_weights,
    "ncll": ncll_weights,
    "hinge": hinge_weights,
}


class Model(Protocol):
    """Expectation parameters mu, and what a document has to do with them."""

    def add_prior(self, share: float) -> None:
        """Add a share of the prior to mu, before a document is scored: share = rho / n."""

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return ln p(k, x) of each class k at theta(mu), shape (n_classes,)."""

    def step(self, x: np.ndarray, weights: np.ndarray, rho: float, share: float) -> None:
        """Move mu by rho times the weighted statistics, and check."""


def sdem(
    model: Model, X: np.ndarray, y: np.ndarray, order: Iterable[int], loss: str, decay: float = 1e-5, t: float = 0.0
) -> float:
    """Visit documents one after the other (Algorithm 1), and change the model in place; return how many were seen.

    `X`: shape (n_documents, n_features). `y`: shape (n_documents,), integers from 0. `order`: rows to visit.
    `decay`: lambda of the step size rho_t = 1 / (1 + lambda t). `t`: documents seen before.
    """
    n = len(y)
    for i in order:
        t += 1.0
        rho = 1.0 / (1.0 + decay * t)
        model.add_prior(rho / n)
        weights = WEIGHTS[loss](model.scores(X[i]), y[i])
        model.step(X[i], weights, rho, rho / n)
    return t


# --- documents as counts of words: Algorithms 2 to 4 ---


class Counts:
    """Multinomial naive Bayes. mu: C[k], the documents of class k, and N[k, w], how often they have word w.

    The Dirichlet prior has nu = 0: it only adds. What it has added, gamma, is the same for all words, so it is one
    number beside N (Algorithm 2). M[k] is the sum of N[k] over the vocabulary.
    """

    def __init__(self, n_classes: int, n_words: int, alpha: float = 1.0) -> None:
        self.alpha, self.gamma, self.class_gamma = alpha, 0.0, 0.0
        self.N = np.full((n_classes, n_words), alpha)
        self.M = self.N.sum(axis=1)
        self.C = np.ones(n_classes)

    def add_prior(self, share: float) -> None:
        """Raise gamma."""
        self.gamma += self.alpha * share
        self.class_gamma += share

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return ln p(k) + sum_w x_w ln p(w | k) (Algorithm 3)."""
        words = np.flatnonzero(x)
        log_words = np.log(self.N[:, words] + self.gamma)
        log_totals = np.log(self.M + self.gamma * self.N.shape[1])
        with np.errstate(divide="ignore"):
            log_classes = np.log(self.C + self.class_gamma)
        return log_words @ x[words] - x.sum() * log_totals + log_classes - np.log((self.C + self.class_gamma).sum())

    def step(self, x: np.ndarray, weights: np.ndarray, rho: float, share: float) -> None:
        """Move N, M and C; no count may fall below 0."""
        words = np.flatnonzero(x)
        moved = self.N[:, words] + np.outer(rho * weights, x[words])
        checked = np.maximum(moved, 0.0)
        self.M += (checked - self.N[:, words]).sum(axis=1)
        self.N[:, words] = checked
        self.C = np.maximum(self.C + rho * weights, 0.0)


# --- columns of numbers: section 4.1 ---


class Gaussians:
    """Gaussian naive Bayes. mu: N[k], S[k, j] and V[k, j], the sums of 1, x_j and x_j^2 over documents of class k.

    The Normal-Gamma prior has nu = 1, mean 0 and variance 1: it also shrinks S and V by 1 - rho / n.
    """

    def __init__(self, n_classes: int, n_columns: int) -> None:
        self.N = np.ones(n_classes)
        self.S, self.V = np.zeros((n_classes, n_columns)), np.ones((n_classes, n_columns))

    def add_prior(self, share: float) -> None:
        """Do nothing: `step` adds the prior."""

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return ln p(k) + sum_j ln N(x_j; mean, variance)."""
        mean = self.S / self.N[:, None]
        variance = self.V / self.N[:, None] - mean**2
        log_densities = -0.5 * (np.log(2.0 * np.pi * variance) + (x - mean) ** 2 / variance)
        return np.log(self.N / self.N.sum()) + log_densities.sum(axis=1)

    def step(self, x: np.ndarray, weights: np.ndarray, rho: float, share: float) -> None:
        """Move N, S and V; then no class may have less than the prior's share, and no variance may vanish."""
        w = rho * weights[:, None]
        self.N = np.maximum(self.N + rho * weights + share, share)
        self.S = (1.0 - share) * self.S + w * x
        self.V = (1.0 - share) * self.V + w * x**2 + share
        self.V = np.maximum(self.V, self.S**2 / self.N[:, None] + share)


def accuracy(model: Model, X: np.ndarray, y: np.ndarray) -> float:
    """Return the share of documents whose best class is their label."""
    return float(np.mean([model.scores(x).argmax() == k for x, k in zip(X, y, strict=True)]))


def toy(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw the toy data of section 4.1: a wide Gaussian between the two narrow parts of the other class."""
    y = rng.integers(2, size=n)
    parts = np.where(rng.random(n) < 0.8, -5.0, 5.0)
    x = np.where(y == 0, rng.normal(0.0, 3.0, n), rng.normal(parts, 0.1))
    return x[:, None], y


def main() -> None:
    """Train both models with the three losses, and print their accuracy on new documents.

    The toy data are not Gaussian, so discriminative losses win. The random documents are drawn from the model itself,
    so NLL wins.
    """
    rng = np.random.default_rng(0)
    X, y = toy(6_000, rng)
    topics = rng.dirichlet(np.full(300, 0.05), size=4)
    labels = rng.integers(4, size=2_000)
    words = np.array([rng.multinomial(30, 0.1 * topics[k] + 0.9 / 300) for k in labels]).astype(float)
    print(f"{'loss':8}{'Gaussian toy of the paper':>28}{'random documents, 4 classes':>30}")
    for loss in WEIGHTS:
        gaussians, counts = Gaussians(2, 1), Counts(4, 300)
        sdem(gaussians, X[:3_000], y[:3_000], range(3_000), loss, decay=1.0)
        t = 0.0
        for _ in range(3):
            t = sdem(counts, words[:1_000], labels[:1_000], rng.permutation(1_000), loss, t=t)
        of_toy = accuracy(gaussians, X[3_000:], y[3_000:])
        print(f"{loss:8}{of_toy:28.3f}{accuracy(counts, words[1_000:], labels[1_000:]):30.3f}")


if __name__ == "__main__":
    main()
