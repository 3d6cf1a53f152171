"""Supervised LDA on reviews: polarity (AUC) and stars (predictive R2), against linear models on the same words.

Run: ``SDEM_CORPORA=... python tests/benchmarks/supervised_lda.py PART``, PART being one of ``imdb``, ``peers``, ``blitzer``,
``topics``, ``layers``, ``alpha``, ``lanes``, ``levels``, ``nsmc``, ``vocabulary``, ``choose``.  The settings are the
defaults, which `choose` searched on validation parts of the training documents (no test review is looked at: the fifth of the
multi-domain reviews that is left over is in neither part); linear models are tuned on such parts here.  Means of two starts
unless said otherwise.
"""

from collections.abc import Iterable
from itertools import product
from typing import Any

import corpora
import harness
import numpy as np
from corpora import Reviews, blitzer_fold, halves
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score

from sdem_dist import LatentDirichletAllocation, SupervisedLDAClassifier, SupervisedLDARegressor


def auc(model: Any, train: Reviews, test: Reviews) -> float:
    return float(roc_auc_score(test.y, model.fit(train.X, train.y).predict_proba(test.X)[:, 1]))


def r2(model: Any, train: Reviews, test: Reviews) -> float:
    return float(r2_score(test.stars, model.fit(train.X, train.stars).predict(test.X)))


MEASURES = {"AUC": auc, "R2": r2}


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


def peers() -> None:
    """Print LDA's topics with a linear model, and an MLP of as many parameters, raw counts."""
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    train, test = corpora.imdb()
    lda = LatentDirichletAllocation(evaluate_every=0).fit(train.X)
    a, b = (part._replace(X=lda.transform(part.X)) for part in (train, test))
    print(f"BP-LDA's topics, linear: AUC {linear(auc, a, b):.4f}, R2 {linear(r2, a, b):.4f}", flush=True)
    for name, cls in (("AUC", MLPClassifier), ("R2", MLPRegressor)):
        network = cls(hidden_layer_sizes=(20,), early_stopping=True, n_iter_no_change=3, max_iter=30, random_state=0)
        best = tuned(MEASURES[name], network, "alpha", (1e-3, 1e-1, 1.0), train)
        print(f"MLP with 20 hidden units, {name}: {MEASURES[name](best, train, test):.4f}", flush=True)


def blitzer(folds: int = 5) -> None:
    """Print AUC on the multi-domain reviews, 1,000 words, means over folds."""
    order = np.random.default_rng(0).permutation(len(corpora.blitzer()[1]))
    values: dict[str, list[float]] = {}
    for fold in range(folds):
        train, test = blitzer_fold(np.delete(order, np.s_[fold::folds]), order[fold::folds])
        for name, a, b in (("raw", train, test), ("log1p", train.logs(), test.logs())):
            values.setdefault(f"{name}: ours", []).append(ours(auc, a, b, 1))
            values.setdefault(f"{name}: logistic regression", []).append(linear(auc, a, b))
    for name, of_folds in values.items():
        print(f"{name} {np.mean(of_folds):.4f}, folds {np.round(of_folds, 4).tolist()}", flush=True)


def sweep(parts: tuple[Reviews, Reviews], name: str, values: Iterable[Any], seeds: int = 1, **settings: Any) -> None:
    for value in values:
        given = {name: value, **settings}
        figures = ", ".join(f"{k} {ours(measure, *parts, seeds, **given):.4f}" for k, measure in MEASURES.items())
        print(f"{given}: {figures}", flush=True)


def topics() -> None:
    sweep(corpora.imdb(), "n_components", (5, 10, 20, 50, 100))


def layers() -> None:
    for k in (5, 20, 100):
        sweep(corpora.imdb(), "n_layers", (1, 3, 5, 10, 20), n_components=k)


def lanes() -> None:
    sweep(corpora.imdb(), "n_lanes", (1, 2, 4, 8, 16), seeds=2)
    sweep(corpora.imdb(), "merge", ("sum",), seeds=2)


def alpha() -> None:
    for value in (1.001, 0.5, 0.1):
        sweep(corpora.imdb(), "n_components", (5, 20, 50), alpha=value)
    sparsity(corpora.imdb(), (1.001, 0.5, 0.1))


