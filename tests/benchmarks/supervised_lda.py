"""Supervised LDA on reviews: polarity (AUC) and stars (predictive R2), against linear models on the same words.

Run: ``SDEM_CORPORA=... python tests/benchmarks/supervised_lda.py``.  IMDB, three starts.  The settings are the defaults; linear
models are tuned on validation parts of the training documents.
"""

from typing import Any

import corpora
import harness
import numpy as np
from corpora import Reviews, halves
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score

from sdem_dist import SupervisedLDAClassifier, SupervisedLDARegressor


def auc(model: Any, train: Reviews, test: Reviews) -> float:
    return float(roc_auc_score(test.y, model.fit(train.X, train.y).predict_proba(test.X)[:, 1]))


def r2(model: Any, train: Reviews, test: Reviews) -> float:
    return float(r2_score(test.stars, model.fit(train.X, train.stars).predict(test.X)))


def tuned(measure: Any, model: Any, name: str, values: Any, train: Reviews) -> Any:
    """Return a model with that value of a parameter which is best on a validation part of the training reviews."""
    parts = [train.take(rows) for rows in halves(len(train.y))]
    best = max(values, key=lambda v: measure(clone(model).set_params(**{name: v}), *parts))
    return clone(model).set_params(**{name: best})


def ours(measure: Any, train: Reviews, test: Reviews, seeds: int = 2, **settings: Any) -> float:
    cls: Any = SupervisedLDAClassifier if measure is auc else SupervisedLDARegressor
    models = [cls(random_state=seed, evaluate_every=0, **settings) for seed in range(seeds)]
    return float(np.mean([measure(model, train, test) for model in models]))


def linear(measure: Any, train: Reviews, test: Reviews) -> float:
    if measure is auc:
        model = tuned(auc, LogisticRegression(solver="liblinear"), "C", np.logspace(-3, 0, 7), train)
    else:
        model = tuned(r2, Ridge(solver="sparse_cg"), "alpha", np.logspace(0, 5, 11), train)
    return float(measure(model, train, test))


def both(train: Reviews, test: Reviews, seeds: int = 2) -> None:
    for name, a, b in (("raw", train, test), ("log1p", train.logs(), test.logs())):
        for task, measure in (("polarity AUC", auc), ("stars R2", r2)):
            figures = f"ours {ours(measure, a, b, seeds):.4f}, linear {linear(measure, a, b):.4f}"
            print(f"{task}, {name}: {figures}", flush=True)


def imdb() -> None:
    both(*corpora.imdb(), seeds=3)


def paper() -> None:
    """Compare the default with Algorithm 2 to the letter, by its rate of topics."""
    train, test = corpora.imdb()
    for settings in ({}, *({"steps": "paper", "topic_rate": rate} for rate in (0.01, 0.05, 0.2))):
        print(f"{settings}: AUC {ours(auc, train, test, 1, **settings):.4f}", flush=True)


if __name__ == "__main__":
    harness.run(__doc__, imdb, paper)
