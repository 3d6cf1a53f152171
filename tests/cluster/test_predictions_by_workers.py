"""Predictions by worker processes: those of this process, in the same order, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist import MultinomialNB, open_corpus, write_corpus
from sdem_dist.fitting import scoring


@pytest.fixture
def fitted(tmp_path):
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.poisson(0.3, (900, 40)))
    y = np.array(["a", "b", "c"])[rng.integers(0, 3, 900)]
    write_corpus(tmp_path / "c.zarr", X, y, ids=[f"document {i}" for i in range(900)], shard_documents=100)
    corpus = open_corpus(tmp_path / "c.zarr")
    return MultinomialNB(n_epochs=1, verbose=False).fit(corpus), corpus


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "decision_function"])
def test_the_same_bits_in_the_same_order(fitted, client, monkeypatch, method):
    model, corpus = fitted
    monkeypatch.setattr(scoring, "BATCH_DOCUMENTS", 70)  # pieces that cross shards
    here = getattr(model, method)(corpus)
    there = getattr(model, method)(corpus, client=client)
    assert here.dtype == there.dtype
    np.testing.assert_array_equal(here, there)


def test_a_client_needs_a_corpus(fitted, client):
    model, _ = fitted
    with pytest.raises(ValueError, match="write one with write_corpus"):
        model.predict(sp.csr_matrix((1, 40)), client=client)
    with pytest.raises(ValueError, match=r"pass a distributed\.Client"):
        model.predict(fitted[1], client="tcp://127.0.0.1:1")
