"""How threads end early: an interrupt reaches the main thread alone, and no thread within a compiled call."""

from __future__ import annotations

import threading

_mine = threading.local()


def obey(stop: threading.Event) -> None:
    """Have this thread end what it does soon after `stop` is set."""
    _mine.stop = stop


def check() -> None:
    """Raise KeyboardInterrupt if this thread is to end; to be called between compiled calls."""
    stop: threading.Event | None = getattr(_mine, "stop", None)
    if stop is not None and stop.is_set():
        raise KeyboardInterrupt
