"""`sdem doctor`: how the client, the scheduler and the workers of a cluster are, one line for each check.

This module goes to schedulers and workers as code, not by name: they may have another version of this package, or none.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sdem_dist import compat
from sdem_dist.counted import counted
from sdem_dist.engine.executor import LIBRARIES, REFUSED, SHARE, SMALLEST_CACHE, default_blocks, needed_bytes
from sdem_dist.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client

Facts = dict[str, Any]  # names and values, which travel as they are

PACKAGES = ("sdem_dist", "dask", "distributed", "numpy", "scipy", "numba", "llvmlite", "zarr", "scikit-learn")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
GIB = 1 << 30
SECONDS_APART = 2.0  # of clocks: certificates and logs depend on them
SLOW_ROUND_TRIP, SLOW_BYTES = 0.2, 10e6  # seconds; bytes a second
SCRATCH = GIB  # bytes that should be free for temporary files
PAYLOAD = 8 << 20  # bytes that measure the network
REPLY_SECONDS = 60.0  # that a worker may take for an answer


class Check(NamedTuple):
    verdict: str  # ``"ok"``, ``"warning"`` or ``"error"``
    topic: str
    text: str


class Examined(NamedTuple):
    """What is known of this machine, or of a cluster; by address where it is of workers."""

    processes: Mapping[str, Facts]  # all of them, first the one that the others are compared with
    workers: Mapping[str, Facts] = {}
    seconds_apart: Mapping[str, float] = {}  # between a worker's clock and the client's
    round_trips: Mapping[str, float] = {}  # seconds
    speeds: Mapping[str, float] = {}  # bytes a second
    folder: str = ""
    without_file: Sequence[str] = ()  # workers that cannot read what was written in the folder
    addresses: Sequence[str] = ()  # of the scheduler and the workers


def facts_of_process(dask_worker: Any = None) -> Facts:
    """Return versions, processor, cores, threads, time and scratch room of this process, which may be a worker."""
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    flags = re.search(r"^(?:flags|Features)\s*:.*$", content_of("/proc/cpuinfo"), re.MULTILINE)
    scratch, of_worker = tempfile.gettempdir(), Facts()
    if hasattr(dask_worker, "memory_manager"):
        scratch = dask_worker.local_directory
        of_worker = {"memory_limit": dask_worker.memory_manager.memory_limit, "nthreads": dask_worker.state.nthreads}
    return of_worker | {
        "versions": versions,
        "cpu": sorted(re.findall(r"\b(?:s?sse|avx|fma|f16c|bmi|asimd|sve)\w*", flags[0])) if flags else [],
        "target": compat.compile_target(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": {name: os.environ.get(name) for name in THREADS},
        "scratch": scratch,
        "scratch_free": shutil.disk_usage(scratch).free,
        "time": time.time(),
    }


def content_of(path: str) -> str:
    """Return what a small file has in it, or an empty text if it cannot be read here."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def checks_of(examined: Examined, n_features: int | None = None, n_classes: int | None = None) -> list[Check]:
    """Return the findings, a line each; memory is compared with what training a model of this size takes."""
    processes, workers, seconds_apart, trips, speeds, folder, without_file, addresses = examined
    (first, here), *others = processes.items()
    versions = [
        f"{package} is {version} at {first}, {other['versions'].get(package, 'unknown')} at {name}"
        for name, other in others
        for package, version in here["versions"].items()
        if other["versions"].get(package) != version
    ]
    every = ", ".join(map(" ".join, here["versions"].items()))
    state = 8 * (n_features or 0) * (n_classes or 0)
    needed = needed_bytes(state, default_blocks(state))
    advised = (LIBRARIES + needed + SMALLEST_CACHE) / SHARE
    cpu, threads, tight, refused = list[str](), list[str](), list[str](), list[str]()
    for name, worker in workers.items():
        flags = ", ".join(sorted(set(here["cpu"]) ^ set(worker["cpu"])))
        if difference := flags or compat.target_difference(here["target"], worker["target"]):  # they round otherwise
            cpu.append(f"{first} and {name} differ in {difference}: models may differ in their last bits")
        settings = [f"{k}={v}" for k, v in worker["threads"].items() if v not in (None, "1")]
        if worker["nthreads"] > worker["cores"]:
            threads.append(f"{name} runs {worker['nthreads']} threads on {counted(worker['cores'], 'core')}")
        if settings:
            threads.append(f"{name}: {', '.join(settings)}: 1 keeps libraries from competing")
        limit = worker["memory_limit"]
        if limit is not None and limit < advised:
            too_small = needed > REFUSED * limit
            note = ": training refuses to start" if too_small else ""
            text = f"{name} may use {limit / GIB:.1f} GiB{note}; {advised / GIB:.1f} GiB are advised"
            (refused if too_small else tight).append(text)
    model = "a small model" if n_features is None else f"{n_features:,} words and {n_classes} classes"
    enough = f"at least {advised / GIB:.1f} GiB per worker, enough for {model}"
    free = {f"{name}: {p['scratch']}": p["scratch_free"] for name, p in (workers or processes).items()}
    full = [f"{where} has {n / GIB:.1f} GiB free" for where, n in free.items() if n < SCRATCH]
    clocks = [f"{n} is {s:+.1f} s off the client's clock" for n, s in seconds_apart.items() if abs(s) > SECONDS_APART]
    largest = max(map(abs, seconds_apart.values()), default=0.0)
    slow = ", ".join(n for n in trips if trips[n] > SLOW_ROUND_TRIP or speeds[n] < SLOW_BYTES)
    longest, slowest = max(trips.values(), default=0.0), min(speeds.values(), default=0.0)
    network = f"round trip {1e3 * longest:.0f} ms, {slowest / 1e6:.0f} MB/s at the slowest worker"
    written, blind = f"a file written here in {folder}", ", ".join(without_file)
    files = [f"{written} cannot be read by {blind}: corpora need a shared filesystem"] if blind else []
    plain = [a for a in addresses if not a.startswith(("tls://", "inproc://"))]
    open_ones = [a for a in plain if not a.partition("://")[2].startswith(("127.", "[::1]"))]
    reachable = [f"none at {a}: whoever reaches it can run code there (sdem cluster certificates)" for a in open_ones]
    none = "none, and nothing listens beyond this machine"
    encrypted = none if plain else "every connection is encrypted and both ends show certificates"
    alike, compiled = (counted(n, "process", "processes") for n in (len(processes), len(workers) + 1))
    rows = [
        ("versions", "error", versions, f"{every}; the same in {alike}"),
        ("cpu", "warning", cpu, f"kernels are compiled for the same vector instructions in {compiled}"),
        ("files", "error", files, f"{written} can be read by {counted(len(workers), 'worker')}"),
        ("network", "warning", [f"{network}; slow: {slow}"] if slow else [], network),
        ("memory", "error", refused, ""),
        ("memory", "warning", tight, "" if refused else enough),
        ("threads", "warning", threads, f"{sum(w['nthreads'] for w in workers.values())} in all, none too many"),
        ("scratch", "warning", full, f"at least {min(free.values()) / GIB:.1f} GiB free for temporary files"),
        ("clocks", "warning", clocks, f"within {largest:.1f} s of the client's"),
        ("encryption", "warning", reachable[:1], encrypted),
    ]
    checks = list[Check]()
    for topic, verdict, problems, fine in rows:
        if workers or topic in ("versions", "scratch"):
            lines = [Check(verdict, topic, text) for text in problems]
            checks += lines or ([Check("ok", topic, fine)] if fine else [])
    return checks


