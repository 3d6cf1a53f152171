"""Where tasks run: the executor of this process, and the memory that a run needs."""

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

LIBRARIES = 350 << 20  # of a worker: Python, compiled kernels, and the documents and tables of the lanes at work
LOADED = 200 << 20  # of a worker that has no documents yet: Python, compiled kernels
SHARE = 0.6  # of a process's memory that is used; Dask begins to write results to disk at .6, and pauses it at .8
SMALLEST_CACHE = 32 << 20
REFUSED = 0.75  # share of a process's memory above which a run does not start
MANY_CLASSES = 1000  # from this many on, a message names the estimator for them
BLOCK_BYTES = 256 << 20  # bytes of a state's table that one task should merge and update at most
Value = TypeVar("Value")
Handle = Future  # a result to come; of Dask its own kind: only its executor knows what to do with it
MAX_PENDING = 3  # tasks a worker that `in_order` submits before the first of them is asked for


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
        for folder in (inside, *inside.parents):  # limits of the groups around it hold, too; of versions 1 and 2
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
    """Return what a state takes of a worker: it before and after a round, and a block's merged statistics."""
    return int(state * (2 + 1 / n_blocks))  # measured: scale.py wide, tests/benchmarks/RESULTS.md


def cache_bytes(state: int, n_blocks: int, memory: int, n_classes: int = 0) -> int:
    """Return the bytes of documents a process may keep beside a run's states; ModelError if these are too large."""
    needed = needed_bytes(state, n_blocks)
    if needed > REFUSED * memory:
        takes, trained, has, enough = (f"{n / 2**30:.2f} GiB" for n in (state, needed, memory, needed / REFUSED))
        what = f"the model needs {takes}, and training it needs {trained} per worker, but a worker has {has}"
        advice = "; for thousands of classes use ManyClassNB" if n_classes >= MANY_CLASSES else ""
        hint = "(fewer workers per machine), divide the vocabulary into more blocks (n_blocks), or reduce it"
        raise ModelError(f"{what}: provide {enough} or more per worker {hint}{advice}")
    return max(SMALLEST_CACHE, int(SHARE * memory) - LIBRARIES - needed)


class Executor(AbstractContextManager["Executor"]):
    """Runs pure functions whose arguments may be results still to come; no bit depends on the number of workers.

    This one has threads of this process, by default one a core, as the kernels release the GIL.  It imports no Dask.
    """

    max_pending_rounds = 0  # rounds submitted before the current one ends, so that workers do not wait
    n_remembered = 0  # how many tasks so far are kept while their results are, to compute them again; 0: none ever

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_workers, self._stop = n_threads or len(os.sched_getaffinity(0)), threading.Event()
        self._events: list[Event] = []  # of workers that come and go
        self._pool: ThreadPoolExecutor | None = None
        if self.n_workers > 1:
            self._pool = ThreadPoolExecutor(self.n_workers, "", setattr, (of_thread, "stop", self._stop))

    def memory_bytes(self) -> int:
        return of_this_process()  # of several processes: of that with the least

    def submit(self, function: Callable[..., Value], *args: object, affinity: float | None = None) -> Handle[Value]:
        """Return a handle to ``function(*args)``, of a module-level pure function; a handle stands for its result.

        It is queued, and with one thread run at once. `affinity`: place of its documents in the corpus, from 0 to 1: a
        hint to run near what has run there.
        """

        def call() -> Value:
            with reraise_interrupt():
                return function(*(a.result() if isinstance(a, Future) else a for a in args))

        if self._pool is not None:
            # The queue is first in, first out and a task's arguments were queued before it, so that they are running
            # or done when it starts: waiting for them inside a task cannot block the pool.
            with reraise_interrupt():
                return self._pool.submit(call)
        future: Future[Value] = Future()
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001  kept for `result`, as a pool keeps it
            future.set_exception(error)
        return future

    def result(self, handle: Handle[Value]) -> Value:
        return handle.result()  # waits for it, and raises what its task raised

    def drain_events(self) -> list[Event]:
        """Return what has happened to workers and tasks since this was last called."""
        latest = list(self._events)
        del self._events[: len(latest)]  # others may be appended meanwhile
        return latest

    def run_on_all_workers(self, function: Callable[..., Value], *args: object) -> list[Value]:
        """Return ``function(*args)`` of all processes but failed and lost ones; empty if one does not answer."""
        return [function(*args)]

    def put(self, value: Value) -> Handle[Value]:
        """Return a handle to a value of the driver."""
        return self.submit(copy, value)  # a shallow one

    def __exit__(self, *error: object) -> None:
        """End the threads; a task that runs as soon as it checks."""
        self._stop.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def in_order(
    executor: Executor, function: Callable[..., Value | SdemError], jobs: Iterable[tuple[object, ...]]
) -> Iterator[Value]:
    """Yield ``function(*job)`` of every job, in their order; jobs are taken, and results held, as they are asked for.

    If one fails, those already running end first. `function` may return an error of ours, which is then raised here: of
    one that is raised on it, a worker prints the traceback.
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
        for handle in waiting:  # or they might still write where the caller clears up
            with suppress(Exception):
                executor.result(handle)
        raise
