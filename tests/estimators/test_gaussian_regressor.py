"""Regression by a joint Gaussian: ridge regression where all is known, a penalty by the evidence, and a prediction where not."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.stats import multivariate_normal
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sdem_dist import CorpusError, GaussianRegressor, write_corpus
from sdem_dist.models.regression import LEVEL, PENALTIES, largest_evidence

X, Y = load_diabetes(return_X_y=True)
GRID = np.logspace(-3, 5, 33)


@pytest.mark.parametrize("loss", ["nll", "ncll"])
def test_without_a_prior_it_is_least_squares(loss):
    ours, theirs = GaussianRegressor(loss=loss, alpha=0.0).fit(X, Y), LinearRegression().fit(X, Y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-3)
    np.testing.assert_allclose(X @ ours.coef_ + ours.intercept_, ours.predict(X))
    assert ours.variance_ == pytest.approx(((Y - theirs.predict(X)) ** 2).mean(), rel=1e-3)
    assert ours.n_iter_ == 1  # where nothing is missing
    constant = GaussianRegressor(loss=loss).fit(np.column_stack([X, np.full(len(X), 0.1)]), Y)
    assert constant.coef_[-1] == pytest.approx(0.0, abs=1e-9)  # whatever its mean is rounded to


def test_the_prior_is_ridges_penalty():
    ours = GaussianRegressor(alpha=20.0).fit(X, Y)
    theirs = make_pipeline(StandardScaler(), Ridge(alpha=20.0)).fit(X, Y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)


@pytest.mark.parametrize("table", [load_diabetes, load_digits])
def test_no_worse_than_ridge(table):
    models = (GaussianRegressor(), Ridge(), make_pipeline(StandardScaler(), RidgeCV(GRID)), RidgeCV(GRID))
    ours, *theirs = (cross_val_score(model, *table(return_X_y=True), cv=5).mean() for model in models)
    assert ours >= max(theirs)


@pytest.mark.parametrize("gaps", [0.0, 0.1])
def test_the_evidence_does_not_depend_on_units_where_features_have_their_own(gaps):
    rng = np.random.default_rng(0)
    known, units = np.where(rng.random(X.shape) < gaps, np.nan, X), 10.0 ** rng.integers(-4, 4, 10)
    ours, kept = GaussianRegressor().fit(known * units, Y), GaussianRegressor().fit(known, Y)
    np.testing.assert_allclose(ours.predict(known * units), kept.predict(known), rtol=0.02)


def test_many_features_that_say_nothing_are_shrunk():
    many = np.column_stack([20.0 * X, np.random.default_rng(0).normal(size=(442, 300))])
    weak, chosen = (GaussianRegressor(**a).fit(many[::2], Y[::2]) for a in ({"alpha": 1.0}, {}))
    assert weak.score(many[1::2], Y[1::2]) < 0.0
    assert chosen.alpha_ > 100.0 and chosen.score(many[1::2], Y[1::2]) > 0.15


@pytest.mark.parametrize("rows", [1, 30])
def test_a_constant_target_is_predicted_without_doubt(rows):
    model = GaussianRegressor().fit(X[:rows], np.full(rows, 7.3))
    mean, std = model.predict(X[:3], return_std=True)
    np.testing.assert_allclose(mean, 7.3)
    assert (std < 0.01).all()
    assert np.abs(model.coef_).max() < 1e-9


def test_features_missing():
    gaps = np.where(np.random.default_rng(1).random(X.shape) < 0.3, np.nan, X)
    train, test = np.arange(0, 442, 2), np.arange(1, 442, 2)
    joint = GaussianRegressor(n_epochs=8).fit(gaps[train], Y[train])
    model = GaussianRegressor(loss="ncll", n_epochs=8).fit(gaps[train], Y[train])
    assert all(b <= a + 1e-9 for a, b in pairwise([h["nll"] for h in joint.history_]))  # EM
    assert model.history_[-1]["ncll"] < joint.history_[-1]["ncll"] - 0.01
    assert joint.score(gaps[test], Y[test]) > 0.3 and model.score(gaps[test], Y[test]) > 0.25
    mean, std = joint.predict(np.full((1, 10), np.nan), return_std=True)
    assert mean[0] == pytest.approx(Y[train].mean(), rel=0.1)
    assert std[0] > joint.predict(X[:1], return_std=True)[1][0]


@pytest.mark.parametrize("noise", [0.1, 1.0])
@pytest.mark.parametrize(("rows", "columns", "settings", "gaps"), [
    (40, 5, {}, 0.0),
    (150, 200, {}, 0.0),
    (400, 500, {}, 0.0),
    (2_000, 50, {}, 0.0),
    (100, 50, {"alpha": 0.0}, 0.0),
    (300, 10, {}, 0.2),
    (300, 10, {"loss": "ncll", "n_epochs": 10}, 0.2),
])  # fmt: skip
def test_nine_intervals_of_ten_hold_the_target(rows, columns, settings, gaps, noise):
    rng, new = np.random.default_rng(0), 400 if gaps else 1_000  # each pattern of gaps is a regression of its own
    table = rng.normal(size=(rows + new, columns))
    target = table @ rng.normal(size=columns) / np.sqrt(columns) + noise * rng.normal(size=len(table))
    table[rng.random(table.shape) < gaps] = np.nan
    mean, std = GaussianRegressor(**settings).fit(table[:rows], target[:rows]).predict(table[rows:], return_std=True)
    assert 0.82 < (np.abs(mean - target[rows:]) < 1.645 * std).mean() < 0.95


def test_corpora_have_the_target_or_not(tmp_path):
    names = [f"x{i}" for i in range(10)]
    gaps = np.where(np.random.default_rng(2).random(X.shape) < 0.1, np.nan, X)

    def written(name, table, words):
        return write_corpus(tmp_path / name, table, dense=True, shuffle=False, shard_documents=100, vocabulary=words)

    corpus, without = written("c", np.column_stack([gaps, Y]), [*names, "y"]), written("d", gaps, names)
    model = GaussianRegressor(loss="ncll", n_epochs=3).fit(corpus)
    assert model.evaluate(corpus)["ncll"] == pytest.approx(model.history_[-1]["ncll"])
    np.testing.assert_raises_regex(ValueError, "has 10 columns, not 10 features and a target", model.evaluate, without)
    np.testing.assert_array_equal(model.predict(corpus), model.predict(without))
    for found, expected in zip(*(model.predict(of, return_std=True) for of in (without, gaps)), strict=True):
        np.testing.assert_array_equal(found, expected)
    for n, odd in ((9, X[:, 1:]), (10, X)):
        with pytest.raises(CorpusError, match="columns, but the model needs"):
            model.predict(written(f"e{n}", odd, names[::-1][:n]))


def centred_products(X, y):
    table = np.column_stack([X, y])
    table = table - table.mean(axis=0)
    table[:, -1] /= table[:, -1].std()
    return table.T @ table, table


@pytest.mark.parametrize(("n", "p"), [(30, 3), (8, 20)])
def test_against_the_density_of_the_targets(n, p):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, p))
    products, table = centred_products(X, X[:, 0] + rng.normal(size=n))
    contrasts = null_space(np.ones((1, n)))  # an intercept of which nothing is known leaves n - 1 dimensions
    x, y = contrasts.T @ table[:, :-1], contrasts.T @ table[:, -1]

    def log_density(penalty):
        covariance = np.eye(n - 1) + x @ x.T / penalty
        noise = y @ np.linalg.solve(covariance, y) / (n - 1)
        return multivariate_normal.logpdf(y, cov=noise * covariance)

    theirs = np.array([log_density(penalty) for penalty in PENALTIES])
    found = largest_evidence(products, n)
    assert found.penalty == PENALTIES[theirs >= theirs.max() - LEVEL].max() and 0.1 < found.penalty < 1e6
    constant = multivariate_normal.logpdf(y, cov=y @ y / (n - 1) * np.eye(n - 1))
    assert found.log_evidence == pytest.approx(theirs[PENALTIES.tolist().index(found.penalty)] - constant)


def test_where_there_is_nothing_to_choose():
    rng = np.random.default_rng(0)
    two = centred_products(rng.normal(size=(2, 5)), np.array([0.0, 1.0]))[0]
    assert largest_evidence(two, 2).penalty == PENALTIES[-1]  # all penalties are level
    assert largest_evidence(centred_products(np.ones((9, 2)), rng.normal(size=9))[0], 9).penalty == PENALTIES[-1]
    assert largest_evidence(np.diag([1.0, 2.0, 0.0]), 9).penalty == PENALTIES[0]  # a constant target
    assert largest_evidence(np.zeros((3, 3)), 1).penalty == PENALTIES[0]
