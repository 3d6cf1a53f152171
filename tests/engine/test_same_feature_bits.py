"""Models of dense features have the same bits in memory, from disk, with two threads, and on a Dask cluster."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from reference.trained_bits import bits
from sklearn.base import clone

from sdem_dist import BernoulliNB, CategoricalNB, GaussianNB, GaussianRegressor, MixedNB, PoissonNB, write_corpus
from sdem_dist.estimators.fitting import SMALL
from sdem_dist.losses import Hinge

N, WIDTH, SEED = 3_001, 36, 3
SHARED = {"n_epochs": 3, "n_lanes": 5, "random_state": SEED}
MODELS = {
    "gaussian ncll": (GaussianNB(**SHARED), "numbers"),
    "gaussian hinge, mean": (GaussianNB(loss="hinge", merge="mean", batch_size=64, **SHARED), "numbers"),
    "gaussian ncll, batches": (GaussianNB(batch_size=700, **SHARED), "numbers"),
    "bernoulli ncll": (BernoulliNB(binarize=0.5, **SHARED), "numbers"),
    "bernoulli hinge, mean": (BernoulliNB(binarize=0.5, loss="hinge", merge="mean", **SHARED), "counts"),
    "categorical ncll": (CategoricalNB(**SHARED), "counts"),
    "categorical perceptron, mean": (CategoricalNB(loss=Hinge(0.0), merge="mean", **SHARED), "counts"),
    "poisson ncll": (PoissonNB(**SHARED), "counts"),
    "poisson hinge, mean": (PoissonNB(loss="hinge", merge="mean", **SHARED), "counts"),
    "mixed ncll": (MixedNB(kinds={0: "poisson", 1: "exponential", 2: "categorical"}, **SHARED), "counts"),
    "regression ncll": (GaussianRegressor(loss="ncll", n_epochs=2, n_lanes=5), "target"),
    "regression nll": (GaussianRegressor(alpha=1.0, n_epochs=2, n_lanes=5), "target"),
}  # fmt: skip


def tables() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, N)
    numbers = rng.normal(0.4 * y[:, None] * rng.random(WIDTH), 1.0)
    numbers[rng.random(numbers.shape) < 0.05] = np.nan
    counts = rng.poisson(1.0 + 0.3 * y[:, None], (N, WIDTH)).astype(float)
    counts[rng.random(counts.shape) < 0.05] = np.nan
    few = numbers[:600, :5]
    target = np.nan_to_num(few) @ np.arange(5.0) + rng.normal(size=600)
    return {"labels": y, "numbers": numbers, "counts": counts, "target": np.column_stack([few, target])}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    found, folder = tables(), tmp_path_factory.mktemp("dense")
    assert found["numbers"].size > SMALL  # else training in this process would take one thread
    labels = found.pop("labels")
    return {
        name: write_corpus(
            folder / name, X, None if name == "target" else labels, dense=True, shard_documents=len(X) // 6 + 1
        )
        for name, X in found.items()
    }


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def in_memory(model, corpus):
    """Fit the corpus's rows from memory, where the shuffle puts them into the order in which they are stored."""
    stored = corpus.read(0, corpus.n_documents)
    values = np.asarray(stored.values, np.float64)
    if isinstance(model, GaussianRegressor):
        return model.fit(values[:, :-1], values[:, -1])
    order = np.random.Generator(np.random.PCG64(SEED)).permutation(len(values))
    X, y = np.empty_like(values), np.empty(len(values), int)
    X[order], y[order] = values, stored.labels
    return model.fit(X, y)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_bits_in_memory_from_disk_and_on_dask(name, corpora, client):
    model, table = MODELS[name]
    expected = bits(model.set_params(n_jobs=1).fit(corpora[table]))
    assert bits(model.set_params(n_jobs=2).fit(corpora[table])) == expected
    assert bits(model.fit(corpora[table], client=client)) == expected
    assert bits(in_memory(model, corpora[table])) == expected


def test_training_moves_so_that_equality_means_something(corpora):
    found = set()
    for model, table in MODELS.values():
        found.add(bits(model.fit(corpora[table])))
        if not isinstance(model, GaussianRegressor):
            values = corpora[table].read(0, 100).values
            generative = clone(model).set_params(loss="nll").fit(corpora[table])
            assert np.abs(model.predict_proba(values) - generative.predict_proba(values)).max() > 0.01
    assert len(found) == len(MODELS)


def test_a_table_of_pandas_has_the_same_bits_on_dask(tmp_path, client):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 900)
    frame = pd.DataFrame(
        {"size": rng.normal(y), "colour": rng.choice(["red", "blue"], 900), "seen": rng.random(900) < 0.3 + 0.3 * y}
    )
    frame.loc[::7, "colour"] = None
    corpus = write_corpus(tmp_path / "t", frame, y, dense=True, shard_documents=200)
    model = MixedNB(n_epochs=3, n_lanes=3)
    alone = bits(model.fit(corpus))
    assert bits(model.fit(corpus, client=client)) == alone
    assert model.evaluate(corpus, client=client) == model.evaluate(corpus)
