"""Regression by a joint Gaussian: ridge regression where all is known, and a prediction where not."""

from __future__ import annotations

from copy import copy
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sdem_dist import GaussianRegressor, write_corpus

X, Y = load_diabetes(return_X_y=True)
GRID = np.logspace(-3, 5, 33)


@pytest.mark.parametrize("loss", ["nll", "ncll"])
def test_without_a_prior_it_is_least_squares(loss):
    ours, theirs = GaussianRegressor(loss=loss, alpha=0.0).fit(X, Y), LinearRegression().fit(X, Y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-3)
    np.testing.assert_allclose(X @ ours.coef_ + ours.intercept_, ours.predict(X))
    assert ours.variance_ == pytest.approx(((Y - theirs.predict(X)) ** 2).mean(), rel=1e-3)


def test_the_prior_is_ridges_penalty():
    ours = GaussianRegressor(alpha=20.0).fit(X, Y)
    theirs = make_pipeline(StandardScaler(), Ridge(alpha=20.0)).fit(X, Y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)


def test_where_nothing_is_missing_both_losses_have_one_answer_in_one_pass():
    joint, conditional = (GaussianRegressor(loss=loss).fit(X, Y) for loss in ("nll", "ncll"))
    assert conditional.n_iter_ == joint.n_iter_ == 1
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.3, np.nan, X)
    np.testing.assert_array_equal(conditional.predict(gaps), joint.predict(gaps))


@pytest.mark.parametrize("table", [load_diabetes, load_digits])
def test_no_worse_than_ridge(table):
    features, target = table(return_X_y=True)
    ours, *theirs = (
        cross_val_score(model, features, target, cv=5).mean()
        for model in (
            GaussianRegressor(),
            Ridge(),
            make_pipeline(StandardScaler(), RidgeCV(GRID)),
            RidgeCV(GRID),
        )
    )
    assert ours >= max(theirs)


def test_the_evidence_chooses_like_bayesian_ridge():
    standardised = (X - X.mean(axis=0)) / X.std(axis=0)
    theirs = BayesianRidge(alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-8, max_iter=1000).fit(standardised, Y)
    ours = GaussianRegressor().fit(X, Y)
    assert ours.alpha_ == pytest.approx(theirs.lambda_ / theirs.alpha_, rel=0.2)  # a grid, and noise that is maximised
    np.testing.assert_allclose(ours.predict(X), theirs.predict(standardised), rtol=0.01)


@pytest.mark.parametrize("gaps", [0.0, 0.1])
def test_the_evidence_does_not_depend_on_units_where_features_have_their_own(gaps):
    rng = np.random.default_rng(0)
    known = np.where(rng.random(X.shape) < gaps, np.nan, X)
    units = 10.0 ** rng.integers(-4, 4, 10)
    ours = GaussianRegressor().fit(known * units, Y)
    kept = GaussianRegressor().fit(known, Y)
    np.testing.assert_allclose(ours.predict(known * units), kept.predict(known), rtol=0.02)


def test_many_features_that_say_nothing_are_shrunk():
    noise = np.random.default_rng(0).normal(size=(442, 300))
    many = np.column_stack([20.0 * X, noise])
    weak, chosen = (GaussianRegressor(**a).fit(many[::2], Y[::2]) for a in ({"alpha": 1.0}, {}))
    assert weak.score(many[1::2], Y[1::2]) < 0.0
    assert chosen.alpha_ > 100.0
    assert chosen.score(many[1::2], Y[1::2]) > 0.15


def test_fewer_rows_than_columns_are_not_fitted_through_all_points():
    rng = np.random.default_rng(0)
    for n in (2, 3, 40):
        noise, target = rng.normal(size=(n, 110)), rng.normal(size=n)
        model = GaussianRegressor().fit(noise, target)
        assert model.alpha_ > 1.0
        assert model.variance_ > 0.1 * target.var()


@pytest.mark.parametrize("rows", [1, 30])
def test_a_constant_target_is_predicted_without_doubt(rows):
    model = GaussianRegressor().fit(X[:rows], np.full(rows, 7.3))
    mean, std = model.predict(X[:3], return_std=True)
    np.testing.assert_allclose(mean, 7.3)
    assert (std < 0.01).all()
    assert np.abs(model.coef_).max() < 1e-9


