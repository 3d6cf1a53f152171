"""Products of documents and tables against SciPy's, and the sequential kernel as plain Python."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sdem_dist.documents import Documents
from sdem_dist.families import Categorical, Multinomial
from sdem_dist.kernels import losses
from sdem_dist.kernels.csr import add_scores, add_statistics
from sdem_dist.kernels.documents import Visited
from sdem_dist.kernels.multinomial import run_documents
from sdem_dist.kernels.schedule import Moment, Objective, Schedule, Table
from sdem_dist.models.naive_bayes import NaturalParameters, joint_scores, lengths, weighted_statistics

DTYPES = [np.uint8, np.uint32, np.float32, np.float64]


@st.composite
def documents(draw) -> Documents:
    shape = draw(st.tuples(st.integers(0, 6), st.integers(1, 9)))
    seed = draw(st.integers(0, 1000))
    X = sp.csr_matrix(np.random.default_rng(seed).poisson(draw(st.floats(0.1, 3)), shape))
    return Documents(
        X.data.astype(draw(st.sampled_from(DTYPES))), X.indices.astype(np.uint32), X.indptr.astype(np.int64), shape[1]
    )


@given(documents(), st.integers(1, 5))
def test_scores_and_statistics_are_matrix_products(d, n_classes):
    rng = np.random.default_rng(0)
    table, weights = rng.normal(size=(d.n_features, n_classes)), rng.normal(size=(d.n_documents, n_classes))
    X = d.to_csr().astype(np.float64)
    start = rng.normal(size=weights.shape)
    scores = start.copy()
    add_scores(d.data, d.indices, d.indptr, table, scores)
    np.testing.assert_allclose(scores, start + X @ table, rtol=1e-11, atol=1e-11)
    start = rng.normal(size=table.shape)
    sums = start.copy()
    add_statistics(d.data, d.indices, d.indptr, weights, sums)
    np.testing.assert_allclose(sums, start + X.T @ weights, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(weighted_statistics(weights, d, d.n_features), X.T @ weights, rtol=1e-11, atol=1e-11)


def test_naive_bayes_is_a_categorical_times_multinomials():
    """In the terms of the families: the same density, up to the multinomial coefficient, from minimal parameters."""
    rng = np.random.default_rng(3)
    X = sp.csr_matrix(rng.multinomial(7, np.full(5, 0.2), 10).astype(np.uint32))
    d = Documents(X.data, X.indices.astype(np.uint32), X.indptr.astype(np.int64), 5)
    N, C = rng.gamma(2.0, 1.0, (5, 3)) + 0.1, rng.gamma(2.0, 1.0, 3)
    scores = joint_scores(NaturalParameters(np.log(N), np.log(N.sum(axis=0)), np.log(C / C.sum())), d)
    classes, words = Categorical(3), Multinomial(5, length=7)
    counts = X.toarray().astype(float)
    prior = classes.log_density(classes.to_natural(C[1:] / C.sum()), np.arange(3.0)[:, None])
    for k in range(3):
        theta = words.to_natural(7 * N[1:, k] / N[:, k].sum())
        expected = prior[k] + words.log_density(theta, counts) - words.log_base(counts)
        np.testing.assert_allclose(scores[:, k], expected, rtol=1e-12)


@given(documents())
def test_joint_scores_are_log_probabilities(d):
    rng = np.random.default_rng(1)
    N, prior = rng.random((d.n_features, 3)) + 0.1, rng.dirichlet(np.ones(3))
    scores = joint_scores(NaturalParameters(np.log(N), np.log(N.sum(axis=0)), np.log(prior)), d)
    expected = np.log(prior) + d.to_csr().astype(np.float64) @ np.log(N / N.sum(axis=0))
    np.testing.assert_allclose(scores, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(lengths(d), np.asarray(d.to_csr().astype(np.float64).sum(axis=1)).ravel())


def visited(X, labels, weights, order):
    arrays = X.data.astype(np.float32), X.indices.astype(np.uint32), X.indptr.astype(np.int64)
    return Visited(*arrays, labels, weights, order)


@pytest.mark.parametrize("loss", [losses.NCLL, losses.HINGE])
@pytest.mark.parametrize("exact", [True, False])
def test_sequential_kernel_as_plain_python(loss, exact):
    rng = np.random.default_rng(2)
    X = sp.csr_matrix(rng.poisson(0.7, (9, 6)))
    labels, weights, order = rng.integers(0, 3, 9).astype(np.int32), rng.random(9), rng.permutation(9)

    def run(function):
        words, totals, classes = np.full((6, 3), 0.1), np.full(3, 0.6), np.ones(3)
        logs = np.empty((0, 0)) if exact else np.log(words + 0.05)
        table = Table(words, totals, classes, np.zeros(3), True, 6)
        schedule, objective = Schedule(0.1 / 9, 1 / 9, 1e-3, 1.0), Objective(loss, 0.0, np.empty(0, np.int64))
        documents = visited(X, labels, weights, order)
        ends = function(documents, table, logs, 0.05, schedule, Moment(0.0, 0.0, 0.0), objective)
        return [words, totals, classes, logs, np.array(ends)]

    compiled, plain = run(run_documents), run(run_documents.py_func)
    for a, b in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    words, totals, classes, logs, ends = compiled
    np.testing.assert_allclose(totals, words.sum(axis=0), rtol=1e-12)
    assert (words >= 0).all() and (classes >= 0).all() and (words == 0).any()
    if not exact:
        np.testing.assert_allclose(logs, np.log(words + 0.05), rtol=1e-13, atol=1e-15)
    assert ends[2] == pytest.approx(weights.sum())


def test_tolerance_skips_documents_that_ask_for_little():
    X = sp.csr_matrix(np.array([[5, 0], [0, 5]]))

    def words_after(tolerance):
        words = np.array([[30.0, 0.5], [0.5, 30.0]])
        documents = visited(X, np.array([0, 1], np.int32), np.ones(2), np.arange(2))
        table = Table(words, words.sum(axis=0), np.ones(2), np.zeros(2), True, 2)
        objective = Objective(losses.NCLL, tolerance, np.empty(0, np.int64))
        still = Schedule(0.0, 0.0, 0.0, 1.0)
        run_documents(documents, table, np.log(words + 0.1), 0.1, still, Moment(0.0, 0.0, 0.0), objective)
        return words

    np.testing.assert_array_equal(words_after(1e-6), [[30.0, 0.5], [0.5, 30.0]])
    assert not np.array_equal(words_after(0.0), words_after(1e-6))
