"""The YAML file of a cluster of batch jobs: Dask's own configuration and a section of ours; and the jobs' script."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated

import msgspec

from sdem_dist.cluster.client import ENVIRONMENT
from sdem_dist.errors import ClusterError

SYSTEMS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "sge": "SGECluster", "lsf": "LSFCluster"}
"""Batch systems and what dask-jobqueue calls their clusters."""
LINES_OF_A_SCRIPT = ("job-script-prologue", "job-script-epilogue")
LOOPBACK = "127.0.0.1"
STAGGER = 0.1
"""Share of a lifetime by which workers differ, so that they do not all end at once."""


class OwnSection(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    """The section ``sdem-dist`` of the file."""

    jobs: Annotated[int, msgspec.Meta(ge=1)] = 1
    wait_for_workers: str | int | float = 600
    silence: str | float | None = None
    lifetime: str | float | None = None
    certificates: str | None = None


@dataclass(frozen=True)
class JobSettings:
    """The settings of a cluster file."""

    path: Path
    system: str  # key of `SYSTEMS`
    jobs: int  # batch jobs to hold
    wait: float  # seconds that the run may be without any worker
    lifetime: float | None  # seconds after which a worker hands over what it has and ends, about
    options: Mapping[str, object]  # what the file says of the batch system, under jobqueue's names
    config: Mapping[str, object]  # all of it as Dask configuration, by dotted names


def read_settings(path: str | Path, lifetime: str | None = None) -> JobSettings:
    """Read a cluster file.

    `lifetime`: such as ``"55m"``; comes before what the file says.
    Raises ClusterError: the file cannot be read, or an entry is missing, unknown, or not what it should be.
    """
    import dask

    path = Path(path)
    content = _load(path)
    try:
        own = msgspec.convert(content.get("sdem-dist") or {}, OwnSection)
        sections = msgspec.convert(content.get("jobqueue") or {}, dict[str, dict[str, object] | None])
    except msgspec.ValidationError as error:
        raise ClusterError(f"{path}: sdem-dist or jobqueue: {error}") from error
    system = next(iter(sections), "")
    if len(sections) != 1 or system not in SYSTEMS:
        raise ClusterError(f"{path}: the section jobqueue needs one of {', '.join(SYSTEMS)} below it, and nothing else")
    jobqueue()
    options = {str(name).replace("_", "-"): value for name, value in (sections[system] or {}).items()}
    names = {name.replace("_", "-") for name in dask.config.get(f"jobqueue.{system}")}
    if unknown := options.keys() - names:  # jobqueue would pass over them in silence
        names_text = ", ".join(sorted(names))
        raise ClusterError(f"{path}: jobqueue: {system}: there is no option {unknown.pop()}; there are {names_text}")
    for name, value in options.items():  # a line of a job's script could be an order to the batch system
        texts = value if isinstance(value, list) else [value]
        if name not in LINES_OF_A_SCRIPT and any(isinstance(t, str) and not t.isprintable() for t in texts):
            raise ClusterError(f"{path}: {name}: {value!r} has line ends or control characters: write it as one line")
    if isinstance(options.get("walltime"), int):
        raise ClusterError(f'{path}: walltime {options["walltime"]}: YAML reads it as seconds; quote it: "12:00:00"')
    config = dict(_flat(content))
    if own.certificates is not None:
        tls = path.parent / own.certificates / "tls.yaml"
        if not tls.is_file():
            raise ClusterError(
                f"{path}: certificates: {tls} does not exist: name a folder that sdem cluster certificates made, relative "
                f"to {path.parent}"
            )
        config |= _flat(_load(tls))
    wait = config["sdem-dist.wait-for-workers"] = _seconds(path, "wait-for-workers", own.wait_for_workers)
    if own.silence is not None:
        config["sdem-dist.silence"] = _seconds(path, "silence", own.silence)
    life = own.lifetime if lifetime is None else lifetime
    seconds = None if life is None else _seconds(path, "lifetime", life)
    return JobSettings(path, system, own.jobs, wait, seconds, options, config)


def jobqueue() -> ModuleType:
    """Import dask-jobqueue, which is an extra and leaves SIGINT to a handler of its own."""
    import signal
    import threading

    before = signal.getsignal(signal.SIGINT)
    try:
        import dask_jobqueue
    except ImportError as error:
        raise ClusterError("batch jobs need dask-jobqueue: pip install 'sdem_dist[jobqueue]'") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
    return dask_jobqueue


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


def job_options(settings: JobSettings) -> dict[str, object]:
    """Return what jobqueue's cluster is called with, beyond what it reads from the configuration itself."""
    import dask
    from distributed.security import Security

    config = f"jobqueue.{settings.system}"
    arguments = [str(a) for a in dask.config.get(f"{config}.worker-extra-args")]
    named = {argument.partition("=")[0] for argument in arguments}
    scheduler = dict(dask.config.get(f"{config}.scheduler-options"))
    if dask.config.get(f"{config}.interface") is None and not named & {"--host", "--interface"}:
        arguments += ["--host", LOOPBACK]
        if not {"host", "interface"} & set(scheduler):
            scheduler["host"] = LOOPBACK
    if "--dashboard-address" not in named:  # workers would show theirs on every network
        arguments += ["--dashboard-address", f"{LOOPBACK}:0"]
    scheduler.setdefault("dashboard_address", f"{LOOPBACK}:0")
    if settings.lifetime is not None:
        arguments += ["--lifetime", f"{settings.lifetime:g}s"]
        arguments += ["--lifetime-stagger", f"{STAGGER * settings.lifetime:g}s"]
    prologue = [f"export {name}={value}" for name, value in ENVIRONMENT.items()]  # those of the file come later and win
    prologue += dask.config.get(f"{config}.job-script-prologue")
    security = Security() if dask.config.get("distributed.comm.tls.ca-file") else None
    if security is not None:
        prologue.append("export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true")
    return {
        "worker_extra_args": arguments,
        "scheduler_options": scheduler,
        "job_script_prologue": prologue,
        "security": security,
        "protocol": None if security is None else "tls://",
    }


def _load(path: Path) -> dict[str, object]:
    try:
        return msgspec.yaml.decode(path.read_bytes(), type=dict[str, object])
    except (OSError, msgspec.DecodeError) as error:  # no file, no YAML, or no sections
        raise ClusterError(f"the cluster file {path} cannot be read: {error}") from error


def _seconds(path: Path, name: str, value: str | float) -> float:
    from dask.utils import parse_timedelta

    try:
        seconds = float(parse_timedelta(value, default="seconds"))
    except (KeyError, ValueError):
        seconds = 0.0
    if seconds <= 0:
        raise ClusterError(f'{path}: {name}: {value!r} is not a time such as 90, "55 m" or "2 h"')
    return seconds


def _flat(content: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in content.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
