"""Runs of one process share the budget of its caches."""

from __future__ import annotations

import pytest

from sdem_dist import byte_cache
from sdem_dist.engine import executor as memory
from sdem_dist.engine.executor import LIBRARIES, SHARE, SMALLEST_CACHE, Reservation, release, reserve

MEMORY = 16 << 30
FREE = int(SHARE * MEMORY) - LIBRARIES


@pytest.fixture
def budgets(monkeypatch):
    found: list[int] = []
    monkeypatch.setattr(memory, "set_budget", found.append)
    monkeypatch.setattr(memory, "reservations", {})
    return found


def test_what_all_states_need_is_taken_off_once_whichever_run_is_at_work(budgets):
    for _ in range(3):
        for run, needed in (("a", 2 << 30), ("b", 1 << 30)):
            reserve(Reservation(run, needed, MEMORY))
    assert budgets == [FREE - (2 << 30), *[FREE - (3 << 30)] * 5]


def test_a_run_of_several_stages_has_the_claim_of_the_last(budgets):
    reserve(Reservation("a", 2 << 30, MEMORY))
    reserve(Reservation("a", 1 << 30, MEMORY))
    assert budgets[-1] == FREE - (1 << 30)


def test_an_ended_run_gives_its_share_back(budgets, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(memory.time, "monotonic", lambda: now[0])
    reserve(Reservation("a", 2 << 30, MEMORY))
    reserve(Reservation("b", 1 << 30, MEMORY))
    release("b")
    reserve(Reservation("a", 2 << 30, MEMORY))
    assert budgets[-1] == FREE - (2 << 30)
    reserve(Reservation("of a driver that died", 3 << 30, MEMORY))
    now[0] = memory.RESERVATION_SECONDS + 1
    reserve(Reservation("a", 2 << 30, MEMORY))
    assert budgets[-1] == FREE - (2 << 30)


def test_the_least_memory_known_counts_and_a_little_is_always_cached(budgets):
    reserve(Reservation("a", 1 << 30, MEMORY))
    reserve(Reservation("b", 1 << 30, 1 << 30))
    assert budgets[-1] == SMALLEST_CACHE


def test_a_fit_leaves_no_claim():
    import numpy as np

    from sdem_dist import MultinomialNB

    before = set(memory.reservations)  # of other tests
    MultinomialNB(n_epochs=1).fit(np.eye(8, dtype=np.uint8), np.arange(8) % 2)
    assert set(memory.reservations) <= before
    assert byte_cache.prepared_cache.max_bytes + byte_cache.shard_cache.max_bytes >= SMALLEST_CACHE
