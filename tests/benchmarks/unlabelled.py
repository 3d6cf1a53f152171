"""Few labelled documents of 20 Newsgroups and many without: EM over the hidden class against self-training.

Multinomial naive Bayes over all words or the most frequent; Bernoulli naive Bayes over the most frequent as 0 or 1.
With ``--discriminative`` `MultinomialNB` by hinge loss and NCLL with labelled documents alone and with all, beside EM over counts
(Nigam et al. 2000), mixtures of two components a class, and self-training of logistic regression on tf-idf, all words:
accuracy, log-loss, CPU seconds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import corpora
import numpy as np
import sklearn.naive_bayes as reference
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import SelfTrainingClassifier

from sdem_dist import BernoulliNB, EMMixtureClassifier, MultinomialNB, SdemMixtureClassifier

warnings.simplefilter("ignore")


def hide(y: np.ndarray, labelled: int, seed: int) -> np.ndarray:
    """Return labels with all but some of each class, or all that it has, replaced by -1."""
    rng = np.random.default_rng(seed)
    hidden = np.full(len(y), -1)
    for k in np.unique(y):
        rows = np.flatnonzero(y == k)
        hidden[rng.choice(rows, min(labelled, len(rows)), replace=False)] = k
    return hidden


def counting(weight: float) -> MultinomialNB:
    return MultinomialNB(loss="nll", alpha=0.1, unlabelled=-1, unlabelled_weight=weight, n_epochs=15, evaluate_every=0)


def discriminative() -> dict[str, tuple[Any, bool]]:
    """Return models by name, and whether they see the documents without labels."""
    tfidf = TfidfTransformer(sublinear_tf=True)
    mixture: dict[str, Any] = {"n_components": 2, "components": "multinomial", "alpha": 0.1, "n_jobs": 1}
    return {
        "hinge, labelled only": (MultinomialNB(loss="hinge", n_jobs=1), False),
        "hinge, all": (MultinomialNB(loss="hinge", unlabelled=-1, n_jobs=1), True),
        "NCLL, labelled only": (MultinomialNB(loss="ncll", n_jobs=1), False),
        "NCLL, all": (MultinomialNB(loss="ncll", unlabelled=-1, n_jobs=1), True),
        "NLL, EM": (MultinomialNB(loss="nll", alpha=0.1, unlabelled=-1, n_jobs=1), True),
        "EM mixture, labelled only": (EMMixtureClassifier(**mixture), False),
        "EM mixture, all": (EMMixtureClassifier(unlabelled=-1, **mixture), True),
        "sdEM mixture, labelled only": (SdemMixtureClassifier(**mixture), False),
        "sdEM mixture, all": (SdemMixtureClassifier(unlabelled=-1, **mixture), True),
        "LogisticRegression, labelled only": (make_pipeline(tfidf, LogisticRegression(C=10, max_iter=500)), False),
        "LogisticRegression, self-training": (
            make_pipeline(tfidf, SelfTrainingClassifier(LogisticRegression(C=10, max_iter=500), threshold=0.75)),
            True,
        ),
    }


def compare(split: corpora.Split, labelled: list[int], seeds: int) -> None:
    """Print a row for each model and number of labelled documents a class."""
    classes, y = np.unique(split.y, return_inverse=True)
    y_test = np.searchsorted(classes, split.y_test)
    print("| labelled a class | model | accuracy | log-loss | weight | s |\n|" + " --- |" * 6)
    for n in labelled:
        found: dict[str, list[tuple[float, ...]]] = {}
        for seed in range(seeds):
            hidden = hide(y, n, seed)
            known = hidden >= 0
            for name, (model, sees_all) in discriminative().items():
                rows = slice(None) if sees_all else known
                started = time.process_time()
                p = model.fit(split.X[rows], hidden[rows]).predict_proba(split.X_test)
                seconds = time.process_time() - started
                right = float((model.classes_[p.argmax(axis=1)] == y_test).mean())
                loss = log_loss(y_test, np.clip(p, 1e-15, 1.0), labels=model.classes_)
                weight = getattr(model, "best_entry_", {}).get("unlabelled_weight", np.nan)
                found.setdefault(name, []).append((right, loss, weight, seconds))
        for name, values in found.items():
            accuracy, loss, weight, seconds = np.mean(values, axis=0)
            print(f"| {n} | {name} | {accuracy:.4f} | {loss:.3f} | {weight:.4g} | {seconds:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, default=1000)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--discriminative", action="store_true")
    parser.add_argument("--corpus", default="20ng", choices=corpora.STEMMED)
    parser.add_argument("--labelled", type=int, nargs="+", default=[1, 5, 20])
    options = parser.parse_args()
    split = corpora.load(options.corpus)
    if options.discriminative:
        compare(split, options.labelled, options.seeds)
        return
    classes, y = np.unique(split.y, return_inverse=True)
    y_test = np.searchsorted(classes, split.y_test)
    frequent = np.argsort(-np.asarray((split.X > 0).sum(axis=0)).ravel(), kind="stable")[: options.words]
    rows = np.random.default_rng(0).permutation(len(y))[: options.documents]
    S, y, S_test = split.X[rows], y[rows], split.X_test
    X, X_test = (m[:, frequent].toarray().astype(np.float32) for m in (S, S_test))
    print("| labelled a class | model | accuracy | s |")
    print("| --- | --- | --- | --- |")
    for labelled in options.labelled:
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(options.seeds):
            hidden = hide(y, labelled, seed)
            known = hidden >= 0

            def self_training(threshold: float) -> SelfTrainingClassifier:
                return SelfTrainingClassifier(reference.MultinomialNB(alpha=0.1), threshold=threshold)

            def ours(loss: str, weight: float) -> BernoulliNB:
                return BernoulliNB(
                    alpha=0.1,
                    loss=loss,
                    unlabelled=-1,
                    unlabelled_weight=weight,
                    n_epochs=options.epochs,
                    evaluate_every=0,
                )

            trials = {
                "multinomial, labelled only": (reference.MultinomialNB(alpha=0.1), X[known], hidden[known], X_test),
                "multinomial, all words, labelled only": (
                    reference.MultinomialNB(alpha=0.1),
                    S[known],
                    hidden[known],
                    S_test,
                ),
                "self-training .75": (self_training(0.75), X, hidden, X_test),
                "self-training .75, all words": (self_training(0.75), S, hidden, S_test),
                "self-training .99, all words": (self_training(0.99), S, hidden, S_test),
                "multinomial EM, weight 1": (counting(1.0), X, hidden, X_test),
                "multinomial EM, weight 1, all words": (counting(1.0), S, hidden, S_test),
                "multinomial EM, weight .1, all words": (counting(0.1), S, hidden, S_test),
                "Bernoulli NLL, labelled only": (BernoulliNB(alpha=0.1, loss="nll"), X[known], hidden[known], X_test),
                "Bernoulli NLL, EM, weight 1": (ours("nll", 1.0), X, hidden, X_test),
                "Bernoulli NLL, EM, weight .1": (ours("nll", 0.1), X, hidden, X_test),
                "Bernoulli NCLL, weight .1": (ours("ncll", 0.1), X, hidden, X_test),
            }
            for name, (model, A, b, B) in trials.items():
                started = time.perf_counter()
                accuracy = model.fit(A, b).score(B, y_test)
                found.setdefault(name, []).append((accuracy, time.perf_counter() - started))
        for name, values in found.items():
            accuracy, seconds = np.mean(values, axis=0)
            print(f"| {labelled} | {name} | {accuracy:.3f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
