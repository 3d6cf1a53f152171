"""Scoring documents at a state, in tasks that ask for the workers that have them."""

from collections.abc import Sequence

from sdem_dist.engine import tasks
from sdem_dist.engine.anchors import Blocks
from sdem_dist.engine.executor import Executor
from sdem_dist.engine.plan import Plan, cut
from sdem_dist.learners.protocol import Prepared, State, Statistics

DOCUMENTS = 16_384  # documents that one task scores, about

TOGETHER = 16
"""Sums that are added at once.  It shapes them, and so their bits."""

Group = tuple[float, list[tuple[int, int]]]  # affinity and ranges of documents of a task


def groups_of(n_documents: int) -> list[Group]:
    """Return what tasks score of documents that are only scored."""
    return [(start / n_documents, [(start, stop)]) for start, stop in cut(0, n_documents, DOCUMENTS)]


def groups_of_plan(plan: Plan) -> list[Group]:
    """Return what tasks score of the training corpus: the ranges that lanes have cached, where they were mapped."""
    lanes_a_task = max(1, DOCUMENTS // max(1, plan.lane_documents * plan.n_rounds))
    groups = []
    for first in range(0, plan.n_lanes, lanes_a_task):
        lanes = range(first, min(first + lanes_a_task, plan.n_lanes))
        ranges = [r for lane in lanes for r in plan.ranges(lane) if r[1] > r[0]]
        size = max(1, DOCUMENTS // max(plan.lane_documents, 1))
        groups += [(first / plan.n_lanes, ranges[i : i + size]) for i in range(0, len(ranges), size)]
    return groups


def evaluate(
    feed: tasks.Feed[State, Statistics, Prepared], groups: Sequence[Group], executor: Executor, blocks: Blocks[State]
) -> dict[str, float]:
    """Return the metrics of a state over documents, see the learner's `metrics`.

    `groups`: a task each.
    `blocks`: the state, block by block.
    """
    parts = [executor.submit(tasks.evaluate, feed, ranges, *blocks, affinity=affinity) for affinity, ranges in groups]
    while len(parts) > TOGETHER:
        parts = [executor.submit(tasks.add, *parts[i : i + TOGETHER]) for i in range(0, len(parts), TOGETHER)]
    return feed.learner.metrics(tasks.add(*(executor.result(part) for part in parts)))
