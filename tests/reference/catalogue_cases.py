"""A few settings of every estimator of the catalogue, and the corpora that each takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import sdem_dist as sd
from sdem_dist.losses import CostSensitiveHinge, Hinge


class Case(NamedTuple):
    """One training: an estimator, its settings, and which of the corpora it trains on."""

    estimator: str
    corpus: str
    settings: dict[str, Any]

    def made(self, **more: Any) -> Any:
        """Return the estimator."""
        return getattr(sd, self.estimator)(**{**self.settings, **more})


LANES = {"n_epochs": 2, "n_lanes": 5}
TOPICS = {"n_components": 5, "n_epochs": 2}
COSTS = CostSensitiveHinge(((0, 1, 2, 3), (1, 0, 1, 2), (2, 1, 0, 1), (3, 2, 1, 0)))
CASES = {
    "ncll mean": Case("MultinomialNB", "counts", {"loss": "ncll", "n_lanes": 11, "rounds_per_epoch": 3}),
    "hinge mean": Case("MultinomialNB", "counts", {"n_epochs": 3, "n_lanes": 4, "alpha": "log"}),
    "ncll sum": Case("MultinomialNB", "counts", {"n_epochs": 1, "merge": "sum", "batch_size": 700, "n_lanes": 9}),
    "many classes, hinge": Case("ManyClassNB", "counts", {"n_epochs": 2}),
    "many classes, nll": Case("ManyClassNB", "counts", {"loss": "nll", "alpha": 0.5}),
    "classes, each against the rest": Case("MultiLabelNB", "counts", {"n_epochs": 2, "n_lanes": 5}),
    "several labels": Case("MultiLabelNB", "labels", {"loss": "ncll", "n_lanes": 3}),
    "several labels, sum": Case("MultiLabelNB", "labels", {"n_epochs": 2, "merge": "sum", "batch_size": 700}),
    "nll": Case("MultinomialNB", "counts", {"loss": "nll", "n_lanes": 20}),
    "lda map": Case("LDAClassifier", "counts", {"n_epochs": 2, "n_lanes": 7}),
    "lda gibbs": Case(
        "LDAClassifier", "counts", {"inference": "gibbs", "loss": "hinge", "merge": "sum", "n_epochs": 1}
    ),
    "classes, mean": Case(
        "SupervisedLDAClassifier",
        "counts",
        {**TOPICS, "n_lanes": 5, "rounds_per_epoch": 2, "batch_size": 30, "class_weight": "balanced"},
    ),
    "classes, sum": Case(
        "SupervisedLDAClassifier", "counts", {**TOPICS, "merge": "sum", "n_lanes": 3, "batch_size": 700}
    ),
    "classes and words": Case(
        "SupervisedLDAClassifier", "counts", {**TOPICS, "n_lanes": 3, "words_weight": "auto", "merge": "sum"}
    ),
    "targets, beta": Case(
        "SupervisedLDARegressor", "counts", {**TOPICS, "n_lanes": 4, "beta": 1.01, "log_counts": True}
    ),
    "levels, learned alpha": Case(
        "SupervisedLDAClassifier", "counts", {**TOPICS, "n_lanes": 4, "ordered": True, "alpha": "learned"}
    ),
    "several labels by topics": Case("SupervisedLDAClassifier", "labels", {**TOPICS, "n_lanes": 3}),
    "counts by topics": Case(
        "SupervisedLDARegressor",
        "rates",
        {**TOPICS, "n_lanes": 3, "family": "poisson", "inference": "accelerated", "alpha": [0.9, 1.0, 1.1, 1.2, 1.3]},
    ),
    "words, learned alpha": Case(
        "LatentDirichletAllocation", "counts", {**TOPICS, "alpha": "learned", "inference": "line-search-l1"}
    ),
    "words, searched": Case(
        "LatentDirichletAllocation",
        "counts",
        {**TOPICS, "n_lanes": 20, "merge": "mean", "inference": "line-search", "n_layers": 3},
    ),
    "clusters": Case("MultinomialMixture", "counts", {"n_components": 4, "n_init": 2, "n_epochs": 2}),
    "clusters, sampled": Case(
        "MultinomialMixture", "counts", {"n_components": 3, "n_init": 1, "n_epochs": 2, "em": "stochastic"}
    ),
    "clusters, online": Case(
        "MultinomialMixture",
        "counts",
        {"n_components": 3, "n_init": 1, "n_epochs": 2, "em": "online", "batch_size": 100},
    ),
    "clusters, annealed": Case(
        "MultinomialMixture",
        "counts",
        {"n_components": 3, "n_init": 1, "n_epochs": 2, "em": "variational", "annealing": 3.0},
    ),
    "k-means": Case("KMeans", "counts", {"n_clusters": 3, "metric": "cosine", "n_epochs": 2, "init_documents": 500}),
    "k-means of numbers": Case("KMeans", "whole", {"n_clusters": 3, "n_epochs": 2}),
    "k-means of directions": Case("KMeans", "whole", {"n_clusters": 3, "metric": "cosine", "n_epochs": 2}),
    "clusters of numbers": Case("GaussianMixture", "numbers", {"n_components": 3, "n_init": 2, "n_epochs": 2}),
    "clusters of numbers, online": Case(
        "GaussianMixture", "numbers", {"n_components": 3, "n_init": 1, "n_epochs": 2, "em": "online"}
    ),
    "clusters of waiting times": Case(
        "ExponentialMixture", "whole", {"n_components": 3, "n_init": 1, "n_epochs": 2, "em": "stochastic"}
    ),
    "gaussian ncll": Case("GaussianNB", "numbers", LANES),
    "gaussian hinge, mean": Case(
        "GaussianNB", "numbers", {"loss": "hinge", "merge": "mean", "batch_size": 64, **LANES}
    ),
    "gaussian costs": Case("GaussianNB", "numbers", {"loss": COSTS, **LANES}),
    "gaussian ncll, batches": Case("GaussianNB", "numbers", {"batch_size": 700, **LANES}),
    "bernoulli ncll": Case("BernoulliNB", "numbers", {"binarize": 0.5, **LANES}),
    "bernoulli hinge, mean": Case("BernoulliNB", "table", {"binarize": 0.5, "loss": "hinge", "merge": "mean", **LANES}),
    "categorical ncll": Case("CategoricalNB", "table", LANES),
    "categorical perceptron, mean": Case("CategoricalNB", "table", {"loss": Hinge(0.0), "merge": "mean", **LANES}),
    "poisson ncll": Case("PoissonNB", "table", LANES),
    "poisson hinge, mean": Case("PoissonNB", "table", {"loss": "hinge", "merge": "mean", **LANES}),
    "mixed ncll": Case(
        "MixedNB", "table", {"kinds": {0: "poisson", 1: "exponential", 2: "categorical"}, "n_epochs": 2}
    ),
    "regression ncll": Case("GaussianRegressor", "target", {"loss": "ncll", "n_epochs": 2, "n_lanes": 5}),
    "regression nll": Case("GaussianRegressor", "target", {"alpha": 1.0, "n_epochs": 2, "n_lanes": 5}),
    "multiplicative": Case("MultiplicativeMixtureClassifier", "whole", {"n_components": 2, "n_epochs": 4}),
    "multiplicative, sparse": Case("MultiplicativeMixtureClassifier", "counts", {"n_components": 2, "n_epochs": 3}),
    "multiplicative from EM": Case(
        "MultiplicativeMixtureClassifier", "whole", {"n_components": 2, "n_epochs": 2, "init": "em"}
    ),
    "em": Case("EMMixtureClassifier", "numbers", {"n_components": 2, "n_epochs": 3}),
    "em of counts": Case(
        "EMMixtureClassifier", "counts", {"n_components": 2, "components": "multinomial", "n_epochs": 2}
    ),
    "sdem of numbers": Case("SdemMixtureClassifier", "numbers", {"n_components": 2, "n_epochs": 3, "n_em_epochs": 2}),
    "sdem of counts": Case(
        "SdemMixtureClassifier",
        "counts",
        {"n_components": 2, "components": "multinomial", "n_epochs": 1, "n_em_epochs": 2},
    ),
    "half-labelled ncll": Case("MultinomialNB", "half", {"unlabelled": -1, "loss": "ncll", "n_epochs": 2}),
    "half-labelled nll": Case("MultinomialNB", "half", {"unlabelled": -1, "loss": "nll", "n_epochs": 2}),
    "half-labelled topics": Case(
        "SupervisedLDAClassifier", "half", {**TOPICS, "unlabelled": -1, "merge": "sum", "words_weight": 0.1}
    ),
    "half-labelled em of counts": Case(
        "EMMixtureClassifier",
        "half",
        {"unlabelled": -1, "n_components": 2, "components": "multinomial", "n_epochs": 2},
    ),
    "half-labelled sdem of counts": Case(
        "SdemMixtureClassifier",
        "half",
        {"unlabelled": -1, "n_components": 2, "components": "multinomial", "n_epochs": 1, "n_em_epochs": 2},
    ),
    "half-labelled em": Case("EMMixtureClassifier", "half table", {"unlabelled": -1, "n_components": 2, "n_epochs": 2}),
    "half-labelled sdem": Case(
        "SdemMixtureClassifier", "half table", {"unlabelled": -1, "n_components": 2, "n_epochs": 2, "n_em_epochs": 2}
    ),
    "half-labelled gaussian": Case("GaussianNB", "half table", {"unlabelled": -1, **LANES}),
    "half-labelled bernoulli": Case("BernoulliNB", "half table", {"unlabelled": -1, "binarize": 0.5, **LANES}),
    "half-labelled categorical": Case("CategoricalNB", "half table", {"unlabelled": -1, "loss": "nll", "n_epochs": 2}),
    "half-labelled poisson": Case("PoissonNB", "half table", {"unlabelled": -1, **LANES}),
    "half-labelled mixed": Case(
        "MixedNB",
        "half table",
        {"unlabelled": -1, "kinds": {0: "poisson", 1: "exponential", 2: "categorical"}, "n_epochs": 2},
    ),
}
N = 3_001


def write_corpora(folder: Path) -> None:
    """Write the corpora: counts with labels and targets, and dense tables with gaps, of more entries than one thread takes."""
    rng = np.random.default_rng(0)
    n_words, n_classes, width = 400, 4, 36
    y = rng.integers(0, n_classes, N)
    topics = rng.dirichlet(np.full(n_words, 0.3), n_classes)
    counts = sp.csr_matrix(np.array([rng.multinomial(70, 0.5 * topics[k] + 0.5 / n_words) for k in y]))
    numbers = rng.normal(0.4 * y[:, None] * rng.random(width), 1.0)
    whole = rng.poisson(1.0 + 0.3 * y[:, None], (N, width)).astype(float)
    gaps = rng.random(numbers.shape) < 0.05
    few = numbers[:600, :5].copy()
    target = few @ np.arange(5.0) + rng.normal(size=600)
    few[gaps[:600, :5]] = np.nan
    targets = np.column_stack([y, rng.normal(size=N)])
    sd.write_corpus(folder / "counts", counts, y, targets=targets, shard_documents=350)
    sd.write_corpus(folder / "rates", counts, targets=1.0 + y, shard_documents=350)
    several = (rng.random((N, 6)) < 0.3).astype(int)
    sd.write_corpus(folder / "labels", counts, several, shard_documents=350)
    tables = {"numbers": np.where(gaps, np.nan, numbers), "table": np.where(gaps, np.nan, whole), "whole": whole}
    for name, X in tables.items():
        sd.write_corpus(folder / name, X, y, dense=True, shard_documents=501)
    hidden = np.where(np.random.default_rng(1).random(N) < 0.1, y, -1)
    sd.write_corpus(folder / "half", counts, hidden, unlabelled=-1, shard_documents=350)
    sd.write_corpus(folder / "half table", tables["table"], hidden, unlabelled=-1, dense=True, shard_documents=501)
    sd.write_corpus(folder / "target", np.column_stack([few, target]), dense=True, shard_documents=101)
