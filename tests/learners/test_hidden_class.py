"""Multinomial naive Bayes with the class of some documents hidden."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from sdem_dist import MultinomialNB, load_model, write_corpus
from sdem_dist.errors import CorpusError, OtherRunError

RNG = np.random.default_rng(0)
TOPICS = RNG.dirichlet(np.full(80, 2.0), 3)
Y = RNG.integers(0, 3, 600)
X = sp.csr_matrix(np.array([RNG.multinomial(25, TOPICS[k]) for k in Y]))
HIDDEN = np.where(np.arange(600) < 12, Y, -1)


def test_em_by_hand():
    model = MultinomialNB(loss="nll", unlabelled=-1, unlabelled_weight=0.5, n_epochs=4).fit(X, HIDDEN)
    shares = (HIDDEN[:, None] == np.arange(3)).astype(float)
    for _ in range(4):
        words = (X.T @ shares).T + 1.0
        log_words = np.log(words / words.sum(axis=1, keepdims=True))
        log_prior = np.log(shares.sum(axis=0) / shares.sum())
        shares[12:] = 0.5 * softmax(X[12:] @ log_words.T + log_prior, axis=1)
    np.testing.assert_allclose(model.feature_log_prob_, log_words, rtol=1e-9)
    np.testing.assert_allclose(model.class_log_prior_, log_prior, rtol=1e-9)


def test_hidden_documents_help(tmp_path):
    alone = MultinomialNB(loss="nll").fit(X[:12], Y[:12])
    model = MultinomialNB(loss="nll", unlabelled=-1, n_epochs=20).fit(X, HIDDEN)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.score(X, Y) > alone.score(X, Y) + 0.05
    model.save(tmp_path / "m.model")
    np.testing.assert_array_equal(load_model(tmp_path / "m.model").predict_proba(X), model.predict_proba(X))


def test_nothing_hidden_changes_nothing():
    plain = MultinomialNB(loss="nll").fit(X, Y)
    model = MultinomialNB(loss="nll", unlabelled=-1, n_epochs=3).fit(X, Y)
    np.testing.assert_array_equal(model.feature_log_prob_, plain.feature_log_prob_)


def test_minus_one_is_a_class_unless_said_otherwise():
    assert MultinomialNB(n_epochs=1).fit(X, HIDDEN).classes_.tolist() == [-1, 0, 1, 2]
    for loss in ("nll", "hinge"):
        assert MultinomialNB(loss=loss, unlabelled=-1, n_epochs=1).fit(X, HIDDEN).classes_.tolist() == [0, 1, 2]


def test_minus_one_of_a_file_is_minus_one_of_a_parameter(tmp_path):
    texts = HIDDEN.astype(str)
    assert MultinomialNB(loss="nll", unlabelled=-1, n_epochs=1).fit(X, texts).classes_.tolist() == ["0", "1", "2"]
    corpus = write_corpus(tmp_path / "c", X, texts)
    with pytest.raises(CorpusError, match="a class -1, which unlabelled names"):
        MultinomialNB(unlabelled=-1).fit(corpus)


def test_a_resumed_run_knows_another_weight(tmp_path):
    def model(weight: float) -> MultinomialNB:
        return MultinomialNB(unlabelled=-1, unlabelled_weight=weight, calibrate=False, n_epochs=2)

    model(0.1).fit(X, HIDDEN, checkpoint=tmp_path / "k")
    for weight, named in ((0.2, r"unlabelled_weight 0.1"), (0.0, "other settings")):  # 0: labelled documents alone
        with pytest.raises(OtherRunError, match=named):
            model(weight).fit(X, HIDDEN, checkpoint=tmp_path / "k", resume=True)


def test_calibrate_is_heard():
    model = MultinomialNB(unlabelled=-1, calibrate=False).fit(sp.vstack([X] * 8), np.tile(HIDDEN, 8))
    assert model.best_entry_["unlabelled_weight"] >= 0
    assert model.temperature_ == 1.0
