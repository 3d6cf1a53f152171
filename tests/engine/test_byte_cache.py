"""A cache within a budget of bytes."""

from __future__ import annotations

import threading

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


def test_cache_keeps_within_its_budget():
    cache = ByteCache(100)
    made = []

    def get(key, nbytes=40):
        return cache.get(key, lambda: made.append(key) or Value(nbytes))

    first = get("a")
    get("b")
    assert get("a") is first and made == ["a", "b"]
    get("c")  # 120 bytes: one of the others goes
    assert cache.nbytes == 80 and "c" in cache and ("a" in cache) != ("b" in cache)
    get("huge", 101)
    get("huge", 101)
    assert made[-2:] == ["huge", "huge"] and cache.nbytes <= 100
    cache.resize(40)
    assert cache.nbytes == 40
    cache.clear()
    assert cache.nbytes == 0
    get("a")
    assert made[-1] == "a"


def test_some_of_more_values_than_fit_are_found_again_in_turns():
    cache = ByteCache(50)
    made = []
    for _ in range(20):
        for key in range(100):
            cache.get(key, lambda: made.append(1) or Value(1))
    assert len(made) < 20 * 100 * 0.9  # the least recently used would be made every time


def test_cache_counts_right_under_threads():
    cache = ByteCache(300)

    def work():
        for i in range(300):
            assert cache.get(i % 13, lambda: Value(40)).nbytes == 40

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert cache.nbytes == sum(v.nbytes for v in cache._values.values()) <= 300
