"""The multiplicative learner: its guarantee, its checks, and its bits."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sdem_dist import MultiplicativeMixtureClassifier, TrainingError
from sdem_dist.documents import DenseDocuments
from sdem_dist.learners.other_rules import Multiplicative
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.mixture import MixtureWeights, PosteriorClasses, PosteriorMixture

LANE = Lane(0, 0, 0, 0, 1, 1)


def table(seed=0, n=300, n_features=6, n_classes=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    centres = rng.gamma(1.0, 1.0, (2 * n_classes, n_features))
    X = rng.gamma(1.5, centres[2 * y + rng.integers(0, 2, n)])
    return X * (rng.random(X.shape) < 0.6), y


def learner_of(owners, eta, *settings):
    model = PosteriorMixture(PosteriorClasses(3), len(owners), 6, owners)
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
    assert len(path) == 30
    assert (np.diff(path) >= -1e-12).all()
    assert path[-1] > path[0]


def test_what_is_returned_is_the_best_point_found():
    X, y = table()
    model = MultiplicativeMixtureClassifier(2, n_epochs=40, validation_fraction=0).fit(X, y)
    assert -model.evaluate(X, y)["ncll"] == pytest.approx(model.log_likelihood_path_[-1], abs=1e-12)
    assert model.history_[-1]["ncll"] == pytest.approx(-model.log_likelihood_path_[-1], abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_acceleration_needs_a_fifth_of_the_passes(seed):
    X, y = table(seed, n=400)
    settings = {"scaling": None, "evaluate_every": 0}
    plain = (
        MultiplicativeMixtureClassifier(2, accelerate=False, n_epochs=500, **settings).fit(X, y).log_likelihood_path_
    )
    assert MultiplicativeMixtureClassifier(2, n_epochs=100, **settings).fit(X, y).log_likelihood_path_[-1] >= plain[-1]


def test_an_eta_too_small_is_noticed_and_the_pass_named():
    X, y = table(2)
    order = np.argsort(y, kind="stable")
    learner = learner_of((0, 1, 2), 1e-3, "alternate", False)
    documents = learner.prepare(DenseDocuments(X[order], y[order].astype(np.int32)))

    def run():
        state = learner.init()
        for _ in range(20):
            state = learner.update(state, learner.map(state, documents, LANE))

    with pytest.raises(TrainingError, match=r"in pass \d+, which the updates cannot do"):
        run()


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
    again = learner.update(after, learner.map(after, documents, LANE))
    assert again.log_likelihood > after.log_likelihood


def test_dense_and_sparse_rows_and_both_dtypes_agree():
    X, y = table(4)
    weights = MixtureWeights(
        np.log(np.repeat(np.eye(3), 2, axis=1) + 1e-300), np.random.default_rng(0).normal(size=(6, 6))
    )
    learner = learner_of((0, 0, 1, 1, 2, 2), 50.0)
    state = learner.model.start(weights)
    documents = DenseDocuments(X, y.astype(np.int32))
    from sdem_dist.corpus import MemoryCorpus

    sparse = MemoryCorpus(sp.csr_matrix(X), y, (0, 1, 2), shuffle=False).read(0, len(y))
    a = learner.map(state, learner.prepare(documents), LANE)
    b = learner.map(state, learner.prepare(sparse), LANE)
    single = replace(learner, model=replace(learner.model, dtype="float32"))
    c = single.map(state, single.prepare(documents), LANE)
    for left, right, rough in zip(a, b, c, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-10)
        np.testing.assert_allclose(left, rough, rtol=1e-3, atol=1e-3)
    assert c.free_features.dtype == np.float64


def test_documents_without_labels_and_of_weight_zero_have_no_say():
    X, y = table(5)
    learner = learner_of((0, 1, 2), 50.0)
    state = learner.model.start(
        MixtureWeights(learner.init().log_weights, np.random.default_rng(0).normal(size=(3, 6)))
    )
    labels, weights = y.astype(np.int32), np.ones(len(y))
    labels[:50], weights[50:100] = -1, 0.0
    few = learner.map(state, learner.prepare(DenseDocuments(X, labels, weights)), LANE)
    rest = learner.map(state, learner.prepare(DenseDocuments(X[100:], labels[100:])), LANE)
    for a, b in zip(few[:6], rest[:6], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


PRODUCTS = """
import hashlib, sys
import numpy as np
from sdem_dist import MultiplicativeMixtureClassifier
rng = np.random.default_rng(0)
X = rng.random((9000, 120)); y = rng.integers(0, 5, 9000)
digest = hashlib.sha256()
for dtype in ("float64", "float32"):
    model = MultiplicativeMixtureClassifier(8, dtype=dtype, n_epochs=4, n_jobs=int(sys.argv[1])).fit(X, y)
    for value in model.state_:
        digest.update(np.ascontiguousarray(value).tobytes())
    digest.update(repr([h.get("ncll") for h in model.history_]).encode())
from threadpoolctl import threadpool_info
print(digest.hexdigest(), max(i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"))
"""


def test_bits_do_not_depend_on_the_threads_of_blas_or_of_the_engine(monkeypatch):
    found = {}
    for blas, engine in ((1, 1), (2, 1), (2, 2)):
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            monkeypatch.setenv(name, str(blas))
        result = subprocess.run(
            [sys.executable, "-c", PRODUCTS, str(engine)], capture_output=True, text=True, timeout=120, check=False
        )
        assert result.returncode == 0, result.stderr
        found[blas, engine], threads = result.stdout.split()
        assert int(threads) == blas  # the limit was taken back
    assert len(set(found.values())) == 1
