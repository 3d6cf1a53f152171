"""MultinomialNB as a scikit-learn user meets it."""

from __future__ import annotations

import lzma
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.random_documents import random_counts
from scipy.special import log_softmax
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sdem_dist import MultinomialNB, write_corpus
from sdem_dist.byte_cache import prepared_cache
from sdem_dist.fitting import defaults, plans

X, Y = random_counts(240, 30, 3, seed=2)
X_NEW, Y_NEW = random_counts(150, 30, 3, seed=12)
LOSSES = ("ncll", "hinge", "nll")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("merge", ["mean", "sum"])
def test_learns(loss, merge):
    model = MultinomialNB(loss=loss, merge=merge, batch_size=20 if merge == "sum" else None).fit(X, Y)
    assert model.score(X, Y) > 0.75 > np.bincount(Y).max() / len(Y)
    np.testing.assert_allclose(np.exp(model.feature_log_prob_).sum(axis=1), 1.0)
    assert np.exp(model.class_log_prior_).sum() == pytest.approx(1.0)
    assert model.feature_log_prob_.shape == (3, 30)


@pytest.mark.parametrize("steps", ["margin", "paper"])
def test_discriminative_training_lowers_its_loss_over_the_training_documents(steps):
    dependent = sp.hstack([X] * 4).tocsr()  # words that come four at a time: naive Bayes takes them for evidence
    same = {"weighting": "tfidf", "norm": 10.0, "calibrate": False}
    settings = {loss: {"n_epochs": 30} if loss == "nll" else {"n_epochs": 30, "steps": steps} for loss in LOSSES}
    losses = {
        loss: MultinomialNB(loss=loss, **own, **same).fit(dependent, Y).evaluate(dependent, Y)
        for loss, own in settings.items()
    }
    assert losses["ncll"]["ncll"] < losses["nll"]["ncll"]
    assert losses["hinge"]["hinge"] < losses["nll"]["hinge"]
    assert losses["nll"]["nll"] < min(losses["ncll"]["nll"], losses["hinge"]["nll"])


@pytest.mark.parametrize(
    "convert",
    [
        sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array, lambda X: X.toarray(),
        lambda X: X.astype(np.uint8), lambda X: X.astype(np.float32), lambda X: X.toarray().tolist(),
        lambda X: pd.DataFrame(X.toarray()),
    ],
)  # fmt: skip
def test_containers_give_the_same_bits(convert):
    reference, model = MultinomialNB(n_epochs=3).fit(X, Y), MultinomialNB(n_epochs=3).fit(convert(X), Y)
    np.testing.assert_array_equal(model.state_.words, reference.state_.words)
    np.testing.assert_array_equal(model.predict_proba(convert(X_NEW)), reference.predict_proba(X_NEW))


def test_entries_out_of_order_and_repeated_are_summed_and_the_matrix_left_alone():
    data, indices, indptr = np.array([1.0, 2, 3, 4, 5, 1]), np.array([2, 0, 2, 1, 1, 0]), np.array([0, 3, 4, 6])
    messy = sp.csr_matrix((data.copy(), indices.copy(), indptr.copy()), shape=(3, 3))
    y = [0, 1, 1]
    one, other = MultinomialNB(n_epochs=2).fit(messy, y), MultinomialNB(n_epochs=2).fit(messy.toarray(), y)
    np.testing.assert_array_equal(one.state_.words, other.state_.words)
    np.testing.assert_array_equal(one.predict_proba(messy), other.predict_proba(messy.toarray()))
    np.testing.assert_array_equal(messy.data, data)
    np.testing.assert_array_equal(messy.indices, indices)


@pytest.mark.parametrize("chunks", [(50, 30), (50, 7), (240, 30)])
def test_dask_arrays(chunks):
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(X.toarray(), chunks=chunks)
    new = da.from_array(X_NEW.toarray(), chunks=chunks)
    reference, model = MultinomialNB(n_epochs=2).fit(X, Y), MultinomialNB(n_epochs=2).fit(lazy, da.from_array(Y))
    np.testing.assert_array_equal(model.state_.words, reference.state_.words)
    for method in ("predict", "predict_proba", "predict_log_proba", "predict_joint_log_proba"):
        found, expected = getattr(model, method)(new), getattr(reference, method)(X_NEW)
        assert hasattr(found, "__dask_graph__")
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found.compute(), expected)


