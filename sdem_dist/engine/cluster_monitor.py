"""Watching a Dask cluster while waiting: who its workers are, what was lost, and whether the scheduler answers."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import dask
from distributed import Client
from distributed.client import ClosedClientError

from sdem_dist import compat
from sdem_dist.engine.events import Event, WorkerJoined, WorkerLost
from sdem_dist.errors import ClusterError

PULSE = 2.0  # seconds between two looks at the cluster while waiting
WAIT_FOR_WORKERS = 60.0
SILENCE = 300.0
ALL_WORKERS_SECONDS = 120.0
"""Seconds to wait when all workers are asked at once; a run can do without the answers of workers that hang."""

Value = TypeVar("Value")
_log = logging.getLogger(__name__)


class ClusterMonitor:
    """Every `PULSE` seconds of waiting the scheduler is asked for its workers: silence or a lack of them ends the wait.

    A scheduler that hangs closes no connection, so Dask alone would wait for it without an end.

    `run`: part of the keys of the run's tasks. `wait_for_workers`, `silence`: see `DaskExecutor`.
    `workers`: addresses when last looked; those that stay keep their position. `n_threads`: of all of them.
    `events`: what happened to them. `address`: the scheduler's.
    Raises ClusterError: no worker arrived in time, or the scheduler does not answer.
    """

    def __init__(self, client: Client, run: str, wait_for_workers: float | None, silence: float | None) -> None:
        self._client, self._run = client, run
        self._wait_for_workers = _seconds("wait-for-workers", wait_for_workers, WAIT_FOR_WORKERS)
        self.silence = _seconds("silence", silence, SILENCE)
        self.address = compat.scheduler_address(client)
        self.workers: list[str] = []
        self.n_threads = 0
        self.events: list[Event] = []
        self._disturbed = False
        self._last_look = self._last_running = time.monotonic()
        client.sync(self._look)
        if not self.workers:
            _log.warning("no worker at %s yet; waiting up to %g s for one", self.address, self._wait_for_workers)
            # A cluster that adapts starts workers only where there is work.
            wanted = client.submit(int, key=f"first-worker-{run}")
            client.sync(self._first_worker)
            wanted.release()

    def alive(self, start: Callable[[], Awaitable[Value]]) -> Value:
        """Wait for ``start()`` for as long as the scheduler answers and has workers."""
        value: Value = self._client.sync(self._while_alive, start)
        return value

    def ask(self, question: Callable[[], Awaitable[Value]]) -> Value:
        """Wait for what the scheduler answers."""
        value: Value = self._client.sync(self._answer, question)
        return value

    def run_on_all_workers(self, function: Callable[..., Value], *args: object) -> list[Value]:
        """Run a function in a thread of every worker: on one of each host first, whose files the others then find.

        It is no task, which would wait for what others have the worker do. Returns what each returned, without those
        that failed or were lost: what fails here fails in a task of the run, which says more. Empty if one does not
        answer in time.
        """
        self._client.sync(self._look)  # a worker lost meanwhile is not asked
        first = {worker.rpartition(":")[0]: worker for worker in reversed(self.workers)}.values()
        values: list[Value] = []
        for group in (list(first), [worker for worker in self.workers if worker not in first]):
            while workers := [worker for worker in group if worker in self.workers]:
                options: dict[str, Any] = {"workers": workers, "on_error": "ignore", "asynchronous": True}
                run = partial(self._client.run, _in_thread, function, *args, **options)
                answers = self.alive(partial(self._answers, run, workers))
                if answers is not None:
                    values += answers.values()
                    break
                if all(worker in self.workers for worker in workers):
                    return []
        return values

    async def _answers(
        self, run: Callable[[], Awaitable[Mapping[str, Value]]], workers: list[str]
    ) -> Mapping[str, Value] | None:
        """Return what workers answer; None if one does not in time, or is lost: Dask would keep calling it for 30 s."""
        answers, deadline = asyncio.ensure_future(run()), time.monotonic() + ALL_WORKERS_SECONDS
        try:
            while not answers.done() and time.monotonic() < deadline and set(workers) <= set(self.workers):
                await asyncio.wait({answers}, timeout=PULSE / 4)
            return answers.result() if answers.done() else None
        finally:
            answers.cancel()

    async def _while_alive(self, start: Callable[[], Awaitable[Value]]) -> Value:
        work = asyncio.ensure_future(start())
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=max(0.0, self._last_look + PULSE - time.monotonic()))
                if time.monotonic() >= self._last_look + PULSE:
                    await self._look()
            return work.result()
        finally:
            work.cancel()

    async def _first_worker(self) -> None:
        while not self.workers:
            await asyncio.sleep(min(PULSE, self._wait_for_workers / 4))
            await self._look()

    async def _look(self) -> None:
        """Ask the scheduler for its workers, which also shows that it is alive."""
        present = await self._answer(partial(compat.threads_of_workers, self._client))
        self._last_look = time.monotonic()
        lost = [worker for worker in self.workers if worker not in present]
        self.events += [WorkerLost(worker) for worker in lost]
        self.events += [WorkerJoined(worker) for worker in present if worker not in self.workers]
        self.workers = _in_known_order(self.workers, present)
        self.n_threads = sum(present.values())
        running = await self._answer(partial(compat.running_workers, self._client))
        disturbed_before, self._disturbed = self._disturbed, bool(lost) or len(running) < len(present)
        if running:
            self._last_running = self._last_look
            if disturbed_before or self._disturbed:
                with suppress(ValueError):  # a scheduler that refuses functions
                    await self._answer(partial(self._client.run_on_scheduler, compat.let_others_run, self._run))
        elif self._last_look - self._last_running >= self._wait_for_workers:
            what = (
                f"has had all of its {len(present)} workers paused, which Dask does to workers short of memory, for "
                f"{self._wait_for_workers:g} s; give each more memory"
                if present
                else f"has had no worker for {self._wait_for_workers:g} s; start workers or ask whoever runs the cluster"
            )
            raise ClusterError(
                f"the scheduler at {self.address} {what}. (DASK_SDEM_DIST__WAIT_FOR_WORKERS sets this time.)"
            )

    async def _answer(self, question: Callable[[], Awaitable[Value]]) -> Value:
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


async def _in_thread(function: Callable[..., Value], *args: object) -> Value:
    """Keep long work, such as compiling, off a worker's event loop, which has to answer the scheduler meanwhile."""
    return await asyncio.to_thread(function, *args)


def _seconds(name: str, given: float | None, default: float) -> float:
    return float(dask.config.get(f"sdem-dist.{name}", default)) if given is None else given


def _in_known_order(known: list[str], present: Iterable[str]) -> list[str]:
    """Return the workers present such that those known keep their position, and so the ranges they have cached.

    A new worker takes the position of a lost one. Where one joins, about half of all ranges move; with rendezvous
    hashing fewer would, but of two tasks a worker one gets four or five in every round, and the others wait for it.
    """
    new = iter(sorted(set(present) - set(known)))
    kept = [worker if worker in present else next(new, None) for worker in known]
    return [worker for worker in kept if worker is not None] + list(new)
