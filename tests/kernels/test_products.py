"""Products against SciPy's, steps of the fast kernel against plain ones, and logarithms as good as the usual ones."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from reference.random_documents import documents_of

from sdem_dist.documents import Documents
from sdem_dist.kernels.csr import Visited, add_scores, add_statistics
from sdem_dist.kernels.losses import Objective, Schedule, Table
from sdem_dist.kernels.multinomial import changes_of, run_documents, with_logarithms
from sdem_dist.kernels.vectors import take_logarithms
from sdem_dist.losses import NAMED, Blend, Hinge, kernel_form
from sdem_dist.models.naive_bayes import NaturalParameters, joint_scores, lengths

DTYPES, LOSSES = [np.uint8, np.uint32, np.float32, np.float64], ["ncll", "hinge"]
SMALLEST = np.finfo(np.float64).tiny


@st.composite
def documents(draw) -> Documents:
    shape = draw(st.tuples(st.integers(0, 6), st.integers(1, 9)))
    X = sp.csr_matrix(np.random.default_rng(draw(st.integers(0, 1000))).poisson(draw(st.floats(0.1, 3)), shape))
    return documents_of(X.astype(draw(st.sampled_from(DTYPES))))


@given(documents(), st.integers(1, 5))
def test_scores_and_statistics_are_matrix_products(d, n_classes):
    rng = np.random.default_rng(0)
    table, weights = rng.normal(size=(d.n_features, n_classes)), rng.normal(size=(d.n_documents, n_classes))
    X, start = d.to_csr().astype(np.float64), rng.normal(size=weights.shape)
    scores = start.copy()
    add_scores(d.data, d.indices, d.indptr, table, scores)
    np.testing.assert_allclose(scores, start + X @ table, rtol=1e-11, atol=1e-11)
    start = rng.normal(size=table.shape)
    sums = start.copy()
    add_statistics(d.data, d.indices, d.indptr, weights, sums)
    np.testing.assert_allclose(sums, start + X.T @ weights, rtol=1e-11, atol=1e-11)


@given(documents())
def test_joint_scores_are_log_probabilities(d):
    rng = np.random.default_rng(1)
    N, prior = rng.random((d.n_features, 3)) + 0.1, rng.dirichlet(np.ones(3))
    scores = joint_scores(NaturalParameters(np.log(N), np.log(N.sum(axis=0)), np.log(prior)), d)
    expected = np.log(prior) + d.to_csr().astype(np.float64) @ np.log(N / N.sum(axis=0))
    np.testing.assert_allclose(scores, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(lengths(d), np.asarray(d.to_csr().astype(np.float64).sum(axis=1)).ravel())


def visited(X, labels, weights, order):
    arrays = X.data.astype(np.float32), X.indices.astype(np.uint16), X.indptr.astype(np.int64)  # as training has them
    return Visited(*arrays, labels, weights, order)


def schedule(**settings):
    numbers = {"start": 1.0, "class_start": 1.0, "decay": 0.0, "word_gain": 0.0, "class_gain": 0.0, "corpus_scale": 1.0}
    return Schedule(**{**numbers, "floor": 0.0, "class_floor": 0.0, "mean_square": 0.0, **settings})


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_columns", [2, 3, 20, 52])
def test_the_fast_kernel_takes_the_steps_that_it_says(loss, n_columns):
    rng = np.random.default_rng(2)
    X = sp.csr_matrix(rng.poisson(0.7, (12, 6)))
    labels, weights, order = rng.integers(0, n_columns, 12).astype(np.int32), 2 * rng.random(12), rng.permutation(12)
    words, floors = 0.5 + 0.1 * rng.random((6, n_columns)), {"floor": 0.4, "class_floor": 0.9}
    steps = schedule(start=0.2, class_start=0.1, decay=0.01, corpus_scale=3.0, mean_square=4.0, **floors)
    rows = with_logarithms(words, np.arange(6, dtype=np.uint32))
    table = Table(rows, words.sum(axis=0), np.ones(n_columns), np.zeros(n_columns), True, 6)
    assert not changes_of(rows, words, np.arange(6)).any()
    documents = visited(X, labels, weights, order)
    objective = Objective(kernel_form(loss, n_columns), 0.0, None)
    end = run_documents(documents, table, steps, 5.0, np.full(1, 0.5), objective)
    N, C, t = words.copy(), np.ones(n_columns), 5.0
    named, dense = NAMED[loss], X.toarray()
    for d in order:
        t += 3.0 * weights[d]
        scores = dense[d] @ np.log(N) - dense[d].sum() * np.log(N.sum(axis=0)) + np.log(C)
        step = named.weights(scores[None], labels[d : d + 1])[0]
        reach = min(weights[d], 4.0 / (dense[d] ** 2).sum()) / (1 + 0.01 * t)
        N = np.where(dense[d][:, None] > 0, np.maximum(N + 0.2 * reach * np.outer(dense[d], step), 0.4), N)
        moved = np.abs(step) > 0
        C = np.where(moved, np.maximum(C + 0.1 * reach * step, 0.9), C)
    np.testing.assert_allclose(table.words[:, :n_columns], N, rtol=1e-4)
    np.testing.assert_allclose(table.words[:, n_columns:], np.log(N), atol=1e-4)
    np.testing.assert_allclose(table.totals, N.sum(axis=0), rtol=1e-4)
    np.testing.assert_allclose(table.class_counts, C, rtol=1e-4)
    assert end == pytest.approx(t)
    np.testing.assert_allclose(changes_of(table.words, words, np.arange(6)), N - words, atol=1e-4)


@pytest.mark.parametrize("share", [0.1, 0.3, 1.0])
def test_under_a_blend_documents_that_keep_their_margin_step_by_turns(share):
    """All together go as far as if each took its share of a step."""
    n, words = 40, np.array([[80.0, 0.5], [0.5, 80.0]])
    labels = np.arange(n, dtype=np.int32) % 2
    X = sp.csr_matrix(np.where(labels[:, None] == np.arange(2), 5, 0))
    rows = with_logarithms(words, np.arange(2, dtype=np.uint32))
    table = Table(rows, words.sum(axis=0), np.ones(2), np.zeros(2), False, 2)
    documents = visited(X, labels, np.ones(n), np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)]))
    blend, steps = kernel_form(Blend(Hinge(), share), 2), schedule(start=1e-3, mean_square=25.0)
    run_documents(documents, table, steps, 0.0, np.full(1, 0.5), Objective(blend, 0.0, None))
    moved = changes_of(table.words, words, np.arange(2))
    np.testing.assert_allclose(moved, np.diag([share * n / 2 * 5e-3] * 2), atol=5.1e-3 if share < 1 else 1e-4)
    assert (np.diag(moved) > 0).all()


def test_documents_that_ask_for_little_are_skipped():
    X = sp.csr_matrix(np.array([[5, 0], [0, 5]]))

    def words_after(tolerance):
        words = np.array([[8.0, 0.5], [0.5, 8.0]])
        rows = with_logarithms(words, np.arange(2, dtype=np.uint32))
        documents = visited(X, np.array([0, 1], np.int32), np.ones(2), np.arange(2))
        table = Table(rows, words.sum(axis=0), np.ones(2), np.zeros(2), True, 2)
        steps = schedule(mean_square=25.0, floor=1e-3, class_floor=1e-3)
        objective = Objective(kernel_form("ncll", 2), tolerance, None)
        run_documents(documents, table, steps, 0.0, np.full(1, 0.5), objective)
        return table.words[:, :2]

    np.testing.assert_array_equal(words_after(1e-3), [[8.0, 0.5], [0.5, 8.0]])
    assert not np.array_equal(words_after(0.0), words_after(1e-3))


def log_of(x) -> np.ndarray:
    found = np.array(x, np.float64)
    take_logarithms(found)
    return found


def ulps(x: np.ndarray) -> np.ndarray:
    """Errors in units in the last place of the true value."""
    if np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps:
        pytest.skip("longdouble is no longer than float64 here")
    true = np.log(x.astype(np.longdouble))
    nearest = np.abs(true.astype(np.float64))
    return (np.abs(log_of(x) - true) / np.spacing(np.maximum(nearest, SMALLEST))).astype(np.float64)


def test_every_magnitude():
    mantissas = 1 + np.random.default_rng(0).random(200)
    for exponent in range(-1022, 1024, 7):
        assert ulps(np.ldexp(mantissas, exponent)).max() < 1.0
    assert ulps(np.array([SMALLEST, np.finfo(np.float64).max, 1.0])).max() < 1.0
    assert log_of([1.0]) == 0.0


@pytest.mark.parametrize("around", [1.0, np.sqrt(0.5), np.sqrt(2.0), 2.0, 1e-300, 1e300])
def test_neighbours_of_awkward_points(around):
    x = (np.float64(around).view(np.int64) + np.arange(-2000, 2001)).view(np.float64)
    assert ulps(x).max() < 1.0
    widely = around * (1 + np.linspace(-0.4, 0.4, 20_001))
    assert ulps(widely).max() < 1.0 and (np.diff(log_of(np.sort(widely))) >= 0).all()


def test_zero_and_plain_python():
    x = np.array([0.0, 0.5, 3.0, np.inf, -1.0, np.nan])
    plain = x.copy()
    take_logarithms.py_func(plain)
    np.testing.assert_array_equal(log_of(x), plain)
    assert plain[0] == -np.inf and plain[3] == np.inf and np.isnan(plain[4:]).all()


def single(x: np.ndarray) -> np.ndarray:
    rows = with_logarithms(x.astype(np.float64)[:, None], np.arange(len(x), dtype=np.uint32))
    np.testing.assert_array_equal(rows[:, 0], x)
    return rows[:, 1]


def test_single_precision():
    rng = np.random.default_rng(0)
    ends = np.array([np.finfo(np.float32).tiny, np.finfo(np.float32).max, 1.0], np.float32)
    x = np.concatenate([np.ldexp(1 + rng.random(20_000), rng.integers(-126, 127, 20_000)).astype(np.float32), ends])
    true, smallest = np.log(x.astype(np.float64)), np.finfo(np.float32).tiny
    last_places = np.spacing(np.maximum(np.abs(true), smallest).astype(np.float32)).astype(np.float64)
    assert (np.abs(single(x) - true) / last_places).max() < 1.0 and single(ends)[2] == 0.0