def test_features_missing():
    rng = np.random.default_rng(1)
    gaps = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    train, test = np.arange(0, 442, 2), np.arange(1, 442, 2)
    joint = GaussianRegressor(n_epochs=20).fit(gaps[train], Y[train])
    model = GaussianRegressor(loss="ncll", n_epochs=20).fit(gaps[train], Y[train])
    losses = [h["nll"] for h in joint.history_]
    assert all(b <= a + 1e-9 for a, b in pairwise(losses))  # EM
    assert model.history_[-1]["ncll"] < joint.history_[-1]["ncll"] - 0.01
    assert joint.score(gaps[test], Y[test]) > 0.3
    assert model.score(gaps[test], Y[test]) > 0.25
    mean, std = joint.predict(np.full((1, 10), np.nan), return_std=True)
    assert mean[0] == pytest.approx(Y[train].mean(), rel=0.1)
    assert std[0] > joint.predict(X[:1], return_std=True)[1][0]


@pytest.mark.parametrize("noise", [0.1, 1.0])
@pytest.mark.parametrize(
    ("rows", "columns", "settings", "gaps"),
    [
        (40, 5, {}, 0.0),
        (150, 200, {}, 0.0),
        (400, 500, {}, 0.0),
        (2_000, 50, {}, 0.0),
        (100, 50, {"alpha": 0.0}, 0.0),
        (300, 10, {}, 0.2),
        (300, 10, {"loss": "ncll"}, 0.2),
    ],
)
def test_nine_intervals_of_ten_hold_the_target(rows, columns, settings, gaps, noise):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(rows + 1_000, columns))
    target = table @ rng.normal(size=columns) / np.sqrt(columns) + noise * rng.normal(size=len(table))
    table[rng.random(table.shape) < gaps] = np.nan
    mean, std = GaussianRegressor(**settings).fit(table[:rows], target[:rows]).predict(table[rows:], return_std=True)
    assert 0.82 < (np.abs(mean - target[rows:]) < 1.645 * std).mean() < 0.95


def test_from_a_corpus(tmp_path):
    corpus = write_corpus(tmp_path / "t.zarr", np.column_stack([X, Y]), dense=True, shard_documents=100)
    np.testing.assert_allclose(
        GaussianRegressor().fit(corpus).predict(X), GaussianRegressor().fit(X, Y).predict(X), rtol=1e-6
    )


def test_it_is_evaluated_from_a_corpus_that_has_the_target(tmp_path):
    gaps = np.where(np.random.default_rng(2).random(X.shape) < 0.1, np.nan, X)
    corpus = write_corpus(tmp_path / "c.zarr", np.column_stack([gaps, Y]), dense=True)
    model = GaussianRegressor(loss="ncll", n_epochs=3)
    model.fit(corpus, checkpoint=tmp_path / "run", checkpoint_rounds=1)
    assert model.evaluate(corpus)["ncll"] == pytest.approx(model.history_[-1]["ncll"])
    resumed = clone(model).fit(corpus, checkpoint=tmp_path / "run", resume=True)
    assert (resumed.n_iter_, resumed.coef_.tobytes()) == (3, model.coef_.tobytes())
    with pytest.raises(ValueError, match="has 10 columns, and the model 10 and a target"):
        model.evaluate(write_corpus(tmp_path / "d.zarr", gaps, dense=True))


def test_a_constant_column_says_nothing_whatever_its_mean_is_rounded_to():
    model = GaussianRegressor().fit(np.column_stack([X, np.full(len(X), 0.1)]), Y)
    assert model.coef_[-1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("value", [-1.0, -100.0, 1e6, 1e300])
def test_a_crafted_covariance_is_refused_or_predicts_numbers(value):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    model = GaussianRegressor().fit(X, X @ [1.0, 2.0, 3.0] + rng.normal(size=100))
    n_refused = 0
    for place in np.ndindex(model.state_.mu.shape):
        mu = model.state_.mu.copy()
        mu[place] = value
        crafted = model.state_._replace(mu=mu)
        try:
            model.learner_.check_state(crafted)
        except ValueError as error:
            assert "not inside S" in str(error)
            n_refused += 1
            continue
        other = copy(model)
        other.state_ = crafted
        assert all(np.isfinite(part).all() for part in other.predict(X, return_std=True))
    assert n_refused
