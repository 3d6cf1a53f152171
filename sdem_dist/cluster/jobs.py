"""A cluster of batch jobs, described by a file: submitted, waited for, replaced when lost, and ended with the run."""

import asyncio
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import dask
import msgspec
from dask.utils import parse_timedelta
from distributed import Client
from distributed.core import Status
from distributed.deploy.spec import ProcessInterface
from distributed.security import Security

from sdem_dist.cluster.client import CONFIGURATION, ENVIRONMENT, ended_by_signals
from sdem_dist.errors import ClusterError

SYSTEMS = {
    "slurm": ("SLURMCluster", 'squeue --noheader --states=all --format="job %i is %T (reason: %r) %N" --jobs'),
    "pbs": ("PBSCluster", "qstat -f"),
    "sge": ("SGECluster", "qstat -j"),
    "lsf": ("LSFCluster", "bjobs -l"),
}
"""Of batch systems dask-jobqueue's class, and the question about a job, whose id comes last. Answers are shown."""
OVER = re.compile(
    r" is (CANCELLED|COMPLETED|FAILED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|BOOT_FAIL|DEADLINE)\b"
    r"|job_state = [CF]\b|Status <(EXIT|DONE)>"
)
UNKNOWN_JOB = re.compile(r"invalid job|unknown job|not found|do(es)? not exist|no such job", re.IGNORECASE)
LOOPBACK = "127.0.0.1"
STAGGER = 0.1  # share of a lifetime by which workers differ, so that they do not all end at once
LOOK = (
    3.0  # seconds between two questions to the batch system; more where many jobs have no worker, one a second at most
)
SILENT = 50.0  # seconds that a running job may be without a worker; a nanny restarts one in fewer
FAILURES = 3  # jobs that may end in a row before they bring a worker; then something is wrong with all of them
LINES = 12  # shown of an answer or a log


