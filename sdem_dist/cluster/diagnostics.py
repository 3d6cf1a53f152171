"""`sdem doctor`: how the client, the scheduler and the workers of a cluster are, one line for each check.

`facts_of_process` and what is called beside it go to schedulers and workers as code, not by name: they also run where
another version of this package is installed, or none.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sdem_dist import compat
from sdem_dist.counted import counted
from sdem_dist.engine.executor import LIBRARIES, REFUSED, SHARE, SMALLEST_CACHE, default_blocks, needed_bytes
from sdem_dist.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client, Worker

Facts = dict[str, Any]  # names and values, which travel as they are

PACKAGES = ("sdem_dist", "dask", "distributed", "numpy", "scipy", "numba", "llvmlite", "zarr", "scikit-learn")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
GIB = 1 << 30
SECONDS_APART = 2.0  # of clocks
SLOW_ROUND_TRIP, SLOW_BYTES = 0.2, 10e6  # seconds; bytes a second
SCRATCH = GIB  # bytes that should be free for temporary files
PAYLOAD = 8 << 20  # bytes that measure the network
REPLY_SECONDS = 60.0  # that a worker may take for an answer


class Check(NamedTuple):
    """One line."""

    verdict: str  # ``"ok"``, ``"warning"`` or ``"error"``
    topic: str
    text: str


def facts_of_process(folder: str | None = None) -> Facts:
    """Return versions, CPU features, compile target, cores, thread settings, time and scratch room of this process."""
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    try:
        flags = re.search(r"^(?:flags|Features)\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        flags = None
    scratch = folder or tempfile.gettempdir()
    return {
        "host": socket.gethostname(),
        "versions": versions,
        "cpu": sorted(re.findall(r"\b(?:s?sse|avx|fma|f16c|bmi|asimd|sve)\w*", flags.group(1))) if flags else [],
        "target": compat.compile_target(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": {name: os.environ.get(name) for name in THREADS},
        "scratch": scratch,
        "scratch_free": shutil.disk_usage(scratch).free,
        "time": time.time(),
    }


def facts_of_worker(dask_worker: Worker) -> Facts:
    """Return the same of a worker, with its memory limit, its threads and its scratch folder."""
    limit, n_threads = dask_worker.memory_manager.memory_limit, dask_worker.state.nthreads
    return facts_of_process(dask_worker.local_directory) | {"memory_limit": limit, "nthreads": n_threads}


def content_of(path: str) -> str:
    """Return what a small file has in it, or an empty text if it cannot be read here."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def _checks(topic: str, verdict: str, problems: list[str], otherwise: str) -> list[Check]:
    return [Check(verdict, topic, text) for text in problems] or [Check("ok", topic, otherwise)]


def versions(places: Mapping[str, Facts]) -> list[Check]:
    """Compare packages with those of the first place; a difference names both."""
    (here, first), *others = ((name, place["versions"]) for name, place in places.items())
    problems = [
        f"{package} is {version} at {here}, {other.get(package, 'unknown')} at {name}"
        for name, other in others
        for package, version in first.items()
        if other.get(package) != version
    ]
    every = ", ".join(f"{package} {version}" for package, version in first.items())
    return _checks(
        "versions", "error", problems, f"{every}; the same in {counted(len(places), 'process', 'processes')}"
    )


def cpu(places: Mapping[str, Facts]) -> list[Check]:
    """Compare CPU features and what kernels are compiled for: other instructions round otherwise."""
    (here, first), *others = places.items()
    problems = []
    for name, other in others:
        difference = ", ".join(sorted(set(first["cpu"]) ^ set(other["cpu"])))
        if difference := difference or compat.target_difference(first["target"], other["target"]):
            problems.append(f"{here} and {name} differ in {difference}: models may differ in their last bits")
    same = f"kernels are compiled for the same vector instructions in {counted(len(places), 'process', 'processes')}"
    return _checks("cpu", "warning", problems, same)


def threads(workers: Mapping[str, Facts]) -> list[Check]:
    """Compare the threads of workers, and of libraries within them, with the cores that they may use."""
    problems = []
    for name, worker in workers.items():
        settings = [f"{k}={v}" for k, v in worker["threads"].items() if v not in (None, "1")]
        if worker["nthreads"] > worker["cores"]:
            problems.append(f"{name} runs {worker['nthreads']} threads on {counted(worker['cores'], 'core')}")
        if settings:
            problems.append(f"{name}: {', '.join(settings)}: 1 keeps libraries from competing")
    n_threads = sum(worker["nthreads"] for worker in workers.values())
    return _checks("threads", "warning", problems, f"{n_threads} in all, none too many")


def memory(workers: Mapping[str, Facts], n_features: int | None, n_classes: int | None) -> list[Check]:
    """Compare each worker's memory limit with what training a model of this size takes (`engine.executor`)."""
    state = 8 * (n_features or 0) * (n_classes or 0)
    needed = needed_bytes(state, default_blocks(state))
    advised = (LIBRARIES + needed + SMALLEST_CACHE) / SHARE
    checks = []
    for name, worker in workers.items():
        limit = worker["memory_limit"]
        if limit is not None and limit < advised:
            refused = needed > REFUSED * limit
            note = ": training refuses to start" if refused else ""
            text = f"{name} may use {limit / GIB:.1f} GiB{note}; {advised / GIB:.1f} GiB are advised"
            checks.append(Check("error" if refused else "warning", "memory", text))
    model = "a small model" if n_features is None else f"{n_features:,} words and {n_classes} classes"
    return checks or [Check("ok", "memory", f"at least {advised / GIB:.1f} GiB per worker, enough for {model}")]


