"""Few labelled documents and many without, against self-training.

Run: ``SDEM_CORPORA=... python tests/benchmarks/unlabelled.py [NAME...]``.  `MultinomialNB` by hinge loss and NCLL with labelled
documents alone and with all, beside EM over counts (Nigam et al. 2000), mixtures of two components a class, and self-training
of logistic regression on tf-idf, all words.  Accuracy, log-loss of test documents, the weight of what has no label, and CPU
seconds.
"""

import time
import warnings
from typing import Any

import corpora
import harness
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import SelfTrainingClassifier

from sdem_dist import EMMixtureClassifier, MultinomialNB, SdemMixtureClassifier

warnings.simplefilter("ignore")


def hide(y: np.ndarray, labelled: int, seed: int) -> np.ndarray:
    """Return labels with all but some of each class, or all that it has, replaced by -1."""
    rng, hidden = np.random.default_rng(seed), np.full(len(y), -1)
    for k in np.unique(y):
        rows = np.flatnonzero(y == k)
        hidden[rng.choice(rows, min(labelled, len(rows)), replace=False)] = k
    return hidden


def discriminative(names: tuple = ("20ng",), labelled: tuple = (1, 5, 20), seeds: int = 2) -> None:
    for name in names:
        split = corpora.load(name).numbered()
        harness.head("labelled a class", "model", "accuracy", "log-loss", "weight", "s")
        for n in labelled:
            figures: dict[str, list[tuple[float, ...]]] = {}
            for seed in range(seeds):
                for model_name, (model, X, y) in discriminative_trials(split, n, seed).items():
                    seconds = harness.seconds(lambda m=model, X=X, y=y: m.fit(X, y), time.process_time)
                    weight = getattr(model, "best_entry_", {}).get("unlabelled_weight", np.nan)
                    scores = harness.scores_of(model, split.X_test, split.y_test)
                    figures.setdefault(model_name, []).append((*scores, weight, seconds))
            for model_name, values in figures.items():
                accuracy, loss, weight, seconds = np.mean(values, axis=0).tolist()
                harness.row(n, model_name, accuracy, f"{loss:.3f}", f"{weight:.4g}", f"{seconds:.1f}")


def discriminative_trials(split: corpora.Split, n: int, seed: int) -> dict[str, tuple[Any, Any, np.ndarray]]:
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
    trials = {name: (model, split.X[known], hidden[known]) for name, model in labelled.items()}
    return trials | {name: (model, split.X, hidden) for name, model in every.items()}


if __name__ == "__main__":
    harness.run(__doc__, discriminative)
