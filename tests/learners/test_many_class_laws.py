"""Naive Bayes of many classes: the laws of learners, and how little it keeps."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist.documents import Documents
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import AddSteps, ClosedForm, margin_steps
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.heads import unit_of
from sdem_dist.models.many_classes import SparseCounts, VeryManyClasses, joint_scores
from sdem_dist.testing import check_learner

N, WIDTH, K = 60, 40, 90
RNG = np.random.default_rng(3)
X = sp.csr_matrix(RNG.poisson(0.3, (N, WIDTH)).astype(np.uint8))
LABELS = RNG.integers(0, K, N).astype(np.int32)
PRIOR = RNG.gamma(5.0, 0.2, WIDTH)
DOCUMENTS = Documents(
    X.data, X.indices.astype(np.uint32), X.indptr.astype(np.int64), WIDTH, LABELS, RNG.random(N) + 0.5
)
MODEL, STEPS = SparseCounts(WIDTH, VeryManyClasses(K), 0.7), margin_steps(2.0, unit_of(DOCUMENTS, PRIOR), 0.7, 1.0)
COUNTING = SdEM(replace(MODEL, class_alpha=0.0), float(N), ClosedForm(complete=True))
HINGE = SdEM(MODEL, float(N), AddSteps(STEPS), "hinge")


def test_laws_of_counting():
    check_learner(COUNTING, DOCUMENTS, additive=True)


def test_laws_of_the_hinge_loss():
    check_learner(HINGE, DOCUMENTS, state=MODEL.start(PRIOR))


def trained(epochs=3):
    state = MODEL.start(PRIOR)
    for epoch in range(epochs):
        lane = Lane(epoch, 0, 0, 0, N, N)
        state = HINGE.update(state, HINGE.map(state, HINGE.prepare(DOCUMENTS), lane))
    return state


def test_only_words_of_a_document_for_its_class_and_a_rival_are_kept():
    counted = COUNTING.update(
        COUNTING.init(), COUNTING.map(COUNTING.init(), COUNTING.prepare(DOCUMENTS), Lane(0, 0, 0, 0, N, N))
    )
    of_label = {(w, k) for d, k in enumerate(LABELS) for w in X[d].indices}
    assert set(zip(*(part.tolist() for part in counted.split()), strict=True)) == of_label
    assert len(of_label) < len(trained(1).pairs) <= 2 * X.nnz


def test_the_temperature_is_of_documents_with_a_weight_and_of_classes_that_were_trained():
    state, held = trained(), replace(HINGE, held_out=0.5, temperature=0.1)
    found = held.prepare(DOCUMENTS)
    plain = held.metrics(held.evaluate(state, [found]))
    assert plain["temperature"] > 0
    ten_times = replace(found, weights=10.0 * found.weights)
    assert held.metrics(held.evaluate(state, [ten_times])) == pytest.approx(plain)
    unseen = np.setdiff1d(np.arange(K), LABELS)[0]
    strangers = replace(found, labels=np.full(N, unseen, np.int32))
    nobody = replace(found, labels=(LABELS + 1).astype(np.int32) % K, weights=np.zeros(N))
    sums = held.evaluate(state, [found, strangers, nobody])
    assert held.metrics(sums) == pytest.approx(plain)
    for others in ([strangers], [nobody], [found[:5]]):
        assert np.isnan(held.metrics(held.evaluate(state, others))["temperature"])


def test_totals_are_sums_of_counts():
    state = trained()
    counts = np.repeat(PRIOR[:, None], K, axis=1)
    counts[state.split()] += state.changes
    assert (counts > 0).all()
    np.testing.assert_allclose(state.totals, counts.sum(axis=0), rtol=1e-12)
    expected = np.log(state.class_counts / state.class_counts.sum()) + X @ np.log(counts / state.totals)
    np.testing.assert_allclose(joint_scores(HINGE.parameters(state), HINGE.prepare(DOCUMENTS)), expected, rtol=1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"pairs": np.array([3.0, 2.0]), "changes": np.ones(2)},
        {"pairs": np.array([2.5]), "changes": np.ones(1)},
        {"pairs": np.array([float(WIDTH * K)]), "changes": np.ones(1)},
        {"pairs": np.array([2.0]), "changes": np.ones(2)},
        {"pairs": np.array([2.0]), "changes": np.array([-50.0])},
    ],
)
def test_states_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match="array '(pairs|changes)'"):
        HINGE.check_state(MODEL.start(PRIOR)._replace(**wrong))