def scratch(places: Mapping[str, Facts]) -> list[Check]:
    """See that there is room for temporary files."""
    free = {f"{name}: {p['scratch']}": p["scratch_free"] for name, p in places.items()}
    problems = [f"{where} has {n / GIB:.1f} GiB free" for where, n in free.items() if n < SCRATCH]
    least = min(free.values()) / GIB
    return _checks("scratch", "warning", problems, f"at least {least:.1f} GiB free for temporary files")


def clocks(offsets: Mapping[str, float]) -> list[Check]:
    """See that clocks agree: certificates and logs depend on them; seconds by worker."""
    problems = [f"{n} is {o:+.1f} s off the client's clock" for n, o in offsets.items() if abs(o) > SECONDS_APART]
    largest = max(map(abs, offsets.values()), default=0.0)
    return _checks("clocks", "warning", problems, f"within {largest:.1f} s of the client's")


def network(trips: Mapping[str, float], speeds: Mapping[str, float]) -> list[Check]:
    """Look at round trips in seconds and speeds in bytes per second, by worker."""
    slow = [n for n in trips if trips[n] > SLOW_ROUND_TRIP or speeds[n] < SLOW_BYTES]
    text = f"round trip {1e3 * max(trips.values()):.0f} ms, {min(speeds.values()) / 1e6:.0f} MB/s at the slowest worker"
    return _checks("network", "warning", [f"{text}; slow: {', '.join(slow)}"] if slow else [], text)


def files(folder: str, missing: list[str], n_workers: int) -> list[Check]:
    problem = (
        f"a file written here in {folder} cannot be read by {', '.join(missing)}: corpora need a shared filesystem"
    )
    fine = f"a file written here in {folder} can be read by {counted(n_workers, 'worker')}"
    return _checks("files", "error", [problem] if missing else [], fine)


def encryption(addresses: list[str]) -> list[Check]:
    """Look at the addresses of a scheduler and its workers."""
    if all(address.startswith(("tls://", "inproc://")) for address in addresses):
        return [Check("ok", "encryption", "every connection is encrypted and both ends show certificates")]
    open_ones = [a for a in addresses if not a.partition("://")[2].startswith(("127.", "[::1]"))]
    problems = [f"none at {a}: whoever reaches it can run code there (sdem cluster certificates)" for a in open_ones]
    return _checks("encryption", "warning", problems[:1], "none, and nothing listens beyond this machine")


def examine_here() -> list[Check]:
    """Look at this machine alone."""
    here = {"this process": facts_of_process()}
    return versions(here) + scratch(here)


def examine(client: Client, folder: Path, n_features: int | None = None, n_classes: int | None = None) -> list[Check]:
    """Look at a whole cluster.

    `folder`: where corpora are; a small file is written here, read by every worker, and removed.
    `n_features`, `n_classes`: size of the model that the workers' memory is compared with.
    Raises ClusterError: there is no worker, or one does not answer.
    """
    import cloudpickle

    modules = [sys.modules[__name__], compat]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        info = client.scheduler_info(n_workers=-1)
        addresses = list(info["workers"])
        if not addresses:
            raise ClusterError(f"the scheduler at {info['address']} has no workers to look at")
        _ask(client, len, b"")  # the first call opens connections, which a round trip should not count
        workers, trips, speeds, offsets = {}, {}, {}, {}
        for worker in addresses:
            started = time.time()
            workers[worker] = _ask(client, facts_of_worker, workers=[worker])[worker]
            offsets[worker] = workers[worker]["time"] - (started + time.time()) / 2
            trips[worker] = _seconds(client, worker, b"")
            speeds[worker] = PAYLOAD / max(_seconds(client, worker, bytes(PAYLOAD)) - trips[worker], 1e-9)
        here, scheduler = facts_of_process(), client.run_on_scheduler(facts_of_process)
        missing = _workers_without(client, folder)
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    return [
        *versions({"the client": here, "the scheduler": scheduler, **workers}),
        *cpu({"the client": here, **workers}),
        *files(str(folder), missing, len(workers)),
        *network(trips, speeds),
        *memory(workers, n_features, n_classes),
        *threads(workers),
        *scratch(workers),
        *clocks(offsets),
        *encryption([info["address"], *addresses]),
    ]


def _ask(client: Client, function: Any, *args: Any, workers: list[str] | None = None) -> Any:
    async def within_deadline() -> Any:
        run = client.run(function, *args, workers=workers, on_error="return", asynchronous=True)
        return await asyncio.wait_for(run, REPLY_SECONDS)

    try:
        by_worker = client.sync(within_deadline)
    except TimeoutError as error:
        names = ", ".join(workers or client.scheduler_info(n_workers=-1)["workers"])
        raise ClusterError(f"no answer within {REPLY_SECONDS:g} s from all of: {names}") from error
    for worker, reply in by_worker.items():
        if isinstance(reply, Exception):
            raise ClusterError(f"the worker {worker} did not answer: {type(reply).__name__}: {reply}") from reply
    return by_worker


def _seconds(client: Client, worker: str, payload: bytes) -> float:
    started = time.perf_counter()
    _ask(client, len, payload, workers=[worker])
    return time.perf_counter() - started


def _workers_without(client: Client, folder: Path) -> list[str]:
    word = uuid.uuid4().hex
    path = folder.absolute() / f".sdem-doctor-{word}"
    try:
        path.write_text(word, encoding="utf-8")
        return [worker for worker, content in _ask(client, content_of, str(path)).items() if content != word]
    except OSError as error:
        raise ClusterError(f"cannot write in {folder}: {error.strerror}; choose another --folder") from error
    finally:
        path.unlink(missing_ok=True)
