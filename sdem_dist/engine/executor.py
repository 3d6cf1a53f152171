"""Where tasks run: the one small interface, and the executor of this process."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Protocol, TypeVar, cast

from sdem_dist.engine.events import Event
from sdem_dist.engine.memory import of_this_process
from sdem_dist.errors import ClusterError, SdemError
from sdem_dist.interrupts import reraise_interrupt, set_stop_event

Value = TypeVar("Value")
Result = TypeVar("Result", covariant=True)
SUBMITTED_AHEAD = 3  # tasks a worker that `in_order` submits before the first of them is asked for


class Handle(Protocol[Result]):
    """A result to come, of an executor's own kind. Only its executor knows what to do with it."""

    def done(self) -> bool:
        """Whether its task has ended."""


class Executor(Protocol):
    """Run pure functions whose arguments may be results still to come."""

    @property
    def n_workers(self) -> int:
        """How many tasks run at once; nothing that changes a bit may depend on it."""

    @property
    def rounds_ahead(self) -> int:
        """How many rounds are submitted before the current one ends, so that workers need not wait for the driver."""

    @property
    def n_remembered(self) -> int:
        """How many of the tasks so far are kept while their results are, to compute them again; 0: none ever."""

    @property
    def memory_bytes(self) -> int:
        """How much memory the process with the least may use; nothing that changes a bit may depend on it."""

    def submit(self, function: Callable[..., Value], *args: object, affinity: float | None = None) -> Handle[Value]:
        """Return a handle to ``function(*args)``.

        `function`: a module-level pure function. `*args`: values or handles; a handle stands for its result.
        `affinity`: place of the task's documents in the corpus, from 0 to 1: tasks near each other gain from running
        on one worker, where an earlier one ran; only a hint.
        """

    def result(self, handle: Handle[Value]) -> Value:
        """Wait for a handle and return its value, or raise what its task raised."""

    def wait(self, handle: Handle[object]) -> None:
        """Wait until a handle's task is done, leaving its value where it is, or raise what it raised."""

    def put(self, value: Value) -> Handle[Value]:
        """Return a handle to a value of the driver."""

    def run_on_all_workers(self, function: Callable[..., Value], *args: object) -> list[Value]:
        """Run ``function(*args)`` in every process: in one of each machine first, whose files the others then find.

        Returns what each returned, without those that failed or were lost; empty if one does not answer.
        """

    def drain_events(self) -> list[Event]:
        """Return what has happened to workers and tasks since this was last called."""

    def transfer_seconds(self, since: float) -> float:
        """Return the seconds workers spent on fetching results from each other since a time, as `time.time` has it."""


class InProcess:
    """Threads of this process; the kernels release the GIL.  Imports neither dask nor distributed.

    `n_threads`: None: as many as this process may use cores.
    `memory_bytes`: how much is kept of documents follows from it, see `sdem_dist.engine.memory`. None: what the
    machine, or the control group of this process, has.
    """

    rounds_ahead = 0  # the driver is in this process, and a single thread runs them at once
    n_remembered = 0  # a task that is done is forgotten

    def __init__(self, n_threads: int | None = None, memory_bytes: int | None = None) -> None:
        self.n_workers = n_threads or len(os.sched_getaffinity(0))
        self.memory_bytes = of_this_process() if memory_bytes is None else memory_bytes
        self._stop = threading.Event()
        self._pool = (
            ThreadPoolExecutor(self.n_workers, "", set_stop_event, (self._stop,)) if self.n_workers > 1 else None
        )

    def submit(self, function: Callable[..., Value], *args: object, affinity: float | None = None) -> Future[Value]:
        """Queue ``function(*args)``; with one thread, run it at once."""
        if self._pool is not None:
            # The queue is first in, first out and a task's arguments were queued before it, so that they are running
            # or done when it starts: waiting for them inside a task cannot block the pool.
            with reraise_interrupt():
                return self._pool.submit(_call, function, args)
        future: Future[Value] = Future()
        try:
            future.set_result(_call(function, args))
        except Exception as error:  # noqa: BLE001  kept for `result`, as a pool keeps it
            future.set_exception(error)
        return future

    def result(self, handle: Handle[Value]) -> Value:
        """Wait for a handle and return its value."""
        return cast("Future[Value]", handle).result()

    def wait(self, handle: Handle[object]) -> None:
        """Wait for a handle."""
        self.result(handle)

    def put(self, value: Value) -> Future[Value]:
        """Return a handle to a value."""
        future: Future[Value] = Future()
        future.set_result(value)
        return future

    def run_on_all_workers(self, function: Callable[..., Value], *args: object) -> list[Value]:
        """Run ``function(*args)``."""
        return [function(*args)]

    def drain_events(self) -> list[Event]:
        """Return nothing: threads do not come and go."""
        return []

    def transfer_seconds(self, since: float) -> float:
        """Return 0: threads share their memory."""
        return 0.0

    def close(self) -> None:
        """End the threads; a task that runs as soon as it checks."""
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> InProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _call(function: Callable[..., Value], args: tuple[object, ...]) -> Value:
    with reraise_interrupt():
        return function(*(a.result() if isinstance(a, Future) else a for a in args))


def in_order(
    executor: Executor, function: Callable[..., Value | SdemError], jobs: Iterable[tuple[object, ...]]
) -> Iterator[Value]:
    """Yield ``function(*job)`` of every job, in their order.

    Jobs are taken, and results held, only as fast as they are asked for. If one fails, those already running end first.

    `function`: as `Executor.submit` takes it. It may return an error of ours, which is then raised here. (Of an error
    that is raised on it, a worker prints the traceback.)
    `jobs`: arguments; one that is a handle of the executor stands for its result.
    """
    waiting: deque[Handle[Value | SdemError]] = deque()
    try:
        for job in jobs:
            waiting.append(executor.submit(function, *job))
            if len(waiting) >= SUBMITTED_AHEAD * executor.n_workers:
                yield _value(executor.result(waiting.popleft()))
        while waiting:
            yield _value(executor.result(waiting.popleft()))
    except ClusterError:
        raise
    except Exception:
        for handle in waiting:  # or they might still write where the caller clears up
            with suppress(Exception):
                executor.wait(handle)
        raise


def _value(result: Value | SdemError) -> Value:
    if isinstance(result, SdemError):
        raise result
    return result
