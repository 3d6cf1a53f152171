"""Running tasks on a Dask cluster, through `distributed.Client` alone: submit, wait, gather."""

import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from typing import Any, TypeVar, cast

import dask
from distributed import Client, Future, KilledWorker, get_worker
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from sdem_dist import compat
from sdem_dist.engine.cluster_monitor import ClusterMonitor
from sdem_dist.engine.events import Event, TaskRetried
from sdem_dist.engine.executor import Handle
from sdem_dist.engine.memory import of_this_process
from sdem_dist.errors import ClusterError, UnreadableError
from sdem_dist.learners.protocol import Lane

TRANSIENT = (OSError, MemoryError, UnreadableError)
"""Errors that another try may not meet: storage that hiccups, a worker that is full.  Others would fail anywhere."""
TRIES = 3
RETRY_SECONDS = 0.5  # pause of a worker before the second try of a task; before the third it is twice as long
TASK_STREAM = {f"distributed.scheduler.dashboard.{page}.task-stream-length": 4_000 for page in ("status", "tasks")}
"""How many tasks' measurements a scheduler keeps, 2.5 KB each.  Dask's default is 100,000; where the scheduler is in
the driver's process, they take its memory."""
Value = TypeVar("Value")


class DaskExecutor:
    """A connected client as an executor.

    Tasks are pure and refer to the corpus by path and to the model by a future, so that Dask recomputes what a lost
    worker held.  Nothing is pinned: affinity only asks for the worker that probably has a range cached.

    A task may take hours, so waiting for it has no deadline of its own; see `ClusterMonitor`.

    `client`: synchronous; stays open.
    `wait_for_workers`: seconds that the cluster may be without any worker, at the beginning and in the middle.
    Default: Dask's configuration ``sdem-dist.wait-for-workers`` (``DASK_SDEM_DIST__WAIT_FOR_WORKERS``), or 60.
    `silence`: seconds that the scheduler may take to answer. Default: ``sdem-dist.silence``, or 300.
    Raises ClusterError: no worker arrived in time, or the scheduler does not answer.
    """

    rounds_ahead = 1

    def __init__(self, client: Client, wait_for_workers: float | None = None, silence: float | None = None) -> None:
        self._client = client
        self._run = f"0{uuid.uuid4().hex[:8]}"  # keys of two runs on one cluster must differ
        self._n_submitted = 0
        self._monitor = ClusterMonitor(client, self._run, wait_for_workers, silence)
        client.subscribe_topic(self._run, partial(_record_retry, self._monitor.events))
        with dask.config.set(TASK_STREAM):  # seen by a scheduler in this process
            self._task_stream(count=0)  # from now on it records what `transfer_seconds` reads

    @property
    def n_workers(self) -> int:
        """How many threads the workers had when last looked, at least 1."""
        return max(1, self._monitor.n_threads)

    @property
    def n_remembered(self) -> int:
        """How many tasks there were: the scheduler keeps those behind a result."""
        return self._n_submitted

    @property
    def memory_bytes(self) -> int:
        """The memory of the worker that has the least."""
        workers = self._monitor.ask(partial(compat.described_workers, self._client))
        limits = [worker["memory_limit"] for worker in workers.values() if worker["memory_limit"]]
        # Workers without a limit share what their machine has.
        unlimited = [address for address, worker in workers.items() if not worker["memory_limit"]]
        ask = partial(self._client.run, of_this_process, workers=unlimited, on_error="ignore", asynchronous=True)
        machines = self._monitor.ask(ask) if unlimited else {}
        hosts = [address.rpartition(":")[0] for address in unlimited]
        limits += [size // hosts.count(address.rpartition(":")[0]) for address, size in machines.items()]
        return int(min(limits, default=of_this_process()))

    def run_on_all_workers(self, function: Callable[..., Value], *args: object) -> list[Value]:
        """Run ``function(*args)`` on every worker: on one of each host first, whose files the others then find."""
        return self._monitor.run_on_all_workers(function, *args)

    def drain_events(self) -> list[Event]:
        """Return what has happened to workers and tasks since this was last called."""
        events = list(self._monitor.events)
        del self._monitor.events[: len(events)]  # others may be appended meanwhile
        return events

    def submit(self, function: Callable[..., Value], *args: object, affinity: float | None = None) -> Handle[Value]:
        """Submit ``function(*args)`` under a key of its own that names the work."""
        self._n_submitted += 1
        restrictions: dict[str, object] = {}
        if affinity is not None and (workers := self._monitor.workers):
            preferred = workers[min(int(affinity * len(workers)), len(workers) - 1)]
            restrictions = {"workers": [preferred], "allow_other_workers": True}
        # The function comes first: Dask groups its measurements by what precedes the first number.
        key = f"{function.__name__}-{self._run}-{self._n_submitted}{_lanes_in_words(args)}"
        # Tasks that merge or report are short, and others wait for them.  All others run in the order of submission
        # (updates of blocks, too, when nothing else of their round is left): Dask takes what comes within 100 ms as
        # equal, and statistics would wait for neighbours to be merged with.
        priority = int(affinity is None)
        try:
            return self._client.submit(
                _attempt, self._run, function, *args,
                key=key, pure=False, priority=priority, fifo_timeout=0, **restrictions,
            )  # fmt: skip
        except ClosedClientError as error:
            raise ClusterError(f"the client of the scheduler at {self._monitor.address} was closed: {error}") from error

    def result(self, handle: Handle[Value]) -> Value:
        """Wait for a future and return its value.

        A task that fails with one of `TRANSIENT` is tried `TRIES` times in all.

        Raises ClusterError: the scheduler was lost or fell silent, there were no workers for too long, or a task killed
        several workers in turn.
        """
        return cast(Value, self._watched(handle, lambda: self._client.gather(handle, asynchronous=True)))

    def wait(self, handle: Handle[object]) -> None:
        """Wait for a future, leaving its value on its worker; raises as `result` does."""
        future = cast("Future[Any]", handle)
        error = self._watched(future, lambda: future.exception(asynchronous=True))
        if error is not None or future.cancelled():
            self.result(future)  # raises, with the traceback of the worker

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
        return self._monitor.ask(lambda: self._client.get_task_stream(**which))

    def _watched(self, handle: Handle[Any], start: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return self._monitor.alive(start)
        except KilledWorker as error:
            raise ClusterError(
                f"{error.allowed_failures + 1} workers died one after the other while they had the task {error.task!r}, "
                f"the last was {error.last_worker.address}. The documents of this task, or of one queued beside it, "
                "may crash compiled code or need more memory than a worker has; the workers' logs say more"
            ) from error
        except (CancelledError, CommClosedError, ClosedClientError) as error:
            raise ClusterError(
                f"the scheduler at {self._monitor.address} was lost, or forgot what it had, while the task "
                f"{cast('Future[Any]', handle).key!r} was under way: {error}"
            ) from error


def _attempt(run: str, function: Callable[..., Value], *args: object) -> Value:
    """Return ``function(*args)``, tried again where that may help.

    On the same worker: affinity would send a task that is scheduled anew (`distributed.Reschedule`) back to it.
    """
    for attempt in range(1, TRIES):
        try:
            return function(*args)
        except TRANSIENT as error:
            get_worker().log_event(run, {"failures": attempt, "error": f"{type(error).__name__}: {error}"})
        time.sleep(attempt * RETRY_SECONDS)  # without the error, whose traceback holds on to what the task had
    return function(*args)


def _record_retry(events: list[Event], logged: tuple[float, dict[str, Any]]) -> None:
    events.append(TaskRetried(logged[1]["failures"], logged[1]["error"]))


def scratch_folder() -> str | None:
    """Return where temporary files of a cluster go: the folder or URL ``sdem-dist.scratch`` of Dask's configuration.

    Without it Dask's own folder, ``temporary-directory``, or None.
    """
    folder = dask.config.get("sdem-dist.scratch", None) or dask.config.get("temporary-directory", None)
    return None if folder is None else str(folder)


def _identity(value: Value) -> Value:
    return value


def _lanes_in_words(args: tuple[object, ...]) -> str:
    """Return what the lanes among a task's arguments are, for people who read keys; empty if there are none."""
    lanes = list(_lanes(args))
    if not lanes:
        return ""
    first, last = lanes[0], lanes[-1]
    which = f"lane {first.lane}" if first.lane == last.lane else f"lanes {first.lane} to {last.lane}"
    when = f"round {first.round}" if first.round == last.round else f"rounds {first.round} to {last.round}"
    start, stop = min(lane.start for lane in lanes), max(lane.stop for lane in lanes)
    return f" ({which} of {when} of epoch {first.epoch}, from 0; documents {start} to {stop})"


def _lanes(args: Iterable[object]) -> Iterator[Lane]:
    for arg in args:
        if isinstance(arg, Lane):
            yield arg
        elif isinstance(arg, list):  # of lanes, or of rounds of lanes
            yield from _lanes(arg)
