"""How threads end early: an interrupt reaches the main thread alone, and no thread within a compiled call."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_mine = threading.local()


def set_stop_event(stop: threading.Event) -> None:
    """Have this thread end what it does soon after `stop` is set."""
    _mine.stop = stop


def check() -> None:
    """Raise KeyboardInterrupt if this thread is to end; to be called between compiled calls."""
    stop: threading.Event | None = getattr(_mine, "stop", None)
    if stop is not None and stop.is_set():
        raise KeyboardInterrupt


@contextmanager
def reraise_interrupt() -> Iterator[None]:
    """Raise the interrupt that came while a compiled call returned: Python raises SystemError with it as the cause.

    Where the system refuses a thread, raise MemoryError: Python's RuntimeError does not say that a limit is the reason.
    """
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
    except RuntimeError as error:
        if "can't start new thread" not in str(error):
            raise
        raise MemoryError(
            "the system starts no more threads for this process: raise its limits of memory or processes (ulimit -v, "
            "ulimit -u, the job's memory), or use fewer threads (n_jobs) or workers"
        ) from error