class JobSettings(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    """The section ``sdem-dist`` of a cluster file, its times in seconds."""

    jobs: Annotated[int, msgspec.Meta(ge=1)] = 1
    wait_for_workers: str | int | float = 600.0  # that the run may be without any worker
    silence: str | float | None = None
    lifetime: str | float | None = None  # after which a worker hands over what it has and ends, about
    certificates: str | None = None

    def __post_init__(self) -> None:
        for name in ("wait_for_workers", "silence", "lifetime"):
            if (value := getattr(self, name)) is not None:
                seconds = 0.0
                with suppress(KeyError, ValueError):
                    seconds = float(parse_timedelta(value, default="seconds"))
                if not seconds > 0:
                    name = name.replace("_", "-")
                    raise ValueError(f'{name}: {value!r} is not a time such as 90, "55 m" or "2 h"')
                setattr(self, name, seconds)


def jobqueue() -> ModuleType:
    """Import dask-jobqueue, which is an extra and leaves SIGINT to a handler of its own."""
    before = signal.getsignal(signal.SIGINT)
    try:
        import dask_jobqueue
    except ImportError as error:
        raise ClusterError("batch jobs need dask-jobqueue: pip install 'sdem_dist[jobqueue]'") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
    return dask_jobqueue


@contextmanager
def configured(path: Path, lifetime: str | None) -> Iterator[tuple[JobSettings, str, Any, dict[str, Any]]]:
    """Set a file's configuration; yield our section, the batch system, jobqueue's class of clusters, its arguments."""
    try:
        content = msgspec.yaml.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:  # no file, no YAML, or no sections
        raise ClusterError(f"the cluster file {path} cannot be read: {error}") from error
    try:
        sections = msgspec.convert(content.get("jobqueue") or {}, dict[str, dict[str, object] | None])
        ours = msgspec.convert(content.get("sdem-dist") or {}, dict[str, object])
        settings = msgspec.convert(ours | ({} if lifetime is None else {"lifetime": lifetime}), JobSettings)
    except msgspec.ValidationError as error:
        raise ClusterError(f"{path}: sdem-dist or jobqueue: {error}") from error
    system = next(iter(sections), "")
    if len(sections) != 1 or system not in SYSTEMS:
        raise ClusterError(f"{path}: the section jobqueue needs one of {', '.join(SYSTEMS)} below it, and nothing else")
    cluster_class = getattr(jobqueue(), SYSTEMS[system][0])
    options = {str(name).replace("_", "-"): value for name, value in (sections[system] or {}).items()}
    names = sorted({name.replace("_", "-") for name in dask.config.get(f"jobqueue.{system}")})
    if unknown := options.keys() - set(names):  # jobqueue would pass over them in silence
        problem = f"there is no option {unknown.pop()}; there are {', '.join(names)}"
        raise ClusterError(f"{path}: jobqueue: {system}: {problem}")
    for name, value in options.items():  # a line of a job's script could be an order to the batch system
        texts = value if isinstance(value, list) else [value]
        is_script = name in ("job-script-prologue", "job-script-epilogue")
        if not is_script and any(isinstance(text, str) and not text.isprintable() for text in texts):
            raise ClusterError(f"{path}: {name}: {value!r} has line ends or control characters: write it as one line")
    if isinstance(options.get("walltime"), int):
        raise ClusterError(f'{path}: walltime {options["walltime"]}: YAML reads it as seconds; quote it: "12:00:00"')
    if settings.certificates is not None:
        tls = path.parent / settings.certificates / "tls.yaml"
        if not tls.is_file():
            where = f"a folder that sdem cluster certificates made, relative to {path.parent}"
            raise ClusterError(f"{path}: certificates: {tls} does not exist: name {where}")
        content = dask.config.merge(content, msgspec.yaml.decode(tls.read_bytes()))
    content["sdem-dist"] = {k: v for k, v in msgspec.to_builtins(settings).items() if v is not None}
    # A worker that its nanny restarts must not cost the whole job.
    usual = {"distributed.deploy.lost-worker-timeout": "60s", **CONFIGURATION}
    with dask.config.set(usual), dask.config.set(dask.config.merge(dask.config.config, content)):
        config = dask.config.get(f"jobqueue.{system}")
        # Of two arguments, or lines of the prologue, that set the same, the file's come later and win.
        arguments = ["--dashboard-address", f"{LOOPBACK}:0", *map(str, config["worker-extra-args"])]
        named = {argument.partition("=")[0] for argument in arguments}
        scheduler = {"dashboard_address": f"{LOOPBACK}:0", **config["scheduler-options"]}
        if config["interface"] is None and not named & {"--host", "--interface"}:
            arguments += ["--host", LOOPBACK]
            if not {"host", "interface"} & set(scheduler):
                scheduler["host"] = LOOPBACK
        if isinstance(settings.lifetime, float):
            arguments += ["--lifetime", f"{settings.lifetime:g}s"]
            arguments += ["--lifetime-stagger", f"{STAGGER * settings.lifetime:g}s"]
        prologue = [f"export {name}={value}" for name, value in ENVIRONMENT.items()] + config["job-script-prologue"]
        how: dict[str, Any] = {"worker_extra_args": arguments, "scheduler_options": scheduler}
        if dask.config.get("distributed.comm.tls.ca-file"):
            how |= {"security": Security(), "protocol": "tls://"}
            prologue.append("export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true")
        yield settings, system, cluster_class, how | {"job_script_prologue": prologue}


def job_script(path: str | Path, lifetime: str | None = None) -> str:
    """Return the script of the batch jobs that a cluster file describes, submitting nothing."""
    with configured(Path(path), lifetime) as (_, _, cluster_class, options):
        del options["scheduler_options"]
        address = f"{options.get('protocol', 'tcp://')}SCHEDULER:PORT"
        return str(cluster_class.job_cls(address, name="WORKER", **options).job_script())


@contextmanager
def batch_jobs(
    path: str | Path, lifetime: str | None = None, say: Callable[[str], None] = lambda _: None
) -> Iterator[Client]:
    """Yield a client of a scheduler in this process, whose workers are the batch jobs of a cluster file.

    The run begins with the first worker. Jobs that start later join in, lost jobs are submitted again, and all are
    cancelled at the end, also after an exception or a signal. `lifetime`: such as ``"55m"``, in place of the file's.
    Raises ClusterError, with what the batch system says: a wrong file, refused jobs, or no worker in time.
    """
    with configured(Path(path), lifetime) as (settings, system, cluster_class, options):
        if "security" not in options and LOOPBACK not in str(options["scheduler_options"].get("host")):
            whoever = "whoever reaches the scheduler or a worker over the network can run code as you"
            say(f"{path}: no certificates: {whoever} (sdem cluster certificates makes some)")

        class Job(cluster_class.job_cls):  # type: ignore[misc, name-defined]
            """A job that keeps why it was refused, and knows when it is closed, also if it never ran."""

            refusal = ""
            worker_time: float | None = None  # when it last had a worker

            async def start(self) -> None:
                try:
                    await super().start()
                except (OSError, RuntimeError, ValueError) as error:
                    # of jobqueue's message only what the submit command printed
                    output = str(error).partition("stdout:\n")[2].replace("stderr:\n", "").strip()
                    self.refusal = _first_lines(output or str(error))
                    self.status = Status.running

            async def close(self) -> None:
                await super().close()
                await ProcessInterface.close(self)

        with ended_by_signals():
            cluster = cluster_class(job_cls=Job, **options)
            monitor, wait, why = JobMonitor(cluster, system, settings.jobs, say), float(settings.wait_for_workers), ""
            try:
                cluster.scale(jobs=settings.jobs)
                say(f"{settings.jobs} jobs of {system} submitted; waiting up to {wait:g} s for a worker")
                began = looked = time.monotonic()
                while not (cluster.scheduler.workers or why):
                    time.sleep(0.1)
                    if time.monotonic() >= began + wait:
                        why = (
                            f"no worker came within {wait:g} s (sdem-dist: wait-for-workers in {path} sets this time). "
                        )
                        why += f"The scheduler listens at {cluster.scheduler_address}"
                        if LOOPBACK in cluster.scheduler_address:
                            why += ", where only this machine reaches it: others need interface below jobqueue"
                    elif time.monotonic() >= looked + LOOK:
                        over = [monitor.status(job)[1] for job in list(cluster.workers.values())]
                        why = "no job is left that could bring a worker" if over and all(over) else ""
                        looked = time.monotonic()
                if not cluster.scheduler.workers:
                    raise ClusterError(f"{why}.\nThe script of each job:\n{cluster.job_script()}")
                cluster.loop.add_callback(monitor.watch)
                with Client(cluster, direct_to_workers=True) as client:  # as `sdem_dist.cluster.client` says
                    yield client
            except ClusterError as error:
                config, texts = dask.config.get(f"jobqueue.{system}"), dict[str, None]()  # each text once
                for job in list(cluster.workers.values()):
                    text, is_over = monitor.status(job)
                    texts[text] = None
                    if is_over and job.job_id is not None:
                        texts[log_of_job(job.job_id, config["log-directory"], config["name"])] = None
                statuses = "\n".join(filter(None, texts)) or "nothing: no job was submitted"
                raise ClusterError(f"{error}\nWhat {system} says:\n{statuses}") from error
            finally:
                monitor.stopped = True
                cluster.close()


def job_status(system: str, job_id: str) -> tuple[str, bool | None]:
    """Return what a batch system says about a job, and whether it is over: None if the system does not answer."""
    command = [*shlex.split(SYSTEMS[system][1]), job_id]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]} did not answer: {error}", None
    text = _first_lines(run.stdout.strip() or run.stderr.strip())
    unknown = run.returncode != 0 or not text
    if unknown and run.stderr.strip() and not UNKNOWN_JOB.search(run.stderr):
        return text, None  # it speaks of itself, not of the job
    return text or f"job {job_id} is not in the queue", unknown or OVER.search(run.stdout) is not None


