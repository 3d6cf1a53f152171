"""One stage: plan, map over lanes, reduce by a fixed tree, update, broadcast; evaluate, record, checkpoint, stop."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic

from sdem_dist.counted import counted
from sdem_dist.engine import anchors, tasks
from sdem_dist.engine.checkpoint import Checkpoints, Progress
from sdem_dist.engine.events import (
    CheckpointWritten,
    EpochEnded,
    Event,
    LanesEnded,
    RoundEnded,
    StageEnded,
    StageStarted,
)
from sdem_dist.engine.executor import Executor
from sdem_dist.engine.identity import Json
from sdem_dist.engine.monitoring import VALIDATION, History, Monitoring
from sdem_dist.engine.rounds import Ended, Flight
from sdem_dist.engine.saved import Saved
from sdem_dist.engine.scoring import evaluate, groups_of, groups_of_plan
from sdem_dist.engine.stages import MadeByWorkers, Stage, StageResult
from sdem_dist.errors import ModelError
from sdem_dist.learners.protocol import Prepared, State, Statistics
from sdem_dist.storage.places import place

MANY_TASKS = 1_000
"""Without checkpoints, a state's value replaces the tasks behind it when there are this many, or later if the tasks
still take less memory than the value."""
TASK_BYTES = 4096  # what Dask's scheduler keeps of a task, about


@dataclass
class Kept(Generic[State]):
    """The checkpoints of one stage."""

    checkpoints: Checkpoints
    run: Json  # what the stage is
    state_type: type[State]
    n_blocks: int

    def write(self, at: Progress, get: Callable[[int], State], best: State | None) -> Saved[State]:
        """Publish one, see `Checkpoints.write`."""
        return self.checkpoints.write(self.run, at, self.state_type, self.n_blocks, get, best)

    def latest(self, stage: int, n_epochs: int) -> tuple[Progress, Saved[State], State | None] | None:
        """Return the newest; ModelError if it has run more epochs than are asked for."""
        found = self.checkpoints.latest(self.run, stage, self.state_type, self.n_blocks)
        if found is not None and (epoch := found[0].epoch) > n_epochs:
            raise ModelError(
                f"the newest checkpoint in {self.checkpoints.folder} has run {counted(epoch, 'epoch')}, more than the "
                f"{n_epochs} asked for: ask for as many, or choose another checkpoint folder"
            )
        return found


class Training(Generic[State, Statistics, Prepared]):
    """A stage under way.

    `number`: its place in the fit.
    `monitoring`: of this stage.
    `size`: bytes of the whole state.
    `kept`: None: no checkpoint is written.
    `resume`: go on from the newest checkpoint, if there is one.
    `emit`: takes events, and returns whether a callback asks to stop.
    `may_stop`: whether a callback may ask to stop; then no epoch begins before callbacks have heard of the one before.
    """

    def __init__(
        self,
        stage: Stage[State, Statistics, Prepared],
        number: int,
        feed: tasks.Feed[State, Statistics, Prepared],
        executor: Executor,
        monitoring: Monitoring,
        size: int,
        kept: Kept[State] | None,
        resume: bool,
        emit: Callable[[Event], bool],
        may_stop: bool,
    ) -> None:
        self._may_stop, self._stopped = may_stop, False
        self._name, self._number, self._plan, self._monitored = stage.name, number, stage.plan, stage.monitored
        self._feed, self._executor, self._monitoring = feed, executor, monitoring
        self._kept, self._emit = kept, emit
        found = kept.latest(number, stage.plan.n_epochs) if kept is not None and resume else None
        at, saved = found[:2] if found else (Progress(number, 0, 0, [], -1, 0.0), None)
        self._best = found[2] if found else None
        del found  # a wide state must not be kept twice
        self._first = stage.plan.number(at.epoch, at.round)
        self._history: History = monitoring.continued(at.history, stage.plan.n_epochs, at.best_epoch)
        self._best_epoch, self._seconds = at.best_epoch, at.seconds
        blocks = self._start(stage, saved)
        self._flight = Flight(feed, stage.plan, executor, blocks, max(MANY_TASKS, size // TASK_BYTES))
        self._clock, self._since = time.perf_counter(), time.time()

    def _start(self, stage: Stage[State, Statistics, Prepared], saved: Saved[State] | None) -> anchors.Blocks[State]:
        executor, n = self._executor, stage.plan.n_blocks
        if saved is not None:
            return anchors.from_checkpoint(executor, saved)
        if stage.initial is None:
            return [executor.submit(tasks.initial_block, stage.learner, b, n) for b in range(n)]
        if isinstance(stage.initial, MadeByWorkers):
            return [executor.submit(tasks.made_block, stage.initial.block, b, n) for b in range(n)]
        initial: State = stage.initial() if callable(stage.initial) else stage.initial
        return anchors.from_state(executor, stage.learner, initial, n)

    def announce(self) -> None:
        """Tell that the stage begins."""
        plan, shown = self._plan, self._monitoring.shown or (self._monitoring.monitor,)
        self._emit(
            StageStarted(
                self._name,
                self._number,
                self._monitored,
                shown if self._monitored else (),
                plan.n_epochs,
                plan.n_rounds,
                plan.n_lanes,
                self._executor.n_workers,
                *plan.place(self._first),
                self._first,
                plan.number(plan.n_epochs, 0),
            )
        )

    def run(self) -> StageResult[State]:
        """Run what is left of the stage."""
        self._clock = time.perf_counter()
        with _all_told(self._executor, self._emit):
            number, end = self._first, self._plan.number(self._plan.n_epochs, 0)
            while number < end and not (self._exhausted or self._stopped):
                number = self._advance(number)
        n_epochs, best = len(self._history), self._best
        kept = n_epochs if best is None else self._best_epoch + 1
        reason = "patience" if self._exhausted else "callback" if self._stopped else "epochs"
        said = self._monitoring.said(reason, kept, n_epochs)
        self._emit(StageEnded(self._name, self._number, n_epochs, reason, kept, *said))
        return StageResult(best if best is not None else self._flight.take(), self._history)

    @property
    def _exhausted(self) -> bool:
        return self._monitoring.exhausted(self._history, self._best_epoch)

    def _advance(self, number: int) -> int:
        """Submit one more round or several, wait for as many as needed before the next, and return its number."""
        epoch, round_ = self._plan.place(number)
        left = self._plan.rounds(epoch) - round_
        n_rounds = self._flight.submit(epoch, round_, left, lambda n: self._due(number + n, False))
        number, ends = number + n_rounds, n_rounds == left
        scores = ends and self._monitoring.due(epoch, self._plan.n_epochs)
        saves, burdened = self._due(number, ends), self._flight.burdened
        waits = ends and (self._may_stop or epoch == self._plan.n_epochs - 1)
        while len(self._flight) > (0 if waits or scores or saves or burdened else self._executor.rounds_ahead):
            self._land(scores)
        if self._flight:
            return number
        if saves or self._due(number, ends):
            self._save(number)
        elif burdened:
            self._flight.replace(anchors.from_driver(self._executor, self._plan.n_blocks, self._flight.block))
        else:
            return number
        self._clock = time.perf_counter()
        return number

    def _due(self, rounds_done: int, end_of_epoch: bool) -> bool:
        return self._kept is not None and self._kept.checkpoints.due(rounds_done, end_of_epoch)

    def _land(self, scores: bool) -> None:
        """Wait for the first rounds under way, and tell and record what they did."""
        rounds = self._flight.land()
        for event in self._executor.noticed():
            self._emit(event)
        before, self._clock = self._clock, time.perf_counter()
        self._seconds += self._clock - before
        for ended in rounds:
            self._tell(ended, (self._clock - before) / len(rounds))
        if ended.round == self._plan.rounds(ended.epoch) - 1:
            self._end_epoch(ended.epoch, scores and not self._flight)

    def _tell(self, ended: Ended, seconds: float) -> None:
        for work in ended.work:
            if work.n_lanes:
                self._emit(LanesEnded(self._name, ended.epoch, ended.round, *work))
        merge = sum(w.merge for w in ended.work if not w.n_lanes)
        self._emit(RoundEnded(self._name, ended.epoch, ended.round, seconds, self._executor.n_workers, merge))

    def _end_epoch(self, epoch: int, scores: bool) -> None:
        moved, seconds = self._executor.transfer_seconds(self._since), self._seconds
        metrics = self._scored() if scores else {}
        self._history.append({"epoch": epoch + 1, "seconds": seconds, **metrics})
        rate = self._plan.n_documents / max(seconds, 1e-9)
        self._stopped = self._emit(EpochEnded(self._name, epoch, seconds, rate, moved, metrics))
        self._seconds, self._clock = 0.0, time.perf_counter()
        self._since = time.time()  # transfers of evaluation belong to no epoch
        if self._monitoring.best(self._history, self._best_epoch):
            self._best = None  # otherwise there would be two
            self._best_epoch, self._best = epoch, self._flight.value()

    def _scored(self) -> dict[str, float]:
        metrics: dict[str, float] = {}
        if self._monitoring.training:
            metrics = evaluate(self._feed, groups_of_plan(self._plan), self._executor, self._flight.blocks)
        if (corpus := self._monitoring.validation) is not None:
            held_out = self._feed._replace(corpus=corpus)
            found = evaluate(held_out, groups_of(corpus.n_documents), self._executor, self._flight.blocks)
            metrics |= {f"{VALIDATION}{name}": value for name, value in found.items()}
        return metrics

    def _save(self, rounds_done: int) -> None:
        assert self._kept is not None
        epoch, round_ = self._plan.place(rounds_done)
        at = Progress(self._number, epoch, round_, self._history, self._best_epoch, self._seconds)
        saved = self._kept.write(at, self._flight.block, self._best)
        self._emit(CheckpointWritten(self._name, epoch, round_, place(saved.path)))
        if self._executor.n_remembered:
            self._flight.replace(anchors.from_checkpoint(self._executor, saved))


@contextmanager
def _all_told(executor: Executor, emit: Callable[[Event], object]) -> Iterator[None]:
    """Emit the events of workers and tasks even if the run ends with an error."""
    try:
        yield
    finally:
        for event in executor.noticed():
            emit(event)
