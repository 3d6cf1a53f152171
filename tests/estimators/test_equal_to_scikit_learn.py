"""With loss="nll" models are scikit-learn's, however the work is cut, and weights are repetitions."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.naive_bayes as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.random_documents import random_counts
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

import sdem_dist as sd

X, Y = random_counts(90, 25, 4, seed=6)
WEIGHTS = np.random.default_rng(0).random(len(Y)) * 3
TABLES = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
IRIS, SPECIES = load_iris(return_X_y=True)
ATTRIBUTES = (
    "class_count_", "feature_count_", "category_count_", "feature_log_prob_", "class_log_prior_", "n_categories_",
)  # fmt: skip
OF_CATEGORIES = {
    "MultinomialNB": [{"alpha": 0.01}, {"alpha": 1e-9}, {"alpha": 7}],
    "BernoulliNB": [{"alpha": 0.5, "binarize": 2.0}, {"alpha": 0.3}],
    "CategoricalNB": [{"alpha": 0.3, "min_categories": 9}],
}
REPEATED = {
    "Gaussian with a prior": (sd.GaussianNB(loss="nll", prior=0.5), IRIS, SPECIES),
    "half-labelled": (sd.GaussianNB(loss="nll", n_epochs=10, unlabelled=2), IRIS, SPECIES),
    "mixed": (sd.MixedNB(loss="nll", kinds={1: "exponential", 3: "poisson"}), IRIS, SPECIES),
}


def assert_same(ours, theirs, X=X):
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    for name in ATTRIBUTES:
        if hasattr(theirs, name):
            for a, b in zip(getattr(ours, name), getattr(theirs, name), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)
    expected = theirs.predict_joint_log_proba(X)
    np.testing.assert_allclose(ours.predict_joint_log_proba(X), expected, rtol=1e-11)
    two_best = np.sort(expected, axis=1)[:, -2:]
    clear = two_best[:, 1] - two_best[:, 0] > 1e-9  # documents without words may be a tie, which rounding decides
    assert clear.mean() > 0.85
    np.testing.assert_array_equal(ours.predict(X)[clear], theirs.predict(X)[clear])


def fitted(name, X, y, weights=None, **given):
    models = getattr(sd, name)(loss="nll", **given), getattr(reference, name)(**given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about alpha being too small
        return [model.fit(X, y, sample_weight=weights) for model in models]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("weighted", [False, True])
def test_gaussians(name, weighted):
    table, y = TABLES[name](return_X_y=True)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    ours, theirs = fitted("GaussianNB", table, y, weights, var_smoothing=1e-6)
    np.testing.assert_allclose(ours.theta_, theirs.theta_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.var_, theirs.var_, rtol=1e-7)
    np.testing.assert_allclose(ours.predict_joint_log_proba(table), theirs.predict_joint_log_proba(table), rtol=1e-6)
    np.testing.assert_array_equal(ours.predict(table), theirs.predict(table))


@pytest.mark.parametrize("prior", [{}, {"fit_prior": False}, {"class_prior": [0.1, 0.2, 0.3, 0.4]}], ids="".join)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("name", "given"), [(n, g) for n, all_ in OF_CATEGORIES.items() for g in ({}, *all_)], ids=str)
def test_counts_and_categories(name, given, weighted, prior):
    table = X if name == "MultinomialNB" else X.toarray()
    assert_same(*fitted(name, table, Y, WEIGHTS if weighted else None, **given, **prior), table)


@pytest.mark.parametrize("alpha", [1.0, 0.0])
@pytest.mark.parametrize("merge", ["mean", "sum"])
@pytest.mark.parametrize("n_lanes", [None, 1, 3, 200])
def test_any_number_of_lanes(alpha, merge, n_lanes):
    ours = sd.MultinomialNB(loss="nll", alpha=alpha, merge=merge, n_lanes=n_lanes).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(ours, reference.MultinomialNB(alpha=alpha, force_alpha=False).fit(X, Y))


def test_real_entries_words_that_never_occur_and_the_log_prior():
    real = X.multiply(np.random.default_rng(1).random(X.shape)).tocsr()
    assert_same(*fitted("MultinomialNB", real, Y, WEIGHTS), real)
    wide = sp.hstack([X, sp.csr_matrix((90, 3))]).tocsr()
    assert_same(*fitted("MultinomialNB", wide, Y), wide)
    ours = sd.MultinomialNB(loss="nll", alpha="log", n_epochs=7, rounds_per_epoch=3).fit(X, Y)
    assert ours.n_iter_ == 1  # one pass is enough, whatever is asked
    assert_same(ours, reference.MultinomialNB(alpha=np.log(25)).fit(X, Y))


@settings(max_examples=30)
@given(st.lists(st.integers(1, 89), max_size=5, unique=True))
def test_partial_fit_in_any_pieces_is_fit(inner):
    bounds = [0, *sorted(inner), 90]
    ours = sd.MultinomialNB(loss="nll")
    for a, b in itertools.pairwise(bounds):
        ours.partial_fit(X[a:b], Y[a:b], classes=np.arange(4) if a == 0 else None)
    assert_same(ours, reference.MultinomialNB().fit(X, Y))
    assert ours.n_iter_ == len(bounds) - 1


def test_priors_and_pseudo_counts_are_scikit_learns():
    alphas = np.linspace(0.1, 2.0, X.shape[1])
    assert_same(sd.MultinomialNB(loss="nll", alpha=alphas).fit(X, Y), reference.MultinomialNB(alpha=alphas).fit(X, Y))
    table, how = X.toarray(), {"priors": [0.1, 0.2, 0.3, 0.4]}
    ours, theirs = sd.GaussianNB(loss="nll", **how).fit(table, Y), reference.GaussianNB(**how).fit(table, Y)
    np.testing.assert_allclose(ours.predict_proba(table), theirs.predict_proba(table), atol=1e-9)
    with pytest.raises(ValueError, match="only MultinomialNB"):
        sd.MultinomialNB(loss="hinge", alpha=alphas).fit(X, Y)


def test_class_weights_are_sample_weights():
    for class_weight, of_class in (({0: 0.5, 2: 3.0}, [0.5, 1.0, 3.0, 1.0]), ("balanced", 90 / (4 * np.bincount(Y)))):
        ours = sd.MultinomialNB(loss="nll", class_weight=class_weight).fit(X, Y)
        assert_same(ours, reference.MultinomialNB().fit(X, Y, sample_weight=np.asarray(of_class)[Y]))


def test_a_class_never_seen():
    ours = sd.MultinomialNB(loss="nll").partial_fit(X, Y, classes=np.arange(5))
    assert ours.class_log_prior_[4] == -np.inf
    np.testing.assert_allclose(ours.feature_log_prob_[4], -np.log(25))
    assert 4 not in ours.predict(X)


def test_counts_are_those_of_the_fit():
    table, y = np.arange(40).reshape(10, 4) % 3, np.arange(10) % 2
    counted = sd.MultinomialNB(loss="nll", class_weight={0: 2.0, 1: 1.0}).fit(table, y)
    assert counted.set_params(loss="hinge").class_count_.tolist() == [10.0, 5.0]
    np.testing.assert_allclose(counted.feature_count_, [2.0 * table[y == 0].sum(axis=0), table[y == 1].sum(axis=0)])
    assert not hasattr(sd.MultinomialNB().fit(table, y).set_params(loss="nll"), "feature_count_")


@pytest.mark.parametrize("name", REPEATED)
def test_a_document_of_weight_two_is_two_documents(name):
    model, rows, y = REPEATED[name]
    rng = np.random.default_rng(0)
    weights, order = rng.integers(0, 5, len(y)), rng.permutation(len(y))
    repeated = np.repeat(np.arange(len(y)), weights)
    copies = clone(model).fit(rows[repeated], y[repeated])
    weighted = clone(model).fit(rows[order], y[order], sample_weight=weights[order])
    np.testing.assert_allclose(weighted.predict_proba(rows), copies.predict_proba(rows), rtol=1e-6, atol=1e-9)
