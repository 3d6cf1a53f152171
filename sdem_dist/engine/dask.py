"""Running tasks on a Dask cluster, through `distributed.Client` alone: submit, wait, gather."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any, cast

import dask
from distributed import Client, Future, KilledWorker
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from sdem_dist.engine.events import Event, TaskRetried, WorkerJoined, WorkerLost
from sdem_dist.engine.memory import of_this_process
from sdem_dist.errors import ClusterError, UnreadableError
from sdem_dist.learners.protocol import Lane

TRANSIENT = (OSError, MemoryError, UnreadableError)
"""What another try may not meet again: storage that hiccups, a worker that is full.  Everything else fails everywhere."""
TRIES = 3
PULSE = 2.0
"""Seconds between two looks at the cluster while waiting."""
WAIT_FOR_WORKERS = 60.0
SILENCE = 300.0
EVERYWHERE = 120.0
"""Seconds for what every worker does before the run; it only saves time, so that a worker that hangs is not waited for."""

_log = logging.getLogger(__name__)


class DaskExecutor:
    """A connected client as an executor.

    Tasks are pure and refer to the corpus by path and to the model by a future, so that Dask recomputes what a lost
    worker held.  Nothing is pinned: affinity only asks for the worker that probably has a range cached.

    Waiting for a task has no deadline of its own, since an honest one may take hours.  But every `PULSE` seconds the
    scheduler is asked for its workers, and the run ends with an error if it does not answer, or has none.

    Parameters
    ----------
    client : distributed.Client
        Synchronous; stays open.
    wait_for_workers : float, optional
        Seconds that the cluster may be without any worker, at the beginning and in the middle.  Default: Dask's
        configuration ``sdem-dist.wait-for-workers`` (``DASK_SDEM_DIST__WAIT_FOR_WORKERS``), or 60.
    silence : float, optional
        Seconds that the scheduler may take to answer.  Default: ``sdem-dist.silence``, or 300.

    Raises
    ------
    ClusterError
        No worker arrived in time, or the scheduler does not answer.
    """

    def __init__(self, client: Client, wait_for_workers: float | None = None, silence: float | None = None) -> None:
        self._client = client
        self._scheduler = cast(Any, client.scheduler)
        self._run = f"0{uuid.uuid4().hex[:8]}"  # keys of two runs on one cluster must differ
        self._count = 0
        self._wait_for_workers = _seconds("wait-for-workers", wait_for_workers, WAIT_FOR_WORKERS)
        self._silence = _seconds("silence", silence, SILENCE)
        self._address = self._scheduler.address
        self._workers: list[str] = []
        self._threads = 0
        self._events: list[Event] = []
        self._disturbed = False
        self._asked = time.time()
        self._looked = self._peopled = time.monotonic()
        client.sync(self._look)
        self._task_stream(count=0)  # from now on the scheduler keeps what `transfer_seconds` asks for
        if not self._workers:
            _log.warning("no worker at %s yet; waiting up to %g s for one", self._address, self._wait_for_workers)
            client.sync(self._first_worker)

    @property
    def n_workers(self) -> int:
        """How many threads the workers had when last looked, at least 1."""
        return max(1, self._threads)

    def everywhere(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Run ``function(*args)`` on every worker: on one of each host first, whose files the others then find."""
        self._client.sync(self._look)  # a worker lost since would be waited for
        first = {worker.rpartition(":")[0]: worker for worker in reversed(self._workers)}.values()
        found: list[Any] = []
        for chosen in (list(first), [worker for worker in self._workers if worker not in first]):
            while workers := [worker for worker in chosen if worker in self._workers]:
                # A worker lost meanwhile compiles when it is back; what else fails here fails in a task, which says more.
                run = partial(self._client.run, function, *args, workers=workers, on_error="ignore", asynchronous=True)
                answers = self._client.sync(self._while_alive, partial(self._answers, run, workers))
                if answers is not None:
                    found += answers.values()
                    break
                if all(worker in self._workers for worker in workers):
                    return []
        return found

    def noticed(self) -> list[Event]:
        """Return what has happened to workers and tasks since this was last asked."""
        events, self._events = self._events, []
        return events

    rounds_ahead = 1

    @property
    def n_remembered(self) -> int:
        """How many tasks there were: the scheduler keeps those behind a result."""
        return self._count

    @property
    def memory_bytes(self) -> int:
        """The memory of the worker that has the least."""
        found = self._client.sync(self._answer, lambda: self._scheduler.identity(n_workers=-1))
        workers = found["workers"].values()
        limits = [worker["memory_limit"] for worker in workers if worker["memory_limit"]]
        # Workers without a limit share what their machine has.
        free = [address for address, worker in found["workers"].items() if not worker["memory_limit"]]
        asked = partial(self._client.run, of_this_process, workers=free, on_error="ignore", asynchronous=True)
        machines = self._client.sync(self._answer, asked) if free else {}
        hosts = [address.rpartition(":")[0] for address in free]
        limits += [size // hosts.count(address.rpartition(":")[0]) for address, size in machines.items()]
        return int(min(limits, default=of_this_process()))

    def submit(self, function: Callable[..., Any], *args: Any, affinity: float | None = None) -> Future:
        """Submit ``function(*args)`` under a key of its own, which says what it works on."""
        self._count += 1
        where: dict[str, Any] = {}
        if affinity is not None and self._workers:
            where = {
                "workers": [self._workers[min(int(affinity * len(self._workers)), len(self._workers) - 1)]],
                "allow_other_workers": True,
            }
        # The function comes first: Dask groups its measurements by what precedes the first number.
        key = f"{function.__name__}-{self._run}-{self._count}{_place(args)}"
        # What merges or reports is short, and others wait for it.  Everything else runs in the order of submission (updates
        # of blocks, too, when nothing else of their round is left): Dask takes what comes within 100 ms as equal, and
        # statistics would wait for neighbours to be merged with.
        return self._client.submit(
            _attempt, function, *args, key=key, pure=False, priority=int(affinity is None), fifo_timeout=0, **where
        )

    def result(self, handle: Future) -> Any:
        """Wait for a future and return its value.

        Raises
        ------
        ClusterError
            The scheduler was lost or fell silent, there were no workers for too long, or a task killed several
            workers in turn.
        """
        self.wait(handle)
        return self._gathered(handle)

    def wait(self, handle: Future) -> None:
        """Wait for a future, leaving its value on its worker; raises as `result` does.

        A task that failed with one of `TRANSIENT` is tried again, `TRIES` times in all.
        """
        error: BaseException | None = None
        for left in reversed(range(TRIES)):
            error = self._watched(handle, partial(self._next_error, handle, error))
            if error is None and not handle.cancelled():
                return
            if not left or not isinstance(error, TRANSIENT):
                self._gathered(handle)  # raises, with the traceback of the worker
            _log.warning("a task failed and is tried again (%s): %s", type(error).__name__, error)
            self._events.append(TaskRetried(TRIES - left, f"{type(error).__name__}: {error}"))
            # Not client.retry, which stumbles over failed tasks further back whose futures are gone.
            self._watched(handle, lambda: self._scheduler.retry(keys=[handle.key], client=self._client.id))

    def put(self, value: Any) -> Future:
        """Submit a value as a task of its own, so that Dask can restore it where a scattered copy would be lost."""
        # Dask warns of values in tasks from 10 MB on; a state is as large as it is.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.submit(_identity, value)

    def transfer_seconds(self) -> float:
        """Return the seconds that workers spent on fetching results from each other since last asked."""
        since, self._asked = self._asked, time.time()
        return sum(
            span["stop"] - span["start"]
            for task in self._task_stream(start=since)
            for span in task["startstops"]
            if span["action"] == "transfer" and self._run in str(task["key"])
        )

    def _task_stream(self, **which: Any) -> Any:
        # Within the client's event loop, its method returns something to await.
        return self._client.sync(self._answer, lambda: self._client.get_task_stream(**which))

    def _gathered(self, handle: Future) -> Any:
        return self._watched(handle, lambda: self._client.gather(handle, asynchronous=True))

    async def _next_error(self, handle: Future, known: BaseException | None) -> BaseException | None:
        """Wait for a future; return its error, or None.  One known already has been answered by a retry."""
        deadline = time.monotonic() + self._silence
        while (error := await handle.exception(asynchronous=True)) is not None and _same_attempt(error, known):
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the scheduler at {self._address} was asked to try {handle.key!r} again, and has not for {self._silence:g} s"
                )
            await asyncio.sleep(0.01)  # the news of the retry is on its way
        return error

    def _watched(self, handle: Future, start: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return self._client.sync(self._while_alive, start)
        except KilledWorker as error:
            raise ClusterError(
                f"{error.allowed_failures + 1} workers died one after the other while they had the task {error.task!r}, "
                f"the last was {error.last_worker.address}. The documents of this task, or of one queued beside it, "
                "may crash compiled code or need more memory than a worker has; the workers' logs say more"
            ) from error
        except (CancelledError, CommClosedError, ClosedClientError) as error:
            raise ClusterError(
                f"the scheduler at {self._address} was lost, or forgot what it had, while the task {handle.key!r} was under "
                f"way: {error}"
            ) from error

    async def _while_alive(self, start: Callable[[], Awaitable[Any]]) -> Any:
        """Await ``start()`` for as long as the scheduler answers and has workers."""
        work = asyncio.ensure_future(start())
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=max(0.0, self._looked + PULSE - time.monotonic()))
                if time.monotonic() >= self._looked + PULSE:
                    await self._look()
            return work.result()
        finally:
            work.cancel()

    async def _answers(self, run: Callable[[], Awaitable[Any]], workers: list[str]) -> Any:
        """Return what workers answer; None if one does not in time, or is lost: Dask would go on calling it for 30 s."""
        answers, deadline = asyncio.ensure_future(run()), time.monotonic() + EVERYWHERE
        try:
            while not answers.done() and time.monotonic() < deadline and set(workers) <= set(self._workers):
                await asyncio.wait({answers}, timeout=PULSE / 4)
            return answers.result() if answers.done() else None
        finally:
            answers.cancel()

    async def _first_worker(self) -> None:
        while not self._workers:
            await asyncio.sleep(min(PULSE, self._wait_for_workers / 4))
            await self._look()

    async def _look(self) -> None:
        """Ask the scheduler for its workers, which also shows that it is alive."""
        present = await self._answer(self._scheduler.ncores)
        self._looked = time.monotonic()
        lost = [worker for worker in self._workers if worker not in present]
        self._events += [WorkerLost(worker) for worker in lost]
        self._events += [WorkerJoined(worker) for worker in present if worker not in self._workers]
        self._workers = _slots(self._workers, present)
        self._threads = sum(present.values())
        running = await self._answer(self._scheduler.ncores_running)
        before, self._disturbed = self._disturbed, bool(lost) or len(running) < len(present)
        if running:
            self._peopled = self._looked
            if before or self._disturbed:
                with suppress(ValueError):  # a scheduler that takes no functions
                    await self._answer(partial(self._client.run_on_scheduler, _let_others_run, self._run))
        elif self._looked - self._peopled >= self._wait_for_workers:
            what = (
                f"has had all of its {len(present)} workers paused, which Dask does to workers short of memory, for "
                f"{self._wait_for_workers:g} s; give each more memory"
                if present
                else f"has had no worker for {self._wait_for_workers:g} s; start workers or ask whoever runs the cluster"
            )
            raise ClusterError(
                f"the scheduler at {self._address} {what}. (DASK_SDEM_DIST__WAIT_FOR_WORKERS sets this time.)"
            )

    async def _answer(self, question: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await asyncio.wait_for(question(), self._silence)
        except (CommClosedError, ConnectionError) as error:
            raise ClusterError(f"the scheduler at {self._address} was lost: {error}") from error
        except (RuntimeError, ClosedClientError) as error:
            if self._client.status == "running":
                raise
            raise ClusterError(f"the client of the scheduler at {self._address} was closed: {error}") from error
        except TimeoutError as error:
            raise ClusterError(
                f"the scheduler at {self._address} has not answered for {self._silence:g} s: it hangs, or the network "
                "does. (DASK_SDEM_DIST__SILENCE sets this time.)"
            ) from error


def _attempt(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except TRANSIENT as error:
        # Dask may report one failure twice; only so can it be told from the failure of a second attempt.
        error.attempt = uuid.uuid4().hex  # type: ignore[union-attr]
        raise


def _same_attempt(error: BaseException, known: BaseException | None) -> bool:
    return error is known or getattr(error, "attempt", error) == getattr(known, "attempt", known)


def _let_others_run(run: str, dask_scheduler: Any) -> None:
    """Free a run's tasks that wait for a worker which is lost or paused, though any other may run them.

    Dask does not, where no worker at all was running when they became ready.
    """
    waiting = [ts for ts in dask_scheduler.unrunnable if run in str(ts.key) and ts.loose_restrictions]
    for ts in waiting:
        ts.worker_restrictions = None
    dask_scheduler.transitions({ts.key: "processing" for ts in waiting}, f"let-others-run-{time.time()}")


def _identity(value: Any) -> Any:
    return value


def _seconds(name: str, given: float | None, default: float) -> float:
    return float(dask.config.get(f"sdem-dist.{name}", default)) if given is None else given


def _slots(known: list[str], present: Iterable[str]) -> list[str]:
    """Return the workers present such that those known keep their place, and so the ranges they have cached."""
    new = iter(sorted(set(present) - set(known)))
    kept = [worker if worker in present else next(new, None) for worker in known]
    return [worker for worker in kept if worker is not None] + list(new)


def _place(args: tuple[Any, ...]) -> str:
    """Return what the lanes among a task's arguments are, for people who read keys; empty if there are none."""
    lanes = [lane for a in args if isinstance(a, list | tuple) for lane in a if isinstance(lane, Lane)]
    if not lanes:
        return ""
    first, last = lanes[0], lanes[-1]
    which = f"lane {first.lane}" if first is last else f"lanes {first.lane} to {last.lane}"
    start, stop = min(lane.start for lane in lanes), max(lane.stop for lane in lanes)
    return f" ({which} of round {first.round} of epoch {first.epoch}, from 0; documents {start} to {stop})"
