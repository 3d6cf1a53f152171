"""Saul and Lee's updates: what they promise, on random data and on the smallest counterexample; their bits."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.trained_bits import bits
from scipy.special import logsumexp
from threadpoolctl import threadpool_info, threadpool_limits

from sdem_dist import MultiplicativeMixtureClassifier, TrainingError
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.documents import DenseDocuments
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import Multiplicative
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models import mixture

LANE = Lane(0, 0, 0, 0, 1, 1)


def table(seed=0, n=300, n_features=6, n_classes=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.gamma(1.5, rng.gamma(1.0, 1.0, (2 * n_classes, n_features))[2 * y + rng.integers(0, 2, n)])
    return X * (rng.random(X.shape) < 0.6), y


def learner_of(owners, eta, *settings):
    model = mixture.PosteriorMixture(mixture.PosteriorClasses(3), len(owners), 6, owners)
    return SdEM(model, 1.0, Multiplicative(eta, *settings), "ncll")


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**16), schedule=st.sampled_from(["joint", "alternate"]), accelerate=st.booleans(),
    shared=st.booleans(), sparse=st.booleans(), scaling=st.sampled_from(["rows", None]),
)  # fmt: skip
def test_the_likelihood_never_falls(seed, schedule, accelerate, shared, sparse, scaling):
    X, y = table(seed, n=60)
    model = MultiplicativeMixtureClassifier(
        4 if shared else 2, schedule=schedule, accelerate=accelerate, shared=shared, scaling=scaling, n_epochs=30,
        evaluate_every=0, random_state=seed,
    ).fit(sp.csr_matrix(X) if sparse else X, y)  # fmt: skip
    path = model.log_likelihood_path_
    assert len(path) == 30 and (np.diff(path) >= -1e-12).all() and path[-1] > path[0]


def test_what_is_returned_is_the_best_point_found():
    X, y = table()
    model = MultiplicativeMixtureClassifier(2, n_epochs=40, validation_fraction=0).fit(X, y)
    assert -model.evaluate(X, y)["ncll"] == pytest.approx(model.log_likelihood_path_[-1], abs=1e-12)
    assert model.history_[-1]["ncll"] == pytest.approx(-model.log_likelihood_path_[-1], abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_acceleration_needs_a_fifth_of_the_passes(seed):
    X, y = table(seed, n=400)
    settings = {"scaling": None, "evaluate_every": 0}
    how = [{"n_epochs": 100}, {"n_epochs": 500, "accelerate": False}]
    fast, plain = (MultiplicativeMixtureClassifier(2, **one, **settings).fit(X, y) for one in how)
    assert fast.log_likelihood_path_[-1] >= plain.log_likelihood_path_[-1]


def test_an_eta_too_small_is_noticed_and_the_pass_named():
    X, y = table(2)
    order = np.argsort(y, kind="stable")
    learner = learner_of((0, 1, 2), 1e-3, "alternate", False)
    documents = learner.prepare(DenseDocuments(X[order], y[order].astype(np.int32)))

    def run():
        state = learner.init()
        for _ in range(20):
            state = learner.update(state, learner.map(state, documents, LANE))

    np.testing.assert_raises_regex(TrainingError, r"in pass \d+\. Features must be finite", run)


def test_a_fall_of_an_accelerated_step_leads_to_the_stored_plain_one():
    X, y = table(3)
    learner = learner_of((0, 1, 2), float(X.sum(axis=1).max()))
    documents = learner.prepare(DenseDocuments(X, y.astype(np.int32)))
    state = learner.init()
    for _ in range(3):
        state = learner.update(state, learner.map(state, documents, LANE))
    sums = learner.map(state, documents, LANE)
    after = learner.update(state, sums._replace(log_likelihood=state.log_likelihood - 1.0))
    np.testing.assert_array_equal(after.theta, state.plain_theta)
    np.testing.assert_array_equal(after.good_theta, state.good_theta)
    assert after.factor == 1.0 and after.plain == 1.0
    assert learner.update(after, learner.map(after, documents, LANE)).log_likelihood > after.log_likelihood


def test_dense_and_sparse_rows_and_both_dtypes_agree():
    X, y = table(4)
    log_weights = np.log(np.repeat(np.eye(3), 2, axis=1) + 1e-300)
    weights = mixture.MixtureWeights(log_weights, np.random.default_rng(0).normal(size=(6, 6)))
    learner = learner_of((0, 0, 1, 1, 2, 2), 50.0)
    state, documents = learner.model.start(weights), DenseDocuments(X, y.astype(np.int32))
    sparse = MemoryCorpus(sp.csr_matrix(X), y, (0, 1, 2), shuffle=False).read(0, len(y))
    a = learner.map(state, learner.prepare(documents), LANE)
    b = learner.map(state, learner.prepare(sparse), LANE)
    single = replace(learner, model=replace(learner.model, dtype="float32"))
    c = single.map(state, single.prepare(documents), LANE)
    for left, right, rough in zip(a, b, c, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-10)
        np.testing.assert_allclose(left, rough, rtol=1e-3, atol=1e-3)
    assert c.free_features.dtype == np.float64


def test_bits_do_not_depend_on_the_threads_of_blas_or_of_the_engine():
    rng = np.random.default_rng(0)
    X, y = rng.random((9_000, 120)), rng.integers(0, 5, 9_000)
    for dtype in ("float64", "float32"):
        found = set()
        for blas, engine in ((1, 1), (2, 1), (2, 2)):
            with threadpool_limits(blas, user_api="blas"):
                model = MultiplicativeMixtureClassifier(8, dtype=dtype, n_epochs=3, n_jobs=engine).fit(X, y)
                now = {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}
            found.add(bits(model))
            assert now == {blas}  # the limit within a fit was taken back
        assert len(found) == 1


def sums_at(weights, X, y, n_classes, document_weights=None):
    order = np.argsort(y, kind="stable")
    rows = X[order]
    starts = np.searchsorted(y[order], np.arange(n_classes + 1))
    share = np.ones(len(order)) if document_weights is None else document_weights[order]
    return mixture.posterior_sums(weights, rows, starts, share)


def plainly(weights, X, y, document_weights):
    """Equations 11 to 14, a loop over documents, in probabilities."""
    W, theta = np.exp(weights.log_weights), weights.theta
    clamped, free = np.zeros(W.shape), np.zeros(W.shape[1])
    with_x, without_y, likelihood = np.zeros(theta.shape), np.zeros(theta.shape), 0.0
    for x, i, w in zip(X, y, document_weights, strict=True):
        joint = W * np.exp(theta @ x)
        given_y, given_x = joint[i] / joint[i].sum(), joint.sum(axis=0) / joint.sum()
        clamped[i] += w * given_y
        free += w * given_x
        with_x += w * np.outer(given_y, x)
        without_y += w * np.outer(given_x, x)
        likelihood += w * np.log(joint[i].sum() / joint.sum())
    return clamped, free, with_x, without_y, likelihood, document_weights.sum()


def random_problem(seed, shared, n=60, n_classes=3, per_class=2, n_features=4):
    rng = np.random.default_rng(seed)
    X = rng.gamma(0.7, rng.gamma(1.0, 2.0), (n, n_features)) * (rng.random((n, n_features)) < 0.7)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)])
    J = n_classes * per_class
    log_weights = rng.normal(size=(n_classes, J))
    if not shared:
        log_weights[np.repeat(np.arange(n_classes), per_class) != np.arange(n_classes)[:, None]] = -np.inf
    return X, y, mixture.MixtureWeights(log_weights, rng.normal(size=(J, n_features)))


@pytest.mark.parametrize("shared", [False, True])
def test_sums_are_those_of_a_plain_loop(shared):
    X, y, weights = random_problem(0, shared)
    w = np.random.default_rng(1).random(len(y))
    for a, b in zip(sums_at(weights, X, y, 3, w), plainly(weights, X, y, w), strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    joint = np.exp(mixture.class_scores(weights.log_weights, X @ weights.theta.T))
    expected = (np.exp(weights.log_weights)[None] * np.exp(X @ weights.theta.T)[:, None]).sum(axis=2)
    np.testing.assert_allclose(joint, expected, rtol=1e-12)


def test_both_plain_updates_at_once_can_lower_it():
    X, y = np.ones((10, 1)), np.repeat([0, 1], [6, 4])
    with np.errstate(divide="ignore"):
        start = mixture.MixtureWeights(np.log(np.diag([0.8, 0.2])), np.zeros((2, 1)))
    sums = sums_at(start, X, y, 2)

    def after(*exponents):
        return sums_at(mixture.multiplied(start, sums, *exponents), X, y, 2).log_likelihood

    assert sums.log_likelihood == pytest.approx(-7.777, abs=1e-3)
    assert after(1, 0) == pytest.approx(-6.730, abs=1e-3) and after(0, 1) == pytest.approx(-6.730, abs=1e-3)
    assert after(1, 1) == pytest.approx(-7.915, abs=1e-3)
    for share in (0.1, 1.0, 10.0):
        assert after(share / (1 + share), 1 / (1 + share)) > sums.log_likelihood


def test_logits_of_any_size():
    X, y, weights = random_problem(3, False)
    far = mixture.MixtureWeights(weights.log_weights, 1e4 * weights.theta)
    sums = sums_at(far, X, y, 3)
    assert all(np.isfinite(value).all() for value in sums)
    np.testing.assert_allclose(sums.clamped.sum(axis=1), np.bincount(y))
    assert sums.free.sum() == pytest.approx(len(y))
    logits = X @ far.theta.T
    scores = np.stack([logsumexp(logits + far.log_weights[i], axis=1) for i in range(3)], axis=1)
    expected = (scores[np.arange(len(y)), y] - logsumexp(scores, axis=1)).sum()
    assert sums.log_likelihood == pytest.approx(expected, rel=1e-12)


def test_a_component_without_examples_stays_finite():
    X, y, weights = random_problem(4, False)
    weights.log_weights[0, 0] = -5000.0  # no document is of it
    for exponents in ((1.0, 0.0), (0.0, 0.1)):
        moved = mixture.multiplied(weights, sums_at(weights, X, y, 3), *exponents)
        assert np.isfinite(moved.theta).all()
        assert (np.isfinite(moved.log_weights) == np.isfinite(weights.log_weights)).all()


def test_quadratic_expansion():
    expanded = mixture.RowTransform(expand=True).dense(np.array([[2.0, 3.0, 5.0]], np.float32))
    assert expanded.dtype == np.float32 and expanded.tolist() == [[1, 2, 3, 5, 4, 6, 10, 9, 15, 25]]
