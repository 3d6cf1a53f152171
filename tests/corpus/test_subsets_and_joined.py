"""Some documents of a corpus, and several corpora as one: what trains and predicts like a corpus of just those."""

from __future__ import annotations

import pickle  # noqa: TID251  as Dask sends corpora

import numpy as np
import pytest

from sdem_dist import CorpusError, MultinomialNB, concat, learning_curve, open_corpus, write_corpus

RNG = np.random.default_rng(0)
X = RNG.poisson(0.4, (300, 12))
Y = np.array(["b", "a", "é"])[RNG.integers(0, 3, 300)]


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "c", X, Y, shard_documents=70, shuffle=False, ids=[f"d{i}" for i in range(300)])


def test_a_subset_trains_is_evaluated_and_predicted(corpus):
    mask = Y != "é"
    mask[3] = False
    part = corpus.subset(lambda label, name: label != "é" and name != "d3")
    np.testing.assert_array_equal(part.mask, mask)
    assert part.weight == mask.sum()
    plain = MultinomialNB(loss="nll", weighting="counts")
    model = plain.fit(part)
    alone = MultinomialNB(loss="nll", weighting="counts").fit(X[mask], Y[mask])
    np.testing.assert_allclose(model.predict_proba(X)[:, :2], alone.predict_proba(X), atol=1e-6)
    predicted = model.predict(part)
    np.testing.assert_array_equal(predicted, alone.predict(X[mask]))
    assert model.evaluate(part)["accuracy"] == pytest.approx((predicted == Y[mask]).mean())


def test_masks_positions_and_subsets_of_subsets(corpus):
    mask = np.arange(300) % 3 == 0
    for which in (mask, np.flatnonzero(mask), np.flatnonzero(mask).tolist()):
        np.testing.assert_array_equal(corpus.subset(which).mask, mask)
    nested = corpus.subset(mask).subset(np.arange(100))
    assert nested.weight == mask[:100].sum()
    again = pickle.loads(pickle.dumps(nested))  # noqa: S301
    assert again.header.uid == nested.header.uid
    assert len({corpus.header.uid, nested.header.uid, corpus.subset(mask).header.uid}) == 3
    for wrong in ([], [300], [-1], [0.5], np.ones(299, bool), np.zeros(300, bool)):
        with pytest.raises(ValueError, match=r"which must be|no document"):
            corpus.subset(wrong)


def test_corpora_of_one_vocabulary_are_one(tmp_path):
    kept = {"shuffle": False, "classes": ["a", "b", "é"]}
    first = write_corpus(tmp_path / "a", X[:120], Y[:120], shard_documents=50, **kept)
    second = write_corpus(tmp_path / "b", X[120:], Y[120:], shard_documents=60, **kept)
    both, whole = concat([first, second]), write_corpus(tmp_path / "w", X, Y, **kept)
    documents = both.read(0, 300)
    np.testing.assert_array_equal(documents.to_csr().toarray(), X)
    assert [both.header.classes[k] for k in documents.labels] == Y.tolist()
    np.testing.assert_array_equal(both.document_frequency, whole.document_frequency)
    assert both.ids_of(119, 121) == [119, 0]
    assert "b: shard 2" in both.place(290)
    assert pickle.loads(pickle.dumps(both)).header.uid == both.header.uid  # noqa: S301
    models = [MultinomialNB(n_epochs=2, n_lanes=3).fit(corpus) for corpus in (both, whole)]
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in models))
    some = both.subset(np.arange(100, 200))
    assert some.weight == 100
    assert concat([first]) is first
    assert concat([both, first]).n_documents == 420


def test_corpora_that_differ_are_named(tmp_path):
    first = write_corpus(tmp_path / "a", X, Y)
    narrow = write_corpus(tmp_path / "b", X[:, :5], Y)
    with pytest.raises(CorpusError, match="differ in vocabulary_hash, n_features"):
        concat([first, narrow]).header  # noqa: B018
    with pytest.raises(CorpusError, match="join corpora first"):
        concat([first, open_corpus(tmp_path / "a").subset([1])])
    with pytest.raises(CorpusError, match="no corpora"):
        concat([])


def test_a_subset_of_a_subset_is_cut_into_folds_and_drawn_as_a_curve(corpus):
    part = corpus.subset(np.arange(300) < 200).subset(np.arange(0, 300, 2))
    assert repr(part).startswith("a subset of 100 documents of a subset of 200 documents of Corpus(")
    whole = part.mask
    folds = part.folds(4)
    for training, fold in folds:
        assert training.weight == 75
        assert fold.weight == 25
        assert not (fold.mask & ~whole).any()
    curve = learning_curve(MultinomialNB(n_epochs=2), part, shares=(1.0,), cv=4)
    assert curve.n_documents.tolist() == [75]
    np.testing.assert_allclose(
        curve.accuracy[0], [MultinomialNB(n_epochs=2).fit(a).evaluate(b)["accuracy"] for a, b in part.folds(4)]
    )