def log_of_job(job_id: str, folder: str | None, job_name: str | None = None) -> str:
    """Return the last lines of a job's logs, where its batch system or jobqueue names them after the job."""
    names = "|".join(re.escape(name) for name in {job_name or "dask-worker", "slurm"})
    named = re.compile(rf"(?:{names})[-.](?:[oe]|job)?{re.escape(job_id.partition('.')[0])}(?:\.[\w.-]+)?")
    logs = [path for path in sorted(Path(folder or ".").glob("*")) if named.fullmatch(path.name) and path.is_file()]
    texts = {path: path.read_text(errors="replace").strip().splitlines() for path in logs}
    return "\n".join("\n".join([f"{path}:", *lines[-LINES:]]) for path, lines in texts.items() if lines)


def _first_lines(text: str) -> str:
    return "\n".join([line.strip() for line in text.splitlines() if line.strip()][:LINES])


class JobMonitor:
    """Replaces lost jobs of a cluster, in its event loop, until `stopped`.

    Adaptive scaling does so for jobs of one process only, and never where they end before they have a worker.
    """

    def __init__(self, cluster: Any, system: str, n_jobs: int, say: Callable[[str], None]) -> None:
        self._cluster, self._system, self._n_jobs, self._say = cluster, system, n_jobs, say
        self._failures, self.stopped = 0, False

    def status(self, job: Any) -> tuple[str, bool | None]:
        """Return what is known of a job, and whether it is over: refused, not submitted yet, or see `job_status`."""
        if job.refusal:
            return f"the job was refused: {job.refusal}", True
        return ("", False) if job.job_id is None else job_status(self._system, job.job_id)

    async def watch(self) -> None:
        cluster = self._cluster
        while not self.stopped:
            waiting = sum(not self._has_worker(name) for name in list(cluster.workers))
            await asyncio.sleep(max(LOOK, float(waiting)))
            try:
                lost = [name for name, job in list(cluster.workers.items()) if await self._is_lost(name, job)]
                if lost and not self.stopped:
                    await cluster.scale_down(lost)
                if (lost or set(cluster.worker_spec) != set(cluster.workers)) and not self.stopped:
                    cluster.scale(jobs=self._n_jobs)
            except Exception as error:  # noqa: BLE001  whatever it is, the next look tries again
                self._say(f"jobs could not be looked after ({type(error).__name__}: {error}); trying again")

    def _has_worker(self, name: object) -> bool:
        present = [str(worker.name) for worker in list(self._cluster.scheduler.workers.values())]
        return any(worker == str(name) or worker.startswith(f"{name}-") for worker in present)

    async def _is_lost(self, name: object, job: Any) -> bool:
        now, first = time.monotonic(), job.worker_time is None
        if self._has_worker(name):
            self._failures, job.worker_time = 0 if first else self._failures, now
            return False
        text, over = await asyncio.to_thread(self.status, job)
        if self._has_worker(name):
            return False
        text = ", ".join(text.splitlines())
        if over and first:
            if self._failures >= FAILURES:
                return False
            self._failures += 1
            text += "" if job.refusal else ": it ended before it brought a worker"
        again = self._failures < FAILURES if over and first else bool(over) or now - (job.worker_time or now) > SILENT
        if over or again:
            without = f"{FAILURES} failed in a row; going on without it"
            self._say(f"{text}: {'submitting another' if again else without}")
        return again
