"""Run tasks on a Dask cluster: submit, wait, gather, and notice workers that are lost or paused."""

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

import dask
from distributed import Client, KilledWorker, get_worker
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from sdem_dist import compat
from sdem_dist.engine.events import TaskRetried, WorkerJoined, WorkerLost
from sdem_dist.engine.executor import Executor, Handle, of_this_process
from sdem_dist.errors import ClusterError, UnreadableError
from sdem_dist.learners.protocol import Lane

PULSE = 2.0  # seconds between two checks of the cluster while waiting
WAIT_FOR_WORKERS = 60.0
SILENCE = 300.0
ALL_WORKERS_SECONDS = 120.0  # wait for the replies of all workers; a run does not need those of workers that hang
TRANSIENT = (OSError, MemoryError, UnreadableError)  # a retry may succeed: storage hiccups, a worker short of memory
TRIES = 3
RETRY_SECONDS = 0.5  # pause of a worker before the second try of a task; before the third it is twice as long
Value = TypeVar("Value")
_log = logging.getLogger(__name__)


class DaskExecutor(Executor):
    """A connected client as an executor.

    Tasks are pure and refer to the corpus by path and to the model by a future, so that Dask recomputes the results of
    a lost worker; affinity only prefers the worker that probably has a range cached. A task may take hours, and a
    scheduler that hangs closes no connection: waiting polls it, and fails if it is silent or has no workers.
    """

    max_pending_rounds = 1

    def __init__(self, client: Client, wait_for_workers: float | None = None, silence: float | None = None) -> None:
        if isinstance(client, str):
            raise ValueError(f"client is the address {client!r}: pass a distributed.Client")
        self._client, self.address = client, compat.scheduler_of(client).address
        self._run = f"0{uuid.uuid4().hex[:8]}"  # part of every key: the keys of two runs on one cluster must differ
        patience = dask.config.get("sdem-dist.wait-for-workers", WAIT_FOR_WORKERS, override_with=wait_for_workers)
        self.wait_for_workers = float(patience)
        self.silence = float(dask.config.get("sdem-dist.silence", SILENCE, override_with=silence))
        self.scratch = dask.config.get("sdem-dist.scratch", None) or dask.config.get("temporary-directory", None)
        self.workers: list[str] = []  # addresses at the last check; a worker keeps its position
        self._events = []
        self._disturbed = False
        self._last_look = self._last_running = time.monotonic()
        client.sync(self._look)
        if not self.workers:
            _log.warning("no workers at %s yet; waiting up to %g s", self.address, self.wait_for_workers)
            # An adaptive cluster starts workers only when tasks are waiting.
            wanted = client.submit(int, key=f"first-worker-{self._run}")
            while not self.workers:
                time.sleep(min(PULSE, self.wait_for_workers / 4))
                client.sync(self._look)
            wanted.release()
        retried = self._events.append  # `_attempt` logs the message m[1], to which Dask adds the worker
        client.subscribe_topic(self._run, lambda m: retried(TaskRetried(m[1]["failures"], m[1]["error"])))

    def memory_bytes(self) -> int:
        identity = self._client.sync(self._reply, lambda: compat.scheduler_of(self._client).identity(n_workers=-1))
        described = identity["workers"]
        limits = [worker["memory_limit"] for worker in described.values() if worker["memory_limit"]]
        # Workers without a limit share the memory of their machine.
        unlimited = Counter(worker["host"] for worker in described.values() if not worker["memory_limit"])
        if unlimited:
            sizes = self.run_on_all_workers(of_this_process)
            limits.append(min(sizes, default=of_this_process()) // max(unlimited.values()))
        return int(min(limits, default=of_this_process()))

    def run_on_all_workers(self, function: Callable[..., Value], *args: object) -> list[Value]:
        """See `Executor`. Not submitted as tasks, which would queue behind others; errors recur in the real tasks."""
        self._client.sync(self._look)  # leaves out workers lost since the last check
        # In a thread: long work, such as compiling, must not block a worker's event loop, which answers the scheduler.
        run = partial(self._client.run, asyncio.to_thread, function, *args, on_error="ignore", asynchronous=True)

        async def replies() -> list[Value]:
            # One call per worker: in a joint call, all would wait the 30 s for which Dask retries a lost worker.
            calls = {worker: asyncio.ensure_future(run(workers=[worker])) for worker in self.workers}
            deadline = time.monotonic() + ALL_WORKERS_SECONDS
            try:
                while waiting := [call for worker, call in calls.items() if not call.done() and worker in self.workers]:
                    if time.monotonic() >= deadline:
                        return []
                    await asyncio.wait(waiting, timeout=PULSE / 4)
                answers = [call.result() for call in calls.values() if call.done() and call.exception() is None]
                return [value for answer in answers for value in answer.values()]
            finally:
                for call in calls.values():
                    call.cancel()

        return cast("list[Value]", self._client.sync(self._while_alive, replies))

    def submit(self, function: Callable[..., Value], *args: object, affinity: float | None = None) -> Handle[Value]:
        self.n_remembered += 1  # the scheduler keeps the tasks behind a result
        # The function's name comes first: Dask groups its measurements by the part of the key before the first number.
        key = f"{function.__name__}-{self._run}-{self.n_remembered}"
        groups = [group for arg in args if isinstance(arg, list) for group in arg]  # lanes, or rounds of lanes
        each = [lane for group in groups for lane in (group if isinstance(group, list) else [group])]
        if lanes := [lane for lane in each if isinstance(lane, Lane)]:
            first, last = lanes[0], lanes[-1]
            place = f"lanes {first.lane} to {last.lane} of rounds {first.round} to {last.round} of epoch {first.epoch}"
            documents = f"documents {min(lane.start for lane in lanes)} to {max(lane.stop for lane in lanes)}"
            key += f" ({place}, counting from 0; {documents})"
        # Tasks without affinity (they merge or report) are short and other tasks wait for them: they run first. All
        # others run in order of submission, also updates of blocks, which end a round. Dask's default would treat tasks
        # submitted within 100 ms as equal, and statistics would wait for the neighbours they are merged with.
        how: dict[str, Any] = {"key": key, "pure": False, "priority": int(affinity is None), "fifo_timeout": 0}
        if affinity is not None and self.workers:
            preferred = self.workers[min(int(affinity * len(self.workers)), len(self.workers) - 1)]
            how |= {"workers": [preferred], "allow_other_workers": True}
        try:
            return cast("Handle[Value]", self._client.submit(_attempt, self._run, function, *args, **how))
        except ClosedClientError as error:
            raise ClusterError(f"the client of the scheduler at {self.address} was closed: {error}") from error

    def result(self, handle: Handle[Value]) -> Value:
        """Wait for a future; ClusterError: the scheduler is lost or silent, or workers are missing or killed by it."""
        gathered = partial(self._client.gather, handle, asynchronous=True)
        try:
            return cast(Value, self._client.sync(self._while_alive, gathered))
        except KilledWorker as error:
            raise ClusterError(
                f"{error.allowed_failures + 1} workers died one after another while running the task {error.task!r}, "
                f"the last one at {error.last_worker.address}. The documents of this task, or of a neighbouring task, "
                "may crash compiled code or need more memory than a worker has; see the workers' logs"
            ) from error
        except (CancelledError, CommClosedError, ClosedClientError) as error:
            during = f"while the task {cast(Any, handle).key!r} was running: {error}"
            raise ClusterError(f"lost the scheduler at {self.address}, or its data, {during}") from error

    def put(self, value: Value) -> Handle[Value]:
        """Submit a value as a task: Dask can restore it, unlike scattered data. Silence its warning above 10 MB."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return super().put(value)

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
        present = await self._reply(lambda: compat.scheduler_of(self._client).ncores())
        self._last_look = time.monotonic()
        lost = [worker for worker in self.workers if worker not in present]
        self._events += [WorkerLost(worker) for worker in lost]
        self._events += [WorkerJoined(worker) for worker in present if worker not in self.workers]
        # Workers keep their positions, and thus their cached ranges; a new worker takes the position of a lost one. If
        # a worker joins, about half of all ranges move. Rendezvous hashing would move fewer, but with two tasks per
        # worker on average some worker would get four or five in every round, and the others would wait for it.
        new = iter(sorted(set(present) - set(self.workers)))
        positions = [worker if worker in present else next(new, None) for worker in self.workers]
        self.workers = [worker for worker in positions if worker is not None] + list(new)
        self.n_workers = max(1, sum(present.values()))  # threads of all workers
        running = await self._reply(lambda: compat.scheduler_of(self._client).ncores_running())
        disturbed_before, self._disturbed = self._disturbed, bool(lost) or len(running) < len(present)
        if running:
            self._last_running = self._last_look
            if disturbed_before or self._disturbed:
                with suppress(ValueError):  # a scheduler that refuses functions
                    await self._reply(partial(self._client.run_on_scheduler, compat.let_others_run, self._run))
        elif self._last_look - self._last_running >= self.wait_for_workers:
            what = f"has had no workers for {self.wait_for_workers:g} s; start workers, or contact its administrator"
            if present:
                paused = f"has had only paused workers for {self.wait_for_workers:g} s"
                what = f"{paused}, because they are low on memory; increase their memory"
            hint = "(To change this limit, set DASK_SDEM_DIST__WAIT_FOR_WORKERS.)"
            raise ClusterError(f"the scheduler at {self.address} {what}. {hint}")

    async def _reply(self, question: Callable[[], Awaitable[Value]]) -> Value:
        try:
            return await asyncio.wait_for(question(), self.silence)
        except TimeoutError as error:
            hint = "it hangs, or the network is down. (To change this limit, set DASK_SDEM_DIST__SILENCE.)"
            what = f"the scheduler at {self.address} has not answered for {self.silence:g} s"
            raise ClusterError(f"{what}: {hint}") from error
        except OSError as error:  # Dask raises a plain OSError if it cannot reconnect
            raise ClusterError(f"lost the connection to the scheduler at {self.address}: {error}") from error
        except (RuntimeError, ClosedClientError) as error:
            if self._client.status == "running":
                raise
            raise ClusterError(f"the client of the scheduler at {self.address} was closed: {error}") from error


def _attempt(run: str, function: Callable[..., Value], *args: object) -> Value:
    """Return ``function(*args)``, retried in place: affinity would send a rescheduled task back to this worker."""
    for attempt in range(1, TRIES):
        try:
            return function(*args)
        except TRANSIENT as error:
            get_worker().log_event(run, {"failures": attempt, "error": f"{type(error).__name__}: {error}"})
        time.sleep(attempt * RETRY_SECONDS)  # outside `except`: the error's traceback keeps the task's data alive
    return function(*args)
