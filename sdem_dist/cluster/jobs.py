"""A cluster of batch jobs: submitted, waited for, replaced when they are lost, and ended with the run."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sdem_dist import compat
from sdem_dist.cluster.client import QUIET, ended_by_signals
from sdem_dist.cluster.job_settings import LOOPBACK, SYSTEMS, JobSettings, job_options, jobqueue, read_settings
from sdem_dist.engine.dask import TASK_STREAM
from sdem_dist.errors import ClusterError

if TYPE_CHECKING:
    from dask_jobqueue.core import Job
    from distributed import Client

LOOK = 3.0
"""Seconds between two questions to the batch system; more where many jobs have no worker, one a second at most."""
SILENT = 50.0
"""Seconds that a running job may be without a worker; a nanny restarts one in fewer."""
FAILURES = 3
"""Jobs that may end in a row before they bring a worker; then something is wrong with all of them."""
LINES = 12
"""Lines shown of an answer or a log."""
STATUS_COMMANDS = {
    "slurm": ("squeue", "--noheader", "--states=all", "--format=job %i is %T (reason: %r) %N", "--jobs"),
    "pbs": ("qstat", "-f"),
    "sge": ("qstat", "-j"),
    "lsf": ("bjobs", "-l"),
}
"""How to ask for a job by its id.  Answers are shown as they are."""
OVER = re.compile(
    r" is (CANCELLED|COMPLETED|FAILED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|BOOT_FAIL|DEADLINE)\b"
    r"|job_state = [CF]\b|Status <(EXIT|DONE)>"
)
UNKNOWN_JOB = re.compile(r"invalid job|unknown job|not found|do(es)? not exist|no such job", re.IGNORECASE)


class JobStatus(NamedTuple):
    """What a batch system says about a job."""

    text: str
    over: bool | None  # None: it did not answer


@contextmanager
def batch_jobs(
    path: str | Path, lifetime: str | None = None, say: Callable[[str], None] = lambda _: None
) -> Iterator[Client]:
    """Yield a client of a scheduler in this process, whose workers are batch jobs.

    The run begins with the first worker. Jobs that start later join in, lost jobs are submitted again, and all are
    cancelled at the end, also after an exception or a signal.

    `path`: cluster file, see `sdem_dist.cluster.job_settings`.
    `lifetime`: such as ``"55m"``, in place of the file's.
    `say`: takes lines for the person who waits.
    Raises ClusterError: the file is wrong, the batch system refuses the jobs, or no worker came in time; with what the
    batch system says.
    """
    import dask
    from distributed import Client

    settings = read_settings(path, lifetime)
    # A worker that its nanny restarts must not cost the whole job.
    patience = {"distributed.deploy.lost-worker-timeout": "60s"}
    with dask.config.set({**patience, **QUIET, **TASK_STREAM, **settings.config}):
        options = job_options(settings)
        host = str(dict(options["scheduler_options"]).get("host"))  # type: ignore[call-overload]
        if options["security"] is None and LOOPBACK not in host:
            say(
                f"{path}: no certificates: whoever reaches the scheduler or a worker over the network can run code as you "
                "(sdem cluster certificates makes some)"
            )
        cluster_class = getattr(jobqueue(), SYSTEMS[settings.system])
        with ended_by_signals():
            cluster = cluster_class(job_cls=with_refusals(cluster_class.job_cls), **options)
            monitor = JobMonitor(cluster, settings, say)
            try:
                cluster.scale(jobs=settings.jobs)
                say(
                    f"{settings.jobs} jobs of {settings.system} submitted; waiting up to {settings.wait:g} s for a worker"
                )
                _wait_for_worker(cluster, settings)
                cluster.loop.add_callback(monitor.watch)
                with Client(cluster, direct_to_workers=True) as client:  # as `sdem_dist.cluster.client` says
                    yield client
            except ClusterError as error:
                states = states_of_jobs(cluster, settings)
                raise ClusterError(f"{error}\nWhat {settings.system} says:\n{states}") from error
            finally:
                monitor.stopped = True
                cluster.close()


def with_refusals(job_class: type[Job]) -> type[Job]:
    """Return a job class whose refusal by the batch system can be read; jobqueue's own goes to a log.

    It also knows when it is closed, without which a cluster that never ran cannot be closed.
    """

    async def start(self: Any) -> None:
        try:
            await job_class.start(self)
        except (OSError, RuntimeError, ValueError) as error:
            # of jobqueue's message only what the submit command printed
            output = str(error).partition("stdout:\n")[2].replace("stderr:\n", "").strip()
            self.refusal = _first_lines(output or str(error))
            await compat.process_interface(self, "start")

    async def close(self: Job) -> None:
        await job_class.close(self)
        await compat.process_interface(self, "close")

    return type(job_class.__name__, (job_class,), {"start": start, "close": close, "refusal": None})


def job_status(system: str, job_id: str) -> JobStatus:
    """Ask a batch system about a job; one that it does not know any more is over."""
    command = STATUS_COMMANDS[system]
    try:
        run = subprocess.run([*command, job_id], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return JobStatus(f"{command[0]} did not answer: {error}", None)
    text = _first_lines(run.stdout.strip() or run.stderr.strip())
    unknown = run.returncode != 0 or not text
    if unknown and run.stderr.strip() and not UNKNOWN_JOB.search(run.stderr):
        return JobStatus(text, None)  # it speaks of itself, not of the job
    return JobStatus(text or f"job {job_id} is not in the queue", unknown or OVER.search(run.stdout) is not None)


def log_of_job(job_id: str, folder: str | None, job_name: str | None = None) -> str:
    """Return the last lines of a job's logs, where its batch system or jobqueue names them after the job."""
    names = "|".join(re.escape(name) for name in {job_name or "dask-worker", "slurm"})
    named = re.compile(rf"(?:{names})[-.](?:[oe]|job)?{re.escape(job_id.partition('.')[0])}(?:\.[\w.-]+)?")
    logs = [path for path in sorted(Path(folder or ".").glob("*")) if named.fullmatch(path.name) and path.is_file()]
    texts = {path: path.read_text(errors="replace").strip().splitlines() for path in logs}
    return "\n".join("\n".join([f"{path}:", *lines[-LINES:]]) for path, lines in texts.items() if lines)


