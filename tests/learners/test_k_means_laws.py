"""k-means against plain versions and scikit-learn, and what it promises."""

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist.documents import DenseDocuments, Documents
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import ClosedForm
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.em import Centres, EmForm, k_means, means, squared_distances, squared_lengths
from sdem_dist.testing import check_learner

RNG = np.random.default_rng(0)
N, WIDTH, K = 60, 7, 4
TABLE = RNG.normal(size=(N, WIDTH)) + 3.0 * RNG.integers(0, 3, N)[:, None] + 100.0
COUNTS = sp.csr_matrix(RNG.poisson(0.8, (N, WIDTH)))
LANE = Lane(0, 0, 0, 0, N, N)


def counted(weights=None):
    X = COUNTS.astype(np.float64)
    return Documents(X.data, X.indices, X.indptr.astype(np.int64), WIDTH, weights=weights)


def lloyd(model):
    return SdEM(model, N, ClosedForm(EmForm("hard")))


def learner_of(kind):
    if kind == "table":
        return lloyd(Centres(K, WIDTH, location=tuple(TABLE.mean(axis=0)))), DenseDocuments(TABLE)
    return lloyd(Centres(K, WIDTH, kind == "cosine")), counted(RNG.uniform(0.5, 1.5, N))


@pytest.mark.parametrize("kind", ["table", "counts", "cosine"])
def test_laws(kind):
    learner, documents = learner_of(kind)
    rows = learner.prepare(documents).to_csr().toarray()
    check_learner(learner, documents, state=learner.model.start(rows[:K]), additive=True)


@pytest.mark.parametrize("kind", ["table", "counts", "cosine"])
def test_no_iteration_raises_the_distances(kind):
    learner, documents = learner_of(kind)
    prepared = learner.prepare(documents)
    state, found = learner.model.start(prepared.to_csr().toarray()[:K]), []
    for _ in range(10):
        found.append(learner.metrics(learner.evaluate(state, [prepared]))["distance"])
        state = learner.update(state, learner.map(state, prepared, LANE))
    assert (np.diff(found) <= 1e-12).all() and found[-1] < found[0]
    if kind == "cosine":
        np.testing.assert_allclose((state.centres**2).sum(axis=1), 1.0)


def test_an_iteration_is_that_of_a_plain_loop():
    learner, documents = learner_of("counts")
    rows, weights = COUNTS.toarray().astype(float), documents.weights
    centres = rows[:K]
    after = learner.update(
        learner.model.start(centres), learner.map(learner.model.start(centres), learner.prepare(documents), LANE)
    )
    nearest = np.array([((x - centres) ** 2).sum(axis=1).argmin() for x in rows])
    for k in range(K):
        mine = nearest == k
        expected = np.average(rows[mine], axis=0, weights=weights[mine])
        np.testing.assert_allclose(after.centres[k], expected, rtol=1e-12, atol=1e-12)
        assert after.counts[k] == pytest.approx(weights[mine].sum())


def test_an_empty_cluster_keeps_its_centre():
    learner, documents = learner_of("counts")
    centres = np.vstack([COUNTS.toarray()[: K - 1], np.full(WIDTH, 1e3)])
    state = learner.model.start(centres)
    after = learner.update(state, learner.map(state, learner.prepare(documents), LANE))
    np.testing.assert_array_equal(after.centres[-1], centres[-1])


def test_distances_are_distances():
    found = squared_distances(COUNTS, squared_lengths(COUNTS), TABLE[:3])
    expected = ((COUNTS.toarray()[:, None] - TABLE[None, :3]) ** 2).sum(axis=2)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_every_cluster_far_from_the_others_gets_a_start():
    """k-means++ draws far rows: with clusters far apart one start suffices, and drawing at random would miss some."""
    truth = np.arange(200) % 8
    X = sp.csr_matrix(np.eye(8)[truth] * 100.0 + RNG.random((200, 8)))
    for seed in range(5):
        found = k_means(X, np.ones(200), 8, seed, tries=1)
        assert len(set(zip(found.labels.tolist(), truth.tolist(), strict=True))) == 8
    again = k_means(X, np.ones(200), 8, 4, tries=1)
    assert again.centres.tobytes() == found.centres.tobytes()


def test_copies_count_as_weights():
    weights = RNG.integers(1, 4, N)
    learner = lloyd(Centres(K, WIDTH))
    state = learner.model.start(COUNTS.toarray()[:K].astype(float))
    X = sp.csr_matrix(np.repeat(COUNTS.toarray(), weights, axis=0).astype(float))
    copies = Documents(X.data, X.indices, X.indptr.astype(np.int64), WIDTH)
    by_weight = learner.map(state, learner.prepare(counted(weights.astype(float))), LANE)
    for a, b in zip(by_weight, learner.map(state, learner.prepare(copies), LANE), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_rows_of_zeros_have_no_direction():
    assert means(np.array([[0.0, 0.0], [3.0, 4.0]]), np.ones(2), np.ones((2, 2)), True).tolist() == [
        [0.0, 0.0],
        [0.6, 0.8],
    ]


def test_missing_values_are_named():
    learner, _ = learner_of("table")
    table = TABLE.copy()
    table[5, 2] = np.nan
    with pytest.raises(ValueError, match=r"row 5 \(from 0\) has a missing value"):
        learner.prepare(DenseDocuments(table))
