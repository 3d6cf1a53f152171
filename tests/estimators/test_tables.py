"""Tables: safe beyond the generative fit, whole with gaps, and on the edge: no spread, no counts, values far off."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from tables import TABLES, compare
from threadpoolctl import threadpool_limits

import sdem_dist as sd
from sdem_dist.families import Gaussian, GaussianFull
from sdem_dist.losses import Blend, CostSensitiveHinge, Hinge, Ncll

IRIS, SPECIES = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)
COUNTS, HALVES = RNG.poisson(np.tile([1.0, 3.0, 2.0], (90, 1)) + np.arange(90)[:, None] % 3), np.arange(90) % 3
HIDDEN = np.where(np.arange(150) % 3, SPECIES, -1)


@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize("loss", ["ncll", "hinge"])
@pytest.mark.parametrize("merge", ["sum", "mean"])
@pytest.mark.parametrize("name", ["iris", "wine", "breast cancer"])
def test_training_never_ends_above_the_generative_fit(name, loss, merge, standardised):
    X, y = TABLES[name](return_X_y=True)
    if standardised:
        X = StandardScaler().fit_transform(X)
    start = sd.GaussianNB(loss="nll").fit(X, y).evaluate(X, y)
    ended = sd.GaussianNB(loss=loss, merge=merge, n_epochs=20).fit(X, y)
    losses = [entry[loss] for entry in ended.history_]
    assert max(losses) <= start[loss] * (1 + 1e-12) and losses[-1] < start[loss]
    assert ended.evaluate(X, y)["accuracy"] >= start["accuracy"]


@pytest.mark.parametrize("estimator", [sd.BernoulliNB(binarize=2.0), sd.CategoricalNB(), sd.PoissonNB()], ids=str)
@pytest.mark.parametrize("loss", ["ncll", "hinge", Blend(Hinge(2.0), 0.2), Hinge(0.0)], ids=str)
def test_every_family_gains(estimator, loss):
    cost = loss if not isinstance(loss, str) else {"ncll": Ncll(), "hinge": Hinge()}[loss]
    start = clone(estimator).set_params(loss="nll").fit(COUNTS, HALVES).predict_joint_log_proba(COUNTS)
    ended = clone(estimator).set_params(loss=loss).fit(COUNTS, HALVES).predict_joint_log_proba(COUNTS)
    assert cost.value(ended, HALVES).mean() < cost.value(start, HALVES).mean()


BATCHED = [sd.BernoulliNB(binarize=2.0), sd.CategoricalNB(min_categories=20), sd.PoissonNB()]
SMOOTH = [sd.GaussianNB(var_smoothing=0.0), sd.GaussianRegressor(alpha=0.0)]


@pytest.mark.parametrize("estimator", [*BATCHED, *SMOOTH], ids=str)
def test_partial_fit_in_any_pieces_is_the_generative_fit(estimator):
    (model, fit), known = (clone(estimator).set_params(loss="nll") for _ in range(2)), {"classes": [0, 1, 2]}
    for part in np.split(np.arange(90), [30, 31, 70]):  # the second has one row, of one class
        model.partial_fit(COUNTS[part], HALVES[part], **known if hasattr(model, "predict_proba") else {})
    fit.fit(COUNTS, HALVES)
    np.testing.assert_allclose(model.predict(COUNTS), fit.predict(COUNTS), rtol=1e-9)
    for name in ("theta_", "var_", "class_prior_", "class_count_", "feature_count_", "coef_", "intercept_"):
        if hasattr(fit, name):
            np.testing.assert_allclose(getattr(model, name), getattr(fit, name), rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="impute values"):
        model.partial_fit(np.full((1, 3), np.nan), [0])


ONLINE = [*BATCHED, sd.GaussianNB(), sd.SdemMixtureClassifier(), sd.SdemMixtureClassifier(components="poisson")]
ONLINE += [sd.SdemMixtureClassifier(covariance_type="full"), sd.ManyClassNB(), sd.LDAClassifier()]
ONLINE += [sd.MultinomialNB(loss=loss) for loss in ("ncll", "hinge", "nll")]


@pytest.mark.parametrize("estimator", ONLINE, ids=str)
def test_partial_fit_goes_on_learning(estimator):
    X = np.minimum(np.random.default_rng(2).poisson(np.random.default_rng(2).gamma(1.0, 2.0, (3, 12))[HALVES]), 9)
    order, model, losses = np.argsort(HALVES, kind="stable"), clone(estimator), []
    for _ in range(4):
        for part in (order[:45], order[45:], np.arange(90)):  # the first has no document of the last class
            model.partial_fit(X[part], HALVES[part], classes=[0, 1, 2])
        losses.append(model.evaluate(X, HALVES)[estimator.loss])
    assert losses[-1] < losses[0] and model.n_iter_ == 12


@pytest.mark.parametrize("merge", ["sum", "mean"])
@pytest.mark.filterwarnings("ignore:.*prior outweighs the loss")
def test_missing_values_are_summed_out(merge):
    rng = np.random.default_rng(3)
    X = IRIS.copy()
    X[rng.random(X.shape) < 0.3] = np.nan
    generative = sd.GaussianNB(loss="nll").fit(X, SPECIES)
    for k in range(3):
        np.testing.assert_allclose(generative.theta_[k], np.nanmean(X[k == SPECIES], axis=0))
        np.testing.assert_allclose(generative.var_[k], np.nanvar(X[k == SPECIES], axis=0), rtol=1e-6)
    model = sd.GaussianNB(merge=merge).fit(X, SPECIES)
    assert model.evaluate(X, SPECIES)["ncll"] < generative.evaluate(X, SPECIES)["ncll"]
    # what is missing takes no part: the score of the others alone
    row = np.array([[5.0, np.nan, np.nan, 0.3]])
    of_columns = np.log(2 * np.pi * model.var_) + (row - model.theta_) ** 2 / model.var_
    by_hand = model.class_log_prior_ - 0.5 * np.nansum(of_columns, axis=1)
    np.testing.assert_allclose(model.predict_joint_log_proba(row)[0], by_hand, rtol=1e-9)
    nothing = model.predict_proba(np.full((1, 4), np.nan))[0]
    np.testing.assert_allclose(nothing, np.exp(model.class_log_prior_), rtol=1e-9)


def test_columns_that_make_one_variable():
    joint = sd.MixedNB(kinds={(0, 1, 2, 3): GaussianFull(4)}, loss="nll").fit(IRIS, SPECIES)
    apart = sd.MixedNB(loss="nll").fit(IRIS, SPECIES)
    assert joint.evaluate(IRIS, SPECIES)["nll"] < apart.evaluate(IRIS, SPECIES)["nll"]
    trained = sd.MixedNB(kinds={(0, 1, 2, 3): GaussianFull(4)}).fit(IRIS, SPECIES)
    assert trained.evaluate(IRIS, SPECIES)["ncll"] < joint.evaluate(IRIS, SPECIES)["ncll"]


def test_costs_move_the_border():
    costly = CostSensitiveHinge(((0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 20.0, 0.0)))
    plain = sd.GaussianNB(loss="hinge").fit(IRIS, SPECIES).predict(IRIS)
    careful = sd.GaussianNB(loss=costly).fit(IRIS, SPECIES).predict(IRIS)
    missed = [((SPECIES == 2) & (p == 1)).sum() for p in (plain, careful)]
    assert missed[1] < missed[0]


def test_values_that_a_family_does_not_take_are_named():
    X = np.zeros((50, 3))
    X[7, 1] = 3.0
    with pytest.raises(ValueError, match=r"row 7 .*contains \[3.0\] in column 1 \(counting from 0\), but Bernoulli"):
        sd.BernoulliNB(binarize=None).fit(X, np.arange(50) % 2)
    np.testing.assert_raises_regex(ValueError, "Non-integer", sd.CategoricalNB().fit, IRIS, SPECIES)
    model = sd.CategoricalNB(loss="nll").fit([[0, 2], [0, 1], [1, 0], [2, 0]], [0, 0, 1, 1])
    said = r"column 1 \(counting from 0\), but Categorical .* categories are 0 to 2: use NaN .* CategoricalNB\(min_categories=\)"
    np.testing.assert_raises_regex(ValueError, said, model.predict, [[0, 5]])
    assert model.predict([[0, np.nan]]) == [0]


def test_a_constant_column_is_one_whatever_its_mean_is_rounded_to():
    fits = [sd.GaussianNB(n_epochs=10).fit(np.column_stack([IRIS, np.full(150, c)]), SPECIES) for c in (0.1, 1.0)]
    np.testing.assert_allclose(fits[0].var_, fits[1].var_, rtol=1e-6)


def test_threads_of_blas_change_no_bit_of_wide_covariances():
    table, y = np.random.default_rng(0).normal(size=(400, 120)), np.arange(400) % 2
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            model = sd.MixedNB(kinds={tuple(range(120)): GaussianFull(120, 1.0)}, loss="nll").fit(table, y)
            found.append(model.predict_joint_log_proba(table).tobytes())
    assert found[0] == found[1]


def test_a_blend_with_nll_leaves_the_generative_fit():
    X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), test_size=0.4, random_state=0)
    start = sd.GaussianNB(loss="nll").fit(X, y).score(X_test, y_test)
    for share in (0.1, 0.3):
        assert sd.GaussianNB(loss=Blend(Ncll(), share)).fit(X, y).score(X_test, y_test) > start + 0.05


@pytest.mark.parametrize("loss", ["ncll", "hinge"])
@pytest.mark.parametrize("merge", ["sum", "mean"])
@pytest.mark.parametrize(("estimator", "draw"), [
    (sd.BernoulliNB, lambda shape: (RNG.random(shape) < 0.2).astype(float)),
    (sd.CategoricalNB, lambda shape: (RNG.random(shape) < 0.2).astype(float)),
    (sd.PoissonNB, lambda shape: RNG.poisson(0.3, shape).astype(float)),
])  # fmt: skip
def test_without_pseudo_counts_training_still_moves(estimator, draw, loss, merge):
    X = draw((300, 6))
    y = (X[:, 0] + X[:, 1] + RNG.random(300) > 1).astype(int)
    X[y == 0, 2] = 0.0
    X = np.vstack([X, X[y == 1][:20]])
    y = np.append(y, np.zeros(20, int))  # labels that contradict others: there is a loss to lower
    X[y == 0, 2] = 0.0
    X[y == 1, 3] = 0.0
    losses = [h[loss] for h in estimator(alpha=0.0, loss=loss, merge=merge, n_epochs=30).fit(X, y).history_]
    assert losses[-1] < 0.98 * losses[0] and max(losses) <= losses[0] * (1 + 1e-12)


@pytest.mark.parametrize("merge", ["sum", "mean"])
def test_a_class_of_one_row_lets_others_move(merge):
    X, y = np.vstack([IRIS, [[6.0, 3.0, 4.0, 1.0]]]), np.append(SPECIES, 3)
    losses = [h["ncll"] for h in sd.GaussianNB(merge=merge).fit(X, y).history_]
    assert losses[-1] < 0.95 * losses[0]


@pytest.mark.parametrize("loss", ["ncll", "hinge"])
def test_a_prior_that_holds_training_back_is_named(loss):
    X, y = np.vstack([IRIS, np.full((1, 4), 1e3)]), np.append(SPECIES, 3)
    with pytest.warns(UserWarning, match=r"the prior outweighs the loss.*prior=0") as said:
        sd.GaussianNB(loss=loss).fit(X, y)
    assert said[0].filename == __file__
    with pytest.warns(UserWarning, match="the prior outweighs the loss"):
        sd.GaussianNB(loss=loss, prior=20.0, var_smoothing=0.1).fit(IRIS, SPECIES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses = [h[loss] for h in sd.GaussianNB(loss=loss, prior=0.0).fit(X, y).history_]
        sd.GaussianNB(loss=loss).fit(IRIS, SPECIES)
        wine, kinds = load_wine(return_X_y=True)
        sd.GaussianNB(loss=loss).fit(wine[::2], kinds[::2])
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_without_smoothing_columns_without_spread_train():
    X, y = load_digits(return_X_y=True)
    assert sd.GaussianNB(var_smoothing=0.0, n_epochs=20).fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize("loss", ["nll", "ncll"])
@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_collinear_columns_without_a_prior(loss, gaps):
    X, y = load_diabetes(return_X_y=True)
    twice = np.column_stack([X, 2.0 * X[:, 0], X.sum(axis=1), np.ones(len(X))])
    known = np.where(np.random.default_rng(0).random(twice.shape) < gaps, np.nan, twice)
    weights = np.full(len(X), 1e7)  # as many rows as make the least prior vanish, if it does not grow with them
    model = sd.GaussianRegressor(loss=loss, alpha=0.0, n_epochs=10).fit(known, y, sample_weight=weights)
    theirs = LinearRegression().fit(X, y)
    if gaps:
        assert model.score(twice, y) > theirs.score(X, y) - 0.05
    else:
        np.testing.assert_allclose(model.predict(twice), theirs.predict(X), rtol=1e-4)
        np.testing.assert_allclose(twice @ model.coef_ + model.intercept_, theirs.predict(X), rtol=1e-4)


@pytest.mark.parametrize("value", [1e300, -1e300, 1e160])
@pytest.mark.parametrize("estimator", [
    sd.GaussianNB(),
    sd.GaussianNB(loss="nll"),
    sd.MixedNB(),
    sd.MixedNB(kinds={1: Gaussian()}),
    sd.GaussianRegressor(),
], ids=str)  # fmt: skip
def test_values_too_large_to_be_squared_are_named(estimator, value):
    X = IRIS.copy()
    X[7, 1] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"column 1 \(counting from 0\) contains values as large as"):
            estimator.fit(X, SPECIES)
    estimator.set_params(n_epochs=2).fit(IRIS, SPECIES)
    if not isinstance(estimator, sd.GaussianRegressor):
        np.testing.assert_raises_regex(ValueError, "in column 1 .counting from 0., but Gaussian", estimator.predict, X)


def test_other_values_too_large(tmp_path):
    X = IRIS.copy()
    X[7, 1] = 1e300
    corpus = sd.write_corpus(tmp_path / "c", X, SPECIES, dense=True)
    with pytest.raises(ValueError, match=r"column 1 \(counting from 0\) contains values as large as 1e\+300"):
        sd.GaussianNB().fit(corpus)
    with pytest.raises(ValueError, match="the target contains values as large as"):
        sd.GaussianRegressor().fit(IRIS, X[:, 1])
    with pytest.raises(ValueError, match=r"contains \[1e\+300\] in column 1 .*, but Poisson"):
        sd.PoissonNB(loss="nll").fit(X, SPECIES)
    with pytest.raises(ValueError, match=r"column 1 \(counting from 0\) contains the category 1e\+300.*renumber them"):
        sd.CategoricalNB().fit(np.floor(X), SPECIES)
    # what float32 does not hold is still a number
    assert np.isfinite(sd.GaussianNB(n_epochs=3).fit(np.where(X == 1e300, 1e39, X), SPECIES).predict_proba(IRIS)).all()


def test_only_documents_with_labels_are_scored(tmp_path):
    model = sd.GaussianNB(unlabelled=-1, n_epochs=3)
    model.fit(IRIS, HIDDEN, validation=(IRIS, HIDDEN))
    labelled = HIDDEN >= 0
    found, expected = model.evaluate(IRIS, HIDDEN), model.evaluate(IRIS[labelled], HIDDEN[labelled])
    assert found == pytest.approx(expected)
    assert model.history_[-1]["validation_ncll"] == pytest.approx(expected["ncll"])
    nobody, said = np.full(150, -1), "no document has a label"
    for model in (sd.GaussianNB(unlabelled=-1, n_epochs=2), sd.MultinomialNB(loss="nll", unlabelled=-1, n_epochs=2)):
        model.fit(IRIS, HIDDEN)
        np.testing.assert_raises_regex(ValueError, said, model.evaluate, IRIS, nobody)
        np.testing.assert_raises_regex(ValueError, said, model.fit, IRIS, HIDDEN, validation=(IRIS, nobody))
    corpus = sd.write_corpus(tmp_path / "c", IRIS, nobody, dense=True, unlabelled=-1, classes=[0, 1, 2])
    np.testing.assert_raises_regex(ValueError, said, sd.GaussianNB(n_epochs=2).fit(IRIS, SPECIES).evaluate, corpus)


@pytest.mark.slow
@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize("loss", ["ncll", "hinge"])
@pytest.mark.parametrize("name", TABLES)
def test_defaults_are_safe(name, loss, standardised):
    # few documents leave much to chance: .01 is a promise about the mean of ten repeats
    row, safe = compare(name, standardised, loss, "sum", repeats=10 if name in ("iris", "wine") else 2)
    assert safe, row