def states_of_jobs(cluster: Any, settings: JobSettings) -> str:
    """Return what the batch system says about every job, and the end of the logs of those that ended; each once."""
    folder, name = (None if (o := settings.options.get(k)) is None else str(o) for k in ("log-directory", "job-name"))
    texts: dict[str, None] = {}
    for job in list(cluster.workers.values()):
        if job.refusal is not None:
            texts[f"the job was refused: {job.refusal}"] = None
        elif job.job_id is not None:
            status = job_status(settings.system, job.job_id)
            texts[status.text] = None
            if status.over and (log := log_of_job(job.job_id, folder, name)):
                texts[log] = None
    return "\n".join(texts) or "nothing: no job was submitted"


def _wait_for_worker(cluster: Any, settings: JobSettings) -> None:
    deadline, next_look, script = time.monotonic() + settings.wait, time.monotonic() + LOOK, cluster.job_script()
    while not cluster.scheduler.workers:
        now, jobs = time.monotonic(), list(cluster.workers.values())
        if now >= deadline:
            address = cluster.scheduler_address
            note = ", where only this machine reaches it: for others name the network, interface below jobqueue"
            raise ClusterError(
                f"no worker came within {settings.wait:g} s (sdem-dist: wait-for-workers in {settings.path} sets this time). "
                f"The scheduler listens at {address}{note if LOOPBACK in address else ''}.\n"
                f"The script of each job:\n{script}"
            )
        if now >= next_look:
            hopeless = [
                job.refusal is not None or (job.job_id is not None and job_status(settings.system, job.job_id).over)
                for job in jobs
            ]
            if jobs and all(hopeless) and not cluster.scheduler.workers:
                raise ClusterError(f"no job is left that could bring a worker.\nThe script of each job:\n{script}")
            next_look = time.monotonic() + LOOK
        time.sleep(0.1)


class JobMonitor:
    """Replaces lost jobs of a cluster, in the cluster's event loop, until `stopped`.

    Jobqueue's adaptive scaling does that for jobs of one process only, and never for jobs that end before their worker
    has come.

    `cluster`: dask-jobqueue's, its jobs as `with_refusals` makes them.
    `say`: takes lines about what was replaced.
    """

    def __init__(self, cluster: Any, settings: JobSettings, say: Callable[[str], None]) -> None:
        self._cluster, self._settings, self._say = cluster, settings, say
        self._last_worker: dict[object, float] = {}  # by job, since names are used again
        self._failures = 0
        self.stopped = False

    async def watch(self) -> None:
        while not self.stopped:
            waiting = sum(not self._has_worker(name) for name in list(self._cluster.workers))
            await asyncio.sleep(max(LOOK, float(waiting)))
            try:
                lost = [name for name, job in list(self._cluster.workers.items()) if await self._is_lost(name, job)]
                if lost and not self.stopped:
                    await self._cluster.scale_down(lost)
                missing = set(self._cluster.worker_spec) != set(self._cluster.workers)
                if (lost or missing) and not self.stopped:
                    self._cluster.scale(jobs=self._settings.jobs)
            except Exception as error:  # noqa: BLE001  whatever it is, the next look tries again
                self._say(f"jobs could not be looked after ({type(error).__name__}: {error}); trying again")

    async def _is_lost(self, name: object, job: Any) -> bool:
        now = time.monotonic()
        if self._has_worker(name):
            if job not in self._last_worker:
                self._failures = 0
            self._last_worker[job] = now
            return False
        if job.job_id is None:
            return job.refusal is not None and self._tries_again(f"a job was refused: {job.refusal}")
        status = await asyncio.to_thread(job_status, self._settings.system, job.job_id)
        text = ", ".join(status.text.splitlines())
        if self._has_worker(name):
            return False
        if job not in self._last_worker:
            return status.over is True and self._tries_again(f"{text}: it ended before it brought a worker")
        lost = bool(status.over) or now - self._last_worker[job] > SILENT
        if lost:
            self._say(f"{text}: submitting another")
        return lost

    def _has_worker(self, name: object) -> bool:
        present = [str(worker.name) for worker in list(self._cluster.scheduler.workers.values())]
        return any(worker == str(name) or worker.startswith(f"{name}-") for worker in present)

    def _tries_again(self, failure: str) -> bool:
        if self._failures >= FAILURES:
            return False
        self._failures += 1
        again = self._failures < FAILURES
        self._say(f"{failure}: {'submitting another' if again else f'{FAILURES} failed in a row; going on without it'}")
        return again


def _first_lines(text: str) -> str:
    return "\n".join([line.strip() for line in text.splitlines() if line.strip()][:LINES])
