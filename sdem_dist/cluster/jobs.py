"""A cluster of batch jobs, described by a file: submit jobs, wait, replace lost jobs, and cancel all at the end."""

import asyncio
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import dask
import msgspec
from dask.utils import parse_timedelta
from distributed import Client
from distributed.core import Status
from distributed.deploy.spec import ProcessInterface
from distributed.security import Security
from distributed.utils import get_ip_interface

from sdem_dist.cluster.client import CONFIGURATION, ENVIRONMENT, ended_by_signals, held_back
from sdem_dist.counted import counted
from sdem_dist.errors import ClusterError

SYSTEMS = {
    "slurm": 'squeue --noheader --states=all --format="job %i is %T (reason: %r) %N" --jobs',
    "pbs": "qstat -f",
    "sge": "qstat -j",
    "lsf": "bjobs -l",
}
"""Command that shows the state of a job in each batch system; the id of the job is its last argument."""
OVER = re.compile(
    r" is (CANCELLED|COMPLETED|FAILED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|BOOT_FAIL|DEADLINE)\b"
    r"|job_state = [CF]\b|Status <(EXIT|DONE)>"
)
UNKNOWN_JOB = re.compile(r"invalid job|unknown job|not found|do(es)? not exist|no such job", re.IGNORECASE)
LOOPBACK = "127.0.0.1"
LOOK = 3.0  # least seconds between two checks of the jobs; more if many jobs have no worker: one query per second
SILENT = 50.0  # seconds that a running job may lack a worker; a nanny takes less to restart one
FAILURES = 3  # jobs in a row that may end before their worker starts; then no more are submitted
LINES = 12  # lines to show of an answer or a log


