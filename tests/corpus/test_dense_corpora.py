"""Dense corpora: what was written is read, whatever the batches; damage is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sdem_dist import CorpusError, EMMixtureClassifier, GaussianNB, MultinomialNB, write_corpus
from sdem_dist.corpus import check_corpus

RNG = np.random.default_rng(7)
N = 300
Y = RNG.integers(0, 3, N)
X = RNG.normal(Y[:, None] * 0.7, 1.0, (N, 4))
X[RNG.random(X.shape) < 0.1] = np.nan


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "dense.zarr", X, Y, dense=True, shard_documents=64)


def in_order(corpus):
    documents = corpus.read(0, corpus.n_documents)
    order = np.argsort(np.concatenate([corpus.ids(i) for i in range(len(corpus.header.shards))]))
    return documents.values[order], documents.labels[order]


def test_written_and_read(corpus):
    values, labels = in_order(corpus)
    np.testing.assert_array_equal(values, X)
    np.testing.assert_array_equal(labels, Y)
    assert values.dtype == np.float64
    assert list(check_corpus(corpus)) == []
    assert corpus.header.layout == "dense"
    part = corpus.read(50, 130)
    np.testing.assert_array_equal(part.values, corpus.read(0, N).values[50:130])


def test_float32_is_kept_where_it_is_enough(tmp_path):
    corpus = write_corpus(tmp_path / "a.zarr", np.float64(np.float32(X)), Y, dense=True)
    assert corpus.header.shards[0].data_dtype == "float32"
    np.testing.assert_array_equal(in_order(corpus)[0], np.float32(X))


@pytest.mark.parametrize("missing", [None, float("nan"), -1])
def test_missing_labels_in_a_list_of_texts_are_no_class(missing, tmp_path):
    y = [missing if i % 2 else f"class {label}" for i, label in enumerate(Y.tolist())]
    corpus = write_corpus(tmp_path / "a.zarr", X, y, dense=True, unlabelled=-1)
    assert corpus.header.classes == tuple(f"class {label}" for label in sorted(set(Y[::2].tolist())))
    assert sum(corpus.header.class_counts) == (N + 1) // 2
    if missing != -1:
        with pytest.raises(CorpusError, match="document 1: .* cannot be a class label"):
            write_corpus(tmp_path / "b.zarr", X, y, dense=True)


def test_documents_without_labels(tmp_path):
    y = np.where(np.arange(N) % 2, Y, -1)
    corpus = write_corpus(tmp_path / "a.zarr", X, y, dense=True, unlabelled=-1)
    assert corpus.header.classes == (0, 1, 2)
    assert sum(corpus.header.class_counts) == N // 2
    np.testing.assert_array_equal(in_order(corpus)[1], y)
    assert list(check_corpus(corpus)) == []
    for missing in (np.where(y < 0, np.nan, y), [None if label < 0 else int(label) for label in y]):
        same = write_corpus(tmp_path / "b.zarr", X, missing, dense=True, unlabelled=-1, overwrite=True)
        np.testing.assert_array_equal(in_order(same)[1], y)
    memory = GaussianNB(unlabelled=-1, n_epochs=5).fit(X, y)
    stored = GaussianNB(n_epochs=5).fit(corpus)
    np.testing.assert_allclose(stored.theta_, memory.theta_, rtol=1e-6)


def test_sparse_and_dense_are_told_apart(corpus, tmp_path):
    sparse = write_corpus(tmp_path / "s.zarr", np.abs(np.nan_to_num(X)), Y)
    with pytest.raises(CorpusError, match="holds dense documents, and MultinomialNB takes sparse"):
        MultinomialNB().fit(corpus)
    with pytest.raises(
        CorpusError, match="holds sparse documents, and GaussianNB takes dense ones: write_corpus.*dense=True"
    ):
        GaussianNB().fit(sparse)
    with pytest.raises(CorpusError, match='takes dense ones: choose components="multinomial"'):
        EMMixtureClassifier().fit(sparse)


def test_damage_is_named(corpus):
    file = next(
        p for p in (Path(corpus.path) / "shards/00002/values").rglob("*") if p.is_file() and p.name != "zarr.json"
    )
    file.unlink()
    with pytest.raises(CorpusError, match=r"shard 2: array 'values'"):
        corpus.read(0, N)
    with pytest.warns(UserWarning, match="1 of 5 shards are damaged"):
        model = GaussianNB(n_epochs=2).fit(corpus, skip_damaged=True)
    assert len(model.damaged_shards_) == 1


def test_a_corpus_trains_like_memory(corpus):
    stored, memory = (GaussianNB(n_epochs=8).fit(*where) for where in ((corpus,), (X, Y)))
    np.testing.assert_allclose(stored.theta_, memory.theta_, rtol=1e-5)
    assert stored.evaluate(corpus)["ncll"] == pytest.approx(memory.evaluate(X, Y)["ncll"], rel=1e-6)


def test_checkpoints_of_dense_models(corpus, tmp_path):
    whole = GaussianNB(n_epochs=6).fit(corpus)
    GaussianNB(n_epochs=3).fit(corpus, checkpoint=tmp_path / "run")
    resumed = GaussianNB(n_epochs=6).fit(corpus, checkpoint=tmp_path / "run", resume=True)
    assert resumed.theta_.tobytes() == whole.theta_.tobytes()
