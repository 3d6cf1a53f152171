"""One round as tasks: bundles of lanes, a tree of sums, an update."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sdem_dist.engine import tasks
from sdem_dist.engine.executor import Executor
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.tree import ARITY, level_of

SHORTEST, LONGEST = 0.1, 10.0
"""Seconds that a task of bundled lanes should take."""
DOCUMENT_SECONDS = 2e-6
"""What a document is taken to cost before any has been measured."""
TASKS_A_WORKER = 2
"""As many tasks each worker should have in a round, where there are lanes enough."""


@dataclass
class Bundling:
    """How many lanes make a task: a power of two, by the time that lanes took.  It changes no bit.

    Parameters
    ----------
    plan : Plan
    executor : Executor
        Its workers may come and go.
    """

    plan: Plan
    executor: Executor

    def __post_init__(self) -> None:
        self._lane_seconds = DOCUMENT_SECONDS * self.plan.lane_documents

    def measured(self, work: Sequence[tasks.Work]) -> None:
        """Take note of what the lanes of a round cost."""
        self._lane_seconds = sum(w.map for w in work) / max(1, sum(w.n_lanes for w in work))

    @property
    def size(self) -> int:
        """Lanes of a task."""
        enough = max(1, self.plan.n_lanes // (TASKS_A_WORKER * self.executor.n_workers))
        size = 1
        while 2 * size <= enough and size * self._lane_seconds < SHORTEST and 2 * size * self._lane_seconds < LONGEST:
            size *= 2
        return size


def submit_round(
    source: tasks.Source, plan: Plan, executor: Executor, state: Any, epoch: int, round_: int, bundle: int
) -> Any:
    """Submit the tasks of one round and return the handle of the state after it.

    ``ceil(L / b)`` tasks map, for L lanes in bundles of b; ``ceil(n / 16)`` combine, n statistics at a time, while
    more than 16 are left; one updates.
    """
    lanes = plan.lanes(epoch, round_)
    if not lanes:  # more rounds than documents
        return state
    level = level_of(bundle)
    parts = [
        executor.submit(
            tasks.map_lanes, source, state, lanes[i : i + bundle], level, affinity=lanes[i].lane / plan.n_lanes
        )
        for i in range(0, len(lanes), bundle)
    ]
    items = bundle // ARITY**level
    while len(parts) * items > ARITY:
        group = ARITY // items
        parts = [
            executor.submit(tasks.combine, source.learner, *parts[i : i + group]) for i in range(0, len(parts), group)
        ]
        items = 1
    return executor.submit(tasks.update, source.learner, state, *parts)


class Ended(NamedTuple):
    """A round that has ended."""

    epoch: int
    round: int
    work: tuple[tasks.Work, ...]


class Flight:
    """Rounds submitted and not yet known to have ended, each on the state of the one before.

    Parameters
    ----------
    source : tasks.Source
    plan : Plan
    executor : Executor
    state : handle
    """

    def __init__(self, source: tasks.Source, plan: Plan, executor: Executor, state: Any) -> None:
        self._source, self._plan, self._executor = source, plan, executor
        self._bundling = Bundling(plan, executor)
        # The state before the first round under way is kept: what a lost worker held is recomputed from it.
        self._states = deque([state])
        self._rounds: deque[tuple[int, int, Any]] = deque()

    def __len__(self) -> int:
        return len(self._rounds)

    @property
    def state(self) -> Any:
        """Handle of the state after the last round submitted."""
        return self._states[-1]

    def submit(self, epoch: int, round_: int) -> None:
        """Submit one more round."""
        size = self._bundling.size
        state = submit_round(self._source, self._plan, self._executor, self.state, epoch, round_, size)
        self._states.append(state)
        # Submitted before the tasks of later rounds, it comes before them.
        self._rounds.append((epoch, round_, self._executor.submit(tasks.work_behind, state)))

    def land(self) -> Ended:
        """Wait for the end of the first round under way."""
        epoch, round_, work = self._rounds[0]
        ended = Ended(epoch, round_, self._executor.result(work))
        self._rounds.popleft()
        self._states.popleft()
        self._bundling.measured(ended.work)
        return ended

    def replace(self, state: Any) -> None:
        """Go on from another handle of the last state; nothing is under way."""
        self._states = deque([state])
