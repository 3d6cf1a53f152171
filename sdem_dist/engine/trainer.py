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
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import asdict, replace
from types import TracebackType
from typing import Any, Generic

from sdem_dist.compat import compile_target, target_difference
from sdem_dist.documents import CorpusLike
from sdem_dist.engine import rounds, tasks
from sdem_dist.engine.checkpoint import Checkpoints, Json, Progress, SavedState, StageRecord, identity
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
from sdem_dist.engine.executor import Executor, Reservation, check_state, needed_bytes, release, state_bytes
from sdem_dist.engine.plan import UNSEEN, VALIDATION, AnyStage, History, MadeByWorkers, Monitoring, Stage, StageResult
from sdem_dist.engine.rounds import EndedRound, RoundPipeline, evaluate, ranges_of_plan, ranges_to_score
from sdem_dist.learners.protocol import Learner, Prepared, State, Statistics
from sdem_dist.storage.urls import place

MANY_TASKS = 10_000
"""Without checkpoints, a state's value replaces the tasks behind it when there are this many, or later if the tasks
still take less memory than the value.  Large rounds should not each end with a way of the state over the driver."""
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
        self.executor, self.checkpoints, self.resume = executor, checkpoints, resume
        self.may_stop = any(getattr(callback, "may_stop", False) for callback in callbacks)
        self._documents, self._monitoring, self._settings = documents, monitoring, settings or {}
        self._callbacks = callbacks
        self._change: Callable[[AnyStage], AnyStage] = lambda stage: stage
        # Shared with what `changed` returns.
        self._numbers = itertools.count()
        self._compiled: set[object] = set()
        # (identity, number, result) of the last stage and the scorings after it, not yet in the folder.
        self._unsaved: list[tuple[Json, int, StageResult[Any] | dict[str, float]]] = []

    def __enter__(self) -> "Trainer":
        self.emit(RunStarted(self.executor.n_workers))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.emit(RunEnded(next(self._numbers)))
                self.executor.run_on_all_workers(release, self._id)
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
        n, plan = stage.plan.n_blocks, asdict(stage.plan)
        n_epochs = plan.pop("n_epochs")  # a resumed run may go further, but only in its last stage
        first = tasks.initial_block(stage.learner, 0, n).value
        state_type, size, memory = type(first), n * state_bytes(first), self.executor.memory_bytes
        del first
        check_state(size, n, memory, getattr(getattr(stage.learner, "model", None), "n_classes", 0))
        run = self._identity(stage.name, stage.learner, plan=plan)
        finished = {**run, "n_epochs": n_epochs}
        if self.checkpoints is not None:
            self._save_results(number)
            if self.resume and (done := self.checkpoints.result(finished, number, state_type)) is not None:
                return done
        corpus = self._documents if stage.corpus is None else stage.corpus
        inputs = tasks.TaskInput(stage.learner, corpus, Reservation(self._id, needed_bytes(size, n), memory))
        monitoring = stage.monitoring or (self._monitoring if stage.monitored else UNSEEN)
        if stage.reweighed is not None and monitoring.validation is not None:
            monitoring = replace(monitoring, validation=stage.reweighed(monitoring.validation))
        stage_run = _StageRun(stage, StageRecord(number, run, state_type, n), inputs, size, monitoring, self)
        stage_run.announce()
        self._compile(stage, inputs)
        result = stage_run.run()
        if self.checkpoints is not None:
            self._unsaved.append((finished, number, result))
        return result

    def score(self, name: str, learner: Learner[State, Statistics, Prepared], state: State) -> dict[str, float]:
        """Return the metrics of a state, in one piece, over all documents of the fit; `name` is for people."""
        number, run, checkpoints = next(self._numbers), self._identity(name, learner), self.checkpoints
        if checkpoints is not None and self.resume and (done := checkpoints.metrics(run, number)) is not None:
            return done
        size, memory = state_bytes(state), self.executor.memory_bytes
        inputs = tasks.TaskInput(learner, self._documents, Reservation(self._id, needed_bytes(size, 1), memory))
        started = time.perf_counter()
        block = self.executor.put(tasks.TaskResult(state))
        metrics = evaluate(inputs, ranges_to_score(self._documents.n_documents), self.executor, [block])
        self.emit(Scored(name, number, time.perf_counter() - started, metrics))
        if checkpoints is not None:
            self._unsaved.append((run, number, metrics))
        return metrics

    def _save_results(self, number: int) -> None:
        """Keep the results before stage `number`, which begins; checkpoints of earlier stages are then not needed."""
        assert self.checkpoints is not None
        for run, before, result in self._unsaved:
            self.checkpoints.write_result(run, before, result)
        self._unsaved.clear()
        self.checkpoints.remove_before(number)

    def _identity(self, name: str, learner: Learner[State, Statistics, Prepared], **more: object) -> Json:
        return identity(stage=name, learner=learner, **more, **self._settings)

    def emit(self, event: Event) -> bool:
        results = [(callback(event), getattr(callback, "may_stop", False)) for callback in self._callbacks]
        return any(result is True and may for result, may in results)

    def _compile(
        self, stage: Stage[State, Statistics, Prepared], inputs: tasks.TaskInput[State, Statistics, Prepared]
    ) -> None:
        """Compile the learner's kernels in every process, once a run."""
        if (kernels := tasks.kernels_of(stage.learner)) in self._compiled:
            return
        started = time.perf_counter()
        targets = self.executor.run_on_all_workers(tasks.compile_kernels, inputs, stage.plan.n_blocks)
        if not self._compiled:
            _warn_of_other_targets(targets)
        self._compiled.add(kernels)
        self.emit(Compiled(stage.name, time.perf_counter() - started))


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


