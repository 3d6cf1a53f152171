"""Supervised LDA on reviews: polarity (AUC) and stars (predictive R2), against linear models on the same words.

Run: ``SDEM_CORPORA=... python tests/benchmarks/supervised_lda.py PART``, PART being one of ``imdb``, ``peers``, ``blitzer``,
``topics``, ``layers``, ``alpha``, ``lanes``, ``levels``, ``nsmc``, ``vocabulary``.  The settings are the defaults, which
were chosen on validation parts of the training documents (``choose_topic_defaults.py``); linear models are tuned on such
parts here.  Means of two starts unless said otherwise.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from reviews import Reviews, blitzer, blitzer_fold, halves, imdb, nsmc
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score

from sdem_dist import LatentDirichletAllocation, SupervisedLDAClassifier, SupervisedLDARegressor

STRENGTHS = {"C": np.logspace(-3, 0, 7), "alpha": np.logspace(0, 5, 11)}


def auc(model: Any, train: Reviews, test: Reviews) -> float:
    """Return the AUC of a classifier on test reviews."""
    return float(roc_auc_score(test.y, model.fit(train.X, train.y).predict_proba(test.X)[:, 1]))


def r2(model: Any, train: Reviews, test: Reviews) -> float:
    """Return the predictive R2 of a regressor on test reviews."""
    return float(r2_score(test.stars, model.fit(train.X, train.stars).predict(test.X)))


def tuned(measure: Any, model: Any, name: str, values: Any, train: Reviews) -> Any:
    """Return a model with that value of a parameter which is best on a validation part of the training reviews."""
    parts = [train.take(rows) for rows in halves(len(train.y))]
    best = max(values, key=lambda v: measure(clone(model).set_params(**{name: v}), *parts))
    return clone(model).set_params(**{name: best})


def ours(measure: Any, train: Reviews, test: Reviews, seeds: int = 2, **settings: Any) -> float:
    """Return the mean measure of supervised LDA over starts."""
    cls: Any = SupervisedLDAClassifier if measure is auc else SupervisedLDARegressor
    models = [cls(random_state=seed, evaluate_every=0, **settings) for seed in range(seeds)]
    return float(np.mean([measure(model, train, test) for model in models]))


def linear(measure: Any, train: Reviews, test: Reviews) -> float:
    """Return the measure of a tuned linear model."""
    if measure is auc:
        model = tuned(auc, LogisticRegression(solver="liblinear"), "C", STRENGTHS["C"], train)
    else:
        model = tuned(r2, Ridge(solver="sparse_cg"), "alpha", STRENGTHS["alpha"], train)
    return float(measure(model, train, test))


def both(train: Reviews, test: Reviews, seeds: int = 2) -> None:
    """Print what is reached from raw counts and from their logarithms."""
    for name, a, b in (("raw", train, test), ("log1p", train.logs(), test.logs())):
        for task, measure in (("polarity AUC", auc), ("stars R2", r2)):
            print(
                f"{task}, {name}: ours {ours(measure, a, b, seeds):.4f}, linear {linear(measure, a, b):.4f}", flush=True
            )


def peers(train: Reviews, test: Reviews) -> None:
    """Print LDA's topics with a linear model, and an MLP of as many parameters, raw counts."""
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    lda = LatentDirichletAllocation(evaluate_every=0).fit(train.X)
    a, b = (part._replace(X=lda.transform(part.X)) for part in (train, test))
    print(f"BP-LDA's topics, linear: AUC {linear(auc, a, b):.4f}, R2 {linear(r2, a, b):.4f}", flush=True)
    for name, measure, cls in (("AUC", auc, MLPClassifier), ("R2", r2, MLPRegressor)):
        network = cls(hidden_layer_sizes=(20,), early_stopping=True, n_iter_no_change=3, max_iter=30, random_state=0)
        best = tuned(measure, network, "alpha", (1e-3, 1e-1, 1.0), train)
        print(f"MLP with 20 hidden units, {name}: {measure(best, train, test):.4f}", flush=True)


def folds(n_folds: int = 5) -> None:
    """Print AUC on the multi-domain reviews, 1,000 words, means over folds."""
    order = np.random.default_rng(0).permutation(len(blitzer()[1]))
    found: dict[str, list[float]] = {}
    for fold in range(n_folds):
        train, test = blitzer_fold(np.delete(order, np.s_[fold::n_folds]), order[fold::n_folds])
        for name, a, b in (("raw", train, test), ("log1p", train.logs(), test.logs())):
            found.setdefault(f"{name}: ours", []).append(ours(auc, a, b, 1))
            found.setdefault(f"{name}: logistic regression", []).append(linear(auc, a, b))
    for name, values in found.items():
        print(f"{name} {np.mean(values):.4f}, folds {np.round(values, 4).tolist()}", flush=True)


