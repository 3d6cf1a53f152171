"""Interrupts while processes begin and end, and signals that end a run."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sdem_dist import compat


@contextmanager
def held_back() -> Iterator[None]:
    """Let an interrupt wait until the block has ended: Dask fails to end workers that have half started.

    Processes that are started meanwhile never see one: a terminal sends Ctrl-C to all, and this process alone is to
    end, and to end them. They inherit the mask of the thread that starts them, and that the mask of this one.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return
    compat.start_resource_tracker()
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, usual)
        if came:
            usual(came[0], None)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exit that ends what was started elsewhere, such as batch jobs, on its way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _: object) -> None:
        for each in (signal.SIGTERM, signal.SIGHUP):  # a second interrupt would stop the clean-up halfway
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