class _StageRun(Generic[State, Statistics, Prepared]):
    """A stage under way.

    `size`: bytes of the whole state.
    `monitoring`: of this stage.
    """

    def __init__(
        self,
        stage: Stage[State, Statistics, Prepared],
        record: StageRecord[State],
        inputs: tasks.TaskInput[State, Statistics, Prepared],
        size: int,
        monitoring: Monitoring,
        trainer: Trainer,
    ) -> None:
        plan, latest = stage.plan, None
        self._name, self._plan, self._monitored = stage.name, plan, stage.monitored
        self._record, self._inputs, self._monitoring = record, inputs, monitoring
        self._executor, self._checkpoints, self._emit = trainer.executor, trainer.checkpoints, trainer.emit
        # Where a callback may ask to stop, no epoch begins before callbacks have heard of the one before.
        self._may_stop, self._stopped = trainer.may_stop, False
        if self._checkpoints is not None and trainer.resume:
            latest = self._checkpoints.latest(record, plan.n_epochs)
        progress, saved = latest[:2] if latest else (Progress(), None)
        self._best = latest[2] if latest else None
        del latest  # a wide state must not be kept twice
        self._first = plan.number(progress.epoch, progress.round)
        self._history: History = monitoring.continued(progress.history, plan.n_epochs, progress.best_epoch)
        self._best_epoch, self._seconds = progress.best_epoch, progress.seconds
        most_tasks = max(MANY_TASKS, size // TASK_BYTES)
        self._pipeline = RoundPipeline(inputs, plan, self._executor, self._start(stage, saved), most_tasks)
        self._clock, self._epoch_start = time.perf_counter(), time.time()

    def _start(
        self, stage: Stage[State, Statistics, Prepared], saved: SavedState[State] | None
    ) -> rounds.Blocks[State]:
        executor, n = self._executor, stage.plan.n_blocks
        if saved is not None:
            return rounds.state_from_checkpoint(executor, saved)
        if stage.initial is None:
            return [executor.submit(tasks.initial_block, stage.learner, b, n) for b in range(n)]
        if isinstance(stage.initial, MadeByWorkers):
            return [executor.submit(tasks.start_block, stage.initial.block, b, n) for b in range(n)]
        initial: State = stage.initial() if callable(stage.initial) else stage.initial
        return rounds.state_from_driver(executor, stage.learner, initial, n)

    def announce(self) -> None:
        plan, metrics = self._plan, self._monitoring.main_metrics or (self._monitoring.monitor,)
        self._emit(
            StageStarted(
                self._name,
                self._record.number,
                self._monitored,
                metrics if self._monitored else (),
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
        self._clock = time.perf_counter()
        try:
            number, end = self._first, self._plan.number(self._plan.n_epochs, 0)
            while number < end and not (self._exhausted or self._stopped):
                number = self._advance(number)
        finally:  # also if the run ends with an error
            self._emit_events_of_workers()
        n_epochs, best = len(self._history), self._best
        best_epoch = n_epochs if best is None else self._best_epoch + 1
        reason = "patience" if self._exhausted else "callback" if self._stopped else "epochs"
        why, then = self._monitoring.reason_to_stop(reason, best_epoch, n_epochs)
        self._emit(StageEnded(self._name, self._record.number, n_epochs, reason, best_epoch, why, then))
        return StageResult(best if best is not None else self._pipeline.release_state(), self._history)

    @property
    def _exhausted(self) -> bool:
        return self._monitoring.exhausted(self._history, self._best_epoch)

    def _advance(self, number: int) -> int:
        """Submit one more round or several, wait for as many as needed before the next, and return its number."""
        pipeline, (epoch, round_) = self._pipeline, self._plan.place(number)
        left = self._plan.rounds(epoch) - round_
        n_rounds = pipeline.submit(epoch, round_, left, lambda n: self._should_save(number + n, False))
        number, ends_epoch = number + n_rounds, n_rounds == left
        evaluates = ends_epoch and self._monitoring.should_evaluate(epoch, self._plan.n_epochs)
        saves, cuts = self._should_save(number, ends_epoch), pipeline.lineage_is_long
        waits = ends_epoch and (self._may_stop or epoch == self._plan.n_epochs - 1)
        while len(pipeline) > (0 if waits or evaluates or saves or cuts else self._executor.max_pending_rounds):
            self._wait_oldest(evaluates)
        if len(pipeline):
            return number
        if saves or self._should_save(number, ends_epoch):
            self._save(number)
        elif cuts:
            blocks = rounds.blocks_from_driver(self._executor, self._plan.n_blocks, pipeline.block)
            pipeline.replace_state(blocks)
        else:
            return number
        self._clock = time.perf_counter()
        return number

    def _should_save(self, rounds_done: int, end_of_epoch: bool) -> bool:
        return self._checkpoints is not None and self._checkpoints.should_write(rounds_done, end_of_epoch)

    def _wait_oldest(self, evaluates: bool) -> None:
        """Wait for the first rounds under way, and tell and record what they did."""
        ended = self._pipeline.wait_oldest()
        self._emit_events_of_workers()
        before, self._clock = self._clock, time.perf_counter()
        self._seconds += self._clock - before
        for one in ended:
            self._emit_round(one, (self._clock - before) / len(ended))
        if one.round == self._plan.rounds(one.epoch) - 1:
            self._end_epoch(one.epoch, evaluates and not self._pipeline)

    def _emit_events_of_workers(self) -> None:
        for event in self._executor.drain_events():
            self._emit(event)

    def _emit_round(self, ended: EndedRound, seconds: float) -> None:
        for timing in ended.timings:
            if timing.n_lanes:
                self._emit(LanesEnded(self._name, ended.epoch, ended.round, *timing))
        merge = sum(timing.merge for timing in ended.timings if not timing.n_lanes)
        self._emit(RoundEnded(self._name, ended.epoch, ended.round, seconds, self._executor.n_workers, merge))

    def _end_epoch(self, epoch: int, evaluates: bool) -> None:
        transfer, seconds = self._executor.transfer_seconds(self._epoch_start), self._seconds
        metrics = self._metrics() if evaluates else {}
        self._history.append({"epoch": epoch + 1, "seconds": seconds, **metrics})
        rate = self._plan.n_documents / max(seconds, 1e-9)
        self._stopped = self._emit(EpochEnded(self._name, epoch, seconds, rate, transfer, metrics))
        self._seconds, self._clock = 0.0, time.perf_counter()
        self._epoch_start = time.time()  # transfers of evaluation belong to no epoch
        if self._monitoring.best(self._history, self._best_epoch):
            self._best = None  # otherwise there would be two
            self._best_epoch, self._best = epoch, self._pipeline.state()

    def _metrics(self) -> dict[str, float]:
        metrics: dict[str, float] = {}
        if self._monitoring.training:
            metrics = evaluate(self._inputs, ranges_of_plan(self._plan), self._executor, self._pipeline.blocks)
        if (corpus := self._monitoring.validation) is not None:
            scorer = self._monitoring.scorer(self._inputs.learner)
            held_out = self._inputs._replace(corpus=corpus, learner=scorer)
            ranges = ranges_to_score(corpus.n_documents)
            validation = evaluate(held_out, ranges, self._executor, self._pipeline.blocks)
            metrics |= {f"{VALIDATION}{name}": value for name, value in validation.items()}
        return metrics

    def _save(self, rounds_done: int) -> None:
        assert self._checkpoints is not None
        epoch, round_ = self._plan.place(rounds_done)
        progress = Progress(epoch, round_, self._history, self._best_epoch, self._seconds)
        saved = self._checkpoints.write(self._record, progress, self._pipeline.block, self._best)
        self._emit(CheckpointWritten(self._name, epoch, round_, place(saved.path)))
        if self._executor.n_remembered:
            self._pipeline.replace_state(rounds.state_from_checkpoint(self._executor, saved))
