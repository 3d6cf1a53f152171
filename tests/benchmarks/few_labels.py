"""Supervised topics of documents of which few have a label: also explaining the words, against what else there is.

Run: ``SDEM_CORPORA=... python tests/benchmarks/few_labels.py [--corpus 20ng] [--shares .01 .05 .2 1] [--seeds 1]``. The most
frequent 5,000 words, standard split, accuracy and log-loss of test documents. The labelled documents are a random share.
LDA is scikit-learn's, online, fitted to all documents without labels; a logistic regression (C = 1) takes its topics.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from typing import Any

import corpora
import numpy as np
from reviews import imdb
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from sdem_dist import MultinomialNB, SupervisedLDAClassifier

warnings.simplefilter("ignore")


def loaded(name: str, n_words: int) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Return counts and classes of the training and of the test part."""
    if name == "imdb":
        train, test = imdb(n_words)
        return train.X, train.y, test.X, test.y
    split = corpora.load(name)
    classes, y = np.unique(split.y, return_inverse=True)
    frequent = np.argsort(-np.asarray((split.X > 0).sum(axis=0)).ravel(), kind="stable")[:n_words]
    return split.X[:, frequent], y, split.X_test[:, frequent], np.searchsorted(classes, split.y_test)


def main() -> None:
    """Print a row for each model and share of labels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", default="20ng", choices=["20ng", "imdb", "r8", "webkb"])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.01, 0.05, 0.2, 1.0])
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--words", type=int, default=5_000)
    options = parser.parse_args()
    X, y, X_test, y_test = loaded(options.corpus, options.words)
    lda = LatentDirichletAllocation(options.topics, learning_method="online", max_iter=5, random_state=0).fit(X)
    theta, theta_test = lda.transform(X), lda.transform(X_test)
    print("| labels | model | accuracy | log-loss | weight | s |\n| --- | --- | --- | --- | --- | --- |", flush=True)
    for share in options.shares:
        found: dict[str, list[tuple[float, float, float, float]]] = {}
        for seed in range(options.seeds):
            hidden = np.where(np.random.default_rng(seed).random(len(y)) < share, y, -1)
            known = hidden >= 0
            topics = partial(
                SupervisedLDAClassifier, options.topics, evaluate_every=0, unlabelled=-1, random_state=seed
            )
            trials = {
                "words and labels, weight auto": (topics(words_weight="auto"), X, hidden, X_test),
                "BP-sLDA, labelled documents": (topics(), X[known], hidden[known], X_test),
                "BP-sLDA, as many steps": (topics(), X, hidden, X_test),
                "LDA of all, logistic regression": (
                    LogisticRegression(max_iter=500),
                    theta[known],
                    hidden[known],
                    theta_test,
                ),
                "MultinomialNB, labelled documents": (MultinomialNB(), X[known], hidden[known], X_test),
            }
            for name, (model, A, b, B) in trials.items():
                started = time.perf_counter()
                p = model.fit(A, b).predict_proba(B)
                right = model.classes_[p.argmax(axis=1)] == y_test
                weight = getattr(getattr(model, "learner_", None), "words_weight", np.nan)
                loss = log_loss(y_test, p, labels=model.classes_)
                found.setdefault(name, []).append((right.mean(), loss, weight, time.perf_counter() - started))
        for name, values in found.items():
            accuracy, loss, weight, seconds = np.mean(values, axis=0)
            print(f"| {share:g} | {name} | {accuracy:.4f} | {loss:.3f} | {weight:g} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
