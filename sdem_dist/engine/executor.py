"""The executor that runs tasks in this process, and the memory that a run needs."""

from __future__ import annotations

import os
import resource
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sdem_dist.engine.events import Event
from sdem_dist.errors import ClusterError, ModelError, SdemError, of_thread, reraise_interrupt

LIBRARIES = 350 << 20  # bytes of a worker: Python, compiled kernels, documents and tables of the lanes being computed
LOADED = 200 << 20  # bytes of a worker before it reads documents: Python, compiled kernels
SHARE = 0.6  # share of a process's memory to use; Dask writes results to disk from 0.6 on, and pauses a worker at 0.8
SMALLEST_CACHE = 32 << 20
REFUSED = 0.75  # share of a process's memory above which a run does not start
MANY_CLASSES = 1000  # from this many classes on, the error message recommends ManyClassNB
BLOCK_BYTES = 256 << 20  # bytes of a state's table that one task should merge and update at most
Value = TypeVar("Value")
Handle = Future  # a pending result; Dask has its own kind: pass a handle only to the executor that returned it
MAX_PENDING = 3  # tasks per worker that `in_order` submits ahead of the result it waits for


@cache
def of_this_process() -> int:
    """Return the bytes that this process may use: the machine's memory, its control groups' or its own limit."""
    limits, groups = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")], ""
    with suppress(OSError):
        groups = Path("/proc/self/cgroup").read_text(encoding="ascii")
    for line in groups.splitlines():
        _, controllers, group = line.split(":", 2)
        inside = Path(group).relative_to("/")
        name = "memory/{}/memory.limit_in_bytes" if "memory" in controllers.split(",") else "{}/memory.max"
        for folder in (inside, *inside.parents):  # enclosing groups limit it, too; cgroups v1 and v2
            with suppress(OSError):
                limit = Path("/sys/fs/cgroup", name.format(folder)).read_text(encoding="ascii").strip()
                limits += [int(limit)] if limit.isdigit() else []
    own = resource.getrlimit(resource.RLIMIT_AS)[0]  # ulimit -v
    return min([*limits, *([own] if own != resource.RLIM_INFINITY else [])])


def state_bytes(state: Any) -> int:
    return sum(np.asarray(field).nbytes for field in state)


def default_blocks(state: int) -> int:
    """Return the number of blocks of the vocabulary in which a state of `state` bytes is merged and updated."""
    return max(1, -(-state // BLOCK_BYTES))


def needed_bytes(state: int, n_blocks: int) -> int:
    """Return the bytes of a worker for a state: before and after a round, and the merged statistics of one block."""
    return int(state * (2 + 1 / n_blocks))  # measured: scale.py wide, tests/benchmarks/RESULTS.md


def cache_bytes(state: int, n_blocks: int, memory: int, n_classes: int = 0) -> int:
    """Return how many bytes of documents a process may cache beside the states; ModelError if states are too large."""
    needed = needed_bytes(state, n_blocks)
    if needed > REFUSED * memory:
        takes, trained, has, enough = (f"{n / 2**30:.2f} GiB" for n in (state, needed, memory, needed / REFUSED))
        what = f"the model needs {takes}, and training it needs {trained} per worker, but a worker has {has}"
        advice = "; for thousands of classes use ManyClassNB" if n_classes >= MANY_CLASSES else ""
        hint = "(run fewer workers per machine), divide the vocabulary into more blocks (n_blocks), or reduce it"
        raise ModelError(f"{what}: provide {enough} or more per worker {hint}{advice}")
    return max(SMALLEST_CACHE, int(SHARE * memory) - LIBRARIES - needed)


class Executor(AbstractContextManager["Executor"]):
    """Runs pure functions whose arguments may be pending results; no bit depends on the number of workers.

    This class uses threads of this process, by default one per core: the kernels release the GIL. It imports no Dask.
    """

    max_pending_rounds = 0  # rounds submitted before the current round ends, so that workers are not idle
    n_remembered = 0  # tasks submitted so far, if the executor keeps them to recompute results; 0 if it does not

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_workers, self._stop = n_threads or len(os.sched_getaffinity(0)), threading.Event()
        self._events: list[Event] = []  # of workers that joined or were lost, and of retries
        self._pool: ThreadPoolExecutor | None = None
        if self.n_workers > 1:
            self._pool = ThreadPoolExecutor(self.n_workers, "", setattr, (of_thread, "stop", self._stop))

    def memory_bytes(self) -> int:
        return of_this_process()  # with several processes: the least of theirs

    def submit(self, function: Callable[..., Value], *args: object, affinity: float | None = None) -> Handle[Value]:
        """Return a handle to ``function(*args)``, a module-level pure function; a handle among `args` is its result.

        The task is queued; with one thread, it runs immediately. `affinity` is the position of its documents in the
        corpus, from 0 to 1: a hint to run it on the worker that ran tasks at this position.
        """

        def call() -> Value:
            with reraise_interrupt():
                return function(*(a.result() if isinstance(a, Future) else a for a in args))

        if self._pool is not None:
            # The queue is first in, first out, and the arguments of a task were queued before it: when it starts, they
            # are running or done. So a task that waits for its arguments cannot deadlock the pool.
            with reraise_interrupt():
                return self._pool.submit(call)
        future: Future[Value] = Future()
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001  `result` raises it, as with a pool
            future.set_exception(error)
        return future

    def result(self, handle: Handle[Value]) -> Value:
        return handle.result()

    def drain_events(self) -> list[Event]:
        """Return the events of workers and tasks since the last call."""
        latest = list(self._events)
        del self._events[: len(latest)]  # another thread may append events meanwhile
        return latest

    def run_on_all_workers(self, function: Callable[..., Value], *args: object) -> list[Value]:
        """Return ``function(*args)`` of each process, without failed and lost ones; empty if a process hangs."""
        return [function(*args)]

    def put(self, value: Value) -> Handle[Value]:
        """Return a handle to a value of the driver."""
        return self.submit(copy, value)  # a shallow copy

    def __exit__(self, *error: object) -> None:
        """End the threads; a running task ends when it next checks `of_thread.stop`."""
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def in_order(
    executor: Executor, function: Callable[..., Value | SdemError], jobs: Iterable[tuple[object, ...]]
) -> Iterator[Value]:
    """Yield ``function(*job)`` for every job, in order; jobs are taken lazily, and few results are held.

    If a job fails, the error is raised after the jobs already submitted have ended. `function` may return an SdemError,
    which is raised here: if it raised the error itself, the worker would print a traceback.
    """
    waiting: deque[Handle[Value | SdemError]] = deque()
    arguments = iter(jobs)
    try:
        while True:
            while len(waiting) < MAX_PENDING * executor.n_workers and (job := next(arguments, None)) is not None:
                waiting.append(executor.submit(function, *job))
            if not waiting:
                return
            result = executor.result(waiting.popleft())
            if isinstance(result, SdemError):
                raise result
            yield result
    except ClusterError:
        raise
    except Exception:
        for handle in waiting:  # they must not write files while the caller removes them
            with suppress(Exception):
                executor.result(handle)
        raise
