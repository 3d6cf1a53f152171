"""What runs need of each process's memory, how much that process has, and what is left for cached documents."""

import os
import resource
import threading
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from sdem_dist.byte_cache import set_budget, usable_after_fork
from sdem_dist.errors import ModelError

LIBRARIES = 350 << 20
"""What a worker takes besides: Python, compiled kernels, zarr, and the documents and tables of the lanes at work."""
LOADED = 200 << 20
"""What a worker takes before it has documents: Python, compiled kernels, zarr."""
SHARE = 0.6
"""Share of a process's memory that is used; Dask begins to write results to disk at .6, and pauses a worker at .8."""
SMALLEST_CACHE = 32 << 20
REFUSED = 0.75  # share of a process's memory above which a run does not start
MANY_CLASSES = 1000  # from this many on, a message names the estimator for them
RESERVATION_SECONDS = 600.0  # after which one ends that no task has renewed: a driver that dies takes nothing back
BLOCK_BYTES = 256 << 20  # bytes of a state's table that one task should merge and update at most


@cache
def of_this_process() -> int:
    """Return the bytes that this process may use: the machine's memory, its control groups' or its own limit."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [int(text) for path in _limits() if (text := _text(path).strip()).isdigit()]
    own = resource.getrlimit(resource.RLIMIT_AS)[0]  # ulimit -v
    return min([memory, *limits, *([own] if own != resource.RLIM_INFINITY else [])])


def _limits() -> Iterator[Path]:
    """Yield the files with the limits of the control groups of this process and those around it, versions 2 and 1."""
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        _, controllers, group = line.split(":", 2)
        inside = Path(group).relative_to("/")
        for folder in (inside, *inside.parents):
            if not controllers:
                yield Path("/sys/fs/cgroup", folder, "memory.max")
            elif "memory" in controllers.split(","):
                yield Path("/sys/fs/cgroup/memory", folder, "memory.limit_in_bytes")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:  # no control groups, or not visible from here
        return ""


def state_bytes(state: object) -> int:
    """Return the bytes of a state's arrays."""
    return sum(np.asarray(field).nbytes for field in cast("Iterable[ArrayLike]", state))


def default_blocks(state: int) -> int:
    """Return the number of blocks of the vocabulary in which a state of `state` bytes is merged and updated."""
    return max(1, -(-state // BLOCK_BYTES))


def needed_bytes(state: int, n_blocks: int) -> int:
    """Return what a state of S bytes in B blocks takes of a worker: ``S (2 + 1 / B)``.

    Measured (tests/benchmarks/wide.py): the states before and after a round, and a block's merged statistics.
    """
    return int(state * (2 + 1 / n_blocks))


def cache_bytes(needed: int, memory: int) -> int:
    """Return how many bytes of documents a process may keep beside what states need: at least 32 MiB."""
    return max(SMALLEST_CACHE, int(SHARE * memory) - LIBRARIES - needed)


def check_state(state: int, n_blocks: int, memory: int, n_classes: int = 0) -> None:
    """Raise ModelError if the state, of so many classes, would take more than three quarters of a process's memory."""
    needed = needed_bytes(state, n_blocks)
    if needed > REFUSED * memory:
        advice = "; of thousands of classes take ManyClassNB" if n_classes >= MANY_CLASSES else ""
        raise ModelError(
            f"the model takes {state / 2**30:.2f} GiB, and a worker that trains it {needed / 2**30:.2f} GiB, but has "
            f"{memory / 2**30:.2f} GiB in all: give each worker {needed / REFUSED / 2**30:.1f} GiB or more (fewer workers on "
            f"each machine), cut the vocabulary into more blocks (n_blocks), or prune it{advice}"
        )


class Reservation(NamedTuple):
    """What one run takes of each process beside cached documents."""

    run: str
    needed: int  # bytes of its states, see `needed_bytes`
    memory: int  # bytes that it knows the process to have


class Reservations:
    """Those of the runs under way in this process: the budget of its caches belongs to all of them together."""

    def __init__(self) -> None:
        self._by_run: dict[str, tuple[Reservation, float]] = {}
        self._lock = threading.Lock()
        usable_after_fork(self._lock)

    def hold(self, reservation: Reservation) -> None:
        """Make or renew a run's reservation; the caches get what all of them leave."""
        with self._lock:
            now = time.monotonic()
            self._by_run[reservation.run] = reservation, now
            self._by_run = {run: r for run, r in self._by_run.items() if now - r[1] < RESERVATION_SECONDS}
            current = [r for r, _ in self._by_run.values()]
            set_budget(cache_bytes(sum(r.needed for r in current), min(r.memory for r in current)))

    def release(self, run: str) -> None:
        """End a run's reservation. What is cached stays until others need the room."""
        with self._lock:
            self._by_run.pop(run, None)


reservations = Reservations()  # those of this process


def release(run: str) -> None:
    """End a run's reservation in the process where this runs."""
    reservations.release(run)
