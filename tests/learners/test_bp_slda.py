"""Laws of the learner of supervised LDA: what lanes add up to, and what Algorithm 2 keeps."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from sdem_dist.documents import Documents
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import MirrorSteps
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.surveys import Words
from sdem_dist.models.topic_heads import NoOutput, Numbers, SoftmaxClasses
from sdem_dist.models.topics import TopicModel

N, V, K = 40, 15, 4
RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(0.5, (N, V)) * (RNG.random(V) < 0.8)
COUNTS[:, 0] += 1
KINDS = ("classes", "targets", "words", "half")
"""Of "half" every other class is hidden, and words count."""


def documents(start: int = 0, stop: int = N, kind: str = "classes") -> Documents:
    csr = sp.csr_array(COUNTS[start:stop])
    rng = np.random.default_rng(5)
    labels, targets = rng.integers(0, 3, N).astype(np.int32), rng.normal(2.0, 3.0, (N, 3))
    weights = rng.integers(1, 3, N).astype(np.float64)
    if kind == "half":
        labels[::2] = -1
    arrays = csr.data, csr.indices, csr.indptr.astype(np.int64), V
    return Documents(*arrays, labels=labels[start:stop], targets=targets[start:stop], weights=weights[start:stop])


HEADS = {
    "classes": SoftmaxClasses(3),
    "half": SoftmaxClasses(3),
    "words": NoOutput(),
    "targets": Numbers(3, location=(1.0, 2.0, 3.0), scale=(3.0, 2.0, 3.0)),
}


def learner(kind: str, *, beta: float = 1.0, merge: str = "mean", **steps) -> SdEM:
    words = {"words_weight": 0.1, "n_labelled": 30.0} if kind == "half" else {}
    rule = MirrorSteps(**{"batch_size": 7, "n_epochs": 3, "average_from": 0, "local": merge == "mean", **steps})
    return SdEM(TopicModel(V, K, HEADS[kind], beta=beta, **words), 60.0, rule)


def lane(number: int, start: int, stop: int, epoch: int = 0) -> Lane:
    return Lane(epoch, 0, number, start, stop, N)


def run(made: SdEM, state, borders, epoch=0):
    spans = list(pairwise(borders))
    kind = "half" if made.model.words_weight else "classes"
    lanes = [(lane(i, a, b, epoch), documents(a, b, kind)) for i, (a, b) in enumerate(spans)]
    parts = [made.map(state, made.prepare(d), at) for at, d in lanes]
    return made.update(state, made.combine(parts)), parts


@pytest.mark.parametrize("merge", ["mean", "sum"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beta", [1.0, 1.01])
def test_columns_stay_on_the_simplex_and_the_loss_falls(kind, merge, beta):
    made = learner(kind, merge=merge, beta=beta)
    state = made.model.start(COUNTS.sum(axis=0), 0)
    loss = {"classes": "ncll", "half": "ncll", "targets": "mse", "words": "plug_in_nll"}[kind]
    losses = []
    for epoch in range(3):
        for _ in range(1 if merge == "mean" else 6):
            state, _ = run(made, state, [0, 11, 12, 40], epoch)
        for topics in (state.topics, state.mean_topics):
            np.testing.assert_allclose(topics.sum(axis=0), 1.0, rtol=1e-12)
            assert (topics > 0).all()
        losses.append(made.metrics(made.evaluate(state, [made.prepare(documents(kind=kind))]))[loss])
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("kind", KINDS)
def test_lanes_are_averaged_by_their_documents(kind):
    """Also words that only one of them met, sums of squares, t, and sums over batches."""
    made = learner(kind)
    state, _ = run(made, made.model.start(COUNTS.sum(axis=0), 0), [0, 40])
    merged, parts = run(made, state, [0, 8, 40], epoch=1)
    alone = [made.update(state, part) for part in parts]
    weights = [part.weight for part in parts]
    for field in ("topics", "output", "squares", "t"):
        expected = np.average([getattr(s, field) for s in alone], axis=0, weights=weights)
        np.testing.assert_allclose(getattr(merged, field), expected, rtol=1e-10, atol=1e-11, err_msg=field)
    n = [s.n_averaged - state.n_averaged for s in alone]
    assert n == [2, 5]
    assert merged.n_averaged - state.n_averaged == pytest.approx(np.average(n, weights=weights))
    sums = [s.n_averaged * s.mean_topics - state.n_averaged * state.mean_topics for s in alone]
    expected = np.average(sums, axis=0, weights=weights) + state.n_averaged * state.mean_topics
    np.testing.assert_allclose(merged.mean_topics * merged.n_averaged, expected, rtol=1e-10, atol=1e-10)
    assert merged.seen == state.seen + sum(weights)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beta", [1.0, 1.01])
def test_the_sum_over_lanes_is_one_batch_of_the_sequential_algorithm(kind, beta):
    summed, sequential = (learner(kind, merge=merge, beta=beta, batch_size=N) for merge in ("sum", "mean"))
    start = summed.model.start(COUNTS.sum(axis=0), 0)
    expected, _ = run(sequential, start, [0, 40])
    found, _ = run(summed, start, [0, 13, 14, 40])
    for field in found._fields:
        np.testing.assert_allclose(
            getattr(found, field), getattr(expected, field), rtol=1e-9, atol=1e-11, err_msg=field
        )


def test_weights_are_repetitions():
    made = learner("classes", merge="sum", batch_size=N)
    state = made.model.start(COUNTS.sum(axis=0), 0)
    d = documents()
    assert d.weights is not None and d.labels is not None
    times = d.weights.astype(int)
    repeated = sp.csr_array(np.repeat(COUNTS, times, axis=0))
    arrays = repeated.data, repeated.indices, repeated.indptr.astype(np.int64), V
    copies = made.map(state, made.prepare(Documents(*arrays, labels=np.repeat(d.labels, times))), lane(0, 0, 40))
    weighted = made.map(state, made.prepare(d), lane(0, 0, 40))
    np.testing.assert_allclose(weighted.rows, copies.rows, rtol=1e-9, atol=1e-12)
    assert weighted.weight == copies.weight


def test_averages_begin_when_they_should():
    made = learner("classes", average_from=1)
    state, _ = run(made, made.init(), [0, 20, 40], 0)
    assert state.n_averaged == 0
    np.testing.assert_array_equal(made.parameters(state).topics, state.topics)
    state, _ = run(made, state, [0, 20, 40], 1)
    assert state.n_averaged > 0
    np.testing.assert_array_equal(made.parameters(state).topics, state.mean_topics)


@pytest.mark.parametrize("merge", ["mean", "sum"])
def test_a_lane_without_words(merge):
    made = learner("classes", merge=merge)
    d = documents(0, 12)
    empty = replace(d, data=d.data[:0], indices=d.indices[:0], indptr=np.zeros(13, np.int64))
    start = made.model.start(COUNTS.sum(axis=0), 0)
    parts = [made.map(start, made.prepare(d_), lane(i, 0, 12)) for i, d_ in enumerate((empty, d))]
    forwards, backwards = (made.update(start, made.combine(order)) for order in (parts, parts[::-1]))
    assert not np.array_equal(forwards.topics, start.topics)
    np.testing.assert_allclose(forwards.topics, backwards.topics, rtol=1e-12)
    assert np.isfinite(made.evaluate(forwards, [made.prepare(empty)])).all()


def test_even_columns_survive_a_storm():
    """Probabilities that fall all the time are rescaled before they vanish, and none passes the floor."""
    made = learner("classes", topic_rate=1e6, batch_size=1, n_epochs=100)
    state = made.model.start(COUNTS.sum(axis=0), 0)
    for epoch in range(30):
        state, _ = run(made, state, [0, 40], epoch)
    for value in state:
        assert np.isfinite(value).all()
    np.testing.assert_allclose(state.topics.sum(axis=0), 1.0, rtol=1e-12)


def test_words_are_counted_and_targets_measured():
    d, made = documents(), Words(V, 3)
    parts = [made.map(made.init(), documents(a, b), lane(0, a, b)) for a, b in ((0, 7), (7, 40))]
    found = made.update(made.init(), made.combine(parts))
    assert d.weights is not None and d.targets is not None
    np.testing.assert_allclose(found.frequencies, d.weights @ COUNTS)
    mean = np.average(d.targets, axis=0, weights=d.weights)
    np.testing.assert_allclose(found.mean, mean)
    np.testing.assert_allclose(found.squares, d.weights @ (d.targets - mean) ** 2)
