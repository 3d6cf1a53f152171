"""`sdem doctor`: checks of the client, the scheduler and the workers of a cluster, one line each."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from inspect import unwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import cloudpickle

import sdem_dist
from sdem_dist import compat
from sdem_dist.cli.cluster import ClusterOptions
from sdem_dist.cli.options import LocalPath, option
from sdem_dist.counted import counted
from sdem_dist.engine.executor import LIBRARIES, REFUSED, SHARE, SMALLEST_CACHE, default_blocks, needed_bytes
from sdem_dist.errors import ClusterError

if TYPE_CHECKING:
    from sdem_dist.cluster.client import Client

Facts = dict[str, Any]  # names and values, sent between processes
compile_target = unwrap(compat.compile_target)  # a cached function would be sent by name
PACKAGES = ("sdem_dist", "dask", "distributed", "numpy", "scipy", "numba", "llvmlite", "zarr", "scikit-learn")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
GIB = 1 << 30
SCRATCH = GIB  # bytes of free disk space that temporary files need
REFUSES = ": training will not start"
REPLY_SECONDS = 60.0  # timeout of a worker's reply


class Check(NamedTuple):
    verdict: str  # ``"ok"``, ``"warning"`` or ``"error"``
    topic: str
    text: str


def facts_of_process(scratch: str | None = None, path: str = "", content: str = "") -> Facts:
    """Return versions, processor, threads and free disk space of this process, and whether it can read a file.

    It is sent to schedulers and workers by value: they may have another version of this package, or none.
    """
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    scratch, sees_file = scratch or tempfile.gettempdir(), False
    with suppress(OSError):
        sees_file = Path(path).read_text(encoding="utf-8") == content
    return {
        "versions": versions,
        "target": compile_target(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": {name: os.environ.get(name) for name in THREADS},
        "scratch": scratch,
        "scratch_free": shutil.disk_usage(scratch).free,
        "sees_file": sees_file,
    }


def checks_of(
    processes: Mapping[str, Facts], folder: object, addresses: Sequence[str], size: Sequence[int | None]
) -> list[Check]:
    """Return the findings, one line each, about this process, which is the first, and other processes.

    Memory is compared with the needs of a model of this size.  `addresses`: those that processes listen on.
    """
    first, here = next(iter(processes.items()))
    workers = {name: facts for name, facts in processes.items() if "nthreads" in facts}
    n_features, n_classes = size or (None, None)
    state = 8 * (n_features or 0) * (n_classes or 0)
    needed = needed_bytes(state, default_blocks(state))
    advised = (LIBRARIES + needed + SMALLEST_CACHE) / SHARE
    written = f"a file written here in {folder}"
    problems: list[tuple[str, object, str]] = []  # topic, whether there is a problem, and its description
    for name, facts in processes.items():
        for package, version in here["versions"].items():
            other, room = facts["versions"].get(package, "unknown"), facts["scratch_free"]
            problems.append(("versions", other != version, f"{package} is {version} on {first}, {other} on {name}"))
        low = f"{facts['scratch']} of {name} has less than 1 GiB free: {room / GIB:.1f} GiB"
        problems.append(("scratch", room < SCRATCH, low))
    for name, facts in workers.items():
        targets = {*here["target"].split()} ^ {*facts["target"].split()}  # other processors round differently
        differ = ", ".join(sorted(targets, key=lambda part: (part[0] in "+-", part))[:4])
        limit, cores = facts["memory_limit"] or float("inf"), counted(facts["cores"], "core")
        memory = f"{limit / GIB:.1f} GiB{REFUSES * (needed > REFUSED * limit)}; {advised / GIB:.1f} GiB is recommended"
        settings = ", ".join(f"{k}={v}" for k, v in facts["threads"].items() if v not in (None, "1"))
        problems += [
            ("cpu", differ, f"{first} and {name} differ ({differ}), so models may differ in their last bits"),
            ("files", not facts["sees_file"], f"{written} cannot be read by {name}: corpora need a shared filesystem"),
            ("memory", limit < advised, f"{name} can use {memory}"),
            ("threads", facts["nthreads"] > facts["cores"], f"{name} runs {facts['nthreads']} threads on {cores}"),
            ("threads", settings, f"{name} has {settings}: set each to 1, so that libraries do not compete for cores"),
        ]
    plain = [address for address in addresses if not address.startswith(("tls://", "inproc://"))]
    for address in [a for a in plain if not a.partition("://")[2].startswith(("127.", "[::1]"))][:1]:
        open_to = f"none at {address}: anyone who can reach it can run code there (see sdem cluster certificates)"
        problems.append(("encryption", True, open_to))
    alike, compiled = (counted(n, "process", "processes") for n in (len(processes), len(workers) + 1))
    model = "a small model" if n_features is None else f"a model of {n_features:,} words and {n_classes} classes"
    free = min(facts["scratch_free"] for facts in processes.values()) / GIB
    encrypted = "all connections are encrypted and authenticated with certificates"
    fine = {  # the text for a topic without a problem
        "versions": f"{', '.join(map(' '.join, here['versions'].items()))}; the same versions in {alike}",
        "cpu": f"kernels (sdem warmup) use the same vector instructions in {compiled}",
        "files": f"{written} can be read by {counted(len(workers), 'worker')}",
        "memory": f"at least {advised / GIB:.1f} GiB per worker, enough for {model}",
        "threads": f"{sum(facts['nthreads'] for facts in workers.values())} in total, at most one per core",
        "scratch": f"at least {free:.1f} GiB free for temporary files",
        "encryption": "none needed: all ports are local to this machine" if plain else encrypted,
    }
    checks = list[Check]()
    for topic in fine if workers else ("versions", "scratch"):
        texts = [text for about, is_so, text in problems if is_so and about == topic]
        is_error = topic in ("versions", "files")
        checks += [Check("error" if is_error or REFUSES in text else "warning", topic, text) for text in texts]
        checks += [] if texts else [Check("ok", topic, fine[topic])]
    return checks


def examine(client: Client | None, folder: Path, *size: int | None) -> list[Check]:
    """Check a cluster whose corpora are in `folder` (None: this machine) for a model of this size."""
    if client is None:
        return checks_of({"this process": facts_of_process()}, "", (), size)
    path, word = folder.absolute() / f".sdem-doctor-{uuid.uuid4().hex}", uuid.uuid4().hex
    for module in (modules := [sys.modules[__name__], compat]):
        cloudpickle.register_pickle_by_value(module)
    try:
        try:
            path.write_text(word, encoding="utf-8")
        except OSError as error:
            raise ClusterError(f"cannot write to {folder}: {error.strerror}; choose another --folder") from error
        info = client.scheduler_info(n_workers=-1)
        if not info["workers"]:
            raise ClusterError(f"the scheduler at {info['address']} has no workers to check")
        processes = {"the client": facts_of_process(), "the scheduler": client.run_on_scheduler(facts_of_process)}
        for worker, about in info["workers"].items():
            how: dict[str, Any] = {"workers": [worker], "on_error": "return", "callback_timeout": REPLY_SECONDS}
            try:
                reply = client.run(facts_of_process, about["local_directory"], str(path), word, **how)[worker]
            except TimeoutError as error:
                raise ClusterError(f"the worker {worker} did not answer within {REPLY_SECONDS:g} s") from error
            if isinstance(reply, Exception):
                raise ClusterError(f"the worker {worker} cannot be checked: {type(reply).__name__}: {reply}") from reply
            processes[worker] = reply | {name: about[name] for name in ("nthreads", "memory_limit")}
    finally:
        path.unlink(missing_ok=True)
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    return checks_of(processes, folder, [info["address"], *info["workers"]], size)


@click.command()
@option("--scheduler", "ADDRESS", "Check the Dask cluster at this scheduler address.")
@option("--cluster", "FILE.yaml", "Submit and check the batch jobs that this file configures.")
@option("--folder", LocalPath(file_okay=False, exists=True), "Check that workers can read this folder.", Path())
@option("--corpus", "CORPUS", "Check that workers have enough memory to train on CORPUS.")
def doctor(scheduler: str | None, cluster: str | None, folder: Path, corpus: str | None) -> None:
    """Check this machine, or a cluster, and print one line per finding.

    The exit code is 1 if a problem would make training fail.
    """
    header = None if corpus is None else sdem_dist.open_corpus(corpus).header
    size = (None, None) if header is None else (header.n_features, len(header.classes))
    with ClusterOptions(scheduler, None, cluster).client() as client:
        lines = examine(client, folder, *size)
    for verdict, topic, text in lines:
        click.echo(f"{verdict:<9}{topic:<12}{text}")
    errors, warnings = (sum(line.verdict == verdict for line in lines) for verdict in ("error", "warning"))
    if errors:
        raise click.ClickException(f"not ready: {counted(errors, 'error')}, {counted(warnings, 'warning')}")
    click.echo(f"ready, {counted(warnings, 'warning')}" if warnings else "ready")
