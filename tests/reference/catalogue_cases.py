"""A few settings of every estimator of the catalogue, and the corpora that each takes."""

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
        return getattr(sd, self.estimator)(**{**self.settings, **more})


def case(estimator: str, corpus: str, **settings: Any) -> Case:
    return Case(estimator, corpus, settings)


LANES, TOPICS = {"n_epochs": 2, "n_lanes": 5}, {"n_components": 5, "n_epochs": 2}
CLUSTERS = {"n_components": 3, "n_init": 1, "n_epochs": 2}
MULTINOMIAL = {"n_components": 2, "components": "multinomial"}
HALF = {"unlabelled": -1}
KINDS = {0: "poisson", 1: "exponential", 2: "categorical"}
COSTS = CostSensitiveHinge(((0, 1, 2, 3), (1, 0, 1, 2), (2, 1, 0, 1), (3, 2, 1, 0)))
CASES = {
    "ncll mean": case("MultinomialNB", "counts", loss="ncll", n_lanes=11, rounds_per_epoch=3),
    "hinge mean": case("MultinomialNB", "counts", n_epochs=3, n_lanes=4, alpha="log"),
    "ncll sum": case("MultinomialNB", "counts", n_epochs=1, merge="sum", batch_size=700, n_lanes=9),
    "many classes, hinge": case("ManyClassNB", "counts", n_epochs=2),
    "many classes, nll": case("ManyClassNB", "counts", loss="nll", alpha=0.5),
    "classes, each against the rest": case("MultiLabelNB", "counts", n_epochs=2, n_lanes=5),
    "several labels": case("MultiLabelNB", "labels", loss="ncll", n_lanes=3),
    "several labels, sum": case("MultiLabelNB", "labels", n_epochs=2, merge="sum", batch_size=700),
    "nll": case("MultinomialNB", "counts", loss="nll", n_lanes=20),
    "lda map": case("LDAClassifier", "counts", n_epochs=2, n_lanes=7),
    "lda gibbs": case("LDAClassifier", "counts", inference="gibbs", loss="hinge", merge="sum", n_epochs=1),
    "classes, mean": case("SupervisedLDAClassifier", "counts", **TOPICS, n_lanes=5, rounds_per_epoch=2, batch_size=30,
        class_weight="balanced"),
    "classes, sum": case("SupervisedLDAClassifier", "counts", **TOPICS, merge="sum", n_lanes=3, batch_size=700),
    "classes and words": case("SupervisedLDAClassifier", "counts", **TOPICS, n_lanes=3, words_weight=0.01,
        merge="sum"),
    "targets, beta": case("SupervisedLDARegressor", "counts", **TOPICS, n_lanes=4, beta=1.01, log_counts=True),
    "levels, learned alpha": case("SupervisedLDAClassifier", "counts", **TOPICS, n_lanes=4, ordered=True,
        alpha="learned"),
    "several labels by topics": case("SupervisedLDAClassifier", "labels", **TOPICS, n_lanes=3),
    "counts by topics": case("SupervisedLDARegressor", "rates", **TOPICS, n_lanes=3, family="poisson",
        inference="accelerated", alpha=[0.9, 1.0, 1.1, 1.2, 1.3]),
    "words, learned alpha": case("LatentDirichletAllocation", "counts", **TOPICS, alpha="learned",
        inference="line-search-l1"),
    "words, searched": case("LatentDirichletAllocation", "counts", **TOPICS, n_lanes=20, merge="mean",
        inference="line-search", n_layers=3),
    "clusters": case("MultinomialMixture", "counts", n_components=4, n_init=2, n_epochs=2),
    "clusters, sampled": case("MultinomialMixture", "counts", **CLUSTERS, em="stochastic"),
    "clusters, online": case("MultinomialMixture", "counts", **CLUSTERS, em="online", batch_size=100),
    "clusters, annealed": case("MultinomialMixture", "counts", **CLUSTERS, em="variational", annealing=3.0),
    "k-means": case("KMeans", "counts", n_clusters=3, metric="cosine", n_epochs=2, init_documents=500),
    "k-means of numbers": case("KMeans", "whole", n_clusters=3, n_epochs=2),
    "k-means of directions": case("KMeans", "whole", n_clusters=3, metric="cosine", n_epochs=2),
    "clusters of numbers": case("GaussianMixture", "numbers", n_components=3, n_init=2, n_epochs=2),
    "clusters of numbers, online": case("GaussianMixture", "numbers", **CLUSTERS, em="online"),
    "clusters of waiting times": case("Mixture", "whole", **CLUSTERS, components="exponential", em="stochastic"),
    "clusters of mixed columns": case("Mixture", "table", **CLUSTERS, components="mixed", kinds=KINDS),
    "correlated clusters": case("GaussianMixture", "whole", **CLUSTERS, covariance_type="full"),
    "gaussian ncll": case("GaussianNB", "numbers", **LANES),
    "gaussian hinge, mean": case("GaussianNB", "numbers", loss="hinge", merge="mean", batch_size=64, **LANES),
    "gaussian costs": case("GaussianNB", "numbers", loss=COSTS, **LANES),
    "gaussian ncll, batches": case("GaussianNB", "numbers", batch_size=700, **LANES),
    "bernoulli ncll": case("BernoulliNB", "numbers", binarize=0.5, **LANES),
    "bernoulli hinge, mean": case("BernoulliNB", "table", binarize=0.5, loss="hinge", merge="mean", **LANES),
    "categorical ncll": case("CategoricalNB", "table", **LANES),
    "categorical perceptron, mean": case("CategoricalNB", "table", loss=Hinge(0.0), merge="mean", **LANES),
    "poisson ncll": case("PoissonNB", "table", **LANES),
    "poisson hinge, mean": case("PoissonNB", "table", loss="hinge", merge="mean", **LANES),
    "mixed ncll": case("MixedNB", "table", kinds=KINDS, n_epochs=2),
    "regression ncll": case("GaussianRegressor", "target", loss="ncll", n_epochs=2, n_lanes=5),
    "regression nll": case("GaussianRegressor", "target", alpha=1.0, n_epochs=2, n_lanes=5),
    "multiplicative": case("MultiplicativeMixtureClassifier", "whole", n_components=2, n_epochs=4),
    "multiplicative, sparse": case("MultiplicativeMixtureClassifier", "counts", n_components=2, n_epochs=3),
    "em": case("EMMixtureClassifier", "numbers", n_components=2, n_epochs=3),
    "em of counts": case("EMMixtureClassifier", "counts", **MULTINOMIAL, n_epochs=2),
    "em, shared": case("EMMixtureClassifier", "whole", n_components=4, components="poisson", shared=True, n_epochs=2),
    "sdem of mixed columns": case("SdemMixtureClassifier", "table", components="mixed", kinds=KINDS, n_epochs=2),
    "sdem of numbers": case("SdemMixtureClassifier", "numbers", n_components=2, n_epochs=3, n_em_epochs=2),
    "sdem of counts": case("SdemMixtureClassifier", "counts", **MULTINOMIAL, n_epochs=1, n_em_epochs=2),
    "half-labelled ncll": case("MultinomialNB", "half", **HALF, loss="ncll", n_epochs=2),
    "half-labelled nll": case("MultinomialNB", "half", **HALF, loss="nll", n_epochs=2),
    "half-labelled topics": case("SupervisedLDAClassifier", "half", **HALF, **TOPICS, merge="sum", words_weight=0.1),
    "half-labelled em of counts": case("EMMixtureClassifier", "half", **HALF, **MULTINOMIAL, n_epochs=2),
    "half-labelled sdem of counts": case("SdemMixtureClassifier", "half", **HALF, **MULTINOMIAL, n_epochs=1,
        n_em_epochs=2),
    "half-labelled em": case("EMMixtureClassifier", "half table", **HALF, n_components=2, n_epochs=2),
    "half-labelled sdem": case("SdemMixtureClassifier", "half table", **HALF, n_components=2, n_epochs=2,
        n_em_epochs=2),
    "half-labelled gaussian": case("GaussianNB", "half table", **HALF, **LANES),
    "half-labelled bernoulli": case("BernoulliNB", "half table", **HALF, binarize=0.5, **LANES),
    "half-labelled categorical": case("CategoricalNB", "half table", **HALF, loss="nll", n_epochs=2),
    "half-labelled poisson": case("PoissonNB", "half table", **HALF, **LANES),
    "half-labelled mixed": case("MixedNB", "half table", **HALF, kinds=KINDS, n_epochs=2),
}  # fmt: skip
N = 3_001


