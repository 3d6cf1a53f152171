"""LDAClassifier as people use it."""

import numpy as np
import pytest
from reference.random_documents import random_counts, topic_counts

from sdem_dist import LDAClassifier, write_corpus
from sdem_dist.reports.top_words import coherence


@pytest.mark.parametrize("inference", ["map", "gibbs"])
def test_nll_finds_the_topics(inference):
    X, y, topic = topic_counts()
    model = LDAClassifier(loss="nll", inference=inference, n_epochs=60, topic_word_prior=0.1, init_noise=0.5).fit(X, y)
    shares = model.transform(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    found = shares.argmax(axis=1)
    for k in range(2):
        table = np.array([[np.sum((found == 2 * k + z) & (topic == t)) for t in (2 * k, 2 * k + 1)] for z in range(2)])
        assert max(np.trace(table), np.trace(table[::-1])) > 0.9 * (y == k).sum()
    for t in model.topics(5):
        assert t.label in (0, 1) and 0.0 < t.share < 1.0
        blocks = {int(w[1:]) // 10 for w in t.words}
        assert len(blocks) == 1 and blocks < {
            2 * t.label,
            2 * t.label + 1,
        }  # its words are those of one topic of the class
        assert set(t.distinctive) <= {
            f"#{w}" for b in (2 * t.label, 2 * t.label + 1) for w in range(10 * b, 10 * b + 10)
        }
    together = coherence(model.components_, X, 5)
    mixed = coherence(model.components_[:, np.random.default_rng(1).permutation(40)], X, 5)
    assert together.min() > 0.1 > mixed.max()


def test_topics_of_a_class_that_has_lost_all_its_counts():
    X, y = random_counts(n_documents=400, seed=3)
    model = LDAClassifier(n_epochs=30, n_lanes=1, rounds_per_epoch=1, steps="paper")
    model.fit(X, y, sample_weight=(y != 1).astype(float))
    assert not model.state_.totals.reshape(2, 3)[:, 1].any()
    topics = model.topics(3)
    np.testing.assert_allclose([sum(t.share for t in topics if t.label == k) for k in range(3)], 1.0)
    p = np.einsum("kz,kzw->kw", np.array([t.share for t in topics]).reshape(3, 2), model.components_.reshape(3, 2, -1))
    first = model.components_[0] * np.log(model.components_[0] / p[1:].mean(axis=0))
    assert topics[0].distinctive == [f"#{w}" for w in np.argsort(-first, kind="stable")[:3]]


def test_burn_in_is_of_sampling():
    X, y = random_counts()
    assert LDAClassifier(n_sweeps=2, n_epochs=1).fit(X, y).n_sweeps == 2  # fewer than the default burn_in
    assert LDAClassifier(inference="gibbs", n_sweeps=2, n_epochs=1).fit(X, y).learner_.model.inference.burn_in == 1


def test_coherence_of_words_that_always_never_or_by_chance_meet():
    X = np.zeros((64, 6))
    X[:32, :2] = 1
    X[:32, 2] = X[32:, 3] = 1
    X[::2, 4] = 1
    rows = np.eye(6)
    np.testing.assert_allclose(coherence(rows[[0]] + rows[[1]], X, 2), 1.0)
    np.testing.assert_allclose(coherence(rows[[2]] + rows[[3]], X, 2), -1.0)
    np.testing.assert_allclose(coherence(rows[[0]] + rows[[4]], X, 2), 0.0, atol=1e-12)
    assert np.isnan(coherence(rows[[0]] + rows[[5]], X, 2)[0])
    with pytest.raises(ValueError, match="X has 7 features, the topics 6"):
        coherence(rows, np.ones((3, 7)), 2)


@pytest.mark.parametrize("settings", [{}, {"inference": "gibbs"}, {"inference": "gibbs", "n_particles": 2}])
def test_a_document_scores_the_same_wherever_it_stands(settings):
    X, y = random_counts(seed=1)
    model = LDAClassifier(n_epochs=2, **settings).fit(X, y)
    scores = model.predict_joint_log_proba(X)
    order = np.random.default_rng(0).permutation(X.shape[0])
    np.testing.assert_array_equal(model.predict_joint_log_proba(X[order]), scores[order])


def test_topics_are_named(tmp_path):
    X, y = random_counts()
    corpus = write_corpus(
        tmp_path / "c.zarr", X, np.array(["a", "b", "c"])[y], vocabulary=[f"word{i}" for i in range(30)]
    )
    model = LDAClassifier(n_components=3, n_epochs=2).fit(corpus)
    topics = model.topics(4)
    assert [(t.label, t.number) for t in topics] == [(c, z) for c in "abc" for z in range(3)]
    assert all(w.startswith("word") for t in topics for w in (*t.words, *t.distinctive))
    np.testing.assert_allclose(sum(t.share for t in topics), 3.0)
    assert list(model.get_feature_names_out())[:2] == ["ldaclassifier0", "ldaclassifier1"]
    assert coherence(model.components_, corpus, 4).shape == (9,)


def test_weights_are_no_whole_occurrences(tmp_path):
    X, y = random_counts()
    model = LDAClassifier(inference="gibbs", occurrences="each", n_epochs=1, n_lanes=4, rounds_per_epoch=1)
    corpus = write_corpus(tmp_path / "c.zarr", X * 0.5, y)
    LDAClassifier(n_epochs=1, n_lanes=4, rounds_per_epoch=1).fit(corpus)  # has prepared the documents
    for documents in ((X * 0.5, y), (corpus,)):
        with pytest.raises(ValueError, match="needs whole counts"):
            model.fit(*documents)
    model.fit(X, y)
    for method in (model.predict, model.transform):
        with pytest.raises(ValueError, match="needs whole counts"):
            method(X * 0.5)


@pytest.mark.parametrize("settings", [{}, {"inference": "gibbs"}, {"inference": "gibbs", "occurrences": "each"}])
def test_a_stored_zero_is_nothing(settings):
    X, y = random_counts()
    stored = X.copy()
    stored.data[::5] = 0
    bare = stored.copy()
    bare.eliminate_zeros()
    one, other = (LDAClassifier(n_epochs=2, **settings).fit(rows, y) for rows in (stored, bare))
    assert stored.nnz == X.nnz  # what was passed stays as it was
    np.testing.assert_array_equal(one.components_, other.components_)
    np.testing.assert_array_equal(one.predict_joint_log_proba(stored), one.predict_joint_log_proba(bare))


@pytest.mark.parametrize("batch_size", [None, 40])
def test_nll_takes_a_step_for_every_batch(batch_size):
    X, y = random_counts()
    settings = {"loss": "nll", "merge": "sum", "n_epochs": 2, "evaluate_every": 0}
    model = LDAClassifier(batch_size=batch_size, **settings).fit(X, y)
    as_rounds = {None: 1, 40: 3}[batch_size]  # 120 documents
    same = LDAClassifier(loss="nll", rounds_per_epoch=as_rounds, n_lanes=1, n_epochs=2, evaluate_every=0).fit(X, y)
    np.testing.assert_allclose(model.components_, same.components_, rtol=1e-10)
