"""With loss="nll" the model is scikit-learn's MultinomialNB, however the work is cut."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.random_documents import random_counts
from sklearn.naive_bayes import MultinomialNB as Theirs

from sdem_dist import MultinomialNB as Ours

X, Y = random_counts(90, 25, 4, seed=6)


def assert_same(ours: Ours, theirs: Theirs) -> None:
    np.testing.assert_allclose(ours.feature_log_prob_, theirs.feature_log_prob_, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.class_log_prior_, theirs.class_log_prior_, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    np.testing.assert_allclose(ours.predict_joint_log_proba(X), theirs.predict_joint_log_proba(X), rtol=1e-11)
    two_best = np.sort(theirs.predict_joint_log_proba(X), axis=1)[:, -2:]
    clear = two_best[:, 1] - two_best[:, 0] > 1e-9  # documents without words may be a tie, which rounding decides
    assert clear.sum() > 80
    np.testing.assert_array_equal(ours.predict(X)[clear], theirs.predict(X)[clear])


@pytest.mark.parametrize("alpha", [1.0, 0.01, 1e-9, 0.0, 7])
@pytest.mark.parametrize("merge", ["mean", "sum"])
@pytest.mark.parametrize("n_lanes", [None, 1, 3, 200])
def test_any_alpha_on_any_lanes(alpha, merge, n_lanes):
    ours = Ours(loss="nll", alpha=alpha, merge=merge, n_lanes=n_lanes).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about alpha being too small
        assert_same(ours, Theirs(alpha=alpha, force_alpha=False).fit(X, Y))


@pytest.mark.parametrize("prior", [{"fit_prior": False}, {"class_prior": [0.1, 0.2, 0.3, 0.4]}, {}])
@pytest.mark.parametrize("weighted", [False, True])
def test_priors_weights_and_real_entries(prior, weighted):
    weights = np.random.default_rng(0).random(len(Y)) * 3 if weighted else None
    real = X.multiply(np.random.default_rng(1).random(X.shape)).tocsr()
    assert_same(
        Ours(loss="nll", **prior).fit(real, Y, sample_weight=weights),
        Theirs(**prior).fit(real, Y, sample_weight=weights),
    )


def test_log_prior_of_words():
    assert_same(Ours(loss="nll", alpha="log").fit(X, Y), Theirs(alpha=np.log(25)).fit(X, Y))


@settings(max_examples=30)
@given(st.lists(st.integers(1, 89), max_size=5, unique=True))
def test_partial_fit_in_any_pieces_is_fit(inner):
    bounds = [0, *sorted(inner), 90]
    ours = Ours(loss="nll")
    for a, b in itertools.pairwise(bounds):
        ours.partial_fit(X[a:b], Y[a:b], classes=np.arange(4) if a == 0 else None)
    assert_same(ours, Theirs().fit(X, Y))
    assert ours.n_iter_ == len(bounds) - 1


@pytest.mark.parametrize("seed", range(10))
def test_whole_weights_are_repetitions(seed):
    weights = np.random.default_rng(seed).integers(0, 4, 90)
    repeated = np.repeat(np.arange(90), weights)
    weighed = Ours(loss="nll").fit(X, Y, sample_weight=weights)
    assert_same(weighed, Theirs().fit(X[repeated], Y[repeated]))
    plain = Ours(loss="nll").fit(X[repeated], Y[repeated])
    np.testing.assert_allclose(weighed.feature_log_prob_, plain.feature_log_prob_, rtol=1e-12)


def test_class_weights_are_sample_weights():
    by_class = {0: 0.5, 2: 3.0}
    weights = np.array([by_class.get(k, 1.0) for k in Y])
    assert_same(Ours(loss="nll", class_weight=by_class).fit(X, Y), Theirs().fit(X, Y, sample_weight=weights))
    counts = np.bincount(Y)
    assert_same(
        Ours(loss="nll", class_weight="balanced").fit(X, Y),
        Theirs().fit(X, Y, sample_weight=(len(Y) / (4 * counts))[Y]),
    )


def test_a_class_never_seen():
    ours = Ours(loss="nll").partial_fit(X, Y, classes=np.arange(5))
    assert ours.class_log_prior_[4] == -np.inf
    np.testing.assert_allclose(ours.feature_log_prob_[4], -np.log(25))
    assert 4 not in ours.predict(X)


def test_one_pass_is_enough_whatever_is_asked():
    ours = Ours(loss="nll", n_epochs=7, rounds_per_epoch=3).fit(X, Y)
    assert ours.n_iter_ == 1
    assert_same(ours, Theirs().fit(X, Y))


def test_words_that_never_occur():
    wide = sp.hstack([X, sp.csr_matrix((90, 3))]).tocsr()
    ours, theirs = Ours(loss="nll").fit(wide, Y), Theirs().fit(wide, Y)
    np.testing.assert_allclose(ours.feature_log_prob_, theirs.feature_log_prob_, rtol=1e-12)