def examine(client: Client | None, folder: Path, *size: int | None) -> list[Check]:
    """Look at a cluster whose corpora are in `folder`, or with None at this machine, for a model of this size."""
    if client is None:
        return checks_of(Examined({"this process": facts_of_process()}))
    import cloudpickle

    modules = [sys.modules[__name__], compat]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        info = client.scheduler_info(n_workers=-1)
        addresses = list(info["workers"])
        if not addresses:
            raise ClusterError(f"the scheduler at {info['address']} has no workers to look at")
        _ask(client, addresses, len, b"")  # the first call opens connections, which a round trip should not count
        workers, trips, speeds, apart = {}, {}, {}, {}
        for worker in addresses:
            before, ticks = time.time(), time.perf_counter
            workers[worker] = _ask(client, [worker], facts_of_process)[worker]
            apart[worker] = workers[worker]["time"] - (before + time.time()) / 2
            started = ticks()
            _ask(client, [worker], len, b"")
            trips[worker], started = ticks() - started, ticks()
            _ask(client, [worker], len, bytes(PAYLOAD))
            speeds[worker] = PAYLOAD / max(ticks() - started - trips[worker], 1e-9)
        scheduler, word = client.run_on_scheduler(facts_of_process), uuid.uuid4().hex
        path = folder.absolute() / f".sdem-doctor-{word}"
        try:
            path.write_text(word, encoding="utf-8")
            contents = _ask(client, addresses, content_of, str(path))
        except OSError as error:
            raise ClusterError(f"cannot write in {folder}: {error.strerror}; choose another --folder") from error
        finally:
            path.unlink(missing_ok=True)
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    processes = {"the client": facts_of_process(), "the scheduler": scheduler, **workers}
    blind = [worker for worker, content in contents.items() if content != word]
    examined = Examined(processes, workers, apart, trips, speeds, str(folder), blind, [info["address"], *addresses])
    return checks_of(examined, *size)


def _ask(client: Client, workers: list[str], function: Any, *args: Any) -> Any:
    async def within_deadline() -> Any:
        run = client.run(function, *args, workers=workers, on_error="return", asynchronous=True)
        return await asyncio.wait_for(run, REPLY_SECONDS)

    try:
        by_worker = client.sync(within_deadline)
    except TimeoutError as error:
        raise ClusterError(f"no answer within {REPLY_SECONDS:g} s from all of: {', '.join(workers)}") from error
    for worker, reply in by_worker.items():
        if isinstance(reply, Exception):
            raise ClusterError(f"the worker {worker} did not answer: {type(reply).__name__}: {reply}") from reply
    return by_worker
