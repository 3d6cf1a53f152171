"""Short lanes in one compiled call: the same bits as lane by lane."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.random_documents import random_counts

from sdem_dist import MultinomialNB
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.documents import Documents
from sdem_dist.engine import tasks
from sdem_dist.engine.claims import Claim
from sdem_dist.engine.tree import LEAVES, reduce
from sdem_dist.learners import sdem
from sdem_dist.learners.local_words import localised
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.sdem import Sdem
from sdem_dist.learners.step_sizes import StepSizes
from sdem_dist.losses import Blend, Hinge
from sdem_dist.models.naive_bayes import NaiveBayes

N, WORDS, CLASSES = 90, 25, 4
X, Y = random_counts(N, WORDS, CLASSES, seed=2)
WEIGHTS = np.random.default_rng(0).choice([0.0, 0.3, 1.0, 2.7], N)
HIDDEN = np.where(np.arange(N) % 7 == 3, -1, Y)
MARGIN = StepSizes(0.05, 0.02, decay=1e-3, floor=1e-3, class_floor=1e-3, mean_square=9.0)
COUNTS = MemoryCorpus(X, HIDDEN, tuple(range(CLASSES)), weights=WEIGHTS, shuffle=False)
WEIGHED = MemoryCorpus(X * 0.37, HIDDEN, tuple(range(CLASSES)), weights=WEIGHTS, shuffle=False)
LEARNER = Sdem(NaiveBayes(WORDS, CLASSES), float(WEIGHTS.sum()), steps=MARGIN)
LEARNERS = {
    "ncll": LEARNER,
    "hinge": replace(LEARNER, loss="hinge"),
    "blend": replace(LEARNER, loss=Blend(Hinge(), 0.3)),
    "held out": replace(LEARNER, held_out=0.3, seed=5),
    "class weights": replace(LEARNER, class_weight=(0.3, 1.0, 2.1, 0.7)),
    "components": replace(LEARNER, model=NaiveBayes(WORDS, CLASSES, owners=(0, 0, 1, 2, 2, 3))),
    "fixed prior": replace(LEARNER, model=NaiveBayes(WORDS, CLASSES, log_prior=(-1.0, -1.5, -1.2, -2.0))),
}


def state_of(learner: Sdem):
    """A state in the midst of training."""
    state = learner.init()
    words = np.random.default_rng(1).gamma(0.5, 2.0, state.words.shape) + 0.01
    return state._replace(words=words, totals=words.sum(axis=0), t=17.0)


def same(found, expected) -> None:
    for name, a, b in zip(found._fields, found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), name


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("corpus", [COUNTS, WEIGHED])
@given(cuts=st.sets(st.integers(1, N - 1), max_size=40), blocks=st.sampled_from([1, 3]), epoch=st.integers(0, 3))
def test_one_call_is_lane_by_lane(name, corpus, cuts, blocks, epoch):
    learner, bounds = LEARNERS[name], [0, *sorted(cuts), N]
    lanes = [Lane(epoch, 2, i, a, b, N) for i, (a, b) in enumerate(pairwise(bounds))]
    prepared = [learner.prepare(corpus.read(lane.start, lane.stop)) for lane in lanes]
    state = state_of(learner)
    if blocks > 1:
        state = learner.joined([learner.block_of_state(state, block, blocks) for block in range(blocks)])
    one_by_one = [learner.map(state, own, lane) for own, lane in zip(prepared, lanes, strict=True)]
    expected = reduce(one_by_one, lambda part: part, learner.combine, LEAVES)
    same(learner.map_lanes(state, prepared, lanes, LEAVES), expected)


@pytest.mark.parametrize("n_lanes", [1, 4, 5, 31, 64, N])
def test_how_many_lanes_a_call_takes_changes_no_bit(n_lanes, monkeypatch):
    bounds = [N * i // n_lanes for i in range(n_lanes + 1)]
    lanes = [Lane(0, 0, i, bounds[i], bounds[i + 1], N) for i in range(n_lanes)]
    feed = tasks.Feed(LEARNER, COUNTS, Claim("test", 1 << 20, 1 << 32))
    state, found = state_of(LEARNER), []
    for at_once in (1 * 12, 8 * 12, 16 * 12, 1000 * 12):
        monkeypatch.setattr(sdem, "AT_ONCE", at_once)
        found.append(tasks.map_lanes(feed, lanes, True, tasks.Timed(state)).value[0])
    for part in found[1:]:
        same(part, found[0])


def test_tables_wider_than_a_call_run_in_lanes_too(monkeypatch):
    lane = Lane(0, 0, 0, 0, N, N)
    prepared = LEARNER.prepare(COUNTS.read(0, N))
    expected = LEARNER.map(state_of(LEARNER), prepared, lane)
    monkeypatch.setattr(sdem, "AT_ONCE", 1)
    same(LEARNER.map(state_of(LEARNER), prepared, lane), expected)


@pytest.mark.parametrize("settings", [{}, {"n_jobs": 2}, {"n_epochs": 3, "loss": "hinge"}])
def test_models_do_not_depend_on_it(settings, monkeypatch):
    def fitted():
        return MultinomialNB(**{"n_lanes": 16, "n_jobs": 1, **settings}).fit(X, Y).state_

    together = fitted()
    monkeypatch.setattr("sdem_dist.engine.tasks.lanes_at_once", lambda learner, lanes: 0)
    same(together, fitted())


@given(st.lists(st.integers(0, 30), max_size=60))
def test_words_have_the_same_numbers_in_a_wide_vocabulary(words):
    indices, n = np.array(sorted(words), np.uint32), len(words)
    found = []
    for n_features in (31, 10_000):
        documents = Documents(np.ones(n, np.uint8), indices, np.array([0, n]), n_features)
        local = localised(documents, np.zeros(1, np.int32), np.ones(1), frequent_first=True)
        np.testing.assert_array_equal(local.words[local.documents.indices], indices)
        found.append((local.words, local.documents.indices))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