def sweep(train: Reviews, test: Reviews, name: str, values: Any, seeds: int = 1, **settings: Any) -> None:
    """Print both measures over the values of one parameter."""
    for value in values:
        given = {name: value, **settings}
        print(
            f"{given}: AUC {ours(auc, train, test, seeds, **given):.4f}, R2 {ours(r2, train, test, seeds, **given):.4f}",
            flush=True,
        )


def sparsity(train: Reviews, test: Reviews, alphas: Any) -> None:
    """Print the share of topics that hold 90 % of a document's mass (Figure 4b)."""
    for alpha in alphas:
        model = SupervisedLDARegressor(alpha=alpha, evaluate_every=0).fit(train.X, train.stars)
        theta = -np.sort(-model.transform(test.X), axis=1)
        needed = (theta.cumsum(axis=1) < 0.9).sum(axis=1) + 1
        print(
            f"alpha {alpha}: {100 * needed.mean() / theta.shape[1]:.1f} % of the topics hold 90 % of the mass",
            flush=True,
        )


def levels(train: Reviews, n: int = 8_000) -> None:
    """Print how well stars are predicted as classes, as ordered levels, as numbers and as counts, by parts of the training half.

    Levels and classes: the most probable one, the log-loss, the median, the mean. Numbers: the nearest level, the prediction.
    """
    order = np.random.default_rng(0).permutation(len(train.y))
    a, b = train.take(order[:n]), train.take(order[n : n + 6_000])
    at = np.unique(a.stars)
    kept: dict[str, Any] = {"evaluate_every": 0, "n_jobs": 1}
    print("| stars as | accuracy | log-loss | mean absolute error | R2 |\n|" + " --- |" * 5)
    for name, ordered in (("classes", False), ("ordered levels", True)):
        p = SupervisedLDAClassifier(ordered=ordered, **kept).fit(a.X, a.stars).predict_proba(b.X)
        right = p[np.arange(len(p)), np.searchsorted(at, b.stars)]
        median = at[np.minimum((p.cumsum(axis=1) < 0.5).sum(axis=1), len(at) - 1)]
        show_levels(name, b.stars, at[p.argmax(axis=1)], f"{-np.log(right).mean():.4f}", median, p @ at)
    for family in ("gaussian", "poisson"):
        found = SupervisedLDARegressor(family=family, **kept).fit(a.X, a.stars).predict(b.X)
        nearest = at[np.abs(found[:, None] - at).argmin(axis=1)]
        show_levels(f"numbers, {family}", b.stars, nearest, "", found, found)


def show_levels(name: str, stars: Any, likely: Any, loss: str, middle: Any, mean: Any) -> None:
    """Print a row of `levels`."""
    right, error = (likely == stars).mean(), np.abs(middle - stars).mean()
    print(f"| {name} | {right:.4f} | {loss} | {error:.4f} | {r2_score(stars, mean):.4f} |", flush=True)


def vocabularies() -> None:
    """Print both measures on IMDB with its 5,000 most frequent words, and with all of them."""
    for n_words in (5000, None):
        train, test = imdb(n_words)
        print(
            f"{train.X.shape[1]:,} words: AUC {ours(auc, train, test):.4f}, R2 {ours(r2, train, test):.4f}", flush=True
        )


def main() -> None:
    """Print one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "part",
        choices=["imdb", "peers", "blitzer", "topics", "layers", "alpha", "lanes", "levels", "nsmc", "vocabulary"],
    )
    part = parser.parse_args().part
    if part == "vocabulary":
        vocabularies()
        return
    if part == "blitzer":
        folds()
        return
    train, test = nsmc() if part == "nsmc" else imdb()
    if part == "imdb":
        both(train, test, seeds=3)
    elif part == "peers":
        peers(train, test)
    elif part == "topics":
        sweep(train, test, "n_components", (5, 10, 20, 50, 100))
    elif part == "levels":
        levels(train)
    elif part == "layers":
        for k in (5, 20, 100):
            sweep(train, test, "n_layers", (1, 3, 5, 10, 20), n_components=k)
    elif part == "alpha":
        for alpha in (1.001, 0.5, 0.1):
            sweep(train, test, "n_components", (5, 20, 50), alpha=alpha)
        sparsity(train, test, (1.001, 0.5, 0.1))
    elif part == "lanes":
        sweep(train, test, "n_lanes", (1, 2, 4, 8, 16), seeds=2)
        sweep(train, test, "merge", ("sum",), seeds=2)
    else:
        print(f"{len(train.y)} reviews, {len(test.y)} of other films for testing", flush=True)
        print(f"ridge regression R2 {linear(r2, train, test):.4f}", flush=True)
        for k in (20, 50, 100):
            print(f"{k} topics: R2 {ours(r2, train, test, 1, n_components=k):.4f}", flush=True)


if __name__ == "__main__":
    main()
