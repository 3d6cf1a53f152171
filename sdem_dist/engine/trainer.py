"""Training, stage by stage: epochs of rounds, evaluated, saved, stopped; a fit can be resumed in any of them.

A fit with a start by counting::

    with Trainer(executor, documents) as trainer:
        counts = trainer.run(Stage("count", counting, plan)).state
        return trainer.run(Stage("train", learner, plan, lambda: learner.start(counts), monitored=True))
"""

import itertools
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Any, Generic

from sdem_dist.compat import compile_target, target_difference
from sdem_dist.counted import counted
from sdem_dist.documents import CorpusLike
from sdem_dist.engine import anchors, tasks
from sdem_dist.engine.checkpoint import Checkpoints, Progress
from sdem_dist.engine.claims import Claim, release
from sdem_dist.engine.events import (
    Callback,
    CheckpointWritten,
    Compiled,
    EpochEnded,
    Event,
    LanesEnded,
    RoundEnded,
    RunEnded,
    RunStarted,
    Scored,
    StageEnded,
    StageStarted,
)
from sdem_dist.engine.executor import Executor
from sdem_dist.engine.identity import Json, identity
from sdem_dist.engine.memory import check_state, needed_bytes, state_bytes
from sdem_dist.engine.monitoring import UNSEEN, VALIDATION, History, Monitoring
from sdem_dist.engine.rounds import Ended, Flight
from sdem_dist.engine.saved import Saved
from sdem_dist.engine.scoring import evaluate, groups_of, groups_of_plan
from sdem_dist.engine.stages import AnyStage, MadeByWorkers, Stage, StageResult
from sdem_dist.errors import ModelError
from sdem_dist.learners.protocol import Learner, Prepared, State, Statistics
from sdem_dist.storage.places import place

MANY_TASKS = 1_000
"""Without checkpoints, a state's value replaces the tasks behind it when there are this many, or later if the tasks
still take less memory than the value."""
TASK_BYTES = 4096  # what Dask's scheduler keeps of a task, about


