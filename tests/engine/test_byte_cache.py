"""A cache within a budget of bytes."""

from __future__ import annotations

import threading

import pytest

from sdem_dist.byte_cache import ByteCache


class Value:
    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


def test_values_are_discarded_by_their_keys():
    cache = ByteCache(100)
    for key in (("a", 1), ("b", 1), ("a", 2)):
        cache.get(key, lambda: Value(10))
    cache.discard(lambda key: key[0] == "a")
    assert cache.nbytes == 10
    made = []
    cache.get(("b", 1), lambda: made.append(1) or Value(10))
    assert not made


@pytest.mark.parametrize("oldest_leave", [False, True])
def test_cache_keeps_within_its_budget(oldest_leave):
    cache = ByteCache(100, oldest_leave=oldest_leave)
    made = []

    def get(key, nbytes=40):
        return cache.get(key, lambda: made.append(key) or Value(nbytes))

    first = get(("run", 1))
    get(("run", 2))
    assert get(("run", 1)) is first and made == [("run", 1), ("run", 2)]
    get(("run", 3))  # 120 bytes
    assert cache.nbytes == 80
    assert (("run", 3) in cache) == oldest_leave == (("run", 1) not in cache)
    get(("run", 4), 101)
    assert ("run", 4) not in cache and cache.nbytes == 80
    get(("other", 1))  # what an earlier run left makes room
    assert ("other", 1) in cache and cache.nbytes == 80
    cache.resize(40)
    assert cache.nbytes == 40
    cache.clear()
    assert cache.nbytes == 0


def test_as_many_values_are_found_again_in_turns_as_fit():
    cache = ByteCache(30)
    made = []
    for _ in range(5):
        for i in range(100):
            cache.get(("run", i), lambda: made.append(1) or Value(1))
    assert len(made) == 30 + 5 * 70


def test_cache_counts_right_under_threads():
    cache = ByteCache(300)

    def work():
        for i in range(300):
            assert cache.get(("run", i % 13), lambda: Value(40)).nbytes == 40

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert cache.nbytes == sum(v.nbytes for v in cache._values.values()) <= 300
