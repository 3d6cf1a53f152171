"""The mathematics of Saul and Lee's updates: what they promise, on random data and on the smallest counterexample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from sdem_dist.models.mixture import MixtureWeights, RowTransform, class_scores, multiplied, posterior_sums


def sums_at(weights, X, y, n_classes, document_weights=None):
    order = np.argsort(y, kind="stable")
    rows = X[order]
    starts = np.searchsorted(y[order], np.arange(n_classes + 1))
    share = None if document_weights is None else document_weights[order]
    return posterior_sums(weights, rows, starts, share)


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
    return X, y, MixtureWeights(log_weights, rng.normal(size=(J, n_features)))


@pytest.mark.parametrize("shared", [False, True])
def test_sums_are_those_of_a_plain_loop(shared):
    X, y, weights = random_problem(0, shared)
    w = np.random.default_rng(1).random(len(y))
    found = sums_at(weights, X, y, 3, w)
    for a, b in zip(found, plainly(weights, X, y, w), strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    joint = np.exp(class_scores(weights.log_weights, X @ weights.theta.T))
    expected = (np.exp(weights.log_weights)[None] * np.exp(X @ weights.theta.T)[:, None]).sum(axis=2)
    np.testing.assert_allclose(joint, expected, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), shared=st.booleans(), update=st.sampled_from(["weights", "theta", "joint"]),
    share=st.floats(0.01, 3.0),
)  # fmt: skip
def test_no_update_lowers_the_conditional_likelihood(seed, shared, update, share):
    X, y, weights = random_problem(seed, shared)
    eta = X.sum(axis=1).max()
    exponents = {"weights": (1.0, 0.0), "theta": (0.0, 1.0 / eta)}.get(
        update, (share / (1 + share), 1.0 / (eta * (1 + share)))
    )
    before = -np.inf
    for _ in range(6):
        sums = sums_at(weights, X, y, 3)
        assert sums.log_likelihood >= before - 1e-12 * len(y)
        before = sums.log_likelihood
        weights = multiplied(weights, sums, *exponents)


def test_both_plain_updates_at_once_can_lower_it():
    X, y = np.ones((10, 1)), np.repeat([0, 1], [6, 4])
    with np.errstate(divide="ignore"):
        start = MixtureWeights(np.log(np.diag([0.8, 0.2])), np.zeros((2, 1)))
    sums = sums_at(start, X, y, 2)

    def after(*exponents):
        return sums_at(multiplied(start, sums, *exponents), X, y, 2).log_likelihood

    assert sums.log_likelihood == pytest.approx(-7.777, abs=1e-3)
    assert after(1, 0) == pytest.approx(-6.730, abs=1e-3)
    assert after(0, 1) == pytest.approx(-6.730, abs=1e-3)
    assert after(1, 1) == pytest.approx(-7.915, abs=1e-3)
    for share in (0.1, 1.0, 10.0):
        assert after(share / (1 + share), 1 / (1 + share)) > sums.log_likelihood


def test_logits_of_any_size():
    X, y, weights = random_problem(3, False)
    far = MixtureWeights(weights.log_weights, 1e4 * weights.theta)
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
        moved = multiplied(weights, sums_at(weights, X, y, 3), *exponents)
        assert np.isfinite(moved.theta).all()
        assert (np.isfinite(moved.log_weights) == np.isfinite(weights.log_weights)).all()


def test_quadratic_expansion():
    expanded = RowTransform(expand=True).dense(np.array([[2.0, 3.0, 5.0]], np.float32))
    assert expanded.dtype == np.float32
    assert expanded.tolist() == [[1, 2, 3, 5, 4, 6, 10, 9, 15, 25]]


def test_generalised_iterative_scaling_ends_at_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(5)
    X = np.concatenate([rng.random((200, 2)), np.full((200, 1), 0.5)], axis=1)  # a constant feature for the intercept
    y = (X[:, 0] + 0.8 * rng.normal(size=200) > X[:, 1]).astype(int) + (rng.random(200) < 0.3)
    with np.errstate(divide="ignore"):
        weights = MixtureWeights(np.log(np.eye(3)), np.zeros((3, 3)))
    eta = X.sum(axis=1).max()
    for _ in range(3000):
        sums = sums_at(weights, X, y, 3)
        weights = multiplied(weights, sums, 0.0, 1.0 / eta)
    peer = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=2000).fit(X, y)
    best = np.log(peer.predict_proba(X)[np.arange(200), y]).sum()
    assert sums.log_likelihood == pytest.approx(best, abs=1e-6)
    probabilities = np.exp(class_scores(weights.log_weights, X @ weights.theta.T))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities, peer.predict_proba(X), atol=1e-4)
