"""Laws of supervised LDA: what lanes add up to, what Algorithm 2 keeps; and of the pass before a mixture is trained."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from reference.random_documents import documents_of

from sdem_dist.corpus import MemoryCorpus
from sdem_dist.documents import Documents
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import MirrorSteps
from sdem_dist.learners.sdem import SdEM
from sdem_dist.learners.surveys import Survey, Words, examples_of
from sdem_dist.models.mixture import RowTransform, row_sums, scale_of
from sdem_dist.models.topic_heads import NoOutput, Numbers, SoftmaxClasses
from sdem_dist.models.topics import TopicModel

N, V, K = 40, 15, 4
RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(0.5, (N, V)) * (RNG.random(V) < 0.8)
COUNTS[:, 0] += 1
KINDS = ("classes", "targets", "words", "half")
"""Of "half" every other class is hidden, and words count."""


def documents(start: int = 0, stop: int = N, kind: str = "classes") -> Documents:
    rng = np.random.default_rng(5)
    labels, targets = rng.integers(0, 3, N).astype(np.int32), rng.normal(2.0, 3.0, (N, 3))
    weights = rng.integers(1, 3, N).astype(np.float64)
    if kind == "half":
        labels[::2] = -1
    part = slice(start, stop)
    return documents_of(COUNTS[part], labels[part], targets=targets[part], weights=weights[part])


HEADS = {"classes": SoftmaxClasses(3), "half": SoftmaxClasses(3), "words": NoOutput()}
HEADS |= {"targets": Numbers(3, location=(1.0, 2.0, 3.0), scale=(3.0, 2.0, 3.0))}


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
    alone, weights = [made.update(state, part) for part in parts], [part.weight for part in parts]
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
        one, other = getattr(found, field), getattr(expected, field)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11, err_msg=field)


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
    assert all(np.isfinite(value).all() for value in state)
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


RNG_SURVEY = np.random.default_rng(0)
X = RNG_SURVEY.poisson(1.0, (90, 5)).astype(float)
X[3] = 0.0
Y, WEIGHTS = np.arange(90) % 3, np.where(np.arange(90) < 30, 0.0, 1.0)
DENSE = MemoryCorpus(X, Y, (0, 1, 2), weights=WEIGHTS, shuffle=False, dense=True)
SPARSE = MemoryCorpus(sp.csr_matrix(X), Y, (0, 1, 2), weights=WEIGHTS, shuffle=False)


def surveyed(corpus, n_examples=4, **settings):
    survey = Survey(5, 3, n_examples, **settings)
    spans = [(i, (30 * i, 30 * i + 30)) for i in range(3)]
    parts = [survey.map(survey.init(), corpus.read(*s), Lane(0, 0, i, *s, 90)) for i, s in spans]
    joined = survey.combine([survey.combine(parts[:2]), parts[2]])
    for a, b in zip(joined, survey.combine(parts), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    return survey.update(survey.init(), joined)


def test_examples_are_distinct_documents_of_their_class_that_weigh_something():
    for found in (surveyed(DENSE), surveyed(SPARSE)):
        for k, positions in enumerate(examples_of(found, (4, 4, 4))):
            assert (Y[positions] == k).all() and (positions >= 30).all() and len(set(positions)) == 4
    assert not np.array_equal(surveyed(DENSE, seed=1).positions, surveyed(DENSE).positions)
    again = examples_of(surveyed(DENSE, n_examples=50), (50, 1, 1))[0]  # a class of 20 such documents
    assert len(again) == 50 and len(set(again)) == 20
    assert len(set(examples_of(surveyed(DENSE, labelled=False), (4,))[0])) == 4


def test_examples_are_drawn_in_proportion_to_their_weights():
    weights = np.where(np.arange(90) == 7, 60.0, 1.0)  # of 30 documents of its class
    corpus = MemoryCorpus(X, Y, (0, 1, 2), weights=weights, shuffle=False, dense=True)
    first = [int(surveyed(corpus, n_examples=1, seed=seed).positions[1, 0]) for seed in range(200)]
    assert first.count(7) / 200 == pytest.approx(60 / 89, abs=0.1)


def test_a_class_without_documents_gets_examples_of_all():
    found = surveyed(DENSE)
    without = found._replace(keys=np.where(np.arange(3)[:, None] == 1, np.inf, found.keys))
    first, of_all, last = examples_of(without, (4, 8, 4))
    np.testing.assert_array_equal(np.sort(of_all), np.sort(np.concatenate([first, last])))


def test_sums_and_scale():
    found = surveyed(SPARSE)
    assert found.largest_sum == X.sum(axis=1).max() and found.n_documents == 90
    transform = RowTransform(scale_of(found.summed_rows / 90))
    rows = transform.dense(X)
    assert (rows @ rows.T).mean() == pytest.approx(2.0)
    np.testing.assert_allclose(rows.sum(axis=1)[4:], transform.scale)
    assert not rows[3].any()
    np.testing.assert_allclose(transform.sparse(SPARSE.read(0, 90)).to_csr().toarray(), rows)
    np.testing.assert_allclose(row_sums(SPARSE.read(0, 90)), X.sum(axis=1))
    expanded = surveyed(DENSE, transform=RowTransform(transform.scale, True))
    assert expanded.largest_sum == pytest.approx(RowTransform(transform.scale, True).dense(X).sum(axis=1).max())
    gaps = MemoryCorpus(np.where(X == 1, np.nan, X), Y, (0, 1, 2), shuffle=False, dense=True)
    assert surveyed(gaps).n_missing == (X == 1).sum()
