"""Who gets which documents when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdem_dist.engine.plan import Plan, evaluation_ranges
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.sdem import _key

plans = st.builds(
    Plan, st.integers(1, 500), st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**63 - 1)
)


def epoch_lanes(plan: Plan, epoch: int) -> list[Lane]:
    return [lane for r in range(plan.n_rounds) for lane in plan.lanes(epoch, r)]


@given(plans)
def test_every_document_once_an_epoch(plan):
    for epoch in range(plan.n_epochs):
        visited = np.concatenate([np.arange(lane.start, lane.stop) for lane in epoch_lanes(plan, epoch)])
        np.testing.assert_array_equal(np.sort(visited), np.arange(plan.n_documents))


@given(plans)
def test_ranges_stay_the_same_and_are_of_one_length(plan):
    sizes = [b - a for a, b in plan.ranges]
    assert max(sizes) - min(sizes) <= 1
    assert plan.lane_documents == min(sizes)
    for epoch in range(plan.n_epochs):
        assert sorted((lane.start, lane.stop) for lane in epoch_lanes(plan, epoch)) == sorted(plan.ranges)


@given(plans)
def test_places_and_documents_of_a_round(plan):
    for epoch in range(plan.n_epochs):
        for round_ in range(plan.n_rounds):
            lanes = plan.lanes(epoch, round_)
            assert [(x.epoch, x.round, x.lane) for x in lanes] == [(epoch, round_, i) for i in range(plan.n_lanes)]
            assert {x.round_documents for x in lanes} == {sum(x.stop - x.start for x in lanes)}


@given(plans)
def test_the_plan_depends_on_its_fields_alone(plan):
    again = Plan(plan.n_documents, plan.n_epochs, plan.n_rounds, plan.n_lanes, plan.seed)
    longer = Plan(plan.n_documents, plan.n_epochs + 3, plan.n_rounds, plan.n_lanes, plan.seed)
    for epoch in reversed(range(plan.n_epochs)):
        assert epoch_lanes(plan, epoch) == epoch_lanes(again, epoch) == epoch_lanes(longer, epoch)


def test_epochs_and_seeds_deal_differently():
    def dealt(seed, epoch):
        return tuple(lane.start for lane in epoch_lanes(Plan(1000, 5, 8, 8, seed), epoch))

    assert len({dealt(seed, epoch) for seed in range(5) for epoch in range(5)}) == 25


def test_no_two_streams_of_random_numbers_are_alike():
    """Lanes' orders and the dealing of ranges draw from generators that share no block of numbers."""
    seed, streams = 3, {}
    plan = Plan(10_000, 3, 4, 5, seed)
    for epoch in range(3):
        for lane in epoch_lanes(plan, epoch):
            bits = np.random.Philox(key=_key(seed, lane))
            streams["lane", epoch, lane.round, lane.lane] = bits
    keys = {tuple(b.state["state"]["key"]) for b in streams.values()}
    assert len(keys) == len(streams) == 60
    # The key of dealing epoch e may be that of some lane: its counter must then be far away.
    drawn = [tuple(np.random.Generator(b).integers(0, 2**63, 4)) for b in streams.values()]
    drawn += [tuple(np.random.Generator(dealer(seed, e)).integers(0, 2**63, 4)) for e in range(60)]
    assert len(set(drawn)) == 120
    assert int(dealer(seed, 0).state["state"]["counter"][1]) == 1
    for epoch in range(3):
        expected = np.random.Generator(dealer(seed, epoch)).permutation(20)
        assert [lane.start for lane in epoch_lanes(plan, epoch)] == [plan.ranges[r][0] for r in expected]


def dealer(seed: int, epoch: int) -> np.random.Philox:
    return np.random.Philox(key=np.array([seed, epoch], np.uint64), counter=2**64)


@pytest.mark.parametrize("places", [[(0, 0, 1), (0, 1, 0)], [(1, 0, 0), (0, 1, 0)], [(0, 0, 2**20 - 1), (0, 1, 0)]])
def test_neighbouring_places_have_keys_of_their_own(places):
    keys = [tuple(_key(0, Lane(e, r, k, 0, 1, 1))) for e, r, k in places]
    assert len(set(keys)) == len(keys)


@given(st.integers(0, 1000), st.integers(1, 40))
def test_evaluation_ranges_cover_everything_once(n_documents, n_ranges):
    ranges = evaluation_ranges(n_documents, n_ranges)
    covered = [i for a, b in ranges for i in range(a, b)]
    assert covered == list(range(n_documents))
    assert len(ranges) <= n_ranges
    assert all(b > a for a, b in ranges) or n_documents == 0
