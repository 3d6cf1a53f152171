"""Running tasks on a Dask cluster, through `distributed.Client` alone: submit, wait, gather."""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from typing import Any, TypeVar, cast

import dask
from distributed import Client, Future, KilledWorker
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from sdem_dist import compat
from sdem_dist.engine.dask_watch import Watch
from sdem_dist.engine.events import Event, TaskRetried
from sdem_dist.engine.executor import Handle
from sdem_dist.engine.memory import of_this_process
from sdem_dist.errors import ClusterError, UnreadableError
from sdem_dist.learners.protocol import Lane

TRANSIENT = (OSError, MemoryError, UnreadableError)
"""Errors that another try may not meet: storage that hiccups, a worker that is full.  Others would fail anywhere."""
TRIES = 3
TASK_STREAM = {f"distributed.scheduler.dashboard.{page}.task-stream-length": 4_000 for page in ("status", "tasks")}
"""How many tasks' measurements a scheduler keeps, 2.5 KB each.  Dask's default is 100,000; where the scheduler is in
the driver's process, they take its memory."""
Value = TypeVar("Value")
_log = logging.getLogger(__name__)


class DaskExecutor:
    """A connected client as an executor.

    Tasks are pure and refer to the corpus by path and to the model by a future, so that Dask recomputes what a lost
    worker held.  Nothing is pinned: affinity only asks for the worker that probably has a range cached.

    A task may take hours, so waiting for it has no deadline of its own; see `Watch`.

    `client`: synchronous; stays open.
    `wait_for_workers`: seconds that the cluster may be without any worker, at the beginning and in the middle.
    Default: Dask's configuration ``sdem-dist.wait-for-workers`` (``DASK_SDEM_DIST__WAIT_FOR_WORKERS``), or 60.
    `silence`: seconds that the scheduler may take to answer. Default: ``sdem-dist.silence``, or 300.
    Raises ClusterError: no worker arrived in time, or the scheduler does not answer.
    """

    def __init__(self, client: Client, wait_for_workers: float | None = None, silence: float | None = None) -> None:
        self._client = client
        self._run = f"0{uuid.uuid4().hex[:8]}"  # keys of two runs on one cluster must differ
        self._count = 0
        self._watch = Watch(client, self._run, wait_for_workers, silence)
        with dask.config.set(TASK_STREAM):  # seen by a scheduler in this process
            self._task_stream(count=0)  # from now on it records what `transfer_seconds` reads

    @property
    def n_workers(self) -> int:
        """How many threads the workers had when last looked, at least 1."""
        return max(1, self._watch.n_threads)

    def everywhere(self, function: Callable[..., Value], *args: object) -> list[Value]:
        """Run ``function(*args)`` on every worker: on one of each host first, whose files the others then find."""
        return self._watch.everywhere(function, *args)

    def noticed(self) -> list[Event]:
        """Return what has happened to workers and tasks since this was last asked."""
        events = self._watch.events
        self._watch.events = []
        return events

    rounds_ahead = 1

    @property
    def n_remembered(self) -> int:
        """How many tasks there were: the scheduler keeps those behind a result."""
        return self._count

    @property
    def n_processes(self) -> int:
        """How many workers there were when last looked, at least 1."""
        return max(1, len(self._watch.workers))

    @property
    def memory_bytes(self) -> int:
        """The memory of the worker that has the least."""
        workers = self._watch.ask(partial(compat.described_workers, self._client))
        limits = [worker["memory_limit"] for worker in workers.values() if worker["memory_limit"]]
        # Workers without a limit share what their machine has.
        free = [address for address, worker in workers.items() if not worker["memory_limit"]]
        asked = partial(self._client.run, of_this_process, workers=free, on_error="ignore", asynchronous=True)
        machines = self._watch.ask(asked) if free else {}
        hosts = [address.rpartition(":")[0] for address in free]
        limits += [size // hosts.count(address.rpartition(":")[0]) for address, size in machines.items()]
        return int(min(limits, default=of_this_process()))

    def submit(self, function: Callable[..., Value], *args: object, affinity: float | None = None) -> Handle[Value]:
        """Submit ``function(*args)`` under a key of its own that names the work."""
        self._count += 1
        where: dict[str, object] = {}
        if affinity is not None and (slots := self._watch.workers):
            preferred = slots[min(int(affinity * len(slots)), len(slots) - 1)]
            where = {"workers": [preferred], "allow_other_workers": True}
        # The function comes first: Dask groups its measurements by what precedes the first number.
        key = f"{function.__name__}-{self._run}-{self._count}{_place(args)}"
        # Tasks that merge or report are short, and others wait for them.  All others run in the order of submission
        # (updates of blocks, too, when nothing else of their round is left): Dask takes what comes within 100 ms as
        # equal, and statistics would wait for neighbours to be merged with.
        try:
            return self._client.submit(
                _attempt, function, *args, key=key, pure=False, priority=int(affinity is None), fifo_timeout=0, **where
            )
        except ClosedClientError as error:
            raise ClusterError(f"the client of the scheduler at {self._watch.address} was closed: {error}") from error

    def result(self, handle: Handle[Value]) -> Value:
        """Wait for a future and return its value.

        Raises ClusterError: the scheduler was lost or fell silent, there were no workers for too long, or a task killed
        several workers in turn.
        """
        self.wait(handle)
        return cast(Value, self._gathered(cast("Future[Any]", handle)))

    def wait(self, handle: Handle[object]) -> None:
        """Wait for a future, leaving its value on its worker; raises as `result` does.

        A task that failed with one of `TRANSIENT` is tried again, `TRIES` times in all.
        """
        future, error = cast("Future[Any]", handle), None
        for left in reversed(range(TRIES)):
            error = self._watched(future, partial(self._next_error, future, error))
            if error is None and not future.cancelled():
                return
            if not left or not isinstance(error, TRANSIENT):
                self._gathered(future)  # raises, with the traceback of the worker
            _log.warning("a task failed and is tried again (%s): %s", type(error).__name__, error)
            self._watch.events.append(TaskRetried(TRIES - left, f"{type(error).__name__}: {error}"))
            self._watched(future, partial(compat.retry_task, self._client, future.key))

    def put(self, value: Value) -> Handle[Value]:
        """Submit a value as a task of its own, so that Dask can restore it where a scattered copy would be lost."""
        # Dask warns of values in tasks from 10 MB on; a state is as large as it is.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.submit(_identity, value)

    def transfer_seconds(self, since: float) -> float:
        """Return the seconds that workers spent on fetching results from each other since a time."""
        return sum(
            span["stop"] - span["start"]
            for task in self._task_stream(start=since)
            for span in task["startstops"]
            if span["action"] == "transfer" and self._run in str(task["key"])
        )

    def _task_stream(self, **which: Any) -> Any:
        # Within the client's event loop, its method returns something to await.
        return self._watch.ask(lambda: self._client.get_task_stream(**which))

    def _gathered(self, handle: Future[Any]) -> Any:
        return self._watched(handle, lambda: self._client.gather(handle, asynchronous=True))

    async def _next_error(self, handle: Future[Any], known: BaseException | None) -> BaseException | None:
        """Wait for a future; return its error, or None.  One known already has been answered by a retry."""
        deadline = time.monotonic() + self._watch.silence
        while (error := await handle.exception(asynchronous=True)) is not None and _same_attempt(error, known):
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the scheduler at {self._watch.address} was asked to try {handle.key!r} again, and has not for "
                    f"{self._watch.silence:g} s"
                )
            await asyncio.sleep(0.01)  # the message of the retry is under way
        return error

    def _watched(self, handle: Future[Any], start: Callable[[], Awaitable[Value]]) -> Value:
        try:
            return self._watch.alive(start)
        except KilledWorker as error:
            raise ClusterError(
                f"{error.allowed_failures + 1} workers died one after the other while they had the task {error.task!r}, "
                f"the last was {error.last_worker.address}. The documents of this task, or of one queued beside it, "
                "may crash compiled code or need more memory than a worker has; the workers' logs say more"
            ) from error
        except (CancelledError, CommClosedError, ClosedClientError) as error:
            raise ClusterError(
                f"the scheduler at {self._watch.address} was lost, or forgot what it had, while the task {handle.key!r} was "
                f"under way: {error}"
            ) from error


