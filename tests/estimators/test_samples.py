"""Draws from fitted models, models under other shares of classes, and sets of classes that hold the right one as promised."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from reference.trained_bits import kept
from scipy.special import softmax
from sklearn.datasets import load_iris

import sdem_dist as sd
from sdem_dist.estimators.predictions import FEW_OF_CLASS, conformal_scores, conformal_thresholds

IRIS, SPECIES = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)
Y = np.array(["a", "b", "c"])[np.arange(400) % 3]
MEANS = np.array([[9, 1, 1, 4], [1, 9, 4, 1], [1, 1, 9, 4], [9, 4, 1, 1], [4, 9, 1, 9], [1, 4, 9, 1]], float) * 2.0
COUNTS = RNG.poisson(MEANS[2 * (np.arange(400) % 3) + RNG.integers(0, 2, 400)]).astype(float)
EM, KINDS = {"n_components": 2, "n_epochs": 10}, {0: "poisson", 1: "exponential"}
# A model, what it is fitted to, and the accuracy that its own samples have at least.
MODELS = {
    "Gaussian": (sd.GaussianNB(loss="nll"), IRIS, SPECIES, 0.9),
    "Gaussian, trained": (sd.GaussianNB(n_epochs=2), IRIS, SPECIES, 0.9),
    "Bernoulli": (sd.BernoulliNB(n_epochs=2, binarize=None), 1.0 * (COUNTS > 8), Y, 0.55),
    "categories": (sd.CategoricalNB(n_epochs=2), COUNTS, Y, 0.6),
    "Poisson": (sd.PoissonNB(n_epochs=2), COUNTS, Y, 0.85),
    "mixed": (sd.MixedNB(n_epochs=2, kinds=KINDS), COUNTS, Y, 0.6),
    "mixture of Gaussians": (sd.EMMixtureClassifier(**EM), COUNTS, Y, 0.85),
    "mixture of exponentials": (sd.EMMixtureClassifier(components="exponential", offset=0.1, **EM), COUNTS, Y, 0.55),
    "mixture of counts": (sd.EMMixtureClassifier(components="multinomial", **EM), COUNTS, Y, 0.85),
    "clusters of counts": (sd.MultinomialMixture(3, n_init=3, n_epochs=20), sp.csr_matrix(COUNTS), None, 0.9),
}
DRAW = np.random.default_rng(11)
CENTRES = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.0]])


@pytest.fixture(scope="module")
def fitted():
    return {n: model.fit(X) if y is None else model.fit(X, y) for n, (model, X, y, _) in MODELS.items()}


@pytest.mark.parametrize("name", MODELS)
def test_samples_come_from_the_model(fitted, name):
    model, (_, X, _, least) = fitted[name], MODELS[name]
    counts = hasattr(model, "component_log_prob_") or getattr(model, "components", None) == "multinomial"
    rows, y = model.sample(5000, 1, **({"length": 60} if counts else {}))
    assert rows.shape == (5000, 4) and (model.predict(rows) == y).mean() > least
    log_prior = getattr(model, "component_log_prior_" if name.startswith("clusters") else "class_log_prior_")
    found = [np.mean(y == label) for label in getattr(model, "classes_", range(3))]
    np.testing.assert_allclose(found, np.exp(log_prior), atol=0.03)
    if counts:
        assert (rows.sum(axis=1) == 60).all()
    elif name != "categories":  # their pseudo-counts are many
        np.testing.assert_allclose(rows.mean(axis=0), X.mean(axis=0), rtol=0.15)
    if hasattr(model, "var_"):
        for k in range(3):
            np.testing.assert_allclose(rows[y == k].mean(axis=0), model.theta_[k], atol=0.06)
            np.testing.assert_allclose(rows[y == k].var(axis=0), model.var_[k], rtol=0.15)
    if hasattr(model, "predict_joint_log_proba"):
        dense = rows.toarray() if sp.issparse(rows) else rows
        joint = model.predict_joint_log_proba(dense)
        np.testing.assert_allclose(model.score_samples(dense), np.logaddexp.reduce(joint, axis=1), rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in MODELS if "counts" not in name])
def test_samples_of_any_number(fitted, name):
    model = fitted[name]
    for n in (0, 1, 7):
        rows, y = model.sample(n, random_state=0)
        assert (rows.shape, y.shape, rows.dtype) == ((n, 4), (n,), np.float64)
        assert y.dtype == model.classes_.dtype
    for n in (-1, 1.5, "many"):
        np.testing.assert_raises_regex(ValueError, "n_samples must be an integer of at least 0", model.sample, n)


def test_other_shares_of_classes_are_a_sum_of_logarithms():
    shares, model = [0.1, 0.1, 0.8], sd.GaussianNB(loss="nll").fit(IRIS[:120], SPECIES[:120])
    scores = model.predict_log_proba(IRIS) + np.log(shares / (model.class_count_ / 120))
    expected = sd.GaussianNB(loss="nll", priors=shares).fit(IRIS[:120], SPECIES[:120]).predict_proba(IRIS)
    np.testing.assert_allclose(softmax(scores, axis=1), expected, rtol=1e-9, atol=1e-12)


def drawn(n):
    y = DRAW.choice(3, n, p=[0.6, 0.3, 0.1])
    return DRAW.normal(CENTRES[y]), y


@given(st.integers(1, 60), st.floats(0.01, 0.99))
def test_the_quantile_is_the_smallest_rank_that_covers(n, coverage):
    scores = np.arange(n, dtype=float)
    (found,) = conformal_thresholds([scores], coverage)
    at_or_below = np.inf if np.isinf(found) else np.count_nonzero(scores <= found)
    # Among n + 1 exchangeable scores the new one is at any rank alike.
    if np.isinf(found):
        assert n / (n + 1) < coverage + 1e-9
    else:
        assert at_or_below / (n + 1) >= coverage - 1e-9 > (at_or_below - 1) / (n + 1) - 1e-9


@pytest.mark.parametrize("coverage", ["a", None, np.nan, 1, 0.0, 1.5])
def test_what_is_no_share_is_said(coverage):
    with pytest.raises(ValueError, match="coverage must be between 0 and 1, got"):
        conformal_thresholds([np.zeros(9)], coverage)


@pytest.mark.parametrize("coverage", [0.7, 0.9])
def test_coverage_holds_class_by_class_whatever_the_model(coverage):
    model = sd.GaussianNB(loss="nll").fit(*drawn(60))  # poor, on purpose
    rates = []
    for _ in range(60):
        X, y = drawn(400)
        X_new, y_new = drawn(400)
        inside = model.calibrate_sets(X, y).predict_sets(X_new, coverage)[np.arange(400), y_new]
        rates.append([inside[y_new == k].mean() for k in range(3)])
    mean, error = np.mean(rates, axis=0), np.std(rates, axis=0) / np.sqrt(len(rates))
    assert (mean > coverage - 4 * error).all(), mean
    assert (mean < coverage + 1 / 30 + 4 * error).all(), mean  # not by taking all: at most 1 / (n + 1) more


def test_few_documents_take_a_class_into_every_set():
    scores = conformal_scores(np.array([[0.9, 0.1]] * 8 + [[0.2, 0.8]] * 60), np.array([0] * 8 + [1] * 60))
    np.testing.assert_array_equal(np.isinf(conformal_thresholds(scores, 0.9)), [True, False])
    assert (1.0 - np.array([0.0, 1.0]) <= conformal_thresholds(scores, 0.9)).all()


@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_classes_of_few_documents_share_a_threshold(coverage):
    """Sets of their documents hold the right class as often as promised, and do not hold all classes."""
    k, n = 40, 600
    p_class = DRAW.dirichlet(np.ones(k))
    means, rates, sizes = DRAW.normal(0.0, 2.0, (k, 4)), [], []
    for _ in range(60):
        y, y_new = (DRAW.choice(k, n, p=p_class) for _ in range(2))
        gaps = (DRAW.normal(means[labels])[:, None] - means for labels in (y, y_new))
        probabilities = [softmax(-(gap**2).sum(axis=2) / 2.0, axis=1) for gap in gaps]
        scores = conformal_scores(probabilities[0], y)
        most = conformal_thresholds(scores, coverage)
        few = np.array([len(s) < FEW_OF_CLASS for s in scores])
        assert len(set(most[few])) == 1
        inside = 1.0 - probabilities[1] <= most
        of_few = few[y_new]
        rates.append([inside[np.arange(n), y_new].mean(), inside[of_few, y_new[of_few]].mean()])
        sizes.append(inside.sum(axis=1).mean())
    assert (np.mean(rates, axis=0) > coverage - 0.015).all(), np.mean(rates, axis=0)
    assert np.mean(sizes) < k / 5


def test_more_coverage_never_takes_a_class_out_of_a_set():
    y = DRAW.choice(20, 1000, p=DRAW.dirichlet(np.ones(20)))
    scores = conformal_scores(softmax(DRAW.normal(size=(1000, 20)) + 3.0 * np.eye(20)[y], axis=1), y)
    thresholds = np.array([conformal_thresholds(scores, coverage) for coverage in np.linspace(0.05, 0.95, 19)])
    assert (thresholds[1:] >= thresholds[:-1]).all()


def test_they_are_saved_and_forgotten_by_another_fit(tmp_path):
    X, y = DRAW.poisson(1.0, (90, 6)), np.array(["a", "b"])[np.arange(90) % 2]
    model = sd.MultinomialNB().fit(X[:50], y[:50])
    np.testing.assert_raises_regex(sd.ModelError, "calibrate_sets", model.predict_sets, X)
    model.calibrate_sets(sd.write_corpus(tmp_path / "c", X[50:], y[50:]))
    expected = model.predict_sets(X, 0.8)
    np.testing.assert_array_equal(model.calibrate_sets(X[50:], y[50:]).predict_sets(X, 0.8), expected)
    np.testing.assert_array_equal(kept(model, tmp_path / "m").predict_sets(X, 0.8), expected)
    np.testing.assert_raises_regex(ValueError, "not in classes", model.calibrate_sets, X[:2], ["a", "c"])
    np.testing.assert_raises_regex(sd.ModelError, "calibrate_sets", model.fit(X, y).predict_sets, X)
