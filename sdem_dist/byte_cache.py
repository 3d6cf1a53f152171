"""A thread-safe cache within a budget of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any


class ByteCache:
    """Least recently used values, dropped when their bytes exceed a budget.

    Parameters
    ----------
    max_bytes : int
        A value larger than the whole budget is returned but not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the value of `key`, made by `make` where it is absent; values have ``nbytes``."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()  # outside the lock: two threads may make the same value, and then have equal ones
        with self._lock:
            if key not in self._values and value.nbytes <= self.max_bytes:
                self._values[key] = value
                self.nbytes += value.nbytes
                while self.nbytes > self.max_bytes:
                    self.nbytes -= self._values.popitem(last=False)[1].nbytes
        return value

    def discard(self, belongs: Callable[[Hashable], bool]) -> None:
        """Drop the values whose keys `belongs` accepts."""
        with self._lock:
            for key in [k for k in self._values if belongs(k)]:
                self.nbytes -= self._values.pop(key).nbytes

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._values.clear()
            self.nbytes = 0
