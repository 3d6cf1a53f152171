"""Training, stage by stage: epochs of rounds, evaluated, saved, stopped; a fit can be resumed in any of them."""

import itertools
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from typing import Any, cast

from sdem_dist.compat import compile_target, target_difference
from sdem_dist.documents import CorpusLike
from sdem_dist.engine import events, tasks
from sdem_dist.engine.checkpoint import Checkpoints, Json, Progress, SavedState, StageRecord, identity
from sdem_dist.engine.events import Callback, Event
from sdem_dist.engine.executor import Executor, Handle, cache_bytes, state_bytes
from sdem_dist.engine.plan import NOT_EVALUATED, VALIDATION, AnyStage, MadeByWorkers, Monitoring, Stage, StageResult
from sdem_dist.engine.rounds import (
    Blocks,
    TaskSizes,
    blocks_from_driver,
    evaluate,
    ranges_of_plan,
    ranges_to_score,
    submit_rounds,
)
from sdem_dist.learners.protocol import AnyLearner, Prepared, State, Statistics
from sdem_dist.storage.buckets import place

MANY_TASKS = 10_000
"""Without checkpoints, a state's value replaces the tasks behind it when there are this many, or later if the tasks
still take less memory than the value.  Large rounds should not each end with a way of the state over the driver."""
TASK_BYTES = 4096  # what Dask's scheduler keeps of a task, about


