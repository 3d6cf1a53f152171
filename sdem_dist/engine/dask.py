"""Running tasks on a Dask cluster: submit, wait, gather, and watch workers that are lost or paused."""

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

import dask
from distributed import Client, KilledWorker, get_worker
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from sdem_dist import compat
from sdem_dist.engine.events import Event, TaskRetried, WorkerJoined, WorkerLost
from sdem_dist.engine.executor import Executor, Handle, of_this_process
from sdem_dist.errors import ClusterError, UnreadableError
from sdem_dist.learners.protocol import Lane

PULSE = 2.0  # seconds between two looks at the cluster while waiting
WAIT_FOR_WORKERS = 60.0
SILENCE = 300.0
ALL_WORKERS_SECONDS = 120.0
"""Seconds to wait when all workers are asked at once; a run can do without the answers of workers that hang."""
TRANSIENT = (OSError, MemoryError, UnreadableError)
"""Errors that another try may not meet: storage that hiccups, a worker that is full.  Others would fail anywhere."""
TRIES = 3
RETRY_SECONDS = 0.5  # pause of a worker before the second try of a task; before the third it is twice as long
TASK_STREAM = {f"distributed.scheduler.dashboard.{page}.task-stream-length": 4_000 for page in ("status", "tasks")}
"""How many tasks' measurements a scheduler keeps, 2.5 KB each.  Dask's default is 100,000; where the scheduler is in
the driver's process, they take its memory."""
Value = TypeVar("Value")
_log = logging.getLogger(__name__)


