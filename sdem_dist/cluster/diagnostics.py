"""`sdem doctor`: how the client, the scheduler and the workers of a cluster are, one line for each check.

This module goes to schedulers and workers as code, not by name: they may have another version of this package, or none.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
from distributed import Client

from sdem_dist import compat
from sdem_dist.counted import counted
from sdem_dist.engine.executor import LIBRARIES, REFUSED, SHARE, SMALLEST_CACHE, default_blocks, needed_bytes
from sdem_dist.errors import ClusterError

Facts = dict[str, Any]  # names and values, which travel as they are

PACKAGES = ("sdem_dist", "dask", "distributed", "numpy", "scipy", "numba", "llvmlite", "zarr", "scikit-learn")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
GIB = 1 << 30
SCRATCH = GIB  # bytes that should be free for temporary files
REFUSES = ": training refuses to start"
REPLY_SECONDS = 60.0  # that a worker may take for an answer


class Check(NamedTuple):
    verdict: str  # ``"ok"``, ``"warning"`` or ``"error"``
    topic: str
    text: str


def facts_of_process(dask_worker: Any = None) -> Facts:
    """Return versions, processor, cores, threads and scratch room of this process, which may be a worker."""
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    scratch, of_worker = tempfile.gettempdir(), Facts()
    if hasattr(dask_worker, "memory_manager"):
        scratch = dask_worker.local_directory
        of_worker = {"memory_limit": dask_worker.memory_manager.memory_limit, "nthreads": dask_worker.state.nthreads}
    return of_worker | {
        "versions": versions,
        "target": compat.compile_target(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": {name: os.environ.get(name) for name in THREADS},
        "scratch": scratch,
        "scratch_free": shutil.disk_usage(scratch).free,
    }


def can_read(path: str, content: str) -> bool:
    try:
        return Path(path).read_text(encoding="utf-8") == content
    except OSError:
        return False


def checks_of(
    processes: Mapping[str, Facts], folder: object, addresses: Sequence[str], size: Sequence[int | None]
) -> list[Check]:
    """Return the findings, a line each, about this process and others by their addresses, of which some are workers.

    Memory is compared with what training a model of this size takes.  `addresses`: where somebody listens.
    """
    (first, here), *others = processes.items()
    workers = {name: facts for name, facts in others if "nthreads" in facts}
    n_features, n_classes = size or (None, None)
    state = 8 * (n_features or 0) * (n_classes or 0)
    needed = needed_bytes(state, default_blocks(state))
    advised = (LIBRARIES + needed + SMALLEST_CACHE) / SHARE
    model = "a small model" if n_features is None else f"{n_features:,} words and {n_classes} classes"
    free = min(facts["scratch_free"] for facts in (workers or processes).values()) / GIB
    plain = [a for a in addresses if not a.startswith(("tls://", "inproc://"))]
    alike, compiled = (counted(n, "process", "processes") for n in (len(processes), len(workers) + 1))
    written = f"a file written here in {folder}"
    fine = {  # what is said of a topic where no problem is found
        "versions": f"{', '.join(map(' '.join, here['versions'].items()))}; the same in {alike}",
        "cpu": f"kernels are compiled for the same vector instructions in {compiled}",
        "files": f"{written} can be read by {counted(len(workers), 'worker')}",
        "memory": f"at least {advised / GIB:.1f} GiB per worker, enough for {model}",
        "threads": f"{sum(worker['nthreads'] for worker in workers.values())} in all, none too many",
        "scratch": f"at least {free:.1f} GiB free for temporary files",
        "encryption": "every connection is encrypted and both ends show certificates",
    }
    if plain:
        fine["encryption"] = "none, and nothing listens beyond this machine"
    rows: list[tuple[str, object, str]] = []  # topic, whether there is a problem, and which
    for name, other in others:
        for package, version in here["versions"].items():
            another = other["versions"].get(package, "unknown")
            rows.append(("versions", another != version, f"{package} is {version} at {first}, {another} at {name}"))
    for name, worker in workers.items():
        targets = {*here["target"].split()} ^ {*worker["target"].split()}  # processors round otherwise
        differ = ", ".join(sorted(targets, key=lambda part: (part[0] in "+-", part))[:4])
        limit, n_threads = worker["memory_limit"] or float("inf"), worker["nthreads"]
        note, cores = REFUSES if needed > REFUSED * limit else "", counted(worker["cores"], "core")
        memory = f"{name} may use {limit / GIB:.1f} GiB{note}; {advised / GIB:.1f} GiB are advised"
        settings = ", ".join(f"{k}={v}" for k, v in worker["threads"].items() if v not in (None, "1"))
        blind = f"{written} cannot be read by {name}: corpora need a shared filesystem"
        rows += [
            ("cpu", differ, f"{first} and {name} differ in {differ}: models may differ in their last bits"),
            ("files", not worker["sees_file"], blind),
            ("memory", limit < advised, memory),
            ("threads", n_threads > worker["cores"], f"{name} runs {n_threads} threads on {cores}"),
            ("threads", settings, f"{name}: {settings}: 1 keeps libraries from competing"),
        ]
    for name, facts in (workers or processes).items():
        room = facts["scratch_free"]
        rows.append(("scratch", room < SCRATCH, f"{name}: {facts['scratch']} has {room / GIB:.1f} GiB free"))
    exposed = next((a for a in plain if not a.partition("://")[2].startswith(("127.", "[::1]"))), "")
    open_to = f"none at {exposed}: whoever reaches it can run code there (sdem cluster certificates)"
    rows.append(("encryption", exposed, open_to))
    checks = list[Check]()
    for topic in fine if workers else ("versions", "scratch"):
        texts = [text for about, is_so, text in rows if is_so and about == topic]
        is_error = topic in ("versions", "files")
        checks += [Check("error" if is_error or REFUSES in text else "warning", topic, text) for text in texts]
        checks += [] if texts else [Check("ok", topic, fine[topic])]
    return checks


def examine(client: Client | None, folder: Path, *size: int | None) -> list[Check]:
    """Look at a cluster whose corpora are in `folder`, or with None at this machine, for a model of this size."""
    here = {"this process" if client is None else "the client": facts_of_process()}
    if client is None:
        return checks_of(here, "", (), size)
    modules = [sys.modules[__name__], compat]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    path, word, workers = folder.absolute() / f".sdem-doctor-{uuid.uuid4().hex}", uuid.uuid4().hex, dict[str, Facts]()
    try:
        path.write_text(word, encoding="utf-8")
    except OSError as error:
        raise ClusterError(f"cannot write in {folder}: {error.strerror}; choose another --folder") from error
    try:
        info = client.scheduler_info(n_workers=-1)
        addresses = list(info["workers"])
        if not addresses:
            raise ClusterError(f"the scheduler at {info['address']} has no workers to look at")
        for worker in addresses:
            workers[worker] = _ask(client, worker, facts_of_process)
            workers[worker]["sees_file"] = _ask(client, worker, can_read, str(path), word)
        others = {"the scheduler": client.run_on_scheduler(facts_of_process), **workers}
    finally:
        path.unlink(missing_ok=True)
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    return checks_of(here | others, folder, [info["address"], *addresses], size)


def _ask(client: Client, worker: str, function: Any, *args: Any) -> Any:
    async def within_deadline() -> Any:
        run = client.run(function, *args, workers=[worker], on_error="return", asynchronous=True)
        return await asyncio.wait_for(run, REPLY_SECONDS)

    try:
        reply = client.sync(within_deadline)[worker]
    except TimeoutError as error:
        raise ClusterError(f"no answer within {REPLY_SECONDS:g} s from the worker {worker}") from error
    if isinstance(reply, Exception):
        raise ClusterError(f"the worker {worker} did not answer: {type(reply).__name__}: {reply}") from reply
    return reply
