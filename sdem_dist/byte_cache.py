"""Documents that every process holds between epochs, as far as a budget of bytes allows."""

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

Key = tuple[object, ...]
Value = TypeVar("Value")


class ByteCache:
    """Values held for as long as their bytes fit a budget. A forked child finds it free and complete."""

    def __init__(self, max_bytes: int, *, oldest_leave: bool = False) -> None:
        # Epochs ask for the same values in turns. If the oldest made room, each would go just before it is asked for
        # again. So the first stay and the others are made each time, unless `oldest_leave`. Only values whose key has
        # another first part, which an earlier run left behind, make room.
        self.max_bytes, self.nbytes, self._oldest_leave = max_bytes, 0, oldest_leave
        self._values: dict[Key, Any] = {}
        lock = self._lock = threading.RLock()
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value of `key`, made by `make` where it is absent; values have ``nbytes``."""
        with self._lock:
            if key in self._values:
                return cast(Value, self._values[key])
        value = make()  # outside the lock: two threads may both make the value, and their values are equal
        nbytes: int = cast(Any, value).nbytes
        with self._lock:
            if key not in self._values and nbytes <= self.max_bytes:
                full = self.max_bytes - nbytes
                self.discard(lambda old: self.nbytes > full and (self._oldest_leave or old[0] != key[0]))
                if self.nbytes <= full:
                    self._values[key] = value
                    self.nbytes += nbytes
        return value

    def discard(self, condition: Callable[[Key], bool]) -> None:
        with self._lock:
            for key in list(self._values):
                if condition(key):
                    self.nbytes -= self._values.pop(key).nbytes

    def resize(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.discard(lambda key: self.nbytes > max_bytes)


prepared_cache = ByteCache(768 << 20)  # documents as learners want them, held between epochs
shard_cache = ByteCache(256 << 20, oldest_leave=True)  # decoded shards of which only a part was read yet
