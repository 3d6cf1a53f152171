"""What one process of a cluster can tell about itself and its machine.

Sent to schedulers and workers as code, not by name, so that it also runs where another version of this package is
installed, or none.
"""

from __future__ import annotations

import os
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdem_dist.compat import compile_target

if TYPE_CHECKING:
    from distributed import Worker

Facts = dict[str, Any]  # names and values, which travel as they are

PACKAGES = ("sdem_dist", "dask", "distributed", "numpy", "scipy", "numba", "llvmlite", "zarr", "scikit-learn")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def facts(folder: str | None = None) -> Facts:
    """Return versions, CPU features, compile target, cores, thread settings, time and scratch room of this process."""
    import re
    import shutil
    import socket
    import tempfile

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
        "target": compile_target(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": {name: os.environ.get(name) for name in THREADS},
        "scratch": scratch,
        "scratch_free": shutil.disk_usage(scratch).free,
        "time": time.time(),
    }


def worker_facts(dask_worker: Worker) -> Facts:
    """Return the facts of a worker, with its memory limit, its threads and its scratch folder."""
    found = facts(dask_worker.local_directory)
    return found | {"memory_limit": dask_worker.memory_manager.memory_limit, "nthreads": dask_worker.state.nthreads}


def content_of(path: str) -> str:
    """Return what a small file has in it, or an empty text if it cannot be read here."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def length(payload: bytes) -> int:
    """Return how many bytes arrived."""
    return len(payload)
