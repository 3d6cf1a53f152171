"""What the runs of one process leave for cached documents: the budget of the caches belongs to all of them together."""

import threading
import time
from typing import NamedTuple

from sdem_dist.byte_cache import set_budget, usable_after_fork
from sdem_dist.engine.memory import cache_bytes

LAPSE = 600.0  # seconds after which a claim ends that no task has renewed: a driver that dies takes nothing back


class Claim(NamedTuple):
    """What one run takes of each process beside cached documents."""

    run: str
    needed: int  # bytes of its states, see `sdem_dist.engine.memory.needed_bytes`
    memory: int  # bytes that it knows the process to have


class Claims:
    """The claims of runs that are under way in this process."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Claim, float]] = {}
        self._lock = threading.Lock()
        usable_after_fork(self._lock)

    def hold(self, claim: Claim) -> None:
        """Make or renew a run's claim; the caches get what all claims together leave."""
        with self._lock:
            now = time.monotonic()
            self._held[claim.run] = claim, now
            self._held = {run: held for run, held in self._held.items() if now - held[1] < LAPSE}
            claims = [held for held, _ in self._held.values()]
            set_budget(cache_bytes(sum(c.needed for c in claims), min(c.memory for c in claims)))

    def release(self, run: str) -> None:
        """End a run's claim. What is cached stays until others need the room."""
        with self._lock:
            self._held.pop(run, None)


claims = Claims()  # those of this process


def release(run: str) -> None:
    """End a run's claim in the process where this runs."""
    claims.release(run)
