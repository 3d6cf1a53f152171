"""What a state is computed again from when a worker is lost: handles to its blocks that need no earlier task."""

from collections.abc import Callable

from sdem_dist.engine import tasks
from sdem_dist.engine.executor import Executor, Handle
from sdem_dist.engine.saved import Saved
from sdem_dist.learners.protocol import Learner, Prepared, State, Statistics

Blocks = list[Handle[tasks.Timed[State]]]  # a state, block by block


def from_state(
    executor: Executor, learner: Learner[State, Statistics, Prepared], state: State, n_blocks: int
) -> Blocks[State]:
    """Send a whole state of the driver."""
    if n_blocks == 1:
        return from_driver(executor, 1, lambda _: state)
    return from_driver(executor, n_blocks, lambda b: tasks.wide(learner).block_of_state(state, b, n_blocks))


def from_checkpoint(executor: Executor, saved: Saved[State]) -> Blocks[State]:
    """Have the workers read a checkpoint; where one does not see it, the driver reads and sends it."""
    seen = executor.everywhere(tasks.seen, saved)
    if not seen or not all(seen):
        return from_driver(executor, saved.n_blocks, saved.block)
    # No affinity: if all workers are lost, Dask would keep the task for one of those that were asked for.
    return [executor.submit(tasks.saved_block, saved, b) for b in range(saved.n_blocks)]


def from_driver(executor: Executor, n_blocks: int, get: Callable[[int], State]) -> Blocks[State]:
    """Send ``get(block)``, one after the other, so that the driver has no more than one."""
    handles: Blocks[State] = []
    for b in range(n_blocks):
        handles.append(executor.put(tasks.Timed(get(b))))
        executor.wait(handles[-1])
    return handles
