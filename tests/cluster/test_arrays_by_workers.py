"""A corpus written from a dask array by worker processes: that of the same array in this process."""

from __future__ import annotations

import os

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist import CorpusError, GaussianNB, MultinomialNB, open_corpus, write_corpus
from sdem_dist.cluster import connected
from sdem_dist.corpus import sorted_rows
from sdem_dist.corpus.check import check_corpus


@pytest.fixture(scope="module")
def client():
    with connected(None, 2) as client:
        yield client


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    monkeypatch.setattr(sorted_rows, "TASK_ENTRIES", 500)


RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(0.4, (300, 12))
LABELS = np.array(["b", "a", "élan"])[RNG.integers(0, 3, 300)]
CASES = {
    "counts": (COUNTS, LABELS, {}),
    "weights here and there": (COUNTS * np.where(np.arange(300) < 100, 1.0, 0.5)[:, None], LABELS, {}),
    "no labels, in order": (COUNTS, None, {"shuffle": False}),
    "classes in an order": (COUNTS, LABELS, {"classes": ["élan", "b", "a", "none"], "shard_documents": 17}),
    "numbers as labels": (COUNTS, RNG.integers(-3, 3, 300), {"random_state": 4, "vocabulary": list("abcdefghijkl")}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("lazy_labels", [True, False])
def test_the_same_corpus_as_in_this_process(case, lazy_labels, tmp_path, client):
    X, y, more = CASES[case]
    blocks = da.from_array(X, chunks=(70, 5))
    if case == "counts":
        blocks = da.from_array(X, chunks=(70, 12)).map_blocks(sp.csr_matrix)
    labels = da.from_array(y, chunks=70) if lazy_labels and y is not None else y
    write_corpus(tmp_path / "here", X, y, **more)
    write_corpus(tmp_path / "there", blocks, labels, client=client, **more)
    here, there = open_corpus(tmp_path / "here"), open_corpus(tmp_path / "there")
    assert here.header.uid == there.header.uid
    assert not list(check_corpus(there))
    assert sorted(os.listdir(tmp_path)) == ["here", "there"]


def test_what_does_not_fit_is_named(tmp_path, client):
    X = da.from_array(COUNTS, chunks=(70, 12))
    with pytest.raises(CorpusError, match=r"block 2 of X .* holds the entry -1"):
        write_corpus(tmp_path / "c", da.where(da.arange(300, chunks=70)[:, None] == 150, -1, X), client=client)
    with pytest.raises(CorpusError, match="cut both alike"):
        write_corpus(tmp_path / "c", X, da.from_array(LABELS, chunks=100), client=client)
    with pytest.raises(CorpusError, match="X has 300 documents and y has 3"):
        write_corpus(tmp_path / "c", X, LABELS[:3], client=client)
    with pytest.raises(CorpusError, match="leave client out"):
        write_corpus(tmp_path / "c", COUNTS, LABELS, client=client)
    assert os.listdir(tmp_path) == []


def test_training_is_that_of_the_corpus(tmp_path, client):
    X, y = da.from_array(COUNTS, chunks=(70, 12)), da.from_array(LABELS, chunks=70)
    with dask.config.set({"temporary-directory": str(tmp_path)}):
        from_array = MultinomialNB(n_epochs=2, random_state=3).fit(X, y, client=client)
        assert os.listdir(tmp_path) == []
    corpus = write_corpus(tmp_path / "c", COUNTS, LABELS, random_state=3)
    from_corpus = MultinomialNB(n_epochs=2, random_state=3).fit(corpus)
    np.testing.assert_array_equal(from_array.predict_proba(COUNTS), from_corpus.predict_proba(COUNTS))


def test_what_cannot_be_trained_from_an_array_is_named(client):
    X = da.from_array(COUNTS, chunks=(70, 12))
    with pytest.raises(ValueError, match="no sample weights"):
        MultinomialNB().fit(X, LABELS, np.ones(300), client=client)
    with pytest.raises(ValueError, match="models of counts"):
        GaussianNB().fit(X, LABELS, client=client)