def test_dask_arrays_of_sparse_blocks_and_string_classes():
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(X.toarray(), chunks=(60, 30)).map_blocks(sp.csr_matrix)
    names = np.array(["a", "bb", "ccc"])
    model = MultinomialNB(n_epochs=2).fit(lazy, names[Y])
    reference = MultinomialNB(n_epochs=2).fit(X, names[Y])
    np.testing.assert_array_equal(model.state_.words, reference.state_.words)
    np.testing.assert_array_equal(model.predict(lazy).compute(), reference.predict(X))


def test_corpus_on_disk_trains_as_the_same_documents_in_the_same_order(tmp_path):
    corpus = write_corpus(tmp_path / "c", X, Y, shuffle=False, shard_documents=50)
    model = MultinomialNB(n_epochs=2).fit(corpus)
    from sdem_dist.corpus import MemoryCorpus

    stored = MemoryCorpus(X, Y, (0, 1, 2), random_state=0).order
    shuffled = write_corpus(tmp_path / "s", X[stored], Y[stored], shuffle=False, shard_documents=70)
    same = MultinomialNB(n_epochs=2).fit(shuffled)
    in_memory = MultinomialNB(n_epochs=2).fit(X, Y)
    np.testing.assert_array_equal(same.state_.words, in_memory.state_.words)
    assert not np.array_equal(model.state_.words, in_memory.state_.words)
    assert model.score(corpus) == pytest.approx(model.score(X, Y))
    assert same.evaluate(shuffled) == pytest.approx(same.evaluate(X, Y))


def test_a_grid_over_a_pipeline_of_texts():
    words = np.array([f"w{i:02d}" for i in range(30)])
    texts = [" ".join(np.repeat(words, row)) for row in X.toarray()]
    pipeline = make_pipeline(CountVectorizer(), MultinomialNB(n_epochs=3))
    search = GridSearchCV(
        pipeline, {"multinomialnb__loss": LOSSES, "multinomialnb__alpha": ["laplace", 0.1]}, cv=3
    ).fit(texts, Y)
    assert set(search.best_params_) == {"multinomialnb__loss", "multinomialnb__alpha"}
    assert search.best_score_ > 0.6
    np.testing.assert_array_equal(
        pipeline.fit(texts, Y).predict_proba(texts), pipeline.fit(X=texts, y=Y).predict_proba(texts)
    )


def test_refitting_forgets():
    model = MultinomialNB(n_epochs=2).fit(X, Y)
    again = MultinomialNB(n_epochs=2).fit(X_NEW[:, :20], Y_NEW == 0)
    model.fit(X_NEW[:, :20], Y_NEW == 0)
    np.testing.assert_array_equal(model.state_.words, again.state_.words)
    assert model.classes_.tolist() == [False, True] and model.n_features_in_ == 20


@pytest.mark.parametrize("seed", [0, 1, 2**62, np.int64(4)])
def test_the_seed_decides(seed):
    one, two = (MultinomialNB(n_epochs=2, random_state=seed).fit(X, Y).state_.words for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, MultinomialNB(n_epochs=2, random_state=99).fit(X, Y).state_.words)


