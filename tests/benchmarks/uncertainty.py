"""A trial: do the parameters of naive Bayes deserve error bars?  Dirichlet posteriors of p(word | class).

Run: ``SDEM_CORPORA=... python tests/benchmarks/uncertainty.py [--only r8,20ng]``.  Two questions:

- Do intervals cover?  The training part is cut into two halves; the parameter of a word in a class differs between them by
  z of its posterior's standard deviations (Khan and Rue 2023: mu of sdEM is that posterior's counts).  Of z below 1.645
  there should be 90 %.  Words of ten occurrences or more in a class and half.
- Do averaged predictions calibrate better?  p(y | d) averaged over draws from the posterior, and in closed form (the
  Dirichlet-multinomial), beside that of the mean parameters: accuracy, log-loss, and log-loss at the temperature of a
  held-out tenth.
"""

from __future__ import annotations

import argparse

import corpora
import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, log_softmax, logsumexp, polygamma

from sdem_dist import MultinomialNB
from sdem_dist.calibration import best_temperature, tempered_losses

ENOUGH = 10.0
DRAWS = 20


def covered(model: MultinomialNB, X: sp.csr_matrix, y: np.ndarray, seed: int = 0) -> float:
    """Return the share of words and classes of which both halves' 90 % intervals of the difference hold 0."""
    half = np.random.default_rng(seed).random(len(y)) < 0.5
    found, variances, enough = [], [], []
    for rows in (half, ~half):
        counts = posterior(model, X[rows], y[rows])[0]
        variances.append(polygamma(1, counts) + polygamma(1, counts.sum(axis=0)))
        found.append(np.log(counts) - np.log(counts.sum(axis=0)))
        enough.append(counts >= ENOUGH)
    z = (found[0] - found[1]) / np.sqrt(variances[0] + variances[1])
    return float((np.abs(z[enough[0] & enough[1]]) < 1.645).mean())


def posterior(model: MultinomialNB, X: sp.csr_matrix, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts of the Dirichlet posteriors of words, shape (n_features, n_classes), and ln p(class)."""
    model.fit(X, y)
    return model.state_.words + model.state_.gamma, model.class_log_prior_


def compound(counts: np.ndarray, prior: np.ndarray, X: sp.csr_matrix) -> np.ndarray:
    """Return ln p(y, d) with the words' parameters integrated out, shape (n_documents, n_classes)."""
    totals, lengths = counts.sum(axis=0), np.asarray(X.sum(axis=1))
    scores = prior + gammaln(totals) - gammaln(totals + lengths)
    values, rows = X.data[:, None], np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    for k in range(counts.shape[1]):
        of_word = counts[X.indices, k]
        scores[:, k] += np.bincount(rows, gammaln(of_word + values[:, 0]) - gammaln(of_word), X.shape[0])
    return scores


def averaged(counts: np.ndarray, prior: np.ndarray, X: sp.csr_matrix, seed: int = 0) -> np.ndarray:
    """Return ln of p(y | d), averaged over draws of the words' parameters."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(DRAWS):
        drawn = np.log(np.maximum(rng.gamma(counts), 1e-300))
        scores = X @ drawn - np.asarray(X.sum(axis=1)) * logsumexp(drawn, axis=0) + prior
        found.append(log_softmax(scores, axis=1))
    return logsumexp(found, axis=0) - np.log(DRAWS)


def measures(scores: np.ndarray, y: np.ndarray, temperature: float) -> list[float]:
    """Return accuracy, log-loss, and log-loss at a temperature."""
    rows = np.arange(len(y))
    losses = [-log_softmax(scores / t, axis=1)[rows, y].mean() for t in (1.0, temperature)]
    return [float((scores.argmax(axis=1) == y).mean()), *map(float, losses)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="webkb,r8,20ng")
    options = parser.parse_args()
    print("| corpus | loss | 90 % intervals cover | predictions | accuracy | log-loss | at a temperature |")
    print(f"|{' --- |' * 7}")
    for name in options.only.split(","):
        counted = corpora.load(name)
        classes, y = np.unique(counted.y, return_inverse=True)
        y_test = np.searchsorted(classes, counted.y_test)
        held_out = np.random.default_rng(1).random(len(y)) < 0.1
        for loss, split in (("nll", counted), ("hinge", corpora.tfidf(counted, norm=10.0))):
            model = MultinomialNB(loss=loss, calibrate=False, validation_fraction=0, n_jobs=1)
            share = covered(model, split.X, y) if loss == "nll" else float("nan")  # steps are no observations
            kept = posterior(model, split.X[~held_out], y[~held_out])
            X, H = split.X_test, split.X[held_out]
            ways = {
                "of the mean": lambda X, kept=kept: X @ (np.log(kept[0]) - np.log(kept[0].sum(axis=0))) + kept[1],
                "averaged, closed form": lambda X, kept=kept: compound(*kept, X),
                f"averaged, {DRAWS} draws": lambda X, kept=kept: averaged(*kept, X),
            }
            for way, score in ways.items():
                losses = tempered_losses(score(H), y[held_out], np.ones(int(held_out.sum())))
                found = measures(score(X), y_test, best_temperature(losses)[0])
                print(
                    f"| {name} | {loss} | {share:.3f} | {way} | {' | '.join(f'{v:.4f}' for v in found)} |", flush=True
                )


if __name__ == "__main__":
    main()
