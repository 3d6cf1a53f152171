"""Rounds as tasks: bundles of lanes, a tree of sums, an update; or several rounds in one task. Scorings as tasks."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from sdem_dist.engine import tasks
from sdem_dist.engine.executor import Executor, Handle
from sdem_dist.engine.plan import LANES_COMBINED, Plan
from sdem_dist.learners.protocol import Lane

TASKS_A_WORKER = 2  # in a round: one that ends early takes up what another has left
SHORT_TASK = 0.25
"""Seconds that one task of whole rounds should take: long beside a task's messages, short for people who wait for
news of rounds.  0: every round is dealt out to all workers."""
FORGOTTEN = 0.8  # from round to round, what is left of the seconds that a long reading took
SCORED_DOCUMENTS = 16_384  # documents that one task scores, about
SCORES_ADDED = 16  # sums of scores that are added at once; it shapes them, and so their bits

Blocks: TypeAlias = list[Handle[tasks.TaskResult]]  # a state, block by block
ScoredRanges: TypeAlias = tuple[float, list[tuple[int, int]]]  # affinity of a task, and the ranges that it scores


def blocks_from_driver(executor: Executor, n_blocks: int, get: Callable[[int], Any]) -> Blocks:
    """Send ``get(block)``, one after the other, so that the driver has no more than one."""
    handles: Blocks = []
    for b in range(n_blocks):
        handles.append(executor.put(tasks.TaskResult(get(b))))
        executor.wait(handles[-1])
    return handles


class TaskSizes:
    """How many lanes make a task, and how many rounds; neither changes a bit.

    A round is `TASKS_A_WORKER` tasks for each worker, of lanes bundled by powers of two. Where all work of a round,
    reading and preparing its documents too, takes one worker less than the round took all of them, most of that was
    messages: then one task runs whole rounds, as many as fit into `SHORT_TASK` seconds.
    """

    def __init__(self, plan: Plan, executor: Executor) -> None:
        self._plan, self._executor = plan, executor  # its workers may come and go
        self._load_seconds = 0.0  # of a round, what reading and preparing took lately
        self._shared_seconds = 0.0  # what the last round took that was dealt out to all workers
        self._work_seconds = float("inf")  # what one worker needs for a round
        self._n_rounds = 1

    def measured(self, n_rounds: int, timings: Sequence[tasks.TaskTiming], seconds: float) -> None:
        """Record what the tasks of `n_rounds` rounds took, and how long the driver waited for them."""
        n_documents = sum(t.n_documents for t in timings) / n_rounds
        # Rounds of the first epoch may grow: seconds are those of a full one.
        growth = max(1.0, self._plan.n_documents / self._plan.n_rounds / max(1.0, n_documents))
        load = growth * sum(t.read + t.prepare for t in timings) / n_rounds
        # Caches make it short, but one worker would have to read what is in those of others: it is forgotten slowly.
        self._load_seconds = max(load, FORGOTTEN * self._load_seconds)
        self._work_seconds = growth * sum(t.map + t.merge for t in timings) / n_rounds + self._load_seconds
        # Where workers shared a round, none has all of its documents: one alone begins with a single round.
        most = max(self._n_rounds, 2 * n_rounds)
        if sum(t.n_lanes > 0 for t in timings) > n_rounds:
            self._shared_seconds, most = seconds, 1
        self._n_rounds = max(1, min(most, int(SHORT_TASK / max(self._work_seconds, 1e-6))))

    def lanes_and_rounds(self) -> tuple[int, int]:
        """Return how many lanes, and how many rounds, the next task should have at most."""
        n_lanes = self._plan.n_lanes
        # Threads of this process need no messages that could be saved.
        if self._executor.max_pending_rounds > 0 and self._plan.n_blocks == 1:
            longest = SHORT_TASK if n_lanes == 1 else min(SHORT_TASK, self._shared_seconds)
            if self._work_seconds < longest:
                return 1 << (n_lanes - 1).bit_length(), self._n_rounds
        return 1 << max(1, n_lanes // (TASKS_A_WORKER * self._executor.n_workers)).bit_length() - 1, 1


def submit_rounds(
    inputs: tasks.TaskInput,
    plan: Plan,
    executor: Executor,
    blocks: Blocks,
    rounds: Sequence[Sequence[Lane]],
    bundle: int,
) -> Blocks:
    """Submit the tasks of a round and return the handles of the state's blocks after it.

    Where one bundle has all lanes, and the state is one block, one task does all; then there may be several rounds.

    Otherwise ``M = ceil(L / b)`` tasks map, for L lanes in bundles of b. Those of fewer than 4 lanes are not sums yet:
    ``ceil(L / 4)`` tasks make them.  For each of B blocks, sums are merged by 4 while more than 4 are left (by 16 while
    more than 64), in a task each, and one task updates; with more than one block, ``M B`` tasks cut first.
    """
    lanes, learner, n = rounds[0], inputs.learner, plan.n_blocks
    if len(lanes) <= bundle and n == 1:
        affinity = lanes[0].lane / plan.n_lanes
        return [executor.submit(tasks.run_rounds, inputs, rounds, *blocks, affinity=affinity)]
    bundles = [lanes[i : i + bundle] for i in range(0, len(lanes), bundle)]
    summed = bundle >= LANES_COMBINED
    mapped = [
        executor.submit(tasks.map_lanes, inputs, b, summed, *blocks, affinity=b[0].lane / plan.n_lanes) for b in bundles
    ]
    after: Blocks = []
    for b, block in enumerate(blocks):
        parts = mapped if n == 1 else [executor.submit(tasks.block_of, learner, part, b, n) for part in mapped]
        for fan_in, at_once in fan_ins(len(parts), bundle):
            groups = [parts[i : i + fan_in] for i in range(0, len(parts), fan_in)]
            parts = [executor.submit(tasks.combine, learner, at_once, *group) for group in groups]
        # Blocks ask for workers of their own, or one might end up with all of them.
        after.append(executor.submit(tasks.update, learner, block, *parts, affinity=b / n if n > 1 else None))
    return after


def fan_ins(n_parts: int, bundle: int) -> list[tuple[int, int]]:
    """Return, for each level of tasks that combine, how many parts a task takes, and `reduce` at once."""
    levels = []
    if bundle < LANES_COMBINED:
        levels.append((LANES_COMBINED // bundle, LANES_COMBINED))
        n_parts = -(-n_parts * bundle // LANES_COMBINED)
    while n_parts > 4:
        fan_in = 16 if n_parts > 64 else 4  # few are merged on the workers that have them, many in fewer tasks
        levels.append((fan_in, 1))
        n_parts = -(-n_parts // fan_in)
    return levels


def ranges_to_score(n_documents: int) -> list[ScoredRanges]:
    starts = range(0, n_documents, SCORED_DOCUMENTS)
    return [(start / n_documents, [(start, min(start + SCORED_DOCUMENTS, n_documents))]) for start in starts]


def ranges_of_plan(plan: Plan) -> list[ScoredRanges]:
    """Return what tasks score of the training corpus: the ranges that lanes have cached, where they were mapped."""
    lanes_a_task = max(1, SCORED_DOCUMENTS // max(1, plan.lane_documents * plan.n_rounds))
    size = max(1, SCORED_DOCUMENTS // max(plan.lane_documents, 1))
    groups = []
    for first in range(0, plan.n_lanes, lanes_a_task):
        lanes = range(first, min(first + lanes_a_task, plan.n_lanes))
        ranges = [r for lane in lanes for r in plan.ranges(lane) if r[1] > r[0]]
        groups += [(first / plan.n_lanes, ranges[i : i + size]) for i in range(0, len(ranges), size)]
    return groups


def evaluate(
    inputs: tasks.TaskInput, groups: Sequence[ScoredRanges], executor: Executor, blocks: Blocks
) -> dict[str, float]:
    """Return the metrics of a state over documents, see the learner's `metrics`; a task scores each group."""
    parts = [executor.submit(tasks.evaluate, inputs, ranges, *blocks, affinity=affinity) for affinity, ranges in groups]
    while len(parts) > SCORES_ADDED:
        parts = [executor.submit(tasks.add, *parts[i : i + SCORES_ADDED]) for i in range(0, len(parts), SCORES_ADDED)]
    return inputs.learner.metrics(tasks.add(*(executor.result(part) for part in parts)))
