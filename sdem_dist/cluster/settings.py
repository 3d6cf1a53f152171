"""Reading the YAML file of a cluster of batch jobs: Dask's own configuration, and a section of ours."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import cast

from sdem_dist.counted import is_count
from sdem_dist.errors import ClusterError

SYSTEMS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "sge": "SGECluster", "lsf": "LSFCluster"}
"""Batch systems and what dask-jobqueue calls their clusters."""
OURS = ("jobs", "wait-for-workers", "silence", "lifetime", "certificates")
WAIT = 600.0
SHELL = ("job-script-prologue", "job-script-epilogue")  # options that are lines of a script


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
    path = Path(path)
    content = _load(path)
    ours = _section(path, content, "sdem-dist")
    _refuse_unknown(path, "sdem-dist", ours, OURS)
    sections = _section(path, content, "jobqueue")
    system = next(iter(sections), "")
    if len(sections) != 1 or system not in SYSTEMS:
        raise ClusterError(f"{path}: the section jobqueue needs one of {', '.join(SYSTEMS)} below it, and nothing else")
    options = _section(path, sections, system)
    _refuse_unknown(path, f"jobqueue: {system}", options, known_options(system))
    _refuse_line_ends(path, f"jobqueue: {system}", options)
    if isinstance(options.get("walltime"), int):
        raise ClusterError(
            f'{path}: walltime {options["walltime"]}: put it in quotes, such as "12:00:00"; without, YAML makes seconds of it'
        )
    jobs = ours.get("jobs", 1)
    if not isinstance(jobs, int) or not is_count(jobs):
        raise ClusterError(f"{path}: jobs: {jobs!r} is not a number of jobs")
    config = dict(_flat(content))
    if "certificates" in ours:
        tls = path.parent / str(ours["certificates"]) / "tls.yaml"
        if not tls.is_file():
            raise ClusterError(
                f"{path}: certificates: {tls} does not exist: name a folder that sdem cluster certificates made, as seen "
                f"from {path.parent}"
            )
        config |= _flat(_load(tls))
    wait = _seconds(path, "wait-for-workers", ours.get("wait-for-workers", WAIT))
    config["sdem-dist.wait-for-workers"] = wait
    if "silence" in ours:
        config["sdem-dist.silence"] = _seconds(path, "silence", ours["silence"])
    life = lifetime if lifetime is not None else ours.get("lifetime")
    return JobSettings(
        path, system, jobs, wait, None if life is None else _seconds(path, "lifetime", life), options, config
    )


def known_options(system: str) -> list[str]:
    """Return the names that jobqueue knows for a batch system; others it would pass over in silence."""
    import dask

    jobqueue()
    return list(dask.config.get(f"jobqueue.{system}"))


def jobqueue() -> ModuleType:
    """Import dask-jobqueue, which is an extra and leaves SIGINT to a handler of its own."""
    import signal
    import threading

    in_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    try:
        import dask_jobqueue
    except ImportError as error:
        raise ClusterError("batch jobs need dask-jobqueue: pip install 'sdem_dist[jobqueue]'") from error
    finally:
        if in_main:
            signal.signal(signal.SIGINT, before)
    return dask_jobqueue


def _load(path: Path) -> dict[str, object]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(f"the cluster file {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ClusterError(f"the cluster file {path} is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise ClusterError(f"the cluster file {path} has no sections")
    return content


def _section(path: Path, content: Mapping[str, object], name: str) -> dict[str, object]:
    section = content.get(name)
    if section is not None and not isinstance(section, dict):
        raise ClusterError(f"{path}: {name} is not a section of names and values")
    return section or {}


def _refuse_unknown(path: Path, where: str, section: Mapping[str, object], known: Iterable[str]) -> None:
    names = {name.replace("_", "-") for name in known}
    for name in section:
        if str(name).replace("_", "-") not in names:
            raise ClusterError(f"{path}: {where}: there is no option {name}; there are {', '.join(sorted(names))}")


def _refuse_line_ends(path: Path, where: str, section: Mapping[str, object]) -> None:
    """Refuse values that would be several lines of a job's script: each could be an order to the batch system."""
    for name, value in section.items():
        if str(name).replace("_", "-") in SHELL:
            continue
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and not text.isprintable():
                raise ClusterError(
                    f"{path}: {where}: {name}: {text!r} has line ends or control characters: write it as one line"
                )


def _seconds(path: Path, name: str, value: object) -> float:
    from dask.utils import parse_timedelta

    try:
        seconds = float(parse_timedelta(cast(str, value), default="seconds"))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ClusterError(f'{path}: {name}: {value!r} is not a time such as 90, "55 m" or "2 h"') from error
    if seconds <= 0:
        raise ClusterError(f"{path}: {name}: {value!r} is not a time at all")
    return seconds


def _flat(content: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in content.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
