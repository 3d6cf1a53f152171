"""The tree of a reduction, and the tasks of a round: their shape and number, whatever the bundles."""

from __future__ import annotations

import gc
import re
import weakref
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdem_dist.engine import rounds, tasks
from sdem_dist.engine.claims import Claim
from sdem_dist.engine.executor import InProcess
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.rounds import Bundling, submit_round, submit_together
from sdem_dist.engine.tree import LEAVES, reduce
from sdem_dist.learners.protocol import Lane


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


class Counting(InProcess):
    """Counts the tasks it is given by function."""

    def __init__(self):
        super().__init__(1)
        self.submitted = []

    def submit(self, function, *args, affinity=None):
        self.submitted.append((function.__name__, affinity))
        return super().submit(function, *args, affinity=affinity)


FEED = tasks.Feed(
    Adder(), SimpleNamespace(cache_key="nothing", read=lambda start, stop: None), Claim("run", 0, 4 << 30)
)


def trained(n_lanes: int, bundle: int, n_documents: int | None = None, n_rounds: int = 1):
    executor = Counting()
    plan = Plan(n_documents=n_documents or n_lanes, n_epochs=1, n_rounds=n_rounds, n_lanes=n_lanes, seed=0)
    start = executor.put(tasks.Timed([]))
    state = executor.result(submit_round(FEED, plan, executor, [start], 0, 0, bundle)[0]).value
    return "".join(state), executor.submitted  # nothing if the round has no document


@given(st.integers(1, 700), st.integers(0, 10).map(lambda k: 2**k))
def test_bundles_do_not_change_the_tree(n_lanes, bundle):
    shape, _ = trained(n_lanes, bundle)
    assert shape == trained(n_lanes, 1)[0]
    assert shape.replace("(", "").replace(")", "").split() == [str(i) for i in range(n_lanes)]


@given(st.integers(1, 400), st.integers(1, 800), st.integers(0, 9).map(lambda k: 2**k))
def test_nor_do_they_where_lanes_have_no_documents(n_lanes, n_documents, bundle):
    shape, _ = trained(n_lanes, bundle, n_documents, n_rounds=3)
    assert shape == trained(n_lanes, 1, n_documents, n_rounds=3)[0]
    # The tree is that of as many lanes that all have documents.
    names = shape.replace("(", "").replace(")", "").split()
    if names:
        full = trained(len(names), 1)[0]
        assert re.sub(r"\d+", lambda found: names[int(found[0])], full) == shape


def test_the_tree_combines_four_lanes_and_then_pairs():
    assert trained(3, 1)[0] == "(0 1 2)"
    sums = [f"({' '.join(map(str, range(a, min(a + 4, 22))))})" for a in range(0, 22, 4)]
    assert trained(8, 2)[0] == f"({sums[0]} {sums[1]})"
    a, b, c, d, e, f = sums
    assert trained(22, 1)[0] == f"((({a} {b}) ({c} {d})) ({e} {f}))"


@pytest.mark.parametrize(
    ("n_lanes", "bundle", "maps", "combines"),
    [
        (1, 1, 0, 0),
        (4, 1, 4, 0),
        (4, 4, 0, 0),
        (16, 4, 4, 0),
        (64, 16, 4, 0),
        (128, 16, 8, 2),
        (128, 32, 4, 0),
        (128, 1, 128, 32 + 8 + 2),
        (300, 2, 150, 75 + 5 + 2),
        (4096, 64, 64, 16 + 4),
        (4096, 16, 256, 16 + 4),
        (4096, 8, 512, 32 + 8 + 2),
    ],
)
def test_tasks_of_a_round(n_lanes, bundle, maps, combines):
    names = [name for name, _ in trained(n_lanes, bundle)[1]]
    assert names.count("map_lanes") == maps
    assert names.count("combine") == combines
    assert names[-1] == ("update" if maps else "run_rounds")  # one task where a bundle has all lanes
    assert len(names) == maps + combines + 1


def test_affinity_is_the_place_in_the_corpus_whatever_the_bundle():
    for bundle in (1, 16, 64):
        places = [place for name, place in trained(256, bundle)[1] if name == "map_lanes"]
        assert places == [i / 256 for i in range(0, 256, bundle)]
    assert trained(256, 256)[1] == [("run_rounds", 0.0)]