def sparsity(parts: tuple[Reviews, Reviews], alphas: Iterable[float]) -> None:
    """Print the share of topics that hold 90 % of a document's mass (Figure 4b)."""
    train, test = parts
    for value in alphas:
        model = SupervisedLDARegressor(alpha=value, evaluate_every=0).fit(train.X, train.stars)
        theta = -np.sort(-model.transform(test.X), axis=1)
        share = 100 * ((theta.cumsum(axis=1) < 0.9).sum(axis=1) + 1).mean() / theta.shape[1]
        print(f"alpha {value}: {share:.1f} % of the topics hold 90 % of the mass", flush=True)


def levels(documents: int = 8_000) -> None:
    """Print how well stars are predicted as classes, as ordered levels, as numbers and as counts, by parts of the training half.

    Levels and classes: the most probable one, the log-loss, the median, the mean. Numbers: the nearest level, the prediction.
    """
    train = corpora.imdb()[0]
    order = np.random.default_rng(0).permutation(len(train.y))
    a, b = train.take(order[:documents]), train.take(order[documents : documents + 6_000])
    at = np.unique(a.stars)
    plain: dict[str, Any] = {"evaluate_every": 0, "n_jobs": 1}
    harness.head("stars as", "accuracy", "log-loss", "mean absolute error", "R2")

    def print_row(name: str, likely: Any, loss: str, middle: Any, mean: Any) -> None:
        right, error = float((likely == b.stars).mean()), float(np.abs(middle - b.stars).mean())
        harness.row(name, right, loss, error, float(r2_score(b.stars, mean)))

    for name, ordered in (("classes", False), ("ordered levels", True)):
        p = SupervisedLDAClassifier(ordered=ordered, **plain).fit(a.X, a.stars).predict_proba(b.X)
        right = p[np.arange(len(p)), np.searchsorted(at, b.stars)]
        median = at[np.minimum((p.cumsum(axis=1) < 0.5).sum(axis=1), len(at) - 1)]
        print_row(name, at[p.argmax(axis=1)], f"{-np.log(right).mean():.4f}", median, p @ at)
    for family in ("gaussian", "poisson"):
        predicted = SupervisedLDARegressor(family=family, **plain).fit(a.X, a.stars).predict(b.X)
        nearest = at[np.abs(predicted[:, None] - at).argmin(axis=1)]
        print_row(f"numbers, {family}", nearest, "", predicted, predicted)


def nsmc() -> None:
    train, test = corpora.nsmc()
    print(f"{len(train.y)} reviews, {len(test.y)} of other films for testing", flush=True)
    print(f"ridge regression R2 {linear(r2, train, test):.4f}", flush=True)
    for k in (20, 50, 100):
        print(f"{k} topics: R2 {ours(r2, train, test, 1, n_components=k):.4f}", flush=True)


def vocabulary() -> None:
    for n_words in (5000, None):
        parts = corpora.imdb(n_words)
        figures = ", ".join(f"{name} {ours(measure, *parts):.4f}" for name, measure in MEASURES.items())
        print(f"{parts[0].X.shape[1]:,} words: {figures}", flush=True)


def choose(
    topic_rates: tuple = (0.012, 0.025, 0.05, 0.1), output_rates: tuple = (0.3, 1.0, 3.0), epochs: tuple = (2, 4, 8)
) -> None:
    """Print a line for each combination, on validation parts of IMDB's and the multi-domain training reviews."""
    train = corpora.imdb()[0]
    order = np.random.default_rng(1).permutation(len(corpora.blitzer()[1]))
    order = order[: int(0.8 * len(order))]
    cut = int(0.8 * len(order))
    parts = {"imdb": [train.take(rows) for rows in halves(len(train.y))]}
    parts["blitzer"] = list(blitzer_fold(order[:cut], order[cut:]))
    for topic_rate, output_rate, n_epochs in product(topic_rates, output_rates, epochs):
        settings = {"topic_rate": topic_rate, "output_rate": output_rate, "n_epochs": n_epochs}
        values = {
            f"{name} {task}": round(ours(measure, *pair, seeds=1, **settings), 4)
            for name, pair in parts.items()
            for task, measure in MEASURES.items()
        }
        print(settings, values, flush=True)


if __name__ == "__main__":
    parts = imdb, peers, blitzer, topics, layers, alpha, lanes, levels, nsmc, vocabulary, choose
    harness.run(__doc__, *parts)