def _attempt(function: Callable[..., Value], *args: object) -> Value:
    try:
        return function(*args)
    except TRANSIENT as error:
        # Dask may report one failure twice; this tells a repeated report from the failure of a second attempt.
        error.attempt = uuid.uuid4().hex  # type: ignore[union-attr]
        raise


def _same_attempt(error: BaseException, known: BaseException | None) -> bool:
    return error is known or getattr(error, "attempt", error) == getattr(known, "attempt", known)


def scratch_folder() -> str | None:
    """Return where temporary files of a cluster go: the folder or URL ``sdem-dist.scratch`` of Dask's configuration.

    Without it Dask's own folder, ``temporary-directory``, or None.
    """
    found = dask.config.get("sdem-dist.scratch", None) or dask.config.get("temporary-directory", None)
    return None if found is None else str(found)


def _identity(value: Value) -> Value:
    return value


def _place(args: tuple[object, ...]) -> str:
    """Return what the lanes among a task's arguments are, for people who read keys; empty if there are none."""
    lanes = list(_lanes(args))
    if not lanes:
        return ""
    first, last = lanes[0], lanes[-1]
    which = f"lane {first.lane}" if first.lane == last.lane else f"lanes {first.lane} to {last.lane}"
    when = f"round {first.round}" if first.round == last.round else f"rounds {first.round} to {last.round}"
    start, stop = min(lane.start for lane in lanes), max(lane.stop for lane in lanes)
    return f" ({which} of {when} of epoch {first.epoch}, from 0; documents {start} to {stop})"


def _lanes(found: Iterable[object]) -> Iterator[Lane]:
    for each in found:
        if isinstance(each, Lane):
            yield each
        elif isinstance(each, list):  # of lanes, or of rounds of lanes
            yield from _lanes(each)
