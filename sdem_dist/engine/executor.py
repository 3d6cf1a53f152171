"""Where tasks run: the one small interface, and the executor of this process."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Protocol


class Executor(Protocol):
    """Run pure functions whose arguments may be results still to come."""

    n_workers: int
    """How many tasks run at once; nothing that changes a bit may depend on it."""

    def submit(self, function: Callable[..., Any], *args: Any, affinity: int | None = None) -> Any:
        """Return a handle to ``function(*args)``.

        Parameters
        ----------
        function : callable
            A module-level pure function.
        *args
            Values or handles; a handle stands for its result.
        affinity : int, optional
            Tasks of equal affinity gain from running where an earlier one ran; only a hint.
        """

    def result(self, handle: Any) -> Any:
        """Wait for a handle and return its value, or raise what its task raised."""

    def wait(self, handle: Any) -> None:
        """Wait until a handle's task is done, leaving its value where it is, or raise what it raised."""

    def put(self, value: Any) -> Any:
        """Return a handle to a value of the driver."""


class InProcess:
    """Threads of this process; the kernels release the GIL.  Imports neither dask nor distributed.

    Parameters
    ----------
    n_threads : int, optional
        None: as many as this process may use cores.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_workers = n_threads or len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(self.n_workers) if self.n_workers > 1 else None

    def submit(self, function: Callable[..., Any], *args: Any, affinity: int | None = None) -> Future[Any]:
        """Queue ``function(*args)``; with one thread, run it at once."""
        if self._pool is not None:
            # The queue is first in, first out and a task's arguments were queued before it, so that they are running
            # or done when it starts: waiting for them inside a task cannot block the pool.
            return self._pool.submit(_call, function, args)
        future: Future[Any] = Future()
        try:
            future.set_result(_call(function, args))
        except Exception as error:  # noqa: BLE001  kept for `result`, as a pool keeps it
            future.set_exception(error)
        return future

    def result(self, handle: Future[Any]) -> Any:
        """Wait for a handle and return its value."""
        return handle.result()

    def wait(self, handle: Future[Any]) -> None:
        """Wait for a handle."""
        handle.result()

    def put(self, value: Any) -> Future[Any]:
        """Return a handle to a value."""
        future: Future[Any] = Future()
        future.set_result(value)
        return future

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> InProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _call(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return function(*(a.result() if isinstance(a, Future) else a for a in args))
