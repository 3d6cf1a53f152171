"""Rounds as tasks: bundles of lanes, a tree of sums, an update; or several rounds in one task."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Generic, NamedTuple

from sdem_dist.engine import tasks
from sdem_dist.engine.anchors import Blocks
from sdem_dist.engine.executor import Executor, Handle
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.tree import LEAVES
from sdem_dist.learners.protocol import Lane, Learner, Prepared, State, Statistics

LONGEST = 10.0  # seconds that a task of bundled lanes should take at most
TASK_SECONDS = 5e-3  # what a worker loses between two tasks
SCHEDULER_SECONDS = 2e-3  # what Dask's scheduler takes for a task, one after the other
PART_SECONDS = 5e-3  # what it takes to move and merge a sum of lanes, or a lane's statistics
ROUND_SECONDS = 10e-3  # what workers wait for the update of a round and for its state, beside that
TOGETHER = 0.25
"""Seconds that one task of several rounds should take: long beside a task's messages, short for people who wait for
news of rounds.  0: every round is dealt out to all workers."""
UNEVEN = 0.05
"""Share of a task that others wait for at the end of a round, since tasks of equal length do not end together."""
FORGOTTEN = 0.8  # from round to round, what is left of the seconds that a long reading took
DOCUMENT_SECONDS = 2e-6  # what a document is taken to cost before any has been measured
FEW = 64
"""Up to this many sums are merged by four, on the workers that have them; more are merged by sixteen, for fewer
tasks."""


@dataclass
class Bundling:
    """How many lanes make a task, and how many rounds, by the time that lanes took.  Neither changes a bit.

    Lanes are bundled by powers of two.  Where all lanes of a round take less time than its messages, to read and
    prepare their documents, too, one task runs them, and then round after round.
    """

    plan: Plan
    executor: Executor  # its workers may come and go

    def __post_init__(self) -> None:
        self._lane_seconds = DOCUMENT_SECONDS * self.plan.lane_documents
        self._load_seconds = 0.0  # of these, what reading and preparing took lately
        self._alone, self._together = False, 1  # whether one task may run whole rounds, and how many

    def measured(self, n_rounds: int, work: Sequence[tasks.Work]) -> None:
        """Record what the lanes of a task's rounds cost.  Before that, all workers take part."""
        # In threads of this process there are no messages that could be saved.
        self._alone = self.executor.rounds_ahead > 0 and self.plan.n_blocks == 1 and TOGETHER > 0
        n_lanes, n_tasks = sum(w.n_lanes for w in work), sum(w.n_lanes > 0 for w in work)
        # Rounds of the first epoch may grow: seconds are told as of a full one.
        full = n_rounds * self.plan.n_documents / self.plan.n_rounds
        grows = max(1.0, full / max(1, sum(w.n_documents for w in work)))
        load = grows * sum(w.read + w.prepare for w in work) / max(1, n_lanes)
        # Caches make it short, but one worker would have to read what is in those of others: it is forgotten slowly.
        self._load_seconds = max(load, FORGOTTEN * self._load_seconds)
        self._lane_seconds = grows * sum(w.map for w in work) / max(1, n_lanes) + self._load_seconds
        whole = grows * sum(w.read + w.prepare + w.map + w.merge for w in work) / n_rounds
        # Where workers shared a round, none has all of its documents: one alone begins with a single round.
        most = max(self._together, 2 * n_rounds) if n_tasks <= n_rounds else 1
        self._together = max(1, min(most, int(TOGETHER / max(whole, 1e-6))))

    @property
    def size(self) -> int:
        """Lanes of a task, so that the round ends soonest."""
        n_lanes, sizes = self.plan.n_lanes, [1]
        while 2 * sizes[-1] <= n_lanes and 2 * sizes[-1] * self._lane_seconds < LONGEST:
            sizes.append(2 * sizes[-1])
        if self._alone and n_lanes * self._lane_seconds < LONGEST:  # or workers that join would wait for its end
            sizes.append(1 << (n_lanes - 1).bit_length())
        return min(sizes, key=self._seconds)

    def rounds(self, size: int) -> int:
        """Rounds that a task of `size` lanes may run one after the other: 1 if these are not all."""
        return self._together if self._alone and size >= self.plan.n_lanes else 1

    def _seconds(self, size: int) -> float:
        n_lanes, n_workers, task = self.plan.n_lanes, self.executor.n_workers, size * self._lane_seconds
        if self._alone and size >= n_lanes:
            return n_lanes * self._lane_seconds
        n_tasks = -(-n_lanes // size)
        n_parts = n_tasks if size >= LEAVES else n_lanes  # four lanes travel as one sum; fewer travel one by one
        mapped = max(-(-n_tasks // n_workers) * (task + TASK_SECONDS), n_tasks * SCHEDULER_SECONDS)
        return mapped + UNEVEN * task + n_parts * PART_SECONDS / n_workers + (ROUND_SECONDS if self._alone else 0.0)


def submit_round(
    feed: tasks.Feed[State, Statistics, Prepared],
    plan: Plan,
    executor: Executor,
    blocks: Blocks[State],
    epoch: int,
    round_: int,
    bundle: int,
) -> Blocks[State]:
    """Submit the tasks of one round and return the handles of the state's blocks after it.

    ``M = ceil(L / b)`` tasks map, for L lanes in bundles of b.  For each of B blocks, sums are merged by 4 while more
    than 4 are left (by 16 while more than 64), in a task each, and one task updates; with more than one block, ``M B``
    tasks cut first.  Bundles of fewer than 4 lanes are not sums yet: if there are more lanes, ``ceil(L / 4)`` tasks
    make them.  Where one bundle has all lanes, and the state is one block, one task does all that.
    """
    lanes = plan.lanes(epoch, round_)
    if not lanes:  # more rounds than documents
        return blocks
    if len(lanes) <= bundle and plan.n_blocks == 1:
        return submit_together(feed, plan, executor, blocks, [lanes], bundle)
    whole = bundle >= LEAVES
    parts = [
        executor.submit(
            tasks.map_lanes, feed, lanes[i : i + bundle], whole, *blocks, affinity=lanes[i].lane / plan.n_lanes
        )
        for i in range(0, len(lanes), bundle)
    ]
    learner, n = feed.learner, plan.n_blocks
    if n == 1:
        return [_submit_update(learner, executor, blocks[0], parts, bundle, None)]
    return [
        _submit_update(
            learner,
            executor,
            blocks[b],
            [executor.submit(tasks.block_of, learner, part, b, n) for part in parts],
            bundle,
            b / n,  # or one worker might end up with all of them
        )
        for b in range(n)
    ]


def submit_together(
    feed: tasks.Feed[State, Statistics, Prepared],
    plan: Plan,
    executor: Executor,
    blocks: Blocks[State],
    rounds: Sequence[Sequence[Lane]],
    bundle: int,
) -> Blocks[State]:
    """Submit one task of one round or more, whose lanes fit into a bundle; return the handle of the state after it."""
    affinity = rounds[0][0].lane / plan.n_lanes
    return [executor.submit(tasks.run_rounds, feed, rounds, bundle >= LEAVES, *blocks, affinity=affinity)]


def levels(n_parts: int, bundle: int) -> Iterator[tuple[int, int]]:
    """Yield, for each level of tasks that combine, how many parts a task takes, and `reduce` at once."""
    if bundle < LEAVES:
        if n_parts * bundle <= LEAVES:  # the update combines them
            return
        yield LEAVES // bundle, LEAVES
        n_parts = -(-n_parts * bundle // LEAVES)
    while n_parts > 4:
        fan_in = 16 if n_parts > FEW else 4
        yield fan_in, 1
        n_parts = -(-n_parts // fan_in)


def _submit_update(
    learner: Learner[State, Statistics, Prepared],
    executor: Executor,
    state: Handle[tasks.Timed[State]],
    parts: list[Handle[tasks.Timed[list[Statistics]]]],
    bundle: int,
    affinity: float | None,
) -> Handle[tasks.Timed[State]]:
    at_once = LEAVES if bundle < LEAVES else 1
    for fan_in, together in levels(len(parts), bundle):
        groups = [parts[i : i + fan_in] for i in range(0, len(parts), fan_in)]
        parts, at_once = [executor.submit(tasks.combine, learner, together, *group) for group in groups], 1
    return executor.submit(tasks.update, learner, at_once, state, *parts, affinity=affinity)


class Ended(NamedTuple):
    """A round that has ended."""

    epoch: int
    round: int
    work: tuple[tasks.Work, ...]


class Flight(Generic[State, Statistics, Prepared]):
    """Rounds that are submitted and have not ended, as far as is known; each begins with the state of those before.

    `blocks`: the state, block by block.
    `most_tasks`: how many may be kept behind the state, see `burdened`.
    """

    def __init__(
        self,
        feed: tasks.Feed[State, Statistics, Prepared],
        plan: Plan,
        executor: Executor,
        blocks: Blocks[State],
        most_tasks: int,
    ) -> None:
        self._feed, self._plan, self._executor, self._most_tasks = feed, plan, executor, most_tasks
        self._n_before = executor.n_remembered
        self._bundling = Bundling(plan, executor)
        # The state before the first round under way is kept: what a lost worker held is recomputed from it.
        self._states = deque([blocks])
        self._rounds: deque[tuple[int, range, list[Handle[tuple[tasks.Work, ...]]]]] = deque()

    def __len__(self) -> int:
        return len(self._rounds)

    @property
    def blocks(self) -> Blocks[State]:
        """Handles of the state after the last round submitted."""
        return self._states[-1]

    @property
    def burdened(self) -> bool:
        """Whether too many tasks are kept behind the state, since the first or `replace`."""
        return self._executor.n_remembered - self._n_before >= self._most_tasks

    def submit(self, epoch: int, round_: int, left: int, ends: Callable[[int], bool]) -> int:
        """Submit the next round, or as many as one task should run; return how many.

        `left`: at most so many. `ends`: whether a task must end after a number of rounds.
        """
        size = self._bundling.size
        most = min(left, self._bundling.rounds(size))
        ahead = range(round_, round_ + next((n for n in range(1, most) if ends(n)), most))
        rounds = list(takewhile(bool, (self._plan.lanes(epoch, number) for number in ahead)))
        if len(rounds) > 1:
            blocks = submit_together(self._feed, self._plan, self._executor, self.blocks, rounds, size)
        else:
            blocks = submit_round(self._feed, self._plan, self._executor, self.blocks, epoch, round_, size)
        same = blocks is self.blocks  # a round without documents
        self._states.append(blocks)
        # Submitted before the tasks of later rounds, so that they run first, each where its block is.
        work = [] if same else [self._executor.submit(tasks.work_behind, block) for block in blocks]
        self._rounds.append((epoch, ahead[: max(1, len(rounds))], work))
        return len(self._rounds[-1][1])

    def land(self) -> list[Ended]:
        """Wait for the end of the first rounds under way, those of one `submit`."""
        epoch, rounds, handles = self._rounds[0]
        work = [w for handle in handles for w in self._executor.result(handle)]
        self._rounds.popleft()
        self._states.popleft()
        if work:
            self._bundling.measured(len(rounds), work)
        each = len(work) // len(rounds)  # of several rounds all have a bundle's and an update's
        return [Ended(epoch, round_, tuple(work[i * each : (i + 1) * each])) for i, round_ in enumerate(rounds)]

    def replace(self, blocks: Blocks[State]) -> None:
        """Go on from other handles of the last state; nothing is under way."""
        self._states = deque([blocks])
        self._n_before = self._executor.n_remembered

    def value(self) -> State:
        """Return the state after the last round submitted, in one piece."""
        return self._whole(list(self.blocks))

    def take(self) -> State:
        """Return the same for the last time: each block is dropped when it has arrived."""
        blocks = self.blocks
        self._states = deque()
        return self._whole(blocks)

    def block(self, number: int) -> State:
        """Return one block of that state."""
        return self._executor.result(self.blocks[number]).value

    def _whole(self, blocks: Blocks[State]) -> State:
        left = dict(enumerate(blocks))
        blocks.clear()  # each is dropped when it has arrived

        def get(number: int) -> State:
            return self._executor.result(left.pop(number)).value

        return get(0) if len(left) == 1 else tasks.wide(self._feed.learner).whole(len(left), get)
