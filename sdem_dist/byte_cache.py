"""Thread-safe caches within a budget of bytes, and the two that every process has."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Hashable
from typing import Any


class ByteCache:
    """Values kept for as long as their bytes fit a budget; a random one is dropped when they do not.

    Epochs ask for the same values in turns.  Of more values than fit, dropping the least recently used would drop
    each just before it is asked for again.

    Parameters
    ----------
    max_bytes : int
        A value larger than the whole budget is returned but not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._values: dict[Hashable, Any] = {}
        self._keys: list[Hashable] = []
        self._random = random.Random(0)
        self._lock = threading.Lock()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the value of `key`, made by `make` where it is absent; values have ``nbytes``."""
        with self._lock:
            if key in self._values:
                return self._values[key]
        value = make()  # outside the lock: two threads may make the same value, and then have equal ones
        with self._lock:
            if key not in self._values and value.nbytes <= self.max_bytes:
                self._make_room(value.nbytes)
                self._values[key] = value
                self._keys.append(key)
                self.nbytes += value.nbytes
        return value

    def resize(self, max_bytes: int) -> None:
        """Set the budget, dropping what exceeds it."""
        with self._lock:
            self.max_bytes = max_bytes
            self._make_room(0)

    def _make_room(self, nbytes: int) -> None:
        while self._keys and self.nbytes + nbytes > self.max_bytes:
            i = self._random.randrange(len(self._keys))
            self._keys[i], self._keys[-1] = self._keys[-1], self._keys[i]
            self.nbytes -= self._values.pop(self._keys.pop()).nbytes

    def discard(self, belongs: Callable[[Hashable], bool]) -> None:
        """Drop the values whose keys `belongs` accepts."""
        with self._lock:
            for key in [k for k in self._keys if belongs(k)]:
                self.nbytes -= self._values.pop(key).nbytes
            self._keys = list(self._values)

    def clear(self) -> None:
        """Drop everything."""
        self.discard(lambda key: True)


prepared_cache = ByteCache(768 << 20)
"""Documents as learners want them, kept between epochs."""
shard_cache = ByteCache(256 << 20)
"""Decoded shards of which only a part was asked for yet."""


def set_budget(max_bytes: int) -> None:
    """Share out what this process may keep of corpora: three quarters for prepared documents, the rest for shards."""
    if prepared_cache.max_bytes + shard_cache.max_bytes != max_bytes:
        shard_cache.resize(max_bytes // 4)
        prepared_cache.resize(max_bytes - max_bytes // 4)
