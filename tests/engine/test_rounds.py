"""Who gets which documents when; the tree of a reduction, and the tasks of a round, whatever the bundles."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdem_dist.engine import rounds
from sdem_dist.engine.executor import Executor
from sdem_dist.engine.plan import LANES_COMBINED, Plan, reduce
from sdem_dist.engine.rounds import SCORED_DOCUMENTS, ranges_to_score
from sdem_dist.learners.protocol import Lane
from sdem_dist.learners.sdem import At

ROUNDS = Plan(n_documents=64_000, n_epochs=1, n_rounds=4, n_lanes=16, seed=0)


class Adder:
    """A learner whose statistics are strings, so that the shape of a reduction shows."""

    cache_key = "adder"

    def prepare(self, documents):
        return SimpleNamespace(nbytes=0)

    def map(self, state, documents, lane):
        return str(lane.lane)

    def combine(self, parts):
        return f"({' '.join(parts)})"  # one alone would show

    def update(self, state, statistics):
        return [*state, statistics]


class Counting(Executor):
    def __init__(self):
        super().__init__(1)
        self.submitted = []

    def submit(self, function, *args, affinity=None):
        self.submitted.append((function.__name__, affinity))
        return super().submit(function, *args, affinity=affinity)


FEED = rounds.TaskInput(Adder(), SimpleNamespace(cache_key="nothing", read=lambda start, stop: None), 1 << 30)


def trained(n_lanes: int, bundle: int, n_documents: int | None = None, n_rounds: int = 1):
    executor = Counting()
    plan = Plan(n_documents=n_documents or n_lanes, n_epochs=1, n_rounds=n_rounds, n_lanes=n_lanes, seed=0)
    lanes, start = plan.lanes(0, 0), executor.put(rounds.TaskResult([]))
    executor.submitted.clear()
    if not lanes:
        return "", []
    state = executor.result(rounds.submit_rounds(FEED, plan, executor, [start], [lanes], bundle)[0]).value
    return "".join(state), executor.submitted


@given(st.integers(1, 200), st.integers(1, 400), st.integers(0, 9).map(lambda k: 2**k))
def test_bundles_and_lanes_without_documents_do_not_change_the_tree(n_lanes, n_documents, bundle):
    shape, _ = trained(n_lanes, bundle, n_documents, n_rounds=3)
    assert shape == trained(n_lanes, 1, n_documents, n_rounds=3)[0]
    # The tree is that of as many lanes that all have documents.
    names = shape.replace("(", "").replace(")", "").split()
    assert names == sorted(set(names), key=int) and (len(names) == n_lanes or n_documents < 3 * n_lanes)
    if names:
        assert re.sub(r"\d+", lambda found: names[int(found[0])], trained(len(names), 1)[0]) == shape


def test_the_tree_combines_four_lanes_and_then_pairs():
    assert trained(3, 1)[0] == "(0 1 2)"
    sums = [f"({' '.join(map(str, range(a, min(a + 4, 22))))})" for a in range(0, 22, 4)]
    assert trained(8, 2)[0] == f"({sums[0]} {sums[1]})"
    a, b, c, d, e, f = sums
    assert trained(22, 1)[0] == f"((({a} {b}) ({c} {d})) ({e} {f}))"


@pytest.mark.parametrize(("n_lanes", "bundle", "maps", "combines"), [
    (1, 1, 0, 0), (4, 1, 4, 1), (4, 4, 0, 0), (16, 4, 4, 0), (64, 16, 4, 0), (128, 16, 8, 2), (128, 32, 4, 0),
    (128, 1, 128, 32 + 8 + 2), (300, 2, 150, 75 + 5 + 2),
    (4096, 64, 64, 16 + 4), (4096, 16, 256, 16 + 4), (4096, 8, 512, 32 + 8 + 2),
])  # fmt: skip
def test_tasks_of_a_round(n_lanes, bundle, maps, combines):
    names = [name for name, _ in trained(n_lanes, bundle)[1]]
    assert names.count("map_lanes") == maps and names.count("combine") == combines
    assert names[-1] == ("update" if maps else "run_rounds")  # one task where a bundle has all lanes
    assert len(names) == maps + combines + 1
    places = [place for name, place in trained(n_lanes, bundle)[1] if name in ("map_lanes", "run_rounds")]
    assert places == [i / n_lanes for i in range(0, n_lanes, bundle)], "affinity is the place in the corpus"


@given(st.integers(1, 600), st.sampled_from([1, LANES_COMBINED]))
def test_few_parts_are_alive_at_once(n_items, at_once):
    alive, most = 0, 0

    def items():
        nonlocal alive, most
        for i in range(n_items):
            alive += 1
            most = max(most, alive)
            yield [i]

    def combine(parts):
        nonlocal alive
        alive -= len(parts) - 1
        return [i for part in parts for i in part]

    assert reduce(items(), combine, at_once) == list(range(n_items))
    assert most <= at_once + (n_items // at_once).bit_length()


def sizes_of(plan: Plan, n_workers: int, max_pending_rounds: int = 1) -> rounds.TaskSizes:
    return rounds.TaskSizes(plan, SimpleNamespace(n_workers=n_workers, max_pending_rounds=max_pending_rounds))


def timings(plan, sizes: rounds.TaskSizes, n_documents: int | None = None, read: float = 0.0, mapped: float = 0.0):
    """Return what the tasks of a round took; `read` and `mapped` are seconds of the whole round."""
    n, documents = plan.n_lanes, n_documents or plan.n_documents // plan.n_rounds
    bundle, _ = sizes.lanes_and_rounds()
    shares = [min(bundle, n - first) for first in range(0, n, bundle)]
    return [rounds.TaskTiming(0, k, documents * k // n, "here", read * k / n, 0.0, mapped * k / n) for k in shares]


@given(st.integers(1, 5000), st.integers(1, 300))
def test_a_round_is_at_least_two_tasks_a_worker_and_fewer_than_five(n_lanes, n_workers):
    plan = Plan(n_documents=10**6, n_epochs=1, n_rounds=1, n_lanes=n_lanes, seed=0)
    size, _ = sizes_of(plan, n_workers).lanes_and_rounds()
    assert size & (size - 1) == 0
    assert size == 1 or 2 * n_workers <= n_lanes / size < 4 * n_workers


@pytest.mark.parametrize(("mapped", "seconds", "together"), [
    (1 / 64, 0.03, 16),  # most was messages: one task, and soon 16 rounds of it, which take .25 s
    (1 / 16, 0.07, 4),
    (0.05, 0.04, 1),  # all workers together are faster than one
    (0.5, 0.6, 1),  # long rounds are news of their own, and workers may join
])  # fmt: skip
def test_whole_rounds_are_one_task_where_that_takes_less_than_all_workers_took(mapped, seconds, together):
    for changed, max_pending_rounds in ((ROUNDS, 1), (replace(ROUNDS, n_blocks=2), 1), (ROUNDS, 0)):
        sizes = sizes_of(changed, 2, max_pending_rounds)
        for _ in range(10):
            _, n_rounds = sizes.lanes_and_rounds()
            sizes.measured(n_rounds, timings(changed, sizes, mapped=mapped) * n_rounds, seconds * n_rounds)
        alone = together > 1 and changed.n_blocks == 1 and max_pending_rounds == 1
        assert sizes.lanes_and_rounds() == ((16, together) if alone else (4, 1))


def test_documents_that_take_long_to_read_are_read_by_all_workers():
    sizes = sizes_of(ROUNDS, 8)

    def after(read):
        _, n_rounds = sizes.lanes_and_rounds()
        sizes.measured(n_rounds, timings(ROUNDS, sizes, read=read, mapped=5e-4) * n_rounds, 0.02)
        return sizes.lanes_and_rounds()[0]

    assert [after(0.2) for _ in range(3)] == [1] * 3
    assert sizes.lanes_and_rounds()[1] == 1
    # Once caches have them, one worker is enough; but not where its cache has not all of them.
    later = [after(0.0) for _ in range(20)]
    assert later[0] == 1 and later[-1] == 16
    assert after(0.2) == after(0.0) == 1


def test_rounds_that_grow_count_as_full_ones_and_those_of_a_single_lane_go_together_at_once():
    sizes = sizes_of(ROUNDS, 8)
    sizes.measured(1, timings(ROUNDS, sizes, n_documents=250, mapped=0.004), 0.03)
    assert sizes.lanes_and_rounds() == (1, 1)  # full rounds take .25 s
    plan = replace(ROUNDS, n_lanes=1)
    sizes = sizes_of(plan, 8)
    sizes.measured(1, timings(plan, sizes, mapped=0.01), 0.03)
    assert sizes.lanes_and_rounds() == (1, 2)


@given(st.integers(1, 40), st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_rounds_that_go_together_are_the_same(n_lanes, together):
    n_rounds, bundle = sum(together), 1 << (n_lanes - 1).bit_length()
    plan = Plan(n_documents=n_lanes * n_rounds, n_epochs=1, n_rounds=n_rounds, n_lanes=n_lanes, seed=0)
    executor = Counting()
    apart = blocks = [executor.put(rounds.TaskResult([]))]
    for round_ in range(n_rounds):
        apart = rounds.submit_rounds(FEED, plan, executor, apart, [plan.lanes(0, round_)], 1)
    turns = iter(plan.lanes(0, round_) for round_ in range(n_rounds))
    for n in together:
        blocks = rounds.submit_rounds(FEED, plan, executor, blocks, [next(turns) for _ in range(n)], bundle)
    found = executor.result(blocks[0])
    assert found.value == executor.result(apart[0]).value
    assert [work.n_lanes for work in found.timings] == [n_lanes, 0] * together[-1]  # a bundle's and an update's


bounds = [(1, 500), (1, 4), (1, 9), (1, 9), (0, 2**63 - 1), (0, 4)]
plans = st.builds(Plan, *(st.integers(*between) for between in bounds))


def epoch_lanes(plan: Plan, epoch: int) -> list[Lane]:
    return [lane for r in range(plan.rounds(epoch)) for lane in plan.lanes(epoch, r)]


@given(plans)
def test_every_document_once_an_epoch_by_the_lane_it_belongs_to(plan):
    ranges = [[plan.range(lane, number) for number in range(plan.n_rounds)] for lane in range(plan.n_lanes)]
    sizes = [b - a for own in ranges for a, b in own]
    assert max(sizes) - min(sizes) <= 1 and len(sizes) == plan.n_lanes * plan.n_rounds
    for epoch in range(plan.n_epochs):
        lanes = epoch_lanes(plan, epoch)
        visited = np.concatenate([np.arange(lane.start, lane.stop) for lane in lanes])
        np.testing.assert_array_equal(np.sort(visited), np.arange(plan.n_documents))
        for k in range(plan.n_lanes) if epoch or not plan.growth else ():
            own = sorted((lane.start, lane.stop) for lane in lanes if lane.lane == k)
            assert own == [(a, b) for a, b in ranges[k] if b > a]
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


def test_no_two_streams_of_random_numbers_are_alike():
    """Lanes' orders and the dealing of ranges draw from generators that share no block of numbers."""
    seed, streams = 3, {}
    plan = Plan(10_000, 3, 4, 5, seed)
    for epoch in range(3):
        for lane in epoch_lanes(plan, epoch):
            streams["lane", epoch, lane.round, lane.lane] = np.random.Philox(key=At(lane, seed).key)
    assert len({tuple(b.state["state"]["key"]) for b in streams.values()}) == len(streams) == 60
    # The key of dealing epoch e may be that of some lane: its counter must then be far away.
    drawn = [tuple(np.random.Generator(b).integers(0, 2**63, 4)) for b in streams.values()]
    drawn += [tuple(np.random.Generator(dealer(seed, e)).integers(0, 2**63, 4)) for e in range(60)]
    assert len(set(drawn)) == 120
    ranges = np.tile(np.arange(4), (5, 1))
    for seed, epoch in ((3, 0), (3, 1), (3, 2), (4, 2)):
        expected = np.random.Generator(dealer(seed, epoch)).permuted(ranges, axis=1).T
        np.testing.assert_array_equal(replace(plan, seed=seed).order(epoch), expected)


def dealer(seed: int, epoch: int) -> np.random.Philox:
    return np.random.Philox(key=np.array([seed, epoch], np.uint64), counter=2**64)


@pytest.mark.parametrize("n", [0, 1, SCORED_DOCUMENTS, SCORED_DOCUMENTS + 1, 5 * SCORED_DOCUMENTS - 1])
def test_ranges_that_are_only_scored_cover_everything_once(n):
    ranges = [r for _, one in ranges_to_score(n) for r in one]
    assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges)][: len(ranges)]
    assert all(0 < stop - start <= SCORED_DOCUMENTS for start, stop in ranges) and (not n or ranges[-1][1] == n)