class Trainer:
    """Run the stages of a fit, one after the other, on one executor; a context that begins and ends the fit.

    A stage that an earlier run finished is not run again: its result is in the checkpoint folder. A result is left
    there when the next stage begins. Until then the stage's checkpoints stay, and a scoring after the stage is done
    again by a resumed run.

    `executor`: stays open.
    `documents`: of the fit.
    `monitoring`: of stages that are monitored.
    `checkpoints`: None: nothing is written.
    `settings`: what must be equal for a resume, beside each stage's learner and its plan without `n_epochs`.
    `resume`: go on from what the checkpoint folder holds, if it holds anything.
    Raises ModelError: the folder holds an earlier run and `resume` is false.
    """

    def __init__(
        self,
        executor: Executor,
        documents: CorpusLike,
        *,
        monitoring: Monitoring = UNSEEN,
        checkpoints: Checkpoints | None = None,
        settings: Json | None = None,
        resume: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        if checkpoints is not None and not resume:
            checkpoints.refuse_earlier_run()
        self._id = uuid.uuid4().hex
        self._executor, self._documents, self._monitoring = executor, documents, monitoring
        self._checkpoints, self._settings, self._resume, self._callbacks = (
            checkpoints,
            settings or {},
            resume,
            callbacks,
        )
        self._change: Callable[[AnyStage], AnyStage] = lambda stage: stage
        # Shared with what `changed` returns.
        self._numbers = itertools.count()
        self._compiled: set[object] = set()
        # (identity, number, result) of the last stage and the scorings after it, not yet in the folder.
        self._unsaved: list[tuple[Json, int, StageResult[Any] | dict[str, float]]] = []

    def __enter__(self) -> "Trainer":
        self._emit(RunStarted(self._executor.n_workers))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._emit(RunEnded(next(self._numbers)))
                self._executor.everywhere(release, self._id)
        finally:
            release(self._id)

    def changed(self, change: Callable[[AnyStage], AnyStage]) -> "Trainer":
        """Return a trainer of the same fit that runs ``change(stage)`` for each stage."""
        other, before = copy(self), self._change
        other._change = lambda stage: before(change(stage))
        return other

    def run(self, stage: Stage[State, Statistics, Prepared]) -> StageResult[State]:
        """Load the result of a finished stage, or go on from its latest checkpoint, or begin it; return its result.

        Raises ModelError: a checkpoint is damaged, belongs to another run (`OtherRunError`), or has run more epochs
        than are asked for; or a state is too large for its workers.
        """
        stage, number = self._change(stage), next(self._numbers)
        n, plan, kept = stage.plan.n_blocks, asdict(stage.plan), None
        n_epochs = plan.pop("n_epochs")  # a resumed run may go further, but only in its last stage
        first = tasks.initial_block(stage.learner, 0, n).value
        state_type, size, memory = type(first), n * state_bytes(first), self._executor.memory_bytes
        del first
        check_state(size, n, memory, getattr(getattr(stage.learner, "model", None), "n_classes", 0))
        if self._checkpoints is not None:
            self._save_results(number)
            run = self._identity(stage.name, stage.learner, plan=plan)
            finished = {**run, "n_epochs": n_epochs}
            if self._resume and (done := self._checkpoints.stage_result(finished, number, state_type)) is not None:
                return done
            kept = Kept(self._checkpoints, run, state_type, n)
        corpus = self._documents if stage.corpus is None else stage.corpus
        feed = tasks.Feed(stage.learner, corpus, Claim(self._id, needed_bytes(size, n), memory))
        monitoring = stage.monitoring or (self._monitoring if stage.monitored else UNSEEN)
        if stage.seen is not None and monitoring.validation is not None:
            monitoring = replace(monitoring, validation=stage.seen(monitoring.validation))
        may_stop = any(getattr(callback, "may_stop", False) for callback in self._callbacks)
        training = Training(
            stage, number, feed, self._executor, monitoring, size, kept, self._resume, self._emit, may_stop
        )
        training.announce()
        self._compile(stage, feed)
        result = training.run()
        if self._checkpoints is not None:
            self._unsaved.append((finished, number, result))
        return result

    def score(self, name: str, learner: Learner[State, Statistics, Prepared], state: State) -> dict[str, float]:
        """Return the metrics of a state, in one piece, over all documents of the fit; `name` is for people."""
        number, run, checkpoints = next(self._numbers), self._identity(name, learner), self._checkpoints
        if checkpoints is not None and self._resume and (done := checkpoints.metrics(run, number)) is not None:
            return done
        size, memory = state_bytes(state), self._executor.memory_bytes
        feed = tasks.Feed(learner, self._documents, Claim(self._id, needed_bytes(size, 1), memory))
        started = time.perf_counter()
        block = self._executor.put(tasks.Timed(state))
        metrics = evaluate(feed, groups_of(self._documents.n_documents), self._executor, [block])
        self._emit(Scored(name, number, time.perf_counter() - started, metrics))
        if checkpoints is not None:
            self._unsaved.append((run, number, metrics))
        return metrics

    def _save_results(self, number: int) -> None:
        """Keep the results before stage `number`, which begins; checkpoints of earlier stages are then not needed."""
        assert self._checkpoints is not None
        for run, before, result in self._unsaved:
            self._checkpoints.keep_result(run, before, result)
        self._unsaved.clear()
        self._checkpoints.remove_before(number)

    def _identity(self, name: str, learner: Learner[State, Statistics, Prepared], **more: object) -> Json:
        return identity(stage=name, learner=learner, **more, **self._settings)

    def _emit(self, event: Event) -> bool:
        """Tell every callback, and return whether one that may ask to stop does."""
        answers = [(callback(event), getattr(callback, "may_stop", False)) for callback in self._callbacks]
        return any(answer is True and may for answer, may in answers)

    def _compile(
        self, stage: Stage[State, Statistics, Prepared], feed: tasks.Feed[State, Statistics, Prepared]
    ) -> None:
        """Compile the learner's kernels in every process, once a run."""
        if (kernels := tasks.kernels_of(stage.learner)) in self._compiled:
            return
        started = time.perf_counter()
        targets = self._executor.everywhere(tasks.compile_kernels, feed, stage.plan.n_blocks)
        if not self._compiled:
            _warn_of_other_targets(targets)
        self._compiled.add(kernels)
        self._emit(Compiled(stage.name, time.perf_counter() - started))


def _warn_of_other_targets(targets: Iterable[str]) -> None:
    """Warn where workers compile kernels for other processors than each other or than this process."""
    here = compile_target()
    for other in {target: None for target in targets if target != here}:
        warnings.warn(
            f"a worker compiles its kernels for another processor than this process ({target_difference(other, here)}): "
            "the model may differ in its last bits from one trained elsewhere. `sdem doctor` names the workers; "
            "NUMBA_CPU_NAME=generic in the environment of all makes them the same, and slower",
            stacklevel=2,
        )


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