class Trainer:
    """Run the stages of a fit, one after the other, on one executor; a context that begins and ends the fit.

    A stage that an earlier run finished is not run again: its result is in the checkpoint folder, where it is left when
    the next stage begins. Until then the stage's checkpoints stay, and a resumed run repeats a scoring after the stage.

    `monitoring`: of stages that are monitored.
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
        self.executor, self.checkpoints, self.callbacks, self._resume = executor, checkpoints, callbacks, resume
        self._documents, self._monitoring, self._settings = documents, monitoring, settings or {}
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

    def emit(self, event: Event) -> bool:
        """Tell all callbacks; return whether one that may asks to stop."""
        replies = [callback(event) for callback in self.callbacks]
        return any(r is True and getattr(c, "may_stop", False) for r, c in zip(replies, self.callbacks, strict=True))

    def run(self, stage: Stage[State, Statistics, Prepared]) -> StageResult[State]:
        """Load the result of a finished stage, or go on from its latest checkpoint, or begin it; return its result.

        Raises ModelError: a checkpoint is damaged, belongs to another run (`OtherRunError`), or has run more epochs
        than are asked for; or a state is too large for its workers.
        """
        stage, number, checkpoints = self._change(stage), next(self._numbers), self.checkpoints
        plan, learner, n = stage.plan, cast(tasks.AnyWideLearner, stage.learner), stage.plan.n_blocks
        first = tasks.initial_block(learner, 0, n)
        state_type, size, memory = type(first), n * state_bytes(first), self.executor.memory_bytes()
        del first
        budget = cache_bytes(size, n, memory, getattr(getattr(learner, "model", None), "n_classes", 0))
        # A resumed run may go further, but only in its last stage.
        settings = {name: value for name, value in asdict(plan).items() if name != "n_epochs"}
        run = identity(stage=stage.name, learner=learner, plan=settings, **self._settings)
        finished, record = {**run, "n_epochs": plan.n_epochs}, StageRecord(number, run, state_type, n)
        latest: tuple[Progress, SavedState | None, Any] | None = None
        if checkpoints is not None:
            for unsaved in self._unsaved:
                checkpoints.write_result(*unsaved)
            self._unsaved.clear()
            checkpoints.remove_before(number)
            if self._resume:
                if (done := checkpoints.result(finished, number, state_type)) is not None:
                    return StageResult(*done)
                latest = checkpoints.latest(record, plan.n_epochs)
        corpus = self._documents if stage.corpus is None else stage.corpus
        inputs = tasks.TaskInput(learner, corpus, budget)
        monitoring = stage.monitoring or (self._monitoring if stage.monitored else NOT_EVALUATED)
        if stage.reweighed is not None and monitoring.validation is not None:
            monitoring = replace(monitoring, validation=stage.reweighed(monitoring.validation))
        progress, saved, best = latest or (Progress(), None, None)
        stage_run = StageRun(self, stage, record, inputs, monitoring, progress, saved, best)
        del latest, best  # a wide state must not be kept twice
        metrics = (monitoring.main_metrics or (monitoring.monitor,)) if stage.monitored else ()
        sizes = plan.n_epochs, plan.n_rounds, plan.n_lanes, self.executor.n_workers
        first_round, end = plan.number(progress.epoch, progress.round), plan.number(plan.n_epochs, 0)
        begins = *plan.place(first_round), first_round, end
        self.emit(events.StageStarted(stage.name, number, stage.monitored, metrics, *sizes, *begins))
        self._compile(stage, inputs)
        result = stage_run.run(first_round, end, max(MANY_TASKS, size // TASK_BYTES))
        if checkpoints is not None:
            self._unsaved.append((finished, number, result.state, result.history))
        return result

    def _compile(self, stage: AnyStage, inputs: tasks.TaskInput) -> None:
        """Compile the learner's kernels in every process, once a run; warn where they are other than this process's."""
        if (kernels := tasks.kernels_of(stage.learner)) in self._compiled:
            return
        started, here = time.perf_counter(), compile_target()
        targets = self.executor.run_on_all_workers(tasks.compile_kernels, inputs, stage.plan.n_blocks)
        for other in set() if self._compiled else {*targets} - {here}:
            warnings.warn(
                "a worker compiles its kernels for another processor than this process "
                f"({target_difference(other, here)}): the model may differ in its last bits from one trained "
                "elsewhere. `sdem doctor` names the workers; NUMBA_CPU_NAME=generic in the environment of all makes "
                "them the same, and slower",
                stacklevel=2,
            )
        self._compiled.add(kernels)
        self.emit(events.Compiled(stage.name, time.perf_counter() - started))

    def score(self, name: str, learner: AnyLearner, state: Any) -> dict[str, float]:
        """Return the metrics of a state, in one piece, over all documents of the fit; `name` is for people."""
        number, checkpoints, executor = next(self._numbers), self.checkpoints, self.executor
        run = identity(stage=name, learner=learner, **self._settings)
        if checkpoints is not None and self._resume and (done := checkpoints.result(run, number)) is not None:
            return dict(done[1])
        started, budget = time.perf_counter(), cache_bytes(state_bytes(state), 1, executor.memory_bytes())
        inputs = tasks.TaskInput(cast(tasks.AnyWideLearner, learner), self._documents, budget)
        blocks = [executor.put(tasks.TaskResult(state))]
        metrics = evaluate(inputs, ranges_to_score(self._documents.n_documents), executor, blocks)
        self.emit(events.Scored(name, number, time.perf_counter() - started, metrics))
        if checkpoints is not None:
            self._unsaved.append((run, number, None, metrics))
        return metrics


class StageRun:
    """A stage under way: rounds that are submitted and have not ended, as far as is known, and what ended ones left."""

    def __init__(
        self,
        trainer: Trainer,
        stage: AnyStage,
        record: StageRecord,
        inputs: tasks.TaskInput,
        monitoring: Monitoring,
        progress: Progress,
        saved: SavedState | None,  # where it goes on; None: it begins
        best: Any,  # the state of `progress.best_epoch`, in one piece
    ) -> None:
        self._trainer, self._stage, self._plan, self._record = trainer, stage, stage.plan, record
        self._inputs, self._monitoring, self._executor = inputs, monitoring, trainer.executor
        self._saved, self._best, self._best_epoch = saved, best, progress.best_epoch
        self._history = monitoring.continued(progress.history, stage.plan.n_epochs, progress.best_epoch)
        self._seconds, self._stopped = progress.seconds, False
        self._sizes = TaskSizes(stage.plan, trainer.executor)
        self._pending: deque[tuple[int, range, list[Handle[tuple[tasks.TaskTiming, ...]]]]] = deque()
        """Rounds under way: epoch, numbers, timings block by block (none for a round without documents)."""
        self._states: deque[Blocks] = deque()
        """The state before each round under way, of which what a lost worker held is computed again, and the last."""

    @property
    def blocks(self) -> Blocks:
        """Handles of the state after the last round submitted."""
        return self._states[-1]

    def run(self, number: int, end: int, most_tasks: int) -> StageResult[Any]:
        """Run the rounds from `number` to `end`.

        ============================  =========================================
        after an epoch's last round   a callback that may stop, an evaluation, the last epoch: nothing stays under way
        where a checkpoint is due     nothing stays under way; the state is written, and read again by workers
        where the lineage is long     nothing stays under way; the state goes over the driver
        else                          as many rounds stay under way as the executor takes
        ============================  =========================================

        `most_tasks`: how many may be remembered behind the state before its value replaces them.
        """
        trainer, executor, plan, monitoring = self._trainer, self._executor, self._plan, self._monitoring
        checkpoints, self._epoch_start = trainer.checkpoints, time.time()
        self._replace_state(self._initial_blocks() if self._saved is None else self._blocks_of(self._saved))
        exhausted = monitoring.is_exhausted(self._history, self._best_epoch)
        try:
            while number < end and not (exhausted or self._stopped):
                epoch, round_ = plan.place(number)
                left = most = plan.rounds(epoch) - round_
                if checkpoints is not None and checkpoints.every_rounds is not None:
                    most = min(left, checkpoints.every_rounds - number % checkpoints.every_rounds)
                n_rounds = self._submit(epoch, round_, most)
                number, ends_epoch = number + n_rounds, n_rounds == left
                evaluates = ends_epoch and monitoring.should_evaluate(epoch, plan.n_epochs)
                saves = checkpoints is not None and checkpoints.should_write(number, ends_epoch)
                cuts = executor.n_remembered - self._n_before >= most_tasks
                may_stop = epoch == plan.n_epochs - 1 or any(getattr(c, "may_stop", False) for c in trainer.callbacks)
                drains = evaluates or saves or cuts or (ends_epoch and may_stop)
                while len(self._pending) > (0 if drains else executor.max_pending_rounds):
                    self._wait_oldest(evaluates)
                if self._pending:
                    continue
                # Time has passed: a checkpoint may be due by now.
                if checkpoints is not None and (saves or checkpoints.should_write(number, ends_epoch)):
                    progress = Progress(*plan.place(number), self._history, self._best_epoch, self._seconds)
                    saved = checkpoints.write(self._record, progress, self._block, self._best)
                    trainer.emit(events.CheckpointWritten(self._stage.name, *progress[:2], place(saved.path)))
                    if executor.n_remembered:
                        self._replace_state(self._blocks_of(saved))
                elif cuts:
                    self._replace_state(blocks_from_driver(executor, plan.n_blocks, self._block))
                exhausted = monitoring.is_exhausted(self._history, self._best_epoch)
        finally:  # also if the run ends with an error
            for event in executor.drain_events():
                trainer.emit(event)
        n_epochs, name = len(self._history), self._stage.name
        best_epoch = n_epochs if self._best is None else self._best_epoch + 1
        reason = "patience" if exhausted else "callback" if self._stopped else "epochs"
        why, then = monitoring.reason_to_stop(reason, best_epoch, n_epochs)
        trainer.emit(events.StageEnded(name, self._record.number, n_epochs, reason, best_epoch, why, then))
        return StageResult(self._best if self._best is not None else self.state(last=True), self._history)

    def _initial_blocks(self) -> Blocks:
        executor, n, learner, initial = self._executor, self._plan.n_blocks, self._inputs.learner, self._stage.initial
        if initial is None or isinstance(initial, MadeByWorkers):
            make = partial(tasks.initial_block, learner) if initial is None else initial.block
            return [executor.submit(tasks.start_block, make, b, n) for b in range(n)]
        state = initial() if callable(initial) else initial
        return blocks_from_driver(executor, n, lambda b: state if n == 1 else learner.block_of_state(state, b, n))

    def _blocks_of(self, saved: SavedState) -> Blocks:
        """Have the workers read a checkpoint; where one does not see it, the driver reads and sends it."""
        executor, n = self._executor, self._plan.n_blocks
        visible = executor.run_on_all_workers(saved.is_visible)
        if not visible or not all(visible):
            return blocks_from_driver(executor, n, lambda b: saved.block(b, n))
        # No affinity: if all workers are lost, Dask would keep the task for one of those that were asked for.
        return [executor.submit(tasks.start_block, saved.block, b, n) for b in range(n)]

    def _replace_state(self, blocks: Blocks) -> None:
        """Go on from other handles of the last state; nothing is under way."""
        self._states, self._n_before = deque([blocks]), self._executor.n_remembered

    def _submit(self, epoch: int, first: int, most: int) -> int:
        """Submit the next round, or as many of the next `most` as one task should run; return how many."""
        if not self._pending:
            self._clock = time.perf_counter()
        bundle, most_rounds = self._sizes.lanes_and_rounds()
        numbers = range(first, first + min(most, most_rounds))
        rounds = list(itertools.takewhile(bool, (self._plan.lanes(epoch, number) for number in numbers)))
        blocks, timings = self.blocks, []
        if rounds:  # otherwise there are more rounds than documents
            blocks = submit_rounds(self._inputs, self._plan, self._executor, blocks, rounds, bundle)
            # Submitted before the tasks of later rounds, so that they run first, each where its block is.
            timings = [self._executor.submit(tasks.timings_behind, block) for block in blocks]
        n_rounds = max(1, len(rounds))
        self._states.append(blocks)
        self._pending.append((epoch, numbers[:n_rounds], timings))
        return n_rounds

    def _wait_oldest(self, evaluates: bool) -> None:
        """Wait for the first rounds under way, those of one task, and tell and record what they did."""
        trainer, executor, name = self._trainer, self._executor, self._stage.name
        epoch, rounds, handles = self._pending[0]
        timings = [timing for handle in handles for timing in executor.result(handle)]
        self._pending.popleft()
        self._states.popleft()
        for event in executor.drain_events():
            trainer.emit(event)
        before, self._clock = self._clock, time.perf_counter()
        seconds = self._clock - before
        self._seconds += seconds
        if timings:
            self._sizes.measured(len(rounds), timings, seconds)
        each = len(timings) // len(rounds)  # of several rounds all have a bundle's and an update's
        for i, round_ in enumerate(rounds):
            merge = 0.0
            for timing in timings[i * each : (i + 1) * each]:
                if timing.n_lanes:
                    trainer.emit(events.LanesEnded(name, epoch, round_, *timing))
                else:
                    merge += timing.merge
            trainer.emit(events.RoundEnded(name, epoch, round_, seconds / len(rounds), executor.n_workers, merge))
        if rounds[-1] < self._plan.rounds(epoch) - 1:
            return
        transfer, seconds = executor.transfer_seconds(self._epoch_start), self._seconds
        metrics = self._metrics() if evaluates and not self._pending else {}
        self._history.append({"epoch": epoch + 1, "seconds": seconds, **metrics})
        rate = self._plan.n_documents / max(seconds, 1e-9)
        self._stopped = trainer.emit(events.EpochEnded(name, epoch, seconds, rate, transfer, metrics))
        self._seconds, self._epoch_start = 0.0, time.time()  # transfers of evaluation belong to no epoch
        if self._monitoring.is_best(self._history, self._best_epoch):
            self._best = None  # otherwise there would be two
            self._best_epoch, self._best = epoch, self.state()

    def _metrics(self) -> dict[str, float]:
        executor, monitoring, blocks, metrics = self._executor, self._monitoring, self.blocks, dict[str, float]()
        if monitoring.training:
            metrics = evaluate(self._inputs, ranges_of_plan(self._plan), executor, blocks)
        if (corpus := monitoring.validation) is not None:
            scorer = cast(tasks.AnyWideLearner, monitoring.scorer(self._inputs.learner))
            held_out = self._inputs._replace(corpus=corpus, learner=scorer)
            validation = evaluate(held_out, ranges_to_score(corpus.n_documents), executor, blocks)
            metrics |= {f"{VALIDATION}{name}": value for name, value in validation.items()}
        return metrics

    def _block(self, number: int) -> Any:
        return self._executor.result(self.blocks[number]).value

    def state(self, *, last: bool = False) -> Any:
        """Return the state after the last round submitted, in one piece.

        `last`: nobody asks again, and each block is dropped when it has arrived.
        """
        left = dict(enumerate(self.blocks))
        if last:
            self.blocks.clear()
            self._states.clear()

        def get(number: int) -> Any:
            return self._executor.result(left.pop(number)).value

        return get(0) if len(left) == 1 else self._inputs.learner.gathered(len(left), get)
