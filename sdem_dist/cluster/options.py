"""What each batch job of a cluster is started with, beyond what jobqueue reads from the file itself."""

from pathlib import Path

from sdem_dist.cluster.client import ENVIRONMENT
from sdem_dist.cluster.settings import SYSTEMS, JobSettings, jobqueue, read_settings
from sdem_dist.storage.numbers import JsonObject

LOOPBACK = "127.0.0.1"
STAGGER = 0.1  # share of a lifetime by which workers differ, so that they do not all end at once


def job_script(path: str | Path, lifetime: str | None = None) -> str:
    """Return the script of the batch jobs that a cluster file describes, submitting nothing."""
    import dask

    settings = read_settings(path, lifetime)
    with dask.config.set(settings.config):
        options = job_options(settings)
        del options["scheduler_options"]
        scheme = options["protocol"] or "tcp://"
        job_class = getattr(jobqueue(), SYSTEMS[settings.system]).job_cls
        return str(job_class(f"{scheme}SCHEDULER:PORT", name="WORKER", **options).job_script())


def job_options(settings: JobSettings) -> JsonObject:
    """Return what jobqueue's cluster is called with, beyond what it reads from the configuration itself."""
    import dask
    from distributed.security import Security

    config = f"jobqueue.{settings.system}"
    interface = dask.config.get(f"{config}.interface")
    arguments = [str(a) for a in dask.config.get(f"{config}.worker-extra-args")]
    scheduler = dict(dask.config.get(f"{config}.scheduler-options"))
    if interface is None and not _given(arguments, "--host", "--interface"):
        arguments += ["--host", LOOPBACK]
        if not {"host", "interface"} & set(scheduler):
            scheduler["host"] = LOOPBACK
    if not _given(arguments, "--dashboard-address"):  # workers would show theirs on every network
        arguments += ["--dashboard-address", f"{LOOPBACK}:0"]
    scheduler.setdefault("dashboard_address", f"{LOOPBACK}:0")
    if settings.lifetime is not None:
        arguments += ["--lifetime", f"{settings.lifetime:g}s"]
        arguments += ["--lifetime-stagger", f"{STAGGER * settings.lifetime:g}s"]
    prologue = [f"export {name}={value}" for name, value in ENVIRONMENT.items()]  # those of the file come later and win
    prologue += dask.config.get(f"{config}.job-script-prologue")
    security = None
    if dask.config.get("distributed.comm.tls.ca-file"):
        security = Security()
        prologue.append("export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true")
    return {
        "worker_extra_args": arguments,
        "scheduler_options": scheduler,
        "job_script_prologue": prologue,
        "security": security,
        "protocol": None if security is None else "tls://",
    }


def _given(arguments: list[str], *names: str) -> bool:
    """Say whether one of some options is among arguments, as ``--name value`` or ``--name=value``."""
    return any(argument.partition("=")[0] in names for argument in arguments)
