"""Training, stage by stage: epochs of rounds, evaluated, saved, stopped; a fit can be resumed in any of them.

A fit with a start by counting::

    with Trainer(executor, documents) as trainer:
        counts = trainer.run(Stage("count", counting, plan)).state
        return trainer.run(Stage("train", learner, plan, lambda: learner.start(counts), monitored=True))
"""

import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Generic

from sdem_dist.compat import compile_target, target_difference
from sdem_dist.documents import CorpusLike
from sdem_dist.engine import events, tasks
from sdem_dist.engine.checkpoint import Checkpoints, Json, Progress, SavedState, StageRecord, identity
from sdem_dist.engine.events import Callback, Event
from sdem_dist.engine.executor import Executor, cache_bytes, check_state, state_bytes
from sdem_dist.engine.plan import (
    NOT_EVALUATED,
    VALIDATION,
    AnyStage,
    History,
    MadeByWorkers,
    Monitoring,
    Stage,
    StageResult,
)
from sdem_dist.engine.rounds import (
    Blocks,
    RoundPipeline,
    blocks_from_driver,
    evaluate,
    ranges_of_plan,
    ranges_to_score,
)
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
        monitoring: Monitoring = NOT_EVALUATED,
        checkpoints: Checkpoints | None = None,
        settings: Json | None = None,
        resume: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        if checkpoints is not None and not resume:
            checkpoints.refuse_earlier_run()
        self.executor, self.checkpoints, self._resume = executor, checkpoints, resume
        self._documents, self._monitoring, self._settings = documents, monitoring, settings or {}
        self._callbacks = callbacks
        self._change: Callable[[AnyStage], AnyStage] = lambda stage: stage
        # Shared with what `changed` returns.
        self._numbers = itertools.count()
        self._compiled: set[object] = set()
        # Of the last stage and the scorings after it, not yet in the folder: what `Checkpoints.write_result` takes.
        self._unsaved: list[tuple[Json, int, Any, object]] = []

    def __enter__(self) -> "Trainer":
        self.emit(events.RunStarted(self.executor.n_workers))
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.emit(events.RunEnded(next(self._numbers)))

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
        stage, number, checkpoints = self._change(stage), next(self._numbers), self.checkpoints
        plan, learner, n = stage.plan, stage.learner, stage.plan.n_blocks
        first = tasks.initial_block(learner, 0, n)
        state_type, size = type(first), n * state_bytes(first)
        del first
        check_state(size, n, self.executor.memory_bytes(), getattr(getattr(learner, "model", None), "n_classes", 0))
        # A resumed run may go further, but only in its last stage.
        settings = {name: value for name, value in asdict(plan).items() if name != "n_epochs"}
        run = identity(stage=stage.name, learner=learner, plan=settings, **self._settings)
        finished, record = {**run, "n_epochs": plan.n_epochs}, StageRecord(number, run, state_type, n)
        latest = None
        if checkpoints is not None:
            for unsaved in self._unsaved:
                checkpoints.write_result(*unsaved)
            self._unsaved.clear()
            checkpoints.remove_before(number)
            if self._resume:
                if (done := checkpoints.result(finished, number, state_type)) is not None:
                    return StageResult(*done)
                latest = checkpoints.latest(record, plan.n_epochs)
        inputs = self._inputs(learner, stage.corpus, size, n)
        monitoring = stage.monitoring or (self._monitoring if stage.monitored else NOT_EVALUATED)
        if stage.reweighed is not None and monitoring.validation is not None:
            monitoring = replace(monitoring, validation=stage.reweighed(monitoring.validation))
        stage_run = _StageRun(self, stage, record, inputs, monitoring, latest)
        del latest  # a wide state must not be kept twice
        stage_run.announce()
        self._compile(stage, inputs)
        result = stage_run.run(size)
        if checkpoints is not None:
            self._unsaved.append((finished, number, result.state, result.history))
        return result

    def score(self, name: str, learner: Learner[State, Statistics, Prepared], state: State) -> dict[str, float]:
        """Return the metrics of a state, in one piece, over all documents of the fit; `name` is for people."""
        number, checkpoints = next(self._numbers), self.checkpoints
        run = identity(stage=name, learner=learner, **self._settings)
        if checkpoints is not None and self._resume and (done := checkpoints.result(run, number)) is not None:
            return dict(done[1])
        inputs, started = self._inputs(learner, None, state_bytes(state), 1), time.perf_counter()
        block = self.executor.put(tasks.TaskResult(state))
        metrics = evaluate(inputs, ranges_to_score(self._documents.n_documents), self.executor, [block])
        self.emit(events.Scored(name, number, time.perf_counter() - started, metrics))
        if checkpoints is not None:
            self._unsaved.append((run, number, None, metrics))
        return metrics

    def emit(self, event: Event) -> bool:
        """Tell all callbacks; return whether one that may asks to stop."""
        answers = [callback(event) for callback in self._callbacks]
        return any(a is True and _may_stop(c) for a, c in zip(answers, self._callbacks, strict=True))

    @property
    def may_stop(self) -> bool:
        return any(map(_may_stop, self._callbacks))

    def _inputs(
        self, learner: Learner[State, Statistics, Prepared], corpus: CorpusLike | None, size: int, n_blocks: int
    ) -> tasks.TaskInput[State, Statistics, Prepared]:
        budget = cache_bytes(size, n_blocks, self.executor.memory_bytes())
        return tasks.TaskInput(learner, self._documents if corpus is None else corpus, budget)

    def _compile(
        self, stage: Stage[State, Statistics, Prepared], inputs: tasks.TaskInput[State, Statistics, Prepared]
    ) -> None:
        """Compile the learner's kernels in every process, once a run; warn where they are other than this process's."""
        if (kernels := tasks.kernels_of(stage.learner)) in self._compiled:
            return
        started, here = time.perf_counter(), compile_target()
        targets = self.executor.run_on_all_workers(tasks.compile_kernels, inputs, stage.plan.n_blocks)
        for other in dict.fromkeys([] if self._compiled else targets):
            if other != here:
                warnings.warn(
                    "a worker compiles its kernels for another processor than this process "
                    f"({target_difference(other, here)}): the model may differ in its last bits from one trained "
                    "elsewhere. `sdem doctor` names the workers; NUMBA_CPU_NAME=generic in the environment of all makes "
                    "them the same, and slower",
                    stacklevel=2,
                )
        self._compiled.add(kernels)
        self.emit(events.Compiled(stage.name, time.perf_counter() - started))


