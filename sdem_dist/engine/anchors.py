"""What a state is computed again from when a worker is lost: handles to its blocks that need no earlier task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from sdem_dist.engine import tasks
from sdem_dist.engine.checkpoint import Saved
from sdem_dist.engine.executor import Executor
from sdem_dist.learners.protocol import Learner, WideLearner


def from_nothing(executor: Executor, learner: Learner, n_blocks: int) -> list[Any]:
    """Have the workers make the state before the first document."""
    return [executor.submit(tasks.initial_block, learner, b, n_blocks) for b in range(n_blocks)]


def from_state(executor: Executor, learner: Learner, state: Any, n_blocks: int) -> list[Any]:
    """Send a whole state of the driver."""
    if n_blocks == 1:
        return from_driver(executor, 1, lambda _: state)
    wide = cast(WideLearner, learner)
    return from_driver(executor, n_blocks, lambda b: wide.block_of_state(state, b, n_blocks))


def from_checkpoint(executor: Executor, saved: Saved) -> list[Any]:
    """Have the workers read a checkpoint; where one does not see it, the driver reads and sends it."""
    seen = executor.everywhere(tasks.seen, saved)
    if not seen or not all(seen):
        return from_driver(executor, saved.n_blocks, saved.block)
    # Without affinity: where no worker is left, Dask would keep such a task for one of those that it asked for.
    return [executor.submit(tasks.saved_block, saved, b) for b in range(saved.n_blocks)]


def from_driver(executor: Executor, n_blocks: int, get: Callable[[int], Any]) -> list[Any]:
    """Send ``get(block)``, one after the other, so that the driver has no more than one."""
    handles = []
    for b in range(n_blocks):
        handles.append(executor.put(tasks.Timed(get(b))))
        executor.wait(handles[-1])
    return handles
