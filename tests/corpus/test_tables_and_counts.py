"""Corpora of tables and of counts train like memory, and are told apart."""

import numpy as np
import pytest

from sdem_dist import CorpusError, EMMixtureClassifier, GaussianNB, MultinomialNB, write_corpus

RNG = np.random.default_rng(7)
Y = RNG.integers(0, 3, 300)
X = RNG.normal(Y[:, None] * 0.7, 1.0, (300, 4))
X[RNG.random(X.shape) < 0.1] = np.nan


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "dense.zarr", X, Y, dense=True, shard_documents=64)


def test_a_table_trains_like_memory_and_goes_on_from_checkpoints(corpus, tmp_path):
    stored, memory = (GaussianNB(n_epochs=8).fit(*where) for where in ((corpus,), (X, Y)))
    np.testing.assert_allclose(stored.theta_, memory.theta_, rtol=1e-5)
    assert stored.evaluate(corpus)["ncll"] == pytest.approx(memory.evaluate(X, Y)["ncll"], rel=1e-6)
    GaussianNB(n_epochs=3).fit(corpus, checkpoint=tmp_path / "run")
    resumed = GaussianNB(n_epochs=8).fit(corpus, checkpoint=tmp_path / "run", resume=True)
    assert resumed.theta_.tobytes() == stored.theta_.tobytes()
    y = np.where(np.arange(300) % 2, Y, -1)
    half = write_corpus(tmp_path / "half.zarr", X, y, dense=True, unlabelled=-1)
    memory, stored = GaussianNB(unlabelled=-1, n_epochs=5).fit(X, y), GaussianNB(n_epochs=5).fit(half)
    np.testing.assert_allclose(stored.theta_, memory.theta_, rtol=1e-6)


def test_sparse_and_dense_are_told_apart(corpus, tmp_path):
    sparse = write_corpus(tmp_path / "s.zarr", np.abs(np.nan_to_num(X)), Y)
    for estimator, documents, said in (
        (MultinomialNB(), corpus, "holds dense documents, and MultinomialNB takes sparse"),
        (GaussianNB(), sparse, "holds sparse documents, and GaussianNB takes dense ones: write_corpus.*dense=True"),
        (EMMixtureClassifier(), sparse, 'takes dense ones: choose components="multinomial"'),
    ):
        with pytest.raises(CorpusError, match=said):
            estimator.fit(documents)