def _may_stop(callback: Callback) -> bool:
    return bool(getattr(callback, "may_stop", False))


class _StageRun(Generic[State, Statistics, Prepared]):
    """A stage under way: epochs of rounds, evaluated, saved, stopped.

    `latest`: what `Checkpoints.latest` gave, or None where the stage begins.
    """

    def __init__(
        self,
        trainer: Trainer,
        stage: Stage[State, Statistics, Prepared],
        record: StageRecord[State],
        inputs: tasks.TaskInput[State, Statistics, Prepared],
        monitoring: Monitoring,
        latest: tuple[Progress, SavedState[State], State | None] | None,
    ) -> None:
        self._stage, self._plan, self._record, self._inputs = stage, stage.plan, record, inputs
        self._trainer, self._monitoring = trainer, monitoring
        self._executor, self._checkpoints, self._emit = trainer.executor, trainer.checkpoints, trainer.emit
        progress, saved, best = latest or (Progress(), None, None)
        self._saved: SavedState[State] | None = saved
        self._best: State | None = best
        self._first = self._plan.number(progress.epoch, progress.round)
        self._history: History = monitoring.continued(progress.history, self._plan.n_epochs, progress.best_epoch)
        self._best_epoch, self._seconds, self._stopped = progress.best_epoch, progress.seconds, False

    def announce(self) -> None:
        plan, monitored, number = self._plan, self._stage.monitored, self._record.number
        metrics = self._monitoring.main_metrics or (self._monitoring.monitor,)
        sizes = plan.n_epochs, plan.n_rounds, plan.n_lanes, self._executor.n_workers
        progress = *plan.place(self._first), self._first, plan.number(plan.n_epochs, 0)
        self._emit(
            events.StageStarted(self._stage.name, number, monitored, metrics if monitored else (), *sizes, *progress)
        )

    def run(self, size: int) -> StageResult[State]:
        """Run the rounds that are left. `size`: bytes of the whole state."""
        plan, monitoring = self._plan, self._monitoring
        self._clock, self._epoch_start = time.perf_counter(), time.time()
        most_tasks = max(MANY_TASKS, size // TASK_BYTES)
        self._pipeline = RoundPipeline(self._inputs, plan, self._executor, self._initial_blocks(), most_tasks)
        exhausted = monitoring.is_exhausted(self._history, self._best_epoch)
        try:
            number, end = self._first, plan.number(plan.n_epochs, 0)
            while number < end and not (exhausted or self._stopped):
                number = self._advance(number)
                exhausted = monitoring.is_exhausted(self._history, self._best_epoch)
        finally:  # also if the run ends with an error
            self._emit_events_of_workers()
        n_epochs, best = len(self._history), self._best
        best_epoch = n_epochs if best is None else self._best_epoch + 1
        reason = "patience" if exhausted else "callback" if self._stopped else "epochs"
        why, then = monitoring.reason_to_stop(reason, best_epoch, n_epochs)
        self._emit(events.StageEnded(self._stage.name, self._record.number, n_epochs, reason, best_epoch, why, then))
        return StageResult(best if best is not None else self._pipeline.state(last=True), self._history)

    def _initial_blocks(self) -> Blocks[State]:
        executor, n, learner, initial = self._executor, self._plan.n_blocks, self._stage.learner, self._stage.initial
        if self._saved is not None:
            return self._blocks_of(self._saved)
        if initial is None or isinstance(initial, MadeByWorkers):
            make = partial(tasks.initial_block, learner) if initial is None else initial.block
            return [executor.submit(tasks.start_block, make, b, n) for b in range(n)]
        state: State = initial() if callable(initial) else initial
        if n == 1:
            return blocks_from_driver(executor, 1, lambda b: state)
        return blocks_from_driver(executor, n, lambda b: tasks.wide(learner).block_of_state(state, b, n))

    def _blocks_of(self, saved: SavedState[State]) -> Blocks[State]:
        """Have the workers read a checkpoint; where one does not see it, the driver reads and sends it."""
        executor, n = self._executor, self._plan.n_blocks
        visible = executor.run_on_all_workers(saved.is_visible)
        if not visible or not all(visible):
            return blocks_from_driver(executor, n, lambda b: saved.block(b, n))
        # No affinity: if all workers are lost, Dask would keep the task for one of those that were asked for.
        return [executor.submit(tasks.start_block, saved.block, b, n) for b in range(n)]

    def _advance(self, number: int) -> int:
        """Submit one more round or several, wait for as many as needed before the next, and return its number.

        ============================  =========================================
        after an epoch's last round   a callback that may stop, an evaluation, the last epoch: nothing stays under way
        where a checkpoint is due     nothing stays under way; the state is written, and read again by workers
        where the lineage is long     nothing stays under way; the state goes over the driver
        else                          as many rounds stay under way as the executor takes
        ============================  =========================================
        """
        pipeline, plan, checkpoints = self._pipeline, self._plan, self._checkpoints
        epoch, round_ = plan.place(number)
        left = most = plan.rounds(epoch) - round_
        if checkpoints is not None and checkpoints.every_rounds is not None:
            most = min(left, checkpoints.every_rounds - number % checkpoints.every_rounds)
        n_rounds = pipeline.submit(epoch, round_, most)
        number, ends_epoch = number + n_rounds, n_rounds == left
        evaluates = ends_epoch and self._monitoring.should_evaluate(epoch, plan.n_epochs)
        saves, cuts = self._should_save(number, ends_epoch), pipeline.lineage_is_long
        stops = ends_epoch and (self._trainer.may_stop or epoch == plan.n_epochs - 1)
        while len(pipeline) > (0 if stops or evaluates or saves or cuts else self._executor.max_pending_rounds):
            self._wait_oldest(evaluates)
        if len(pipeline):
            return number
        if saves or self._should_save(number, ends_epoch):  # time has passed
            self._save(number)
        elif cuts:
            pipeline.replace_state(blocks_from_driver(self._executor, plan.n_blocks, pipeline.block))
        else:
            return number
        self._clock = time.perf_counter()
        return number

    def _should_save(self, rounds_done: int, end_of_epoch: bool) -> bool:
        return self._checkpoints is not None and self._checkpoints.should_write(rounds_done, end_of_epoch)

    def _wait_oldest(self, evaluates: bool) -> None:
        """Wait for the first rounds under way, and tell and record what they did."""
        ended, name = self._pipeline.wait_oldest(), self._stage.name
        self._emit_events_of_workers()
        before, self._clock = self._clock, time.perf_counter()
        self._seconds += self._clock - before
        for one in ended:
            for timing in one.timings:
                if timing.n_lanes:
                    self._emit(events.LanesEnded(name, one.epoch, one.round, *timing))
            seconds, merge = (self._clock - before) / len(ended), sum(t.merge for t in one.timings if not t.n_lanes)
            self._emit(events.RoundEnded(name, one.epoch, one.round, seconds, self._executor.n_workers, merge))
        if one.round == self._plan.rounds(one.epoch) - 1:
            self._end_epoch(one.epoch, evaluates and not self._pipeline)

    def _emit_events_of_workers(self) -> None:
        for event in self._executor.drain_events():
            self._emit(event)

    def _end_epoch(self, epoch: int, evaluates: bool) -> None:
        transfer, seconds = self._executor.transfer_seconds(self._epoch_start), self._seconds
        metrics = self._metrics() if evaluates else {}
        self._history.append({"epoch": epoch + 1, "seconds": seconds, **metrics})
        rate = self._plan.n_documents / max(seconds, 1e-9)
        self._stopped = self._emit(events.EpochEnded(self._stage.name, epoch, seconds, rate, transfer, metrics))
        self._seconds, self._clock = 0.0, time.perf_counter()
        self._epoch_start = time.time()  # transfers of evaluation belong to no epoch
        if self._monitoring.is_best(self._history, self._best_epoch):
            self._best = None  # otherwise there would be two
            self._best_epoch, self._best = epoch, self._pipeline.state()

    def _metrics(self) -> dict[str, float]:
        executor, blocks, metrics = self._executor, self._pipeline.blocks, dict[str, float]()
        if self._monitoring.training:
            metrics = evaluate(self._inputs, ranges_of_plan(self._plan), executor, blocks)
        if (corpus := self._monitoring.validation) is not None:
            held_out = self._inputs._replace(corpus=corpus, learner=self._monitoring.scorer(self._inputs.learner))
            validation = evaluate(held_out, ranges_to_score(corpus.n_documents), executor, blocks)
            metrics |= {f"{VALIDATION}{name}": value for name, value in validation.items()}
        return metrics

    def _save(self, rounds_done: int) -> None:
        assert self._checkpoints is not None
        epoch, round_ = self._plan.place(rounds_done)
        progress = Progress(epoch, round_, self._history, self._best_epoch, self._seconds)
        saved = self._checkpoints.write(self._record, progress, self._pipeline.block, self._best)
        self._emit(events.CheckpointWritten(self._stage.name, epoch, round_, place(saved.path)))
        if self._executor.n_remembered:
            self._pipeline.replace_state(self._blocks_of(saved))
