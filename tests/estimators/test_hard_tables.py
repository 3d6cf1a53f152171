"""Tables that lie on the edge: no spread, no counts, values far off, columns that determine each other."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine
from sklearn.linear_model import LinearRegression
from tables import TABLES, compare

from sdem_dist import (
    BernoulliNB,
    CategoricalNB,
    GaussianNB,
    GaussianRegressor,
    MixedNB,
    MultinomialNB,
    PoissonNB,
    write_corpus,
)
from sdem_dist.families import Gaussian

IRIS, SPECIES = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)


def absent_in_a_class(draw):
    """Rows of two classes, of which the first never shows anything in column 2."""
    X = draw((300, 6))
    y = (X[:, 0] + X[:, 1] + RNG.random(300) > 1).astype(int)
    X[y == 0, 2] = 0.0
    return X, y


@pytest.mark.parametrize("loss", ["ncll", "hinge"])
@pytest.mark.parametrize("merge", ["sum", "mean"])
@pytest.mark.parametrize(
    ("estimator", "draw"),
    [
        (BernoulliNB, lambda shape: (RNG.random(shape) < 0.2).astype(float)),
        (CategoricalNB, lambda shape: (RNG.random(shape) < 0.2).astype(float)),
        (PoissonNB, lambda shape: RNG.poisson(0.3, shape).astype(float)),
    ],
)
def test_without_pseudo_counts_training_still_moves(estimator, draw, loss, merge):
    X, y = absent_in_a_class(draw)
    X = np.vstack([X, X[y == 1][:20]])
    y = np.append(y, np.zeros(20, int))  # labels that contradict others: there is a loss to lower
    X[y == 0, 2] = 0.0
    X[y == 1, 3] = 0.0
    losses = [h[loss] for h in estimator(alpha=0.0, loss=loss, merge=merge, n_epochs=30).fit(X, y).history_]
    assert losses[-1] < 0.98 * losses[0]
    assert max(losses) <= losses[0] * (1 + 1e-12)


@pytest.mark.parametrize("merge", ["sum", "mean"])
def test_a_class_of_one_row_lets_others_move(merge):
    X, y = np.vstack([IRIS, [[6.0, 3.0, 4.0, 1.0]]]), np.append(SPECIES, 3)
    losses = [h["ncll"] for h in GaussianNB(merge=merge).fit(X, y).history_]
    assert losses[-1] < 0.95 * losses[0]


@pytest.mark.parametrize("loss", ["ncll", "hinge"])
def test_a_prior_that_holds_training_back_is_named(loss):
    X, y = np.vstack([IRIS, np.full((1, 4), 1e3)]), np.append(SPECIES, 3)
    with pytest.warns(UserWarning, match=r"the prior outweighs the loss.*prior=0") as said:
        GaussianNB(loss=loss).fit(X, y)
    assert said[0].filename == __file__
    with pytest.warns(UserWarning, match="the prior outweighs the loss"):
        GaussianNB(loss=loss, prior=20.0, var_smoothing=0.1).fit(IRIS, SPECIES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses = [h[loss] for h in GaussianNB(loss=loss, prior=0.0).fit(X, y).history_]
        GaussianNB(loss=loss).fit(IRIS, SPECIES)
        wine, kinds = load_wine(return_X_y=True)
        GaussianNB(loss=loss).fit(wine[::2], kinds[::2])
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_without_smoothing_columns_without_spread_train():
    X, y = load_digits(return_X_y=True)
    assert GaussianNB(var_smoothing=0.0, n_epochs=20).fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize("loss", ["nll", "ncll"])
@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_collinear_columns_without_a_prior(loss, gaps):
    X, y = load_diabetes(return_X_y=True)
    twice = np.column_stack([X, 2.0 * X[:, 0], X.sum(axis=1), np.ones(len(X))])
    known = np.where(np.random.default_rng(0).random(twice.shape) < gaps, np.nan, twice)
    weights = np.full(len(X), 1e7)  # as many rows as make the least prior vanish, if it does not grow with them
    model = GaussianRegressor(loss=loss, alpha=0.0, n_epochs=10).fit(known, y, sample_weight=weights)
    theirs = LinearRegression().fit(X, y)
    if gaps:
        assert model.score(twice, y) > theirs.score(X, y) - 0.05
    else:
        np.testing.assert_allclose(model.predict(twice), theirs.predict(X), rtol=1e-4)
        np.testing.assert_allclose(twice @ model.coef_ + model.intercept_, theirs.predict(X), rtol=1e-4)


@pytest.mark.parametrize("value", [1e300, -1e300, 1e160])
@pytest.mark.parametrize(
    "estimator",
    [GaussianNB(), GaussianNB(loss="nll"), MixedNB(), MixedNB(kinds={1: Gaussian()}), GaussianRegressor()],
    ids=str,
)
def test_values_too_large_to_be_squared_are_named(estimator, value):
    X = IRIS.copy()
    X[7, 1] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"column 1 \(from 0\) holds values as large as"):
            estimator.fit(X, SPECIES)
    estimator.set_params(n_epochs=2).fit(IRIS, SPECIES)
    if not isinstance(estimator, GaussianRegressor):
        with pytest.raises(ValueError, match=r"in the Gaussian column 1 \(from 0\)"):
            estimator.predict(X)


def test_other_values_too_large(tmp_path):
    X = IRIS.copy()
    X[7, 1] = 1e300
    corpus = write_corpus(tmp_path / "c", X, SPECIES, dense=True)
    with pytest.raises(ValueError, match=r"column 1 \(from 0\) holds values as large as 1e\+300"):
        GaussianNB().fit(corpus)
    with pytest.raises(ValueError, match="the target holds values as large as"):
        GaussianRegressor().fit(IRIS, X[:, 1])
    with pytest.raises(ValueError, match=r"holds \[1e\+300\] in the Poisson column 1"):
        PoissonNB(loss="nll").fit(X, SPECIES)
    with pytest.raises(ValueError, match=r"column 1 \(from 0\) holds the category 1e\+300.*number those that occur"):
        CategoricalNB().fit(np.floor(X), SPECIES)
    # what float32 does not hold is still a number
    assert np.isfinite(GaussianNB(n_epochs=3).fit(np.where(X == 1e300, 1e39, X), SPECIES).predict_proba(IRIS)).all()


HIDDEN = np.where(np.arange(150) % 3, SPECIES, -1)


def test_only_documents_with_labels_are_scored():
    model = GaussianNB(unlabelled=-1, n_epochs=3)
    model.fit(IRIS, HIDDEN, validation=(IRIS, HIDDEN))
    labelled = HIDDEN >= 0
    found, expected = model.evaluate(IRIS, HIDDEN), model.evaluate(IRIS[labelled], HIDDEN[labelled])
    assert found == pytest.approx(expected)
    assert model.history_[-1]["validation_ncll"] == pytest.approx(expected["ncll"])


def test_documents_without_any_label_are_not_scored(tmp_path):
    nobody = np.full(150, -1)
    for model in (GaussianNB(unlabelled=-1, n_epochs=2), MultinomialNB(loss="nll", unlabelled=-1, n_epochs=2)):
        model.fit(IRIS, HIDDEN)
        for call in (
            lambda model=model: model.evaluate(IRIS, nobody),
            lambda model=model: model.fit(IRIS, HIDDEN, validation=(IRIS, nobody)),
        ):
            with pytest.raises(ValueError, match="none of the documents to be scored has a label"):
                call()
    corpus = write_corpus(tmp_path / "c", IRIS, nobody, dense=True, unlabelled=-1, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="none of the documents to be scored has a label"):
        GaussianNB(n_epochs=2).fit(IRIS, SPECIES).evaluate(corpus)


@pytest.mark.slow
@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize("loss", ["ncll", "hinge"])
@pytest.mark.parametrize("name", TABLES)
def test_defaults_are_safe(name, loss, standardised):
    # few documents leave much to chance: .01 is a promise about the mean of ten repeats
    row, safe = compare(name, standardised, loss, "sum", repeats=10 if name in ("iris", "wine") else 2)
    assert safe, row
