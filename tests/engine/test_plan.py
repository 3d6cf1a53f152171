"""Who gets which documents when."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdem_dist.engine.plan import Plan
from sdem_dist.engine.rounds import SCORED_DOCUMENTS, ranges_to_score
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.sdem import lane_key

plans = st.builds(
    Plan,
    st.integers(1, 500),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 2**63 - 1),
    st.integers(0, 4),
)


def epoch_lanes(plan: Plan, epoch: int) -> list[Lane]:
    return [lane for r in range(plan.rounds(epoch)) for lane in plan.lanes(epoch, r)]


@given(plans)
def test_every_document_once_an_epoch_by_the_lane_it_belongs_to(plan):
    sizes = [b - a for lane in range(plan.n_lanes) for a, b in plan.ranges(lane)]
    assert max(sizes) - min(sizes) <= 1 and len(sizes) == plan.n_lanes * plan.n_rounds
    assert plan.lane_documents == min(sizes)
    for epoch in range(plan.n_epochs):
        lanes = epoch_lanes(plan, epoch)
        visited = np.concatenate([np.arange(lane.start, lane.stop) for lane in lanes])
        np.testing.assert_array_equal(np.sort(visited), np.arange(plan.n_documents))
        for k in range(plan.n_lanes) if epoch or not plan.growth else ():
            own = sorted((lane.start, lane.stop) for lane in lanes if lane.lane == k)
            assert own == [(a, b) for a, b in plan.ranges(k) if b > a]
        for round_ in range(plan.rounds(epoch)):
            lanes = plan.lanes(epoch, round_)
            assert all((x.epoch, x.round) == (epoch, round_) and x.stop > x.start for x in lanes)
            assert [x.lane for x in lanes] == sorted({x.lane for x in lanes})
            assert {x.round_documents for x in lanes} <= {sum(x.stop - x.start for x in lanes)}


@given(plans)
def test_the_plan_depends_on_its_fields_alone(plan):
    again = Plan(plan.n_documents, plan.n_epochs, plan.n_rounds, plan.n_lanes, plan.seed, plan.growth)
    longer = Plan(plan.n_documents, plan.n_epochs + 3, plan.n_rounds, plan.n_lanes, plan.seed, plan.growth)
    for epoch in reversed(range(plan.n_epochs)):
        assert epoch_lanes(plan, epoch) == epoch_lanes(again, epoch) == epoch_lanes(longer, epoch)


@given(plans)
def test_rounds_are_counted_through_all_epochs(plan):
    places = [(epoch, round_) for epoch in range(plan.n_epochs) for round_ in range(plan.rounds(epoch))]
    assert [plan.place(number) for number in range(len(places))] == places
    assert [plan.number(*place) for place in places] == list(range(len(places)))
    assert plan.number(plan.n_epochs, 0) == len(places)


def test_the_first_rounds_grow():
    plan = Plan(800, 2, 2, 1, 0, growth=3)
    assert [(x.start, x.stop) for x in epoch_lanes(plan, 0)] == [(0, 50), (50, 100), (100, 200), (200, 400), (400, 800)]
    assert sorted((x.start, x.stop) for x in epoch_lanes(plan, 1)) == [(0, 400), (400, 800)]


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
            bits = np.random.Philox(key=lane_key(seed, lane))
            streams["lane", epoch, lane.round, lane.lane] = bits
    keys = {tuple(b.state["state"]["key"]) for b in streams.values()}
    assert len(keys) == len(streams) == 60
    # The key of dealing epoch e may be that of some lane: its counter must then be far away.
    drawn = [tuple(np.random.Generator(b).integers(0, 2**63, 4)) for b in streams.values()]
    drawn += [tuple(np.random.Generator(dealer(seed, e)).integers(0, 2**63, 4)) for e in range(60)]
    assert len(set(drawn)) == 120
    ranges = np.tile(np.arange(4), (5, 1))
    for epoch in range(3):
        expected = np.random.Generator(dealer(seed, epoch)).permuted(ranges, axis=1).T
        np.testing.assert_array_equal(plan.order(epoch), expected)


def dealer(seed: int, epoch: int) -> np.random.Philox:
    return np.random.Philox(key=np.array([seed, epoch], np.uint64), counter=2**64)


@pytest.mark.parametrize("n", [0, 1, SCORED_DOCUMENTS, SCORED_DOCUMENTS + 1, 5 * SCORED_DOCUMENTS - 1])
def test_ranges_that_are_only_scored_cover_everything_once(n):
    ranges = [r for _, one in ranges_to_score(n) for r in one]
    assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges)][: len(ranges)]
    assert all(0 < stop - start <= SCORED_DOCUMENTS for start, stop in ranges) and (not n or ranges[-1][1] == n)
