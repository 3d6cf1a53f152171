"""Holding the number of batch jobs: those that end or fall silent are submitted again."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sdem_dist.cluster import words
from sdem_dist.cluster.settings import JobSettings

PULSE = 2.0
"""Seconds between two looks at the jobs, never so few that the batch system has to answer more than once a second."""
SILENT = 50.0  # seconds that a running job may be without a worker; a nanny restarts one in fewer
FAILURES = 3  # jobs that may end in a row before they bring a worker; then something is wrong with all of them


class TellingJob(Protocol):
    """A batch job that knows why it was refused, see `sdem_dist.cluster.jobs.telling`."""

    job_id: str | None
    refusal: str | None


class BatchCluster(Protocol):
    """What is used of dask-jobqueue's clusters, of such jobs."""

    workers: Mapping[object, TellingJob]
    worker_spec: Mapping[object, object]
    scheduler: Any
    loop: Any
    scheduler_address: str

    def scale(self, *, jobs: int) -> object:
        """Keep this number of jobs running."""

    async def scale_down(self, workers: list[object]) -> object:
        """Cancel jobs."""

    def job_script(self) -> str:
        """Return the script of a job."""


class Keeper:
    """Replaces lost jobs of a cluster.

    Jobqueue's adaptive scaling does that for jobs of one process only, and never for jobs that end before their worker
    has come.

    `cluster`: its jobs as `sdem_dist.cluster.jobs.telling` makes them.
    `say`: takes lines about what was replaced.
    """

    def __init__(self, cluster: BatchCluster, settings: JobSettings, say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._settings = settings
        self._say = say
        self._last_seen: dict[TellingJob, float] = {}  # by job, since names are reused
        self._failures = 0
        self._stopped = False

    def start(self) -> None:
        """Begin, in the cluster's event loop."""
        self._cluster.loop.add_callback(self._keep)

    def stop(self) -> None:
        """Submit nothing any more."""
        self._stopped = True

    async def _keep(self) -> None:
        while not self._stopped:
            waiting = sum(not self._has_worker(str(name)) for name in list(self._cluster.workers))
            await asyncio.sleep(max(PULSE, float(waiting)))
            try:
                await self._look_after()
            except Exception as error:  # noqa: BLE001  whatever it is, the next pulse tries again
                self._say(f"jobs could not be looked after ({type(error).__name__}: {error}); trying again")

    async def _look_after(self) -> None:
        lost = [name for name, job in list(self._cluster.workers.items()) if await self._is_lost(name, job)]
        if self._stopped:
            return
        if lost:
            await self._cluster.scale_down(lost)
        if lost or set(self._cluster.worker_spec) != set(self._cluster.workers):
            self._cluster.scale(jobs=self._settings.jobs)

    async def _is_lost(self, name: object, job: TellingJob) -> bool:
        now = time.monotonic()
        if self._has_worker(str(name)):
            if job not in self._last_seen:
                self._failures = 0
            self._last_seen[job] = now
            return False
        if job.job_id is None:
            return self._fails(f"a job was refused: {job.refusal}") if job.refusal is not None else False
        said, over = await asyncio.to_thread(words.about, self._settings.system, job.job_id)
        said = ", ".join(said.splitlines())
        if self._has_worker(str(name)):
            return False
        if job not in self._last_seen:
            return over is True and self._fails(f"{said}: it ended before it brought a worker")
        if over or now - self._last_seen[job] > SILENT:
            self._say(f"{said}: submitting another")
            return True
        return False

    def _has_worker(self, name: str) -> bool:
        present = [str(worker.name) for worker in list(self._cluster.scheduler.workers.values())]
        return any(worker == name or worker.startswith(f"{name}-") for worker in present)

    def _fails(self, what: str) -> bool:
        if self._failures >= FAILURES:
            return False
        self._failures += 1
        hope = (
            "submitting another" if self._failures < FAILURES else f"the last of {FAILURES} tries; going on without it"
        )
        self._say(f"{what}: {hope}")
        return self._failures < FAILURES