class DaskExecutor(Executor):
    """A connected client as an executor.

    Tasks are pure and refer to the corpus by path and to the model by a future, so that Dask recomputes what a lost
    worker held.  Nothing is pinned: affinity only asks for the worker that probably has a range cached.

    A task may take hours, so waiting for it has no deadline of its own. But every `PULSE` seconds of waiting the
    scheduler is asked for its workers: silence or a lack of them ends the wait. A scheduler that hangs closes no
    connection, so Dask alone would wait for it without an end.

    `client`: synchronous; stays open.
    `wait_for_workers`: seconds that the cluster may be without any worker, at the beginning and in the middle.
    Default: Dask's configuration ``sdem-dist.wait-for-workers`` (``DASK_SDEM_DIST__WAIT_FOR_WORKERS``), or 60.
    `silence`: seconds that the scheduler may take to answer. Default: ``sdem-dist.silence``, or 300.
    Raises ClusterError: no worker arrived in time, or the scheduler does not answer.
    """

    max_pending_rounds = 1

    def __init__(self, client: Client, wait_for_workers: float | None = None, silence: float | None = None) -> None:
        def setting(name: str, value: float | None, default: float) -> float:
            return float(dask.config.get(f"sdem-dist.{name}", default)) if value is None else value

        self._client, self.address = client, compat.scheduler_address(client)
        self._run = f"0{uuid.uuid4().hex[:8]}"  # keys of two runs on one cluster must differ
        self.wait_for_workers = setting("wait-for-workers", wait_for_workers, WAIT_FOR_WORKERS)
        self.silence = setting("silence", silence, SILENCE)
        self.workers: list[str] = []  # addresses when last looked; those that stay keep their position
        self._events: list[Event] = []
        self._disturbed = False
        self._last_look = self._last_running = time.monotonic()
        client.sync(self._look)
        if not self.workers:
            _log.warning("no worker at %s yet; waiting up to %g s for one", self.address, self.wait_for_workers)
            # A cluster that adapts starts workers only where there is work.
            wanted = client.submit(int, key=f"first-worker-{self._run}")
            while not self.workers:
                time.sleep(min(PULSE, self.wait_for_workers / 4))
                client.sync(self._look)
            wanted.release()
        client.subscribe_topic(
            self._run, lambda logged: self._events.append(TaskRetried(logged[1]["failures"], logged[1]["error"]))
        )
        with dask.config.set(TASK_STREAM):  # seen by a scheduler in this process
            self._ask(lambda: client.get_task_stream(count=0))  # from now on it records what `transfer_seconds` reads

    def memory_bytes(self) -> int:
        described = self._ask(partial(compat.described_workers, self._client))
        limits = [worker["memory_limit"] for worker in described.values() if worker["memory_limit"]]
        # Workers without a limit share what their machine has.
        unlimited = Counter(_host(address) for address, worker in described.items() if not worker["memory_limit"])
        if unlimited:
            sizes = self.run_on_all_workers(of_this_process)
            limits.append(min(sizes, default=of_this_process()) // max(unlimited.values()))
        return int(min(limits, default=of_this_process()))

    def run_on_all_workers(self, function: Callable[..., Value], *args: object) -> list[Value]:
        """See `Executor`. It is no task, which would wait for what others have the worker do.

        What fails here fails in a task of the run, which says more.
        """
        self._client.sync(self._look)  # a worker lost meanwhile is not asked
        first = list({_host(worker): worker for worker in reversed(self.workers)}.values())
        values: list[Value] = []
        for group in (first, [worker for worker in self.workers if worker not in first]):
            replies = self._client.sync(self._while_alive, partial(self._replies, group, function, *args))
            if replies is None:
                return []
            values += replies
        return values

    async def _replies(self, workers: list[str], function: Callable[..., Value], *args: object) -> list[Value] | None:
        """Return what workers answer, but for those lost meanwhile; None if one does not answer in time."""
        # In a thread: long work, such as compiling, must not keep a worker's event loop from answering the scheduler.
        run = partial(self._client.run, asyncio.to_thread, function, *args, on_error="ignore", asynchronous=True)
        # Each is called by itself: Dask would call a lost one for 30 s, and the others wait for it.
        calls = {worker: asyncio.ensure_future(run(workers=[worker])) for worker in workers}
        deadline, values = time.monotonic() + ALL_WORKERS_SECONDS, list[Value]()
        try:
            while waiting := [call for worker, call in calls.items() if not call.done() and worker in self.workers]:
                if time.monotonic() >= deadline:
                    return None
                await asyncio.wait(waiting, timeout=PULSE / 4)
            for call in calls.values():
                if call.done() and call.exception() is None:
                    values += call.result().values()
            return values
        finally:
            for call in calls.values():
                call.cancel()

    def drain_events(self) -> list[Event]:
        events = list(self._events)
        del self._events[: len(events)]  # others may be appended meanwhile
        return events

    def submit(self, function: Callable[..., Value], *args: object, affinity: float | None = None) -> Handle[Value]:
        """Submit ``function(*args)`` under a key of its own that names the work."""
        self.n_remembered += 1  # the scheduler keeps those behind a result
        restrictions: dict[str, object] = {}
        if affinity is not None and self.workers:
            preferred = self.workers[min(int(affinity * len(self.workers)), len(self.workers) - 1)]
            restrictions = {"workers": [preferred], "allow_other_workers": True}
        # The function comes first: Dask groups its measurements by what precedes the first number.
        key = f"{function.__name__}-{self._run}-{self.n_remembered}{_lanes_in_words(args)}"
        # Tasks that merge or report are short, and others wait for them.  All others run in the order of submission
        # (updates of blocks, too, when nothing else of their round is left): Dask takes what comes within 100 ms as
        # equal, and statistics would wait for neighbours to be merged with.
        priority = int(affinity is None)
        try:
            future: Any = self._client.submit(
                _attempt, self._run, function, *args,
                key=key, pure=False, priority=priority, fifo_timeout=0, **restrictions,
            )  # fmt: skip
            return cast("Handle[Value]", future)
        except ClosedClientError as error:
            raise ClusterError(f"the client of the scheduler at {self.address} was closed: {error}") from error

    def result(self, handle: Handle[Value]) -> Value:
        """Wait for a future and return its value.

        A task that fails with one of `TRANSIENT` is tried `TRIES` times in all.

        Raises ClusterError: the scheduler was lost or fell silent, there were no workers for too long, or a task killed
        several workers in turn.
        """
        return cast(Value, self._watched(handle, lambda: self._client.gather(handle, asynchronous=True)))

    def wait(self, handle: Handle[Any]) -> None:
        future: Any = handle
        error = self._watched(future, lambda: future.exception(asynchronous=True))
        if error is not None or future.cancelled():
            self.result(future)  # raises, with the traceback of the worker

    def put(self, value: Value) -> Handle[Value]:
        """Submit a value as a task of its own, so that Dask can restore it where a scattered copy would be lost."""
        # Dask warns of values in tasks from 10 MB on; a state is as large as it is.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return super().put(value)

    def transfer_seconds(self, since: float) -> float:
        return sum(
            span["stop"] - span["start"]
            for task in self._ask(lambda: self._client.get_task_stream(start=since))
            for span in task["startstops"]
            if span["action"] == "transfer" and self._run in str(task["key"])
        )

    def _watched(self, handle: Any, start: Callable[[], Awaitable[Any]]) -> Any:
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
                f"the scheduler at {self.address} was lost, or forgot what it had, while the task "
                f"{handle.key!r} was under way: {error}"
            ) from error

    async def _while_alive(self, start: Callable[[], Awaitable[Value]]) -> Value:
        """Wait for ``start()`` for as long as the scheduler answers and has workers."""
        work = asyncio.ensure_future(start())
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=max(0.0, self._last_look + PULSE - time.monotonic()))
                if time.monotonic() >= self._last_look + PULSE:
                    await self._look()
            return work.result()
        finally:
            work.cancel()

    async def _look(self) -> None:
        """Ask the scheduler for its workers, which also shows that it is alive."""
        present = await self._reply(partial(compat.threads_of_workers, self._client))
        self._last_look = time.monotonic()
        lost = [worker for worker in self.workers if worker not in present]
        self._events += [WorkerLost(worker) for worker in lost]
        self._events += [WorkerJoined(worker) for worker in present if worker not in self.workers]
        # Workers that stay keep their position, and so the ranges they have cached; a new one takes a lost one's. Where
        # one joins, about half of all ranges move; with rendezvous hashing fewer would, but of two tasks a worker one
        # gets four or five in every round, and the others wait for it.
        new = iter(sorted(set(present) - set(self.workers)))
        positions = [worker if worker in present else next(new, None) for worker in self.workers]
        self.workers = [worker for worker in positions if worker is not None] + list(new)
        self.n_workers = max(1, sum(present.values()))  # threads of all
        running = await self._reply(partial(compat.running_workers, self._client))
        disturbed_before, self._disturbed = self._disturbed, bool(lost) or len(running) < len(present)
        if running:
            self._last_running = self._last_look
            if disturbed_before or self._disturbed:
                with suppress(ValueError):  # a scheduler that refuses functions
                    await self._reply(partial(self._client.run_on_scheduler, compat.let_others_run, self._run))
        elif self._last_look - self._last_running >= self.wait_for_workers:
            what = (
                f"has had all of its {len(present)} workers paused, which Dask does to workers short of memory, for "
                f"{self.wait_for_workers:g} s; give each more memory"
                if present
                else f"has had no worker for {self.wait_for_workers:g} s; start workers or ask whoever runs the cluster"
            )
            raise ClusterError(
                f"the scheduler at {self.address} {what}. (DASK_SDEM_DIST__WAIT_FOR_WORKERS sets this time.)"
            )

    def _ask(self, question: Callable[[], Awaitable[Value]]) -> Value:
        return cast(Value, self._client.sync(self._reply, question))

    async def _reply(self, question: Callable[[], Awaitable[Value]]) -> Value:
        try:
            return await asyncio.wait_for(question(), self.silence)
        except TimeoutError as error:
            raise ClusterError(
                f"the scheduler at {self.address} has not answered for {self.silence:g} s: it hangs, or the network "
                "does. (DASK_SDEM_DIST__SILENCE sets this time.)"
            ) from error
        except OSError as error:  # Dask raises a plain one where it cannot connect again
            raise ClusterError(f"the scheduler at {self.address} was lost: {error}") from error
        except (RuntimeError, ClosedClientError) as error:
            if self._client.status == "running":
                raise
            raise ClusterError(f"the client of the scheduler at {self.address} was closed: {error}") from error


def _host(address: str) -> str:
    return address.rpartition(":")[0]


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


def scratch_folder() -> str | None:
    """Return where temporary files of a cluster go: the folder or URL ``sdem-dist.scratch`` of Dask's configuration.

    Without it Dask's own folder, ``temporary-directory``, or None.
    """
    folder = dask.config.get("sdem-dist.scratch", None) or dask.config.get("temporary-directory", None)
    return None if folder is None else str(folder)


def _lanes_in_words(args: Iterable[object]) -> str:
    """Return what the lanes among a task's arguments are, for people who read keys; empty if there are none."""
    groups = [group for arg in args if isinstance(arg, list) for group in arg]  # lanes, or rounds of lanes
    nested = [group if isinstance(group, list) else [group] for group in groups]
    lanes = [lane for group in nested for lane in group if isinstance(lane, Lane)]
    if not lanes:
        return ""
    first, last = lanes[0], lanes[-1]
    return (
        f" (lanes {first.lane} to {last.lane} of rounds {first.round} to {last.round} of epoch {first.epoch}, from 0; "
        f"documents {min(lane.start for lane in lanes)} to {max(lane.stop for lane in lanes)})"
    )
