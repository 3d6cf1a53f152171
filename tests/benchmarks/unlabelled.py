"""Few labelled documents and many without: EM over the hidden class, and topics, against self-training.

Run: ``SDEM_CORPORA=... python tests/benchmarks/unlabelled.py [generative|discriminative|topics]``.

generative: multinomial naive Bayes over all words or the most frequent; Bernoulli naive Bayes over the most frequent as 0 or 1;
discriminative: `MultinomialNB` by hinge loss and NCLL with labelled documents alone and with all, beside EM over counts
(Nigam et al. 2000), mixtures of two components a class, and self-training of logistic regression on tf-idf, all words;
topics: supervised topics, also explaining the words.  The most frequent 5,000 words; the labelled documents are a random
share.  LDA is scikit-learn's, online, fitted to all documents without labels; a logistic regression (C = 1) takes its topics.

Accuracy, log-loss of test documents, the weight of what has no label, and seconds (CPU seconds of discriminative).
"""

import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import corpora
import harness
import numpy as np
import sklearn.naive_bayes as reference
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import SelfTrainingClassifier

from sdem_dist import BernoulliNB, EMMixtureClassifier, MultinomialNB, SdemMixtureClassifier, SupervisedLDAClassifier

warnings.simplefilter("ignore")
Trial = tuple[Any, Any, np.ndarray, Any]
"""A model, documents and labels to fit, and test documents."""


def hide(y: np.ndarray, labelled: int, seed: int) -> np.ndarray:
    """Return labels with all but some of each class, or all that it has, replaced by -1."""
    rng = np.random.default_rng(seed)
    hidden = np.full(len(y), -1)
    for k in np.unique(y):
        rows = np.flatnonzero(y == k)
        hidden[rng.choice(rows, min(labelled, len(rows)), replace=False)] = k
    return hidden


def compare(
    amount: object,
    seeds: int,
    trials: Callable[[int], Mapping[str, Trial]],
    y_test: np.ndarray,
    clock=time.perf_counter,
) -> None:
    found: dict[str, list[tuple[float, ...]]] = {}
    for seed in range(seeds):
        for name, (model, X, y, X_test) in trials(seed).items():
            started = clock()
            accuracy, loss = harness.scores_of(model.fit(X, y), X_test, y_test)
            weight = getattr(model, "best_entry_", {}).get("unlabelled_weight", np.nan)
            weight = getattr(getattr(model, "learner_", None), "words_weight", weight)
            found.setdefault(name, []).append((accuracy, loss, weight, clock() - started))
    for name, values in found.items():
        accuracy, loss, weight, seconds = np.mean(values, axis=0).tolist()
        harness.row(amount, name, accuracy, f"{loss:.3f}", f"{weight:.4g}", f"{seconds:.1f}")


COLUMNS = ("labelled a class", "model", "accuracy", "log-loss", "weight", "s")


def generative(
    names: tuple = ("20ng",),
    labelled: tuple = (1, 5, 20),
    seeds: int = 2,
    words: int = 1000,
    documents: int = 20_000,
    epochs: int = 10,
) -> None:
    for name in names:
        split = corpora.load(name).numbered()
        rows = np.random.default_rng(0).permutation(len(split.y))[:documents]
        split = split._replace(X=split.X[rows], y=split.y[rows])
        frequent = corpora.load(name).frequent(words)
        dense = (frequent.X[rows].toarray().astype(np.float32), frequent.X_test.toarray().astype(np.float32))
        harness.head(*COLUMNS)
        for n in labelled:
            compare(n, seeds, partial(generative_trials, split, dense, n, epochs), split.y_test)


def generative_trials(split: corpora.Split, dense: Any, n: int, epochs: int, seed: int) -> dict[str, Trial]:
    (X, X_test), S, S_test = dense, split.X, split.X_test
    hidden = hide(split.y, n, seed)
    known = hidden >= 0
    plain: dict[str, Any] = {"alpha": 0.1, "evaluate_every": 0}

    def self_training(threshold: float) -> SelfTrainingClassifier:
        return SelfTrainingClassifier(reference.MultinomialNB(alpha=0.1), threshold=threshold)

    def em(weight: float) -> MultinomialNB:
        return MultinomialNB(loss="nll", unlabelled=-1, unlabelled_weight=weight, n_epochs=15, **plain)

    def bernoulli(loss: str, weight: float) -> BernoulliNB:
        return BernoulliNB(loss=loss, unlabelled=-1, unlabelled_weight=weight, n_epochs=epochs, **plain)

    counted = reference.MultinomialNB(alpha=0.1)
    labelled = BernoulliNB(alpha=0.1, loss="nll")
    return {
        "multinomial, labelled only": (counted, X[known], hidden[known], X_test),
        "multinomial, all words, labelled only": (counted, S[known], hidden[known], S_test),
        "self-training .75": (self_training(0.75), X, hidden, X_test),
        "self-training .75, all words": (self_training(0.75), S, hidden, S_test),
        "self-training .99, all words": (self_training(0.99), S, hidden, S_test),
        "multinomial EM, weight 1": (em(1.0), X, hidden, X_test),
        "multinomial EM, weight 1, all words": (em(1.0), S, hidden, S_test),
        "multinomial EM, weight .1, all words": (em(0.1), S, hidden, S_test),
        "Bernoulli NLL, labelled only": (labelled, X[known], hidden[known], X_test),
        "Bernoulli NLL, EM, weight 1": (bernoulli("nll", 1.0), X, hidden, X_test),
        "Bernoulli NLL, EM, weight .1": (bernoulli("nll", 0.1), X, hidden, X_test),
        "Bernoulli NCLL, weight .1": (bernoulli("ncll", 0.1), X, hidden, X_test),
    }


