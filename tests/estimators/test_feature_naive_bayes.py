"""Naive Bayes of dense features: equal to scikit-learn's as a generative fit, safe beyond it, whole with gaps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn.naive_bayes as reference
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import sdem_dist
from sdem_dist import BernoulliNB, CategoricalNB, GaussianNB, MixedNB, PoissonNB, load_model
from sdem_dist.families import GaussianFull
from sdem_dist.losses import Blend, CostSensitiveHinge, Hinge, Ncll

TABLES = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
IRIS, SPECIES = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)
COUNTS, HALVES = RNG.poisson(np.tile([1.0, 3.0, 2.0], (90, 1)) + np.arange(90)[:, None] % 3), np.arange(90) % 3


def table(name):
    return TABLES[name](return_X_y=True)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("weighted", [False, True])
def test_nll_is_scikit_learns_gaussian(name, weighted):
    X, y = table(name)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    theirs = reference.GaussianNB(var_smoothing=1e-6).fit(X, y, weights)
    ours = GaussianNB(loss="nll", var_smoothing=1e-6).fit(X, y, weights)
    np.testing.assert_allclose(ours.theta_, theirs.theta_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.var_, theirs.var_, rtol=1e-7)
    np.testing.assert_allclose(ours.predict_joint_log_proba(X), theirs.predict_joint_log_proba(X), rtol=1e-6)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("MultinomialNB", ("class_count_", "feature_count_", "feature_log_prob_")),
        ("BernoulliNB", ("class_count_", "feature_log_prob_")),
        ("CategoricalNB", ("class_count_", "feature_log_prob_", "n_categories_")),
    ],
)
def test_counts_and_probabilities_have_scikit_learns_names(name, attributes, alpha):
    rng = np.random.default_rng(0)
    X, y, weights = rng.integers(0, 4, (60, 5)), rng.integers(0, 3, 60), rng.choice([0.5, 1.0, 2.0], 60)
    X[:, 2] = np.minimum(X[:, 2], 1)
    ours = getattr(sdem_dist, name)(loss="nll", alpha=alpha).fit(X, y, sample_weight=weights)
    theirs = getattr(reference, name)(alpha=alpha).fit(X, y, sample_weight=weights)
    for attribute in attributes:
        for column, of_sklearn in zip(getattr(ours, attribute), getattr(theirs, attribute), strict=True):
            np.testing.assert_allclose(column, of_sklearn, rtol=1e-12, atol=1e-12)


def test_counts_are_those_of_the_fit():
    X, y = np.arange(40).reshape(10, 4) % 3, np.arange(10) % 2
    counted = sdem_dist.MultinomialNB(loss="nll", class_weight={0: 2.0, 1: 1.0}).fit(X, y)
    assert counted.set_params(loss="hinge").class_count_.tolist() == [10.0, 5.0]
    np.testing.assert_allclose(counted.feature_count_, [2.0 * X[y == 0].sum(axis=0), X[y == 1].sum(axis=0)])
    assert not hasattr(sdem_dist.MultinomialNB().fit(X, y).set_params(loss="nll"), "feature_count_")


@pytest.mark.parametrize("priors", [None, [0.2, 0.3, 0.5]])
def test_nll_is_scikit_learns_bernoulli_and_categorical(priors):
    for theirs, ours in (
        (reference.BernoulliNB(alpha=0.5, binarize=2.0, class_prior=priors), BernoulliNB(alpha=0.5, binarize=2.0)),
        (
            reference.CategoricalNB(alpha=0.3, min_categories=9, class_prior=priors),
            CategoricalNB(alpha=0.3, min_categories=9),
        ),
        (reference.CategoricalNB(fit_prior=False), CategoricalNB(fit_prior=False)),
    ):
        ours.set_params(loss="nll", class_prior=theirs.class_prior)
        theirs.fit(COUNTS, HALVES)
        ours.fit(COUNTS, HALVES)
        np.testing.assert_allclose(
            ours.predict_joint_log_proba(COUNTS), theirs.predict_joint_log_proba(COUNTS), rtol=1e-11
        )


@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize("loss", ["ncll", "hinge"])
@pytest.mark.parametrize("merge", ["sum", "mean"])
@pytest.mark.parametrize("name", ["iris", "wine", "breast cancer"])
def test_training_never_ends_above_the_generative_fit(name, loss, merge, standardised):
    X, y = table(name)
    if standardised:
        X = StandardScaler().fit_transform(X)
    start = GaussianNB(loss="nll").fit(X, y).evaluate(X, y)
    ended = GaussianNB(loss=loss, merge=merge, n_epochs=20).fit(X, y)
    losses = [entry[loss] for entry in ended.history_]
    assert max(losses) <= start[loss] * (1 + 1e-12)
    assert losses[-1] < start[loss]
    assert ended.evaluate(X, y)["accuracy"] >= start["accuracy"]


@pytest.mark.parametrize("estimator", [BernoulliNB(binarize=2.0), CategoricalNB(), PoissonNB()], ids=str)
@pytest.mark.parametrize("loss", ["ncll", "hinge", Blend(Hinge(2.0), 0.2), Hinge(0.0)], ids=str)
def test_every_family_gains(estimator, loss):
    cost = loss if not isinstance(loss, str) else {"ncll": Ncll(), "hinge": Hinge()}[loss]
    start = clone(estimator).set_params(loss="nll").fit(COUNTS, HALVES).predict_joint_log_proba(COUNTS)
    ended = clone(estimator).set_params(loss=loss).fit(COUNTS, HALVES).predict_joint_log_proba(COUNTS)
    assert cost.value(ended, HALVES).mean() < cost.value(start, HALVES).mean()


@pytest.mark.parametrize("merge", ["sum", "mean"])
@pytest.mark.filterwarnings("ignore:.*prior outweighs the loss")
def test_missing_values_are_summed_out(merge):
    rng = np.random.default_rng(3)
    X = IRIS.copy()
    X[rng.random(X.shape) < 0.3] = np.nan
    generative = GaussianNB(loss="nll").fit(X, SPECIES)
    for k in range(3):
        np.testing.assert_allclose(generative.theta_[k], np.nanmean(X[k == SPECIES], axis=0))
        np.testing.assert_allclose(generative.var_[k], np.nanvar(X[k == SPECIES], axis=0), rtol=1e-6)
    model = GaussianNB(merge=merge).fit(X, SPECIES)
    assert model.evaluate(X, SPECIES)["ncll"] < generative.evaluate(X, SPECIES)["ncll"]
    # what is missing takes no part: the score of the others alone
    row, moments = X[:1].copy(), (model.theta_, model.var_)
    row[0] = [5.0, np.nan, np.nan, 0.3]
    by_hand = model.class_log_prior_ - 0.5 * sum(
        np.log(2 * np.pi * moments[1][:, j]) + (row[0, j] - moments[0][:, j]) ** 2 / moments[1][:, j] for j in (0, 3)
    )
    np.testing.assert_allclose(model.predict_joint_log_proba(row)[0], by_hand, rtol=1e-9)
    nothing = model.predict_proba(np.full((1, 4), np.nan))[0]
    np.testing.assert_allclose(nothing, np.exp(model.class_log_prior_), rtol=1e-9)


def test_minus_one_is_a_class_unless_said_otherwise():
    model = GaussianNB(loss="nll").fit(IRIS[:100], np.where(SPECIES[:100] == 0, -1, 1))
    assert model.classes_.tolist() == [-1, 1]


def mixed_table(n=400, seed=5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {
            "size": rng.normal(y, 1.0),
            "colour": np.where(rng.random(n) < 0.3 + 0.4 * y, "red", rng.choice(["green", "blue"], n)),
            "visits": rng.poisson(2 + 2 * y),
            "member": rng.random(n) < 0.3 + 0.3 * y,
            "waiting": rng.exponential(1.0 + y),
        }
    )
    return frame, np.where(y, "yes", "no")


def test_tables_of_mixed_columns(tmp_path):
    frame, y = mixed_table()
    kinds = {"visits": "poisson", "waiting": "exponential"}
    model = MixedNB(kinds=kinds).fit(frame, y)
    assert [type(b.family).__name__ for b in model.learner_.model.variables.blocks] == [
        "Poisson", "Exponential", "Gaussian", "Categorical", "Categorical",
    ]  # fmt: skip
    gaussian = GaussianNB(loss="nll").fit(frame[["size", "visits", "waiting"]], y)
    assert model.score(frame, y) > gaussian.score(frame[["size", "visits", "waiting"]], y)
    odd = frame.head(3).assign(colour=["red", "violet", None])
    assert np.isfinite(model.predict_proba(odd)).all()
    assert model.predict_proba(odd)[1] == pytest.approx(model.predict_proba(odd.assign(colour=None))[1])
    model.save(tmp_path / "mixed.model")
    again = load_model(tmp_path / "mixed.model")
    assert again.kinds == kinds
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))


def test_columns_that_make_one_variable():
    X = IRIS[:, [0, 1, 2, 3]]
    joint = MixedNB(kinds={(0, 1, 2, 3): GaussianFull(4)}, loss="nll").fit(X, SPECIES)
    apart = MixedNB(loss="nll").fit(X, SPECIES)
    assert joint.evaluate(X, SPECIES)["nll"] < apart.evaluate(X, SPECIES)["nll"]
    trained = MixedNB(kinds={(0, 1, 2, 3): GaussianFull(4)}).fit(X, SPECIES)
    assert trained.evaluate(X, SPECIES)["ncll"] < joint.evaluate(X, SPECIES)["ncll"]


def test_costs_move_the_border():
    costly = CostSensitiveHinge(((0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 20.0, 0.0)))
    plain = GaussianNB(loss="hinge").fit(IRIS, SPECIES).predict(IRIS)
    careful = GaussianNB(loss=costly).fit(IRIS, SPECIES).predict(IRIS)
    missed = [((SPECIES == 2) & (p == 1)).sum() for p in (plain, careful)]
    assert missed[1] < missed[0]


def test_validation_and_patience():
    model = GaussianNB(n_epochs=40, patience=3).fit(IRIS[::2], SPECIES[::2], validation=(IRIS[1::2], SPECIES[1::2]))
    values = [h["validation_ncll"] for h in model.history_]
    assert model.evaluate(IRIS[1::2], SPECIES[1::2])["ncll"] == pytest.approx(min(values))


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianNB(n_epochs=10),
        GaussianNB(n_epochs=10, prior=0.5),
        GaussianNB(n_epochs=10, unlabelled=2),
        MixedNB(n_epochs=10, kinds={1: "exponential", 3: "poisson"}),
    ],
    ids=str,
)
def test_a_document_of_weight_two_is_two_documents(estimator):
    rng = np.random.default_rng(0)
    weights, order = rng.integers(0, 5, 150), rng.permutation(150)
    copies = clone(estimator).set_params(loss="nll").fit(IRIS.repeat(weights, axis=0), SPECIES.repeat(weights))
    weighted = estimator.set_params(loss="nll").fit(IRIS[order], SPECIES[order], sample_weight=weights[order])
    np.testing.assert_allclose(weighted.predict_proba(IRIS), copies.predict_proba(IRIS), rtol=1e-6, atol=1e-9)


def test_what_is_refused_is_shown_with_its_column():
    X = np.zeros((50, 3))
    X[7, 1] = 3.0
    with pytest.raises(ValueError, match=r"row 7 .*holds \[3.0\] in the Bernoulli column 1 \(from 0\)"):
        BernoulliNB(binarize=None).fit(X, np.arange(50) % 2)


def test_a_category_that_training_did_not_show():
    with pytest.raises(ValueError, match="not whole"):
        CategoricalNB().fit(IRIS, SPECIES)
    model = CategoricalNB(loss="nll").fit([[0, 2], [0, 1], [1, 0], [2, 0]], [0, 0, 1, 1])
    said = (
        r"the Categorical column 1 \(from 0\), .* it knows 0 to 2; put NaN there, .* CategoricalNB\(min_categories=\)"
    )
    with pytest.raises(ValueError, match=said):
        model.predict([[0, 5]])
    assert model.predict([[0, np.nan]]) == [0]


def test_a_constant_column_is_one_whatever_its_mean_is_rounded_to():
    fits = [GaussianNB(n_epochs=10).fit(np.column_stack([IRIS, np.full(150, c)]), SPECIES) for c in (0.1, 1.0)]
    np.testing.assert_allclose(fits[0].var_, fits[1].var_, rtol=1e-6)


def test_threads_of_blas_change_no_bit_of_wide_covariances():
    rng = np.random.default_rng(0)
    table, y = rng.normal(size=(400, 120)), np.arange(400) % 2
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            model = MixedNB(kinds={tuple(range(120)): GaussianFull(120, 1.0)}, loss="nll").fit(table, y)
            found.append(np.asarray(model._parameters.theta).tobytes())
    assert found[0] == found[1]


def test_a_blend_with_nll_leaves_the_generative_fit():
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from sdem_dist.losses import Blend, Ncll

    X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), test_size=0.4, random_state=0)
    start = GaussianNB(loss="nll").fit(X, y).score(X_test, y_test)
    for share in (0.1, 0.3):
        assert GaussianNB(loss=Blend(Ncll(), share)).fit(X, y).score(X_test, y_test) > start + 0.05


def test_documents_without_labels_help():
    rng = np.random.default_rng(4)
    labelled = np.concatenate([rng.choice(np.flatnonzero(k == SPECIES), 4, replace=False) for k in range(3)])
    y = np.full(len(SPECIES), -1)
    y[labelled] = SPECIES[labelled]
    alone = GaussianNB(loss="nll", var_smoothing=1e-3).fit(IRIS[labelled], SPECIES[labelled]).score(IRIS, SPECIES)
    together = GaussianNB(loss="nll", var_smoothing=1e-3, unlabelled=-1).fit(IRIS, y)
    assert together.classes_.tolist() == [0, 1, 2]
    assert together.class_count_.tolist() == [4, 4, 4]
    assert together.score(IRIS, SPECIES) > alone
    ignored = GaussianNB(unlabelled=-1, unlabelled_weight=0.0, loss="nll").fit(IRIS, y)
    np.testing.assert_allclose(
        ignored.theta_, [IRIS[labelled][SPECIES[labelled] == k].mean(0) for k in range(3)], rtol=1e-9
    )