def write_corpora(folder: Path, n: int = N) -> None:
    """Write the corpora: counts with labels and targets, and dense tables with gaps, of more entries than one thread takes."""
    rng = np.random.default_rng(0)
    n_words, n_classes, width = 400, 4, 36
    y, topics = rng.integers(0, n_classes, n), rng.dirichlet(np.full(n_words, 0.3), n_classes)
    some = y[: 2 * n // 3]  # documents have more entries than rows of tables
    counts = sp.csr_matrix(np.array([rng.multinomial(70, 0.5 * topics[k] + 0.5 / n_words) for k in some]))
    numbers = rng.normal(0.4 * y[:, None] * rng.random(width), 1.0)
    whole = rng.poisson(1.0 + 0.3 * y[:, None], (n, width)).astype(float)
    gaps, few = rng.random(numbers.shape) < 0.05, numbers[:600, :5].copy()
    target = few @ np.arange(5.0) + rng.normal(size=600)
    few[gaps[:600, :5]] = np.nan
    targets = np.column_stack([some, rng.normal(size=len(some))])
    sd.write_corpus(folder / "counts", counts, some, targets=targets, shard_documents=250)
    sd.write_corpus(folder / "rates", counts, targets=1.0 + some, shard_documents=250)
    sd.write_corpus(folder / "labels", counts, (rng.random((len(some), 6)) < 0.3).astype(int), shard_documents=250)
    tables = {"numbers": np.where(gaps, np.nan, numbers), "table": np.where(gaps, np.nan, whole), "whole": whole}
    for name, X in tables.items():
        sd.write_corpus(folder / name, X, y, dense=True, shard_documents=501)
    hidden = np.where(np.random.default_rng(1).random(n) < 0.1, y, -1)
    sd.write_corpus(folder / "half", counts, hidden[: len(some)], unlabelled=-1, shard_documents=250)
    sd.write_corpus(folder / "half table", tables["table"], hidden, unlabelled=-1, dense=True, shard_documents=501)
    sd.write_corpus(folder / "target", np.column_stack([few, target]), dense=True, shard_documents=101)