class JobSettings(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    """The section ``sdem-dist`` of a cluster file; all times become seconds."""

    jobs: Annotated[int, msgspec.Meta(ge=1)] = 1
    wait_for_workers: str | int | float = 600.0  # longest time without any worker
    silence: str | float | None = None
    lifetime: str | float | None = None  # approximate time after which a worker hands over its results and ends
    certificates: str | None = None

    def __post_init__(self) -> None:
        for name in ("wait_for_workers", "silence", "lifetime"):
            value, seconds = getattr(self, name), 0.0
            with suppress(KeyError, ValueError):
                seconds = parse_timedelta(value, default="seconds")  # None stays None
            if seconds is not None and not seconds > 0:
                raise ValueError(f'{name.replace("_", "-")}: {value!r} is not a duration, such as 90, "55 m" or "2 h"')
            setattr(self, name, seconds)


class ClusterFile(msgspec.Struct, rename="kebab"):
    jobqueue: dict[str, dict[str, Any] | None] = {}
    sdem_dist: JobSettings = msgspec.field(default_factory=JobSettings)


@contextmanager
def configured(
    path: Path, lifetime: str | None, say: Callable[[str], None]
) -> Iterator[tuple[JobSettings, Any, dict[str, Any]]]:
    """Apply a file's configuration, and warn of its network; yield our settings, jobqueue's class and its arguments."""
    try:
        content = msgspec.yaml.decode(path.read_bytes(), type=dict[str, Any])
        file = msgspec.convert({name: section for name, section in content.items() if section}, ClusterFile)
        settings = file.sdem_dist if lifetime is None else msgspec.structs.replace(file.sdem_dist, lifetime=lifetime)
    except (OSError, ValueError, msgspec.DecodeError) as error:  # no file, no YAML, wrong sections or lifetime
        reason = re.sub(r"(.+) - at `\$\.?(.+)`", r"\2: \1", getattr(error, "strerror", None) or str(error))
        if isinstance(error, msgspec.ValidationError) and "unknown field" in reason:
            reason += f"; valid: {', '.join(JobSettings.__struct_encode_fields__)}"
        raise ClusterError(f"the cluster file {path} cannot be read: {reason.replace('`', '')}") from error
    system = next(iter(file.jobqueue), "")
    if len(file.jobqueue) != 1 or system not in SYSTEMS:
        raise ClusterError(f"{path}: the section jobqueue must contain exactly one of {', '.join(SYSTEMS)}")
    try:
        with held_back():  # importing it installs a handler of interrupts
            import dask_jobqueue
    except ImportError as error:
        raise ClusterError("batch jobs need dask-jobqueue: pip install 'sdem_dist[jobqueue]'") from error
    names = sorted({name.replace("_", "-") for name in dask.config.get(f"jobqueue.{system}")})
    for key, value in (file.jobqueue[system] or {}).items():
        name, values = key.replace("_", "-"), value if isinstance(value, list) else [value]
        if name not in names:  # jobqueue would ignore it silently
            raise ClusterError(f"{path}: unknown option {name} of {system}; valid: {', '.join(names)}")
        if name == "walltime" and isinstance(value, int):
            raise ClusterError(f'{path}: quote walltime, as in "12:00:00": without quotes, YAML converts it to {value}')
        # a new line in a job's script could be a directive to the batch system
        if not name.startswith("job-script") and any(isinstance(v, str) and not v.isprintable() for v in values):
            raise ClusterError(f"{path}: {name}: {value!r} has line breaks or control characters: use a single line")
    if settings.certificates is not None:
        tls = path.parent / settings.certificates / "tls.yaml"
        if not tls.is_file():
            create = f"create the certificates with sdem cluster certificates {tls.parent}"
            raise ClusterError(f"{path}: {tls} does not exist: {create}")
        content = dask.config.merge(content, msgspec.yaml.decode(tls.read_bytes()))
    content["sdem-dist"] = {k: v for k, v in msgspec.to_builtins(settings).items() if v is not None}
    # A job is not replaced while its nanny restarts the worker.
    usual = {"distributed.deploy.lost-worker-timeout": "60s", **CONFIGURATION}
    with dask.config.set(usual), dask.config.set(dask.config.merge(dask.config.config, content)):
        config = dask.config.get(f"jobqueue.{system}")
        # The file's arguments and prologue come last, so that they override these.
        arguments = ["--dashboard-address", f"{LOOPBACK}:0", *map(str, config["worker-extra-args"])]
        scheduler = {"dashboard_address": f"{LOOPBACK}:0", **config["scheduler-options"]}
        named = {argument.partition("=")[0] for argument in arguments}
        if local := config["interface"] is None and not named & {"--host", "--interface"}:
            arguments += ["--host", LOOPBACK]
            if not {"host", "interface"} & set(scheduler):
                scheduler["host"] = LOOPBACK
        if (seconds := float(settings.lifetime or 0)) > 0:
            arguments += ["--lifetime", f"{seconds:g}s", "--lifetime-stagger", f"{seconds / 10:g}s"]  # not all at once
        prologue = [f"export {name}={value}" for name, value in ENVIRONMENT.items()] + config["job-script-prologue"]
        options: dict[str, Any] = {"worker_extra_args": arguments, "scheduler_options": scheduler}
        if dask.config.get("distributed.comm.tls.ca-file"):
            options |= {"security": Security(), "protocol": "tls://"}
            prologue.append("export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true")
        if local:
            say(f"{path} sets no interface: workers on other machines cannot connect (set interface under jobqueue)")
        if "security" not in options and LOOPBACK not in str(scheduler.get("host")):
            say(f"{path} sets no certificates: anyone who connects can run code as you (see sdem cluster certificates)")
        yield settings, getattr(dask_jobqueue, f"{system.upper()}Cluster"), options | {"job_script_prologue": prologue}


def job_script(path: str | Path, lifetime: str | None = None, say: Callable[[str], None] = lambda _: None) -> str:
    """Return the script of the batch jobs that a cluster file describes; nothing is submitted."""
    with configured(Path(path), lifetime, say) as (settings, cluster_class, options):
        say(f"{path}: number of jobs: {settings.jobs}. Script of each job:")
        del options["scheduler_options"]
        address = f"{options.get('protocol', 'tcp://')}SCHEDULER:PORT"
        return str(cluster_class.job_cls(address, name="WORKER", **options).job_script())


@contextmanager
def batch_jobs(
    path: str | Path, lifetime: str | None = None, say: Callable[[str], None] = lambda _: None
) -> Iterator[Client]:
    """Yield a client of a scheduler in this process, whose workers are the batch jobs of a cluster file.

    The run begins with the first worker. Workers that start later join it, lost jobs are submitted again, and all jobs
    are cancelled at the end, also after an exception or a signal. `lifetime`, such as ``"55m"``, overrides the file's.
    Raises ClusterError, with messages of the batch system, for a wrong file, rejected jobs, or no worker in time.
    """
    with configured(Path(path), lifetime, say) as (settings, cluster_class, options), ended_by_signals():
        system, wait = cluster_class.job_cls.config_name, float(settings.wait_for_workers)
        try:
            if nic := options["scheduler_options"].get("interface", dask.config.get(f"jobqueue.{system}.interface")):
                get_ip_interface(nic)
        except ValueError as error:
            raise ClusterError(f"{path}: {error}: correct interface or scheduler-options under jobqueue") from error

        class Job(cluster_class.job_cls):  # type: ignore[misc, name-defined]
            """A job that stores why it was rejected, and reports that it is closed, even if it never ran."""

            refusal = ""
            worker_time: float | None = None  # time of the last check that found its worker

            async def start(self) -> None:
                try:
                    await super().start()
                except (OSError, RuntimeError, ValueError) as error:
                    # only the part of jobqueue's message that the submit command printed
                    output = str(error).partition("stdout:\n")[2].replace("stderr:\n", "").strip()
                    self.refusal = f"the job was rejected: {(output or str(error))[:1000]}"
                    self.status = Status.running

            async def close(self) -> None:
                await super().close()
                await ProcessInterface.close(self)

            def state(self) -> tuple[str, bool | None]:
                """Return a description of the job, and whether it is over: see `job_status`."""
                if self.refusal or self.job_id is None:  # rejected, or not submitted yet
                    return self.refusal, bool(self.refusal)
                return job_status(self.config_name, self.job_id)

        cluster = cluster_class(job_cls=Job, **options)
        try:
            cluster.scale(jobs=settings.jobs)
            say(f"submitted {counted(settings.jobs, f'{system} job')}; waiting up to {wait:g} s for a worker")
            # Directly: results through the scheduler, which is in this process, would be sent twice.
            with Client(cluster, direct_to_workers=True) as client:
                deadline, address = time.monotonic() + wait, cluster.scheduler_address
                while not cluster.scheduler.workers:
                    with suppress(TimeoutError):
                        client.wait_for_workers(1, timeout=min(LOOK, wait))
                        break
                    over = [job.state()[1] for job in list(cluster.workers.values())]
                    why = "all jobs ended before a worker started" if over and all(over) else ""
                    if time.monotonic() >= deadline:
                        why = f"no worker started within {wait:g} s (wait-for-workers in {path}); scheduler: {address}"
                    if why:
                        raise ClusterError(f"{why}.\nThe script of each job:\n{cluster.job_script()}")
                cluster.loop.add_callback(replace_lost_jobs, cluster, settings.jobs, say)
                yield client
        except ClusterError as error:
            config, texts = dask.config.get(f"jobqueue.{system}"), dict[str, None]()  # a dict, for each text once
            for job in list(cluster.workers.values()):
                text, is_over = job.state()
                texts[text] = None
                if is_over and job.job_id is not None:
                    texts[log_of_job(job.job_id, config["log-directory"], config["name"])] = None
            statuses = "\n".join(filter(None, texts)) or "no job was submitted"
            raise ClusterError(f"{error}\nOutput of {system}:\n{statuses}") from error
        finally:
            cluster.close()


async def replace_lost_jobs(cluster: Any, n_jobs: int, say: Callable[[str], None]) -> None:
    """Replace lost jobs of a cluster while it runs; a task of its event loop.

    Dask's adaptive scaling only replaces jobs of one process, and only if they had a worker.
    """
    failures = 0

    def has_worker(job: Any) -> bool:
        names = [str(worker.name) for worker in cluster.scheduler.workers.values()]
        return any(name == str(job.name) or name.startswith(f"{job.name}-") for name in names)

    while cluster.status is Status.running:
        await asyncio.sleep(max(LOOK, sum(not has_worker(job) for job in cluster.workers.values())))
        try:
            lost = []
            for name, job in list(cluster.workers.items()):
                text, over = ("", False) if has_worker(job) else await asyncio.to_thread(job.state)
                now, is_new = time.monotonic(), job.worker_time is None
                if has_worker(job):
                    failures, job.worker_time = 0 if is_new else failures, now
                    continue
                text, has_failed = ", ".join(text.splitlines()), bool(over) and is_new
                again = bool(over) or now - (job.worker_time or now) > SILENT
                if has_failed:
                    if failures >= FAILURES:  # already reported
                        continue
                    failures += 1
                    again = failures < FAILURES
                    text += "" if job.refusal else ": it ended before its worker started"
                if again or has_failed:
                    without = f"{FAILURES} jobs failed in a row, so this job is not replaced"
                    say(f"{text}; {'submitting another job' if again else without}")
                lost += [name] if again else []
            if cluster.status is Status.running:
                await cluster.scale_down(lost)
                cluster.scale(jobs=n_jobs)
        except Exception as error:  # noqa: BLE001  whatever it is, the next check retries
            say(f"cannot monitor the jobs ({type(error).__name__}: {error}); trying again")


def job_status(system: str, job_id: str) -> tuple[str, bool | None]:
    """Return the answer of a batch system about a job, and whether the job is over: None without an answer."""
    command = [*shlex.split(SYSTEMS[system]), job_id]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]} failed: {error}", None
    text = "\n".join([s for line in (run.stdout.strip() or run.stderr).splitlines() if (s := line.strip())][:LINES])
    unknown = run.returncode != 0 or not text
    if unknown and run.stderr.strip() and not UNKNOWN_JOB.search(run.stderr):
        return text, None  # an error of the batch system, not about the job
    return text or f"job {job_id} is not in the queue", unknown or OVER.search(run.stdout) is not None


def log_of_job(job_id: str, folder: str | None, job_name: str | None = None) -> str:
    """Return the last lines of a job's logs: files with names in the style of the batch system or jobqueue."""
    names = "|".join(re.escape(name) for name in {job_name or "dask-worker", "slurm"})
    named = re.compile(rf"(?:{names})[-.](?:[oe]|job)?{re.escape(job_id.partition('.')[0])}(?:\.[\w.-]+)?")
    logs = [path for path in sorted(Path(folder or ".").glob("*")) if named.fullmatch(path.name) and path.is_file()]
    texts = {path: path.read_text(errors="replace").strip().splitlines() for path in logs}
    return "\n".join("\n".join([f"{path}:", *lines[-LINES:]]) for path, lines in texts.items() if lines)
