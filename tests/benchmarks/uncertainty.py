"""A trial: do the parameters of naive Bayes deserve error bars?  Dirichlet posteriors of p(word | class).

Run: ``SDEM_CORPORA=... python tests/benchmarks/uncertainty.py [r8,20ng]``.  Two questions:

- Do intervals cover?  The training part is cut into two halves; the parameter of a word in a class differs between them by
  z of its posterior's standard deviations (Khan and Rue 2023: mu of sdEM is that posterior's counts).  Of z below 1.645
  there should be 90 %.  Words of ten occurrences or more in a class and half.
- Do averaged predictions calibrate better?  p(y | d) averaged over draws from the posterior, and in closed form (the
  Dirichlet-multinomial), beside that of the mean parameters: accuracy, log-loss, and log-loss at the temperature of a
  held-out tenth.
"""

import corpora
import harness
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
    rows = np.arange(len(y))
    losses = [-log_softmax(scores / t, axis=1)[rows, y].mean() for t in (1.0, temperature)]
    return [float((scores.argmax(axis=1) == y).mean()), *map(float, losses)]


def trial(names: tuple = ("webkb", "r8", "20ng")) -> None:
    columns = "predictions", "accuracy", "log-loss", "at a temperature"
    harness.head("corpus", "loss", "90 % intervals cover", *columns)
    for name in names:
        counted = corpora.load(name).numbered()
        y, held_out = counted.y, np.random.default_rng(1).random(len(counted.y)) < 0.1
        for loss, split in (("nll", counted), ("hinge", corpora.tfidf(counted, norm=10.0))):
            model = MultinomialNB(loss=loss, calibrate=False, validation_fraction=0, n_jobs=1)
            share = covered(model, split.X, y) if loss == "nll" else float("nan")  # steps are no observations
            counts, prior = posterior(model, split.X[~held_out], y[~held_out])
            log_words = np.log(counts) - np.log(counts.sum(axis=0))
            both = split.X[held_out], split.X_test
            ways = {
                "of the mean": [X @ log_words + prior for X in both],
                "averaged, closed form": [compound(counts, prior, X) for X in both],
                f"averaged, {DRAWS} draws": [averaged(counts, prior, X) for X in both],
            }
            for way, (of_held_out, of_test) in ways.items():
                losses = tempered_losses(of_held_out, y[held_out], np.ones(int(held_out.sum())))
                figures = measures(of_test, split.y_test, best_temperature(losses)[0])
                harness.row(name, loss, f"{share:.3f}", way, *figures)


if __name__ == "__main__":
    harness.run(__doc__, trial)