@given(st.integers(1, 600), st.sampled_from([1, LEAVES]))
def test_few_parts_are_alive_at_once(n_items, at_once):
    alive, most = 0, 0

    def get(i):
        nonlocal alive, most
        alive += 1
        most = max(most, alive)
        return [i]

    def combine(parts):
        nonlocal alive
        alive -= len(parts) - 1
        return [i for part in parts for i in part]

    assert reduce(range(n_items), get, combine, at_once) == list(range(n_items))
    assert most <= at_once + (n_items // at_once).bit_length()


def test_tasks_let_go_of_states_without_the_garbage_collector():
    class State(list):
        """Can be referred to weakly."""

    state = State()
    known = weakref.ref(state)
    lanes = Plan(n_documents=80, n_epochs=1, n_rounds=1, n_lanes=80, seed=0).lanes(0, 0)
    gc.disable()
    try:
        timed = tasks.Timed(state)
        part = tasks.map_lanes(FEED, lanes, True, timed)
        tasks.update(Adder(), 1, timed, part)
        del state, timed
        assert known() is None
    finally:
        gc.enable()


def test_bundles_follow_measured_time():
    plan = Plan(n_documents=128_000, n_epochs=1, n_rounds=1, n_lanes=128, seed=0)

    def sizes(plan, n_workers, *seconds_a_lane):
        bundling = Bundling(plan, SimpleNamespace(n_workers=n_workers, rounds_ahead=0))
        for seconds in seconds_a_lane:
            bundling.measured(1, [tasks.Work(lane, 64, 64_000, "here", map=64 * seconds) for lane in (0, 64)])
            yield bundling.size

    # Long enough that little is lost between tasks, short enough that workers end together.
    assert list(sizes(plan, 2, 1e-5, 0.004, 0.0104, 0.03, 0.2, 2.0, 60.0)) == [128, 64, 32, 16, 8, 4, 1]
    assert list(sizes(replace(plan, n_lanes=1024), 2, 1e-5, 0.01, 0.1)) == [512, 128, 32]
    # The scheduler has to feed them all, and none should wait while another has a whole task left.
    many = replace(plan, n_lanes=100_000)
    assert list(sizes(many, 64, 0.0133)) == [32]
    assert list(sizes(many, 1024, 0.0133)) == [128]
    assert list(sizes(plan, 7, 0.1)) == [4]
    assert list(sizes(replace(plan, n_lanes=256), 12, 0.1)) == [2]
    assert Bundling(replace(plan, n_lanes=3), SimpleNamespace(n_workers=8, rounds_ahead=0)).size == 1


def test_rounds_shorter_than_their_messages_go_together():
    plan = Plan(n_documents=6_000, n_epochs=1, n_rounds=3, n_lanes=3, seed=0)
    bundling = Bundling(plan, SimpleNamespace(n_workers=2, rounds_ahead=1))

    def measured(n_rounds, seconds):  # of a round, and what it leads to
        bundling.measured(n_rounds, [tasks.Work(0, 3, 2_000, "here", map=seconds)] * n_rounds)
        return bundling.size, bundling.rounds(bundling.size)

    assert (bundling.size, bundling.rounds(bundling.size)) == (2, 1)  # until one has been measured
    assert [measured(n, 1 / 512) for n in (1, 2, 1, 64, 128)] == [(4, 2), (4, 4), (4, 4), (4, 128), (4, 128)]
    assert measured(128, 1 / 64) == (4, 16)
    assert measured(16, 1 / 4) == (2, 1)  # long enough for several workers
    # Blocks are updated apart, and threads of this process need no messages.
    for apart in (
        Bundling(replace(plan, n_blocks=2), SimpleNamespace(n_workers=2, rounds_ahead=1)),
        Bundling(plan, SimpleNamespace(n_workers=2, rounds_ahead=0)),
    ):
        apart.measured(1, [tasks.Work(0, 3, 2_000, "here", map=1 / 512)])
        assert apart.size == 2 and apart.rounds(apart.size) == 1


def worked(plan, size, read=0.0, prepare=0.0, mapped=0.0):  # seconds a lane, of one round in tasks of `size` lanes
    n, documents = plan.n_lanes, plan.n_documents // plan.n_rounds
    lanes = [min(size, n - first) for first in range(0, n, size)]
    return [tasks.Work(0, k, documents * k // n, "here", read * k, prepare * k, mapped * k) for k in lanes]


SECONDS = st.sampled_from([0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0])


@given(st.integers(2, 300), st.integers(1, 40), st.lists(st.tuples(SECONDS, SECONDS, SECONDS), min_size=1, max_size=4))
def test_one_worker_has_whole_rounds_only_where_that_takes_less_than_their_messages(n_lanes, n_workers, measured):
    plan = Plan(n_documents=n_lanes * 6_000, n_epochs=1, n_rounds=6, n_lanes=n_lanes, seed=0)
    bundling = Bundling(plan, SimpleNamespace(n_workers=n_workers, rounds_ahead=1))
    for read, prepare, mapped in measured:
        bundling.measured(1, worked(plan, bundling.size, read, prepare, mapped))
    if bundling.size < n_lanes:
        assert bundling.rounds(bundling.size) == 1
        return
    assert n_lanes * (read + prepare + mapped) < rounds.LONGEST  # workers may join, even if there is only one
    at_once = -(-n_lanes // n_workers)  # lanes of a worker, were they dealt out one by one
    lost = (n_lanes - at_once - rounds.UNEVEN) * (read + prepare + mapped)
    each = max(at_once * rounds.TASK_SECONDS, n_lanes * rounds.SCHEDULER_SECONDS)
    assert lost <= 1.001 * (each + n_lanes * rounds.PART_SECONDS / n_workers + rounds.ROUND_SECONDS)


def test_documents_that_take_long_to_read_are_read_by_all_workers():
    plan = Plan(n_documents=1_000_000, n_epochs=5, n_rounds=488, n_lanes=16, seed=0)
    bundling = Bundling(plan, SimpleNamespace(n_workers=8, rounds_ahead=1))

    def chosen(read):
        bundling.measured(1, worked(plan, bundling.size, read=read, mapped=5e-4))
        return bundling.size, bundling.rounds(bundling.size)

    assert [chosen(0.05) for _ in range(3)] == [(2, 1)] * 3
    # Once caches have them, one worker is enough, and soon for several rounds.
    later = [chosen(0.0) for _ in range(20)]
    assert later[0] == (2, 1) and later[-1] == (16, 2)
    assert chosen(0.05) == (2, 1)  # its cache had not all of them
    assert chosen(0.0) == (2, 1)  # those that have them say little of it


def test_short_rounds_that_grow_do_not_stay_on_one_worker():
    plan = Plan(n_documents=1_000_000, n_epochs=1, n_rounds=4, n_lanes=16, seed=0, growth=6)
    bundling, first = Bundling(plan, SimpleNamespace(n_workers=8, rounds_ahead=1)), plan.lanes(0, 0)
    n_documents = sum(lane.stop - lane.start for lane in first)
    bundling.measured(1, [tasks.Work(0, 16, n_documents, "here", map=1e-6 * n_documents)])
    assert bundling.size == 2 and bundling.rounds(2) == 1  # 4 ms; full rounds take 250


@given(st.integers(1, 60), st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_rounds_that_go_together_are_the_same(n_lanes, together):
    n_rounds, bundle = sum(together), 1 << (n_lanes - 1).bit_length()
    plan = Plan(n_documents=n_lanes * n_rounds, n_epochs=1, n_rounds=n_rounds, n_lanes=n_lanes, seed=0)
    executor = Counting()
    apart = blocks = [executor.put(tasks.Timed([]))]
    for round_ in range(n_rounds):
        apart = submit_round(FEED, plan, executor, apart, 0, round_, 1)
    rounds = iter(plan.lanes(0, round_) for round_ in range(n_rounds))
    for n in together:
        blocks = submit_together(FEED, plan, executor, blocks, [next(rounds) for _ in range(n)], bundle)
    found = executor.result(blocks[0])
    assert found.value == executor.result(apart[0]).value
    assert [work.n_lanes for work in found.work] == [n_lanes, 0] * together[-1]  # a bundle's and an update's


def test_work_is_carried_to_the_state_of_its_round():
    work = [tasks.Work(lane, 1, 10, "a:1", 1.0, 2.0, 3.0, 4.0) for lane in range(3)]
    parts = [tasks.Timed(["a"], (work[0],)), tasks.Timed(["b", "c"], tuple(work[1:]))]
    combined = tasks.combine(Adder(), LEAVES, *parts)
    assert combined.value == ["(a b c)"]
    assert list(combined.work[:3]) == work
    assert combined.work[3].n_lanes == 0
    updated = tasks.update(Adder(), 1, tasks.Timed(["x"], (work[0],) * 9), combined)
    assert updated.value == ["x", "(a b c)"]
    assert tasks.work_behind(updated)[:4] == combined.work  # of its own round only
    assert len(updated.work) == 5
    mapped = tasks.map_lanes(FEED, [Lane(0, 0, 3, 3, 7, 9), Lane(0, 0, 4, 7, 9, 9)], False, tasks.Timed([]))
    assert mapped.value == ["3", "4"]
    assert mapped.work[0][:3] == (3, 2, 6)
