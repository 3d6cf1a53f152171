"""A cluster of batch jobs: submitted, waited for, replaced when they are lost, and ended with the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sdem_dist import compat
from sdem_dist.cluster import words
from sdem_dist.cluster.client import QUIET
from sdem_dist.cluster.interrupts import ended_by_signals
from sdem_dist.cluster.keeper import BatchCluster, Keeper, TellingJob
from sdem_dist.cluster.options import LOOPBACK, job_options
from sdem_dist.cluster.settings import SYSTEMS, JobSettings, jobqueue, read_settings
from sdem_dist.engine.dask import TASK_STREAM
from sdem_dist.errors import ClusterError
from sdem_dist.storage.numbers import JsonObject

if TYPE_CHECKING:
    from dask_jobqueue.core import Job
    from distributed import Client

LOOK = 3.0  # seconds between two questions to the batch system while waiting


@contextmanager
def batch_jobs(
    path: str | Path, lifetime: str | None = None, say: Callable[[str], None] = lambda _: None
) -> Iterator[Client]:
    """Yield a client of a scheduler in this process, whose workers are batch jobs.

    The run begins with the first worker. Jobs that start later join in, lost jobs are submitted again, and all are
    cancelled at the end, also after an exception or a signal.

    `path`: cluster file, see `sdem_dist.cluster.settings`.
    `lifetime`: such as ``"55m"``, in place of the file's.
    `say`: takes lines for the person who waits.
    Raises ClusterError: the file is wrong, the batch system refuses the jobs, or no worker came in time; with the batch
    system's words.
    """
    import dask
    from distributed import Client

    settings = read_settings(path, lifetime)
    # A worker that its nanny restarts must not cost the whole job.
    patience = {"distributed.deploy.lost-worker-timeout": "60s"}
    with dask.config.set({**patience, **QUIET, **TASK_STREAM, **dict(settings.config)}):
        options = job_options(settings)
        _warn(settings, options, say)
        cluster_class = getattr(jobqueue(), SYSTEMS[settings.system])
        with ended_by_signals():
            cluster = cluster_class(job_cls=telling(cluster_class.job_cls), **options)
            keeper = Keeper(cluster, settings, say)
            try:
                cluster.scale(jobs=settings.jobs)
                say(
                    f"{settings.jobs} jobs of {settings.system} asked for; waiting up to {settings.wait:g} s for a worker"
                )
                _wait(cluster, settings)
                keeper.start()
                with Client(cluster, direct_to_workers=True) as client:  # as `sdem_dist.cluster.client` says
                    yield client
            except ClusterError as error:
                told = state_of_jobs(cluster, settings)
                raise ClusterError(f"{error}\nWhat {settings.system} says:\n{told}") from error
            finally:
                keeper.stop()
                cluster.close()


def telling(job_class: type[Job]) -> type[Job]:
    """Return a job class whose refusal by the batch system can be read; jobqueue's own goes to a log.

    It also knows when it is closed, without which a cluster that never ran cannot be closed.
    """

    async def start(self: Any) -> None:
        try:
            await job_class.start(self)
        except (OSError, RuntimeError, ValueError) as error:
            self.refusal = words.refused(error)
            await compat.start_process(self)

    async def close(self: Job) -> None:
        await job_class.close(self)
        await compat.close_process(self)

    return type(job_class.__name__, (job_class,), {"start": start, "close": close, "refusal": None})


def state_of_jobs(cluster: BatchCluster, settings: JobSettings) -> str:
    """Return the batch system's words about every job, and the end of what ended jobs wrote; each once."""
    folder, name = (
        settings.options.get(o, settings.options.get(o.replace("-", "_"))) for o in ("log-directory", "job-name")
    )
    told: dict[str, None] = {}
    for job in list(cluster.workers.values()):
        if job.refusal is not None:
            told[f"the job was refused: {job.refusal}"] = None
        elif job.job_id is not None:
            said, over = words.about(settings.system, job.job_id)
            told[said] = None
            if over and (log := words.log_of(job.job_id, cast(str | None, folder), cast(str | None, name))):
                told[log] = None
    return "\n".join(told) or "nothing: no job was submitted"


def _wait(cluster: BatchCluster, settings: JobSettings) -> None:
    deadline = time.monotonic() + settings.wait
    look = time.monotonic() + LOOK
    while not cluster.scheduler.workers:
        if time.monotonic() >= deadline:
            raise ClusterError(
                f"no worker came within {settings.wait:g} s (sdem-dist: wait-for-workers in {settings.path} sets this "
                f"time). {_reach(cluster)}\nThe script of each job:\n{cluster.job_script()}"
            )
        if time.monotonic() >= look:
            jobs = list(cluster.workers.values())
            if jobs and all(_hopeless(settings.system, job) for job in jobs) and not cluster.scheduler.workers:
                raise ClusterError(
                    f"no job is left that could bring a worker.\nThe script of each job:\n{cluster.job_script()}"
                )
            look = time.monotonic() + LOOK
        time.sleep(0.1)


def _hopeless(system: str, job: TellingJob) -> bool:
    if job.refusal is not None:
        return True
    return job.job_id is not None and words.about(system, job.job_id)[1] is True


def _reach(cluster: BatchCluster) -> str:
    address = cluster.scheduler_address
    if LOOPBACK in address:
        return (
            f"The scheduler listens at {address}, where only this machine reaches it; for workers on others name "
            "the network in the file: interface below jobqueue."
        )
    return f"Workers have to reach the scheduler at {address}."


def _warn(settings: JobSettings, options: JsonObject, say: Callable[[str], None]) -> None:
    if options["security"] is None and LOOPBACK not in str(options["scheduler_options"].get("host")):
        say(
            f"{settings.path}: no certificates: whoever reaches the scheduler or a worker over the network can run code "
            "as you (sdem cluster certificates makes some)"
        )