def discriminative(names: tuple = ("20ng",), labelled: tuple = (1, 5, 20), seeds: int = 2) -> None:
    for name in names:
        split = corpora.load(name).numbered()
        harness.head(*COLUMNS)
        for n in labelled:
            compare(n, seeds, partial(discriminative_trials, split, n), split.y_test, time.process_time)


def discriminative_trials(split: corpora.Split, n: int, seed: int) -> dict[str, Trial]:
    hidden = hide(split.y, n, seed)
    mixture: dict[str, Any] = {"n_components": 2, "components": "multinomial", "alpha": 0.1, "n_jobs": 1}
    logistic = LogisticRegression(C=10, max_iter=500)
    labelled = {
        "hinge, labelled only": MultinomialNB(loss="hinge", n_jobs=1),
        "NCLL, labelled only": MultinomialNB(loss="ncll", n_jobs=1),
        "EM mixture, labelled only": EMMixtureClassifier(**mixture),
        "sdEM mixture, labelled only": SdemMixtureClassifier(**mixture),
        "LogisticRegression, labelled only": harness.on_tfidf(logistic),
    }
    every = {
        "hinge, all": MultinomialNB(loss="hinge", unlabelled=-1, n_jobs=1),
        "NCLL, all": MultinomialNB(loss="ncll", unlabelled=-1, n_jobs=1),
        "NLL, EM": MultinomialNB(loss="nll", alpha=0.1, unlabelled=-1, n_jobs=1),
        "EM mixture, all": EMMixtureClassifier(unlabelled=-1, **mixture),
        "sdEM mixture, all": SdemMixtureClassifier(unlabelled=-1, **mixture),
        "LogisticRegression, self-training": harness.on_tfidf(SelfTrainingClassifier(logistic, threshold=0.75)),
    }
    known = hidden >= 0
    trials = {name: (model, split.X[known], hidden[known], split.X_test) for name, model in labelled.items()}
    return trials | {name: (model, split.X, hidden, split.X_test) for name, model in every.items()}


def topics(
    names: tuple = ("20ng",),
    shares: tuple = (0.01, 0.05, 0.2, 1.0),
    topics: int = 50,
    seeds: int = 1,
    words: int = 5_000,
) -> None:
    for name in names:
        if name == "imdb":
            train, test = corpora.imdb(words)
            split = corpora.Split(train.X, train.y, test.X, test.y)
        else:
            split = corpora.load(name).numbered().frequent(words)
        lda = LatentDirichletAllocation(topics, learning_method="online", max_iter=5, random_state=0).fit(split.X)
        theta = lda.transform(split.X), lda.transform(split.X_test)
        harness.head("labels", *COLUMNS[1:])
        for share in shares:
            compare(f"{share:g}", seeds, partial(topic_trials, split, theta, topics, share), split.y_test)


def topic_trials(split: corpora.Split, theta: Any, n_topics: int, share: float, seed: int) -> dict[str, Trial]:
    X, y, X_test, _ = split
    hidden = np.where(np.random.default_rng(seed).random(len(y)) < share, y, -1)
    known = hidden >= 0
    supervised = partial(SupervisedLDAClassifier, n_topics, evaluate_every=0, unlabelled=-1, random_state=seed)
    logistic = LogisticRegression(max_iter=500)
    return {
        "words and labels, weight auto": (supervised(words_weight="auto"), X, hidden, X_test),
        "BP-sLDA, labelled documents": (supervised(), X[known], hidden[known], X_test),
        "BP-sLDA, as many steps": (supervised(), X, hidden, X_test),
        "LDA of all, logistic regression": (logistic, theta[0][known], hidden[known], theta[1]),
        "MultinomialNB, labelled documents": (MultinomialNB(), X[known], hidden[known], X_test),
    }


if __name__ == "__main__":
    harness.run(__doc__, generative, discriminative, topics)
