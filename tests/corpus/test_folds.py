"""Folds: every document in one of them, even in each class, the same wherever documents are; parts train and are scored."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from distributed.protocol import deserialize, serialize

from sdem_dist import GaussianNB, MultinomialNB, open_corpus, write_corpus
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.corpus.folds import Folds, assign_folds


@pytest.fixture(scope="module")
def documents():
    rng = np.random.default_rng(0)
    y = rng.choice(["a", "b", "c"], p=[0.6, 0.3, 0.1], size=503)
    means = {"a": 0.2, "b": 0.4, "c": 0.8}
    X = np.stack([rng.poisson(np.roll([means[label], 1.5, 0.3, 0.1, 0.2], ord(label))) for label in y])
    return sp.csr_matrix(X.astype(np.uint8)), y


@pytest.fixture(scope="module")
def corpus(documents, tmp_path_factory):
    path = tmp_path_factory.mktemp("folds") / "corpus.zarr"
    write_corpus(path, *documents, shard_documents=100)
    return open_corpus(path)


def test_every_class_is_dealt_evenly(corpus):
    numbers, labels = corpus.folds(5).numbers, corpus.read(0, corpus.n_documents).labels
    for part in (labels >= 0, *(labels == c for c in range(3))):
        counts = np.bincount(numbers[part], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert np.array_equal(numbers, corpus.folds(5).numbers)
    assert not np.array_equal(numbers, corpus.folds(5, seed=1).numbers)


def test_neighbours_are_not_dealt_in_turn():
    numbers = assign_folds(None, 1000, 4, 0)
    assert not np.array_equal(numbers, np.arange(1000) % 4)
    assert 0.15 < (numbers[1:] == numbers[:-1]).mean() < 0.35


def test_the_same_on_disk_in_memory_and_after_a_journey(corpus):
    whole = corpus.read(0, corpus.n_documents)
    memory = MemoryCorpus(whole.to_csr(), whole.labels, corpus.header.classes, shuffle=False)
    assert np.array_equal(Folds(memory, 4).numbers, corpus.folds(4).numbers)
    part = deserialize(*serialize(corpus.folds(4).train(2)))
    assert part.cache_key == corpus.folds(4).train(2).cache_key
    assert np.array_equal(part.read(10, 300).weights, corpus.folds(4).numbers[10:300] != 2)


@pytest.mark.parametrize("k", [1, 0, 504, 2.5, True])
def test_folds_that_cannot_be(corpus, k):
    why = "504 folds need at least 504 documents" if k == 504 else f"a whole number, 2 or more, not {k}"
    with pytest.raises(ValueError, match=why):
        corpus.folds(k)


def test_a_part_trains_as_its_documents_alone_do(corpus):
    """Counts are exact, so that the model of a part is that of a matrix of its documents."""
    folds, whole = corpus.folds(3), corpus.read(0, corpus.n_documents)
    inside = folds.numbers != 1
    names = np.array(corpus.header.classes)[whole.labels]
    alone = MultinomialNB(loss="nll").fit(whole.to_csr()[inside], names[inside])
    part = MultinomialNB(loss="nll").fit(folds.train(1))
    assert np.array_equal(part.feature_log_prob_, alone.feature_log_prob_)
    assert np.array_equal(part.class_log_prior_, alone.class_log_prior_)
    scored = part.evaluate(folds.test(1))
    assert scored["accuracy"] == pytest.approx(alone.score(whole.to_csr()[~inside], names[~inside]))
    assert part.evaluate(folds.train(1))["accuracy"] != scored["accuracy"]


@pytest.mark.parametrize("settings", [{}, {"loss": "ncll", "class_weight": "balanced"}, {"n_lanes": 4}])
def test_training_does_not_see_the_fold(documents, tmp_path, settings):
    """Other labels and other counts of the fold's documents change no bit, as long as words occur in as many documents."""
    X, y = documents
    write_corpus(tmp_path / "one.zarr", X, y)
    one = open_corpus(tmp_path / "one.zarr")
    outside = one.folds(3).numbers == 0
    whole = one.read(0, one.n_documents)
    other = whole.to_csr()
    other.data = np.where(np.repeat(outside, np.diff(other.indptr)), other.data + 3, other.data).astype(np.uint8)

    def trained(rows):
        memory = MemoryCorpus(rows, whole.labels, one.header.classes, shuffle=False)
        from sdem_dist.fitting.running import executor_for, run_fit
        from sdem_dist.inputs.spec import Source

        part = Folds(memory, 3).train(0)
        model = MultinomialNB(n_epochs=2, validation_fraction=0.2, n_jobs=1, **settings)
        source = model._weighed(Source(part, part.weight, np.array(one.header.classes), part.class_weights))
        with executor_for(None, 1, source) as executor:
            return run_fit(model, source, executor).state

    assert np.array_equal(trained(whole.to_csr()).words, trained(other).words)
    on_disk = MultinomialNB(n_epochs=2, validation_fraction=0.2, n_jobs=1, **settings).fit(one.folds(3).train(0))
    assert np.array_equal(on_disk.state_.words, trained(other).words)


def test_tables(tmp_path):
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=200)
    X = rng.normal(y[:, None], 1.0, (200, 3))
    write_corpus(tmp_path / "table.zarr", X, y, dense=True)
    corpus = open_corpus(tmp_path / "table.zarr")
    model = GaussianNB(loss="nll").fit(corpus.folds(4).train(0))
    whole = corpus.read(0, 200)
    inside = corpus.folds(4).numbers != 0
    alone = GaussianNB(loss="nll").fit(np.asarray(whole.values, np.float64)[inside], whole.labels[inside])
    points = rng.normal(0.5, 1.0, (20, 3))
    assert model.predict_proba(points) == pytest.approx(alone.predict_proba(points), abs=1e-6)