def test_random_states_that_are_used_up():
    one, two = (MultinomialNB(n_epochs=2, random_state=np.random.RandomState(3)).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(one.state_.words, two.state_.words)
    fresh = [MultinomialNB(n_epochs=2, random_state=None).fit(X, Y).state_.words for _ in range(2)]
    assert not np.array_equal(*fresh)


@pytest.mark.parametrize("loss", LOSSES)
def test_documents_without_words_get_the_most_frequent_class(loss):
    y = np.where(np.arange(240) % 4 == 0, Y, 1)
    model = MultinomialNB(loss=loss).fit(X, y)
    empty = sp.csr_matrix((4, 30))
    np.testing.assert_allclose(model.predict_joint_log_proba(empty), np.tile(model.class_log_prior_, (4, 1)))
    expected = log_softmax(model.class_log_prior_ / model.temperature_)
    np.testing.assert_allclose(model.predict_log_proba(empty), np.tile(expected, (4, 1)))
    assert (model.predict(empty) == 1).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_corpus_without_any_word(loss):
    model = MultinomialNB(loss=loss, evaluate_every=1).fit(sp.csr_matrix((40, 5)), np.arange(40) % 4 == 0)
    np.testing.assert_allclose(model.feature_log_prob_, -np.log(5))
    assert np.exp(model.class_log_prior_[0]) > 0.5
    assert np.isnan(model.history_[-1]["perplexity"])


@pytest.mark.parametrize("loss", LOSSES)
def test_a_class_in_one_lane_only(loss):
    y = Y.copy()
    y[:] = Y % 2
    y[17] = 2
    model = MultinomialNB(loss=loss, n_lanes=12, rounds_per_epoch=2).fit(X, y)
    assert np.isfinite(model.feature_log_prob_).all() and np.isfinite(model.class_log_prior_).all()
    assert model.predict_proba(X).shape == (240, 3)


def test_a_class_of_which_a_corpus_has_no_document(tmp_path):
    corpus = write_corpus(tmp_path / "c", X, Y, classes=[0, 1, 2, 3])
    for loss in LOSSES:
        model = MultinomialNB(loss=loss).fit(corpus)
        assert model.classes_.tolist() == [0, 1, 2, 3]
        assert np.isfinite(model.feature_log_prob_).all()
        assert model.score(X, Y) > 0.7
        assert loss != "nll" or 3 not in model.predict(X_NEW)
        model.save(tmp_path / loss)


@pytest.mark.parametrize("loss", ["ncll", "hinge"])
def test_balanced_weights_are_those_by_hand(loss):
    y = np.where((Y == 1) & (np.arange(240) % 6 > 0), 0, Y) % 2  # few documents of class 1
    by_hand = dict(enumerate(240 / (2 * np.bincount(y))))
    one, other = (MultinomialNB(loss=loss, class_weight=w).fit(X, y) for w in ("balanced", by_hand))
    np.testing.assert_allclose(one.feature_log_prob_, other.feature_log_prob_)


def test_nothing_is_kept_of_documents_in_memory():
    prepared_cache.clear()
    MultinomialNB(n_epochs=1).fit(X, Y, validation=(X_NEW, Y_NEW)).evaluate(X, Y)
    assert prepared_cache.nbytes == 0


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("sparse", [False, True])
def test_bad_counts(value, sparse):
    bad = X.toarray().astype(float)
    bad[3, 4] = value
    bad = sp.csr_matrix(bad) if sparse else bad
    said = {-1.0: "Negative values in data passed to MultinomialNB"}.get(value, "NaN|infinity")
    model = MultinomialNB(n_epochs=1).fit(X, Y)
    for call in (lambda: MultinomialNB().fit(bad, Y), lambda: model.predict(bad), lambda: model.partial_fit(bad, Y)):
        with pytest.raises(ValueError, match=said):
            call()


def test_labels_that_cannot_be_used(tmp_path):
    for y, said in (
        (None, "requires y"),
        (np.zeros(240), "one class only"),
        (Y[:-1], "inconsistent"),
        (Y + 0.5, "(?i)unknown label|continuous"),
    ):
        with pytest.raises(ValueError, match=said):
            MultinomialNB().fit(X, y)
    with pytest.raises(ValueError, match="one class only"):
        MultinomialNB().fit(X, Y, sample_weight=(Y == 1).astype(float))
    one = write_corpus(tmp_path / "one", X, np.zeros(240, int))
    with pytest.raises(ValueError, match="has one class only"):
        MultinomialNB().fit(one)
    without = write_corpus(tmp_path / "without", X)
    with pytest.raises(ValueError, match="has no labels"):
        MultinomialNB().fit(without)
    with pytest.raises(ValueError, match="brings its labels"):
        MultinomialNB().fit(one, Y)


@pytest.mark.parametrize("weights", [-np.ones(240), np.full(240, np.nan), np.ones(3), np.zeros(240)])
def test_bad_sample_weights(weights):
    with pytest.raises(ValueError, match="(?i)sample.?weight"):
        MultinomialNB().fit(X, Y, sample_weight=weights)


def test_a_cluster_wants_a_corpus():
    for call in (
        lambda: MultinomialNB().fit(X, Y, client=object()),
        lambda: MultinomialNB(n_epochs=1).fit(X, Y).evaluate(X, Y, client=object()),
    ):
        with pytest.raises(ValueError, match="corpus that its workers can read"):
            call()


def test_unfitted():
    from sklearn.exceptions import NotFittedError

    for method in ("predict", "predict_proba", "predict_log_proba", "predict_joint_log_proba", "evaluate"):
        with pytest.raises(NotFittedError):
            getattr(MultinomialNB(), method)(X)
    with pytest.raises(NotFittedError):
        MultinomialNB().save("nowhere")
    with pytest.raises(NotFittedError):
        _ = MultinomialNB().feature_log_prob_


def test_corpora_that_do_not_fit_the_model(tmp_path):
    words = [f"w{i}" for i in range(30)]
    model = MultinomialNB(n_epochs=1).fit(write_corpus(tmp_path / "c", X, Y, vocabulary=words))
    others = {
        "30 words|20 words": write_corpus(tmp_path / "narrow", X[:, :20], Y),
        "vocabulary of .* does not match": write_corpus(tmp_path / "words", X, Y, vocabulary=words[::-1]),
        "classes of .* are not the model's": write_corpus(tmp_path / "classes", X, Y + 1, vocabulary=words),
    }
    for said, corpus in others.items():
        with pytest.raises(ValueError, match=said):
            model.evaluate(corpus)
        with pytest.raises(ValueError, match=said):
            MultinomialNB(n_epochs=1).fit(
                write_corpus(tmp_path / "c", X, Y, vocabulary=words, overwrite=True), validation=corpus
            )


@given(st.integers(1, 10**9), st.integers(1, 64))
def test_default_lanes(n_documents, n_rounds):
    lanes = plans.default_lanes(n_documents, n_rounds)
    assert (lanes == 1) == (n_documents <= defaults.ONE_LANE_DOCUMENTS)
    if lanes > 1:
        assert lanes & (lanes - 1) == 0 and n_documents // n_rounds <= lanes * defaults.MAX_LANE_DOCUMENTS


@settings(max_examples=25)
@given(st.integers(2, 60), st.sampled_from(["mean", "sum"]), st.integers(0, 5))
def test_any_number_of_documents(n, merge, seed):
    few, y = random_counts(n, 6, 2, seed=seed)
    model = MultinomialNB(merge=merge, n_epochs=2).fit(few, y)
    assert np.isfinite(model.feature_log_prob_).all()
    assert model.state_.t == 2 * n


@pytest.mark.parametrize("shift", [0.2, 0.5])
def test_documents_that_hold_all_words_in_nearly_equal_shares_are_told_apart(shift):
    """Steps in units of the margin left S here: the total took back what the words had moved, and predictions were chance."""
    rng = np.random.default_rng(0)
    words = rng.dirichlet(np.full(12, 20.0))
    classes = words * np.exp(rng.normal(size=(3, 12)) * shift)
    y = rng.integers(0, 3, 800)
    X = np.array([rng.multinomial(400, classes[c] / classes[c].sum()) for c in y])
    generative = MultinomialNB(loss="nll").fit(X[:300], y[:300]).score(X[300:], y[300:])
    assert MultinomialNB().fit(X[:300], y[:300]).score(X[300:], y[300:]) > generative - 0.1


def articles(part: str) -> tuple[list[str], list[str]]:
    """Return texts and classes of R52, whose largest class has 2,840 documents and whose smallest has one."""
    path = Path(os.environ["SDEM_CORPORA"], "cachopo", f"r52-{part}-stemmed.derived.txt.xz")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        labels, texts = zip(*(line.rstrip("\n").split("\t", 1) for line in file), strict=True)
    return list(texts), list(labels)


@pytest.mark.slow
@pytest.mark.skipif("SDEM_CORPORA" not in os.environ, reason="SDEM_CORPORA names no folder of corpora")
def test_the_first_batches_do_not_overshoot():
    texts, labels = articles("train")
    new, truth = articles("test")
    one = MultinomialNB(loss="ncll", n_epochs=4).fit(texts, labels).score(new, truth)
    batches = MultinomialNB(loss="ncll", merge="sum", n_epochs=4).fit(texts, labels).score(new, truth)
    assert batches > one - 0.02  # with batches of one size it was .4 below
