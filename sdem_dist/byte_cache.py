"""Thread-safe caches within a budget of bytes, and the two that every process has."""

import os
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar, cast


class Sized(Protocol):
    """A value that knows its size."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""


Value = TypeVar("Value")
Key = tuple[object, ...]


def usable_after_fork(lock: threading.Lock) -> None:
    """See that a lock for the whole process is free in a forked child, and what it guards whole."""
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


class ByteCache:
    """Values kept for as long as their bytes fit a budget; keys are tuples.

    Epochs ask for the same values in turns.  If the oldest made room, each would go just before it is asked for again.
    So the first that came stay, and the others are made each time.  Only values whose key has another first part, which
    an earlier run left behind, make room.

    `max_bytes`: a value larger than the whole budget is returned but not kept.
    `oldest_leave`: let the oldest values make room after all.
    """

    def __init__(self, max_bytes: int, *, oldest_leave: bool = False) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._oldest_leave = oldest_leave
        self._values: dict[Key, Sized] = {}
        self.lock = threading.Lock()

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value of `key`, made by `make` where it is absent; values have ``nbytes``."""
        with self.lock:
            if key in self._values:
                return cast(Value, self._values[key])
        value = make()  # outside the lock: two threads may both make the value, and their values are equal
        with self.lock:
            if key not in self._values:
                nbytes = cast(Sized, value).nbytes
                self._make_room(nbytes, key[0])
                if self.nbytes + nbytes <= self.max_bytes:
                    self._values[key] = cast(Sized, value)
                    self.nbytes += nbytes
        return value

    def resize(self, max_bytes: int) -> None:
        """Set the budget, dropping what exceeds it."""
        with self.lock:
            self.max_bytes = max_bytes
            for key in list(self._values):
                if self.nbytes > max_bytes:
                    self._drop(key)

    def _make_room(self, nbytes: int, group: object) -> None:
        if self.nbytes + nbytes <= self.max_bytes or nbytes > self.max_bytes:
            return
        for key in [k for k in self._values if self._oldest_leave or k[0] != group]:
            self._drop(key)
            if self.nbytes + nbytes <= self.max_bytes:
                return

    def _drop(self, key: Key) -> None:
        self.nbytes -= self._values.pop(key).nbytes

    def discard(self, belongs: Callable[[Key], bool]) -> None:
        """Drop the values whose keys `belongs` accepts."""
        with self.lock:
            for key in [k for k in self._values if belongs(k)]:
                self._drop(key)

    def clear(self) -> None:
        """Drop everything."""
        self.discard(lambda key: True)


prepared_cache = ByteCache(768 << 20)
"""Documents as learners want them, kept between epochs."""
shard_cache = ByteCache(256 << 20, oldest_leave=True)
"""Decoded shards of which only a part was asked for yet."""
for _cache in (prepared_cache, shard_cache):
    usable_after_fork(_cache.lock)


def set_budget(max_bytes: int) -> None:
    """Share out what this process may keep of corpora: three quarters for prepared documents, the rest for shards."""
    if prepared_cache.max_bytes + shard_cache.max_bytes != max_bytes:
        shard_cache.resize(max_bytes // 4)
        prepared_cache.resize(max_bytes - max_bytes // 4)
