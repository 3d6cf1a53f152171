"""What one round of words does: statistics are a gradient, merging lies between mean and sum, steps are what they say."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from reference.random_documents import random_counts

from sdem_dist import losses
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.documents import Documents
from sdem_dist.kernels.csr import NO_TARGETS
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.rules import DAMPING, Merge, StepSizes
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes, NaturalParameters, joint_scores
from sdem_dist.models.word_counts import SdemState, localised

N, WORDS, CLASSES = 40, 15, 3
X, Y = random_counts(N, WORDS, CLASSES, seed=4)
WEIGHTS = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], N)
CORPUS = MemoryCorpus(X, Y, tuple(range(CLASSES)), weights=WEIGHTS, shuffle=False)
MODEL = NaiveBayes(WORDS, Classes(CLASSES))
PAPER = StepSizes(decay=0.01, correction=True, floor=0.0, class_floor=0.0)
MARGIN = StepSizes(0.05, 0.02, floor=1e-3, class_floor=1e-3, mean_square=9.0)
LEARNER = SdEM(MODEL, float(WEIGHTS.sum()), Merge(PAPER), "ncll")
SUM = Merge(PAPER, local=False)
cuts = st.lists(st.integers(0, N), max_size=6).map(lambda inner: [0, *sorted(inner), N])


def state_of(learner: SdEM, seed: int = 1):
    rng = np.random.default_rng(seed)
    words = rng.gamma(0.5, 2.0, (WORDS, CLASSES))
    return SdemState(words, words.sum(axis=0), rng.random(CLASSES) * 9, 0.2, 0.3, 17.0)


def statistics(learner: SdEM, start: int, stop: int, state=None, lane: int = 0):
    place, prepared = Lane(0, 0, lane, start, stop, N), learner.prepare(CORPUS.read(start, stop))
    return learner.map(state_of(learner) if state is None else state, prepared, place)


def dense(part) -> np.ndarray:
    table = np.zeros((WORDS, CLASSES + 2))
    table[part.words] = np.column_stack([part.rows, part.met, part.entries])
    return table


@pytest.mark.parametrize("loss", losses.LOSSES)
def test_statistics_are_minus_the_gradient_of_the_total_loss(loss):
    learner = replace(LEARNER, loss=loss, rule=SUM)
    state = state_of(learner)
    documents, labels = CORPUS.read(0, N), CORPUS.read(0, N).labels
    theta = learner.parameters(state)

    def total(log_words, log_prior):
        scores = joint_scores(NaturalParameters(log_words, theta.log_totals, log_prior), documents)
        if loss == "hinge":
            assert (np.abs(losses.hinge(scores, labels)) > 1e-3).any()
        return float(WEIGHTS @ getattr(losses, loss)(scores, labels))

    step, found = 1e-6, statistics(learner, 0, N, state)
    slopes = np.empty((WORDS, CLASSES))
    for w in range(WORDS):
        for k in range(CLASSES):
            moved = np.zeros((WORDS, CLASSES))
            moved[w, k] = step
            up, down = (total(theta.log_words + s * moved, theta.log_prior) for s in (1, -1))
            slopes[w, k] = (up - down) / (2 * step)
    np.testing.assert_allclose(dense(found)[:, :CLASSES], -slopes, atol=1e-5)
    for k in range(CLASSES):
        moved = np.zeros(CLASSES)
        moved[k] = step
        up, down = (total(theta.log_words, theta.log_prior + s * moved) for s in (1, -1))
        assert found.class_counts[k] == pytest.approx(-(up - down) / (2 * step), abs=1e-5)


@pytest.mark.parametrize("loss", ["ncll", "hinge"])
def test_a_sum_round_is_one_step_then_the_check(loss):
    learner = replace(LEARNER, loss=loss, rule=SUM, model=replace(MODEL, alpha=0.7))
    state = state_of(learner)
    sums = statistics(learner, 0, N, state)
    new = learner.update(state, sums)
    weight = WEIGHTS.sum()
    rho = 1 / (1 + 0.01 * (17 + weight))
    expected = np.maximum(state.words + rho * dense(sums)[:, :CLASSES], 0)
    np.testing.assert_allclose(new.words, expected, rtol=1e-12)
    assert (expected == 0).any()
    np.testing.assert_allclose(new.totals, expected.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(new.class_counts, np.maximum(state.class_counts + rho * sums.class_counts, 0))
    assert new.gamma == pytest.approx(0.2 + 0.7 * rho) and new.class_gamma == pytest.approx(0.3 + rho)
    assert new.t == 17 + weight


@pytest.mark.parametrize("steps", [PAPER, MARGIN])
def test_one_lane_alone_is_taken_as_it_is(steps):
    learner = replace(LEARNER, loss="hinge", rule=Merge(steps))
    state = state_of(learner)
    part = statistics(learner, 0, N, state)
    new = learner.update(state, part)
    moved = state.words.copy()
    moved[part.words] += part.rows
    np.testing.assert_allclose(new.words, np.maximum(moved, steps.floor), rtol=1e-12)
    np.testing.assert_allclose(new.class_counts, state.class_counts + part.class_counts, rtol=1e-12)
    np.testing.assert_allclose(new.totals, new.words.sum(axis=0))
    assert new.t == pytest.approx(17 + WEIGHTS.sum())


@given(bounds=cuts)
def test_merged_lanes_lie_between_their_mean_and_their_sum_but_for_the_mean_document(bounds):
    learner = replace(LEARNER, loss="ncll", rule=Merge(MARGIN))
    state = state_of(learner)
    parts = [statistics(learner, a, b, state, lane) for lane, (a, b) in enumerate(itertools.pairwise(bounds)) if b > a]
    if len(parts) < 2:
        return  # taken as it is
    together = learner.combine(parts)
    new = learner.update(state, together)
    assert (new.words >= MARGIN.floor).all() and (new.class_counts >= MARGIN.class_floor).all()
    np.testing.assert_allclose(new.totals, new.words.sum(axis=0))
    table = dense(together)
    sums, met, entries = table[:, :CLASSES], table[:, CLASSES], table[:, CLASSES + 1]
    untouched = entries == 0
    np.testing.assert_array_equal(new.words[untouched], state.words[untouched])
    largest = np.abs(sums).max(axis=1) / state.words.mean(axis=1)
    share = 1 / np.maximum(met, 1)
    between = sums * (share + (1 - share) / (1 + DAMPING * largest))[:, None]
    rest = new.words - np.maximum(state.words, 1e-6) - between
    document = entries / np.maximum(together.weight, 1e-300)
    inside = (entries > 0)[:, None] & (new.words > 1.01 * MARGIN.floor)
    if together.n_lanes > 1:  # what is left is the same multiple of the mean document for every word
        for k in range(CLASSES):
            chosen = inside[:, k]
            multiple = np.median(rest[chosen, k] / document[chosen]) if chosen.any() else 0.0
            np.testing.assert_allclose(rest[chosen, k], multiple * document[chosen], rtol=1e-3, atol=2e-5)


def test_what_lanes_have_in_common_is_averaged():
    X_alike, y_alike = sp.csr_matrix(np.tile([[3, 1], [1, 3]], (32, 1))), np.tile([0, 1], 32)
    alike = MemoryCorpus(X_alike, y_alike, (0, 1), shuffle=False)
    learner = SdEM(NaiveBayes(2, Classes(2)), 64.0, Merge(replace(MARGIN, start=0.5, mean_square=10.0)), "ncll")
    parts = ((a, learner.prepare(alike.read(a, a + 8))) for a in range(0, 64, 8))
    lanes = [learner.map(learner.init(), part, Lane(0, 0, a // 8, a, a + 8, 64)) for a, part in parts]
    together = learner.combine(lanes)
    moved = learner.update(learner.init(), together).words - learner.init().words
    np.testing.assert_allclose(moved, together.rows[np.argsort(together.words)] / 8, rtol=0.2)


@pytest.mark.parametrize("merge", ["mean", "sum"])
def test_class_weights_are_weights_of_documents(merge):
    by_class = (0.5, 2.0, 3.0)
    learner = replace(LEARNER, rule=Merge(MARGIN, merge == "mean"), class_weight=by_class)
    weighed = MemoryCorpus(X, Y, tuple(range(CLASSES)), weights=WEIGHTS * np.array(by_class)[Y], shuffle=False)
    place, state = Lane(0, 0, 0, 0, N, N), state_of(learner)
    one = learner.map(state, learner.prepare(CORPUS.read(0, N)), place)
    plain = replace(learner, class_weight=None)
    other = plain.map(state, plain.prepare(weighed.read(0, N)), place)
    for a, b in ((dense(one), dense(other)), *zip(one[4:], other[4:], strict=True)):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    assert learner.cache_key == plain.cache_key, "what is prepared keeps its own weights, for evaluation"
    batches = [learner.prepare(CORPUS.read(0, N))]
    np.testing.assert_array_equal(learner.evaluate(state, batches), plain.evaluate(state, batches))


def test_order_within_a_lane_depends_on_its_place_and_the_seed_alone():
    def mu(learner, epoch=0, round_=0, lane=0):
        prepared = learner.prepare(CORPUS.read(0, N))
        return learner.map(state_of(learner), prepared, Lane(epoch, round_, lane, 0, N, N)).rows

    base = mu(LEARNER)
    np.testing.assert_array_equal(base, mu(replace(LEARNER)))
    for other in (mu(LEARNER, 1), mu(LEARNER, 0, 1), mu(LEARNER, 0, 0, 1), mu(replace(LEARNER, seed=1))):
        assert not np.array_equal(base, other)


@given(st.integers(0, 1000))
def test_parameters_are_distributions(seed):
    state = state_of(LEARNER, seed)
    theta = LEARNER.parameters(state)
    np.testing.assert_allclose(np.exp(theta.log_words - theta.log_totals).sum(axis=0), 1.0)
    assert np.exp(theta.log_prior).sum() == pytest.approx(1.0)
    some = np.array([2, 7], np.uint32)
    np.testing.assert_array_equal(MODEL.parameters(state, some).log_words, theta.log_words[some])


def test_documents_without_labels_are_refused():
    unlabelled = MemoryCorpus(X, None, (), shuffle=False)
    np.testing.assert_raises_regex(ValueError, "documents with labels", LEARNER.prepare, unlabelled.read(0, 5))


@given(st.lists(st.integers(0, 30), max_size=60))
def test_words_have_the_same_numbers_in_a_wide_vocabulary(words):
    indices, n = np.array(sorted(words), np.uint32), len(words)
    found = []
    for n_features in (31, 10_000):
        documents = Documents(np.ones(n, np.uint8), indices, np.array([0, n]), n_features)
        local = localised(documents, np.zeros(1, np.int32), np.ones(1), NO_TARGETS, frequent_first=True)
        np.testing.assert_array_equal(local.words[local.documents.indices], indices)
        found.append((local.words, local.documents.indices))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
