"""Training in stages: epochs of rounds, with evaluation, checkpoints, early stopping; a fit can resume in any stage."""

import itertools
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import Any, Self, cast

from sdem_dist.compat import compile_target
from sdem_dist.documents import CorpusLike
from sdem_dist.engine import events, rounds
from sdem_dist.engine.checkpoint import Checkpoints, Json, Progress, SavedState, StageRecord, identity
from sdem_dist.engine.events import Callback, Event
from sdem_dist.engine.executor import Executor, Handle, cache_bytes, state_bytes
from sdem_dist.engine.plan import NOT_EVALUATED, VALIDATION, AnyStage, MadeByWorkers, Monitoring, Stage, StageResult
from sdem_dist.engine.rounds import AnyWideLearner, Blocks, TaskInput, TaskTiming
from sdem_dist.learners.protocol import AnyLearner, Prepared, State, Statistics
from sdem_dist.storage.buckets import place

# Without checkpoints, the driver fetches and resends the state after this many tasks, so that the scheduler can forget
# them; later if these tasks still take less memory than the state: large states should not pass the driver every round.
MANY_TASKS = 10_000
TASK_BYTES = 4096  # approximate bytes that Dask's scheduler keeps per task


@dataclass(eq=False)
class Trainer:
    """Run the stages of a fit, one after the other, on one executor; as a context manager, report its start and end."""

    executor: Executor
    documents: CorpusLike
    _: KW_ONLY
    monitoring: Monitoring = NOT_EVALUATED
    checkpoints: Checkpoints | None = None
    settings: Json = field(default_factory=dict)  # part of the run's identity: a resumed fit needs equal ones
    resume: bool = False
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        if self.checkpoints is not None and not self.resume:
            self.checkpoints.refuse_earlier_run()
        self._change: Callable[[AnyStage], AnyStage] = lambda stage: stage
        # Shared with the trainers that `changed` returns.
        self._numbers, self.compiled = itertools.count(), set[object]()
        # Arguments of `Checkpoints.write_result` for the last stage and the scorings after it. They are written when
        # the next stage begins; until then the stage keeps its checkpoints, and a resumed run repeats the scorings.
        self.unsaved: list[tuple[Json, int, Any, object]] = []

    def __enter__(self) -> Self:
        self.emit(events.RunStarted(self.executor.n_workers))
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.emit(*([events.RunEnded(next(self._numbers))] if kind is None else []))

    def changed(self, change: Callable[[AnyStage], AnyStage]) -> Self:
        """Return a trainer of the same fit that runs ``change(stage)`` for each stage."""
        other, before = copy(self), self._change
        other._change = lambda stage: before(change(stage))
        return other

    def emit(self, *latest: Event) -> bool:
        """Send events to all callbacks, those of workers first; return whether a callback that may stop asks to."""
        replies: list[object] = []
        for event in (*self.executor.drain_events(), *latest):
            replies = [callback(event) for callback in self.callbacks]
        return any(r is True and getattr(c, "may_stop", False) for r, c in zip(replies, self.callbacks, strict=False))

    def run(self, stage: Stage[State, Statistics, Prepared]) -> StageResult[State]:
        """Load a finished stage, continue from its checkpoint, or begin it; ModelError: of another run, too large."""
        stage = self._change(stage)
        run = StageRun(self, stage, next(self._numbers))
        checkpoints, record, progress, saved = self.checkpoints, run.record, Progress(), None
        if checkpoints is not None:
            for result in self.unsaved:
                checkpoints.write_result(*result)
            self.unsaved.clear()
            checkpoints.remove(range(record.number))
            if self.resume:
                if (done := checkpoints.result(run.finished, record.number, record.state_type)) is not None:
                    return StageResult(*done)
                if (latest := checkpoints.latest(record, stage.plan.n_epochs)) is not None:
                    progress, saved, run.best = latest
                del latest  # it refers to a state, which must not be kept twice
        ended = run.run_rounds(progress, saved)
        if checkpoints is not None:
            self.unsaved.append((run.finished, record.number, *ended))
        return ended

    def score(self, name: str, learner: AnyLearner, state: Any) -> dict[str, float]:
        """Return the metrics of an undivided state over all documents of the fit; `name` is displayed."""
        number, checkpoints, executor = next(self._numbers), self.checkpoints, self.executor
        run = identity(stage=name, learner=learner, **self.settings)
        if checkpoints is not None and self.resume and (done := checkpoints.result(run, number)) is not None:
            return dict(done[1])
        started, budget = time.perf_counter(), cache_bytes(state_bytes(state), 1, executor.memory_bytes())
        inputs = TaskInput(cast(AnyWideLearner, learner), self.documents, budget)
        blocks = [executor.put(rounds.TaskResult(state))]
        metrics = rounds.evaluate(inputs, rounds.ranges_to_score(self.documents.n_documents), executor, blocks)
        self.emit(events.Scored(name, number, time.perf_counter() - started, metrics))
        if checkpoints is not None:
            self.unsaved.append((run, number, None, metrics))
        return metrics


class StageRun:
    """A running stage: rounds that are submitted but not known to have ended, and the results of ended rounds."""

    def __init__(self, trainer: Trainer, stage: AnyStage, number: int) -> None:
        self._trainer, self._stage, self._plan, self._executor = trainer, stage, stage.plan, trainer.executor
        plan, learner, n = stage.plan, cast(AnyWideLearner, stage.learner), stage.plan.n_blocks
        first = rounds.start_block(learner, None, 0, n).value
        size, n_classes = n * state_bytes(first), getattr(getattr(learner, "model", None), "n_classes", 0)
        budget = cache_bytes(size, n, trainer.executor.memory_bytes(), n_classes)
        self._inputs = TaskInput(learner, trainer.documents if stage.corpus is None else stage.corpus, budget)
        # A resumed run may have more epochs, but only in its last stage.
        settings = {name: value for name, value in asdict(plan).items() if name != "n_epochs"}
        run = identity(stage=stage.name, learner=learner, plan=settings, **trainer.settings)
        self.finished, self.record = {**run, "n_epochs": plan.n_epochs}, StageRecord(number, run, type(first), n)
        monitoring = stage.monitoring or (trainer.monitoring if stage.monitored else NOT_EVALUATED)
        if stage.reweighed is not None and monitoring.validation is not None:
            monitoring = replace(monitoring, validation=stage.reweighed(monitoring.validation))
        self._monitoring, self._most_tasks = monitoring, max(MANY_TASKS, size // TASK_BYTES)
        self.best: Any = None  # the undivided state of the best epoch
        self._sizes, self._stopped, self._clock = rounds.TaskSizes(plan, trainer.executor), False, 0.0
        # Submitted rounds: epoch, numbers, and timings per block (none for a round without documents).
        self._pending: deque[tuple[int, range, list[Handle[tuple[TaskTiming, ...]]]]] = deque()
        # The last state, and the state before each pending round, from which results of lost workers are recomputed.
        self._states: deque[Blocks] = deque()

    def run_rounds(self, progress: Progress, saved: SavedState | None) -> StageResult[Any]:
        """Run the remaining rounds, from a saved state if there is one. The table lists how many stay submitted.

        ============================  =========================================
        after an epoch's last round   none, if a callback may stop, an evaluation follows, or the epoch is the last
        if a checkpoint is due        none; the state is written, and workers read it again
        if the lineage is long        none; the driver fetches the state and sends it again
        otherwise                     `max_pending_rounds` of the executor
        ============================  =========================================
        """
        trainer, executor, plan, monitoring = self._trainer, self._executor, self._plan, self._monitoring
        checkpoints, name, n, number = trainer.checkpoints, self._stage.name, plan.n_blocks, self._begin(progress)

        def get(block: int) -> Any:
            return executor.result(self._states[-1][block]).value

        self._states.append(self._first_blocks(saved))
        n_before, end = executor.n_remembered, plan.number(plan.n_epochs, 0)
        while number < end and not (self._stopped or monitoring.is_exhausted(self._history, self._best_epoch)):
            epoch, first = plan.place(number)
            most = left = plan.rounds(epoch) - first
            if checkpoints is not None and checkpoints.every_rounds is not None:
                most = min(left, checkpoints.every_rounds - number % checkpoints.every_rounds)
            # Submit the next round, or as many as one task should run.
            if not self._pending:
                self._clock = time.perf_counter()
            bundle, most_together = self._sizes.lanes_and_rounds()
            of_rounds = (plan.lanes(epoch, first + i) for i in range(min(most, most_together)))
            lanes = list(itertools.takewhile(bool, of_rounds))
            blocks, timings, n_rounds = self._states[-1], [], max(1, len(lanes))
            if lanes:  # a round is empty if there are more rounds than documents
                blocks = rounds.submit_rounds(self._inputs, plan, executor, blocks, lanes, bundle)
                # Submitted before the tasks of later rounds, so that they run first, each where its block is: only
                # timings are sent to the driver.
                timings = [executor.submit(getattr, block, "timings") for block in blocks]
            self._states.append(blocks)
            self._pending.append((epoch, range(first, first + n_rounds), timings))
            number, ends_epoch = number + n_rounds, n_rounds == left
            evaluates = ends_epoch and monitoring.should_evaluate(epoch, plan.n_epochs)
            saves = checkpoints is not None and checkpoints.should_write(number, ends_epoch)
            cuts = executor.n_remembered - n_before >= self._most_tasks
            may_stop = epoch == plan.n_epochs - 1 or any(getattr(c, "may_stop", False) for c in trainer.callbacks)
            drains = evaluates or saves or cuts or (ends_epoch and may_stop)
            del blocks, timings  # no reference may outlive those of `_states` and `_pending`
            while len(self._pending) > (0 if drains else executor.max_pending_rounds):
                self._wait_oldest(evaluates)
            if self._pending:
                continue
            # A checkpoint with `every_seconds` may have become due while waiting.
            if checkpoints is not None and (saves or checkpoints.should_write(number, ends_epoch)):
                progress = Progress(*plan.place(number), self._history, self._best_epoch, self._seconds)
                saved = checkpoints.write(self.record, progress, get, self.best)
                trainer.emit(events.CheckpointWritten(name, *progress[:2], place(saved.path)))
                if executor.n_remembered:
                    self._states, n_before = deque([self._first_blocks(saved)]), executor.n_remembered
            elif cuts:
                self._states, n_before = deque([rounds.blocks_from_driver(executor, n, get)]), executor.n_remembered
        n_epochs = len(self._history)
        best_epoch = n_epochs if self.best is None else self._best_epoch + 1
        reason, why = ("callback", "a callback stopped it") if self._stopped else ("epochs", "")
        if monitoring.is_exhausted(self._history, self._best_epoch):
            lower = f"{100 * monitoring.improvement:.0f} % lower" if monitoring.improvement else "lower"
            reason, why = "patience", f"the held-out loss is not {lower} than after epoch {best_epoch}"
        then = f"; keeping epoch {best_epoch}" if why and not monitoring.improvement else ""
        trainer.emit(events.StageEnded(name, self.record.number, n_epochs, reason, best_epoch, why, then))
        return StageResult(self.best if self.best is not None else self._state(last=True), self._history)

    def _begin(self, progress: Progress) -> int:
        """Load the history, emit StageStarted, let all workers compile; return the number of the first round."""
        trainer, stage, plan, monitoring = self._trainer, self._stage, self._plan, self._monitoring
        self._best_epoch, self._seconds, self._history = progress.best_epoch, progress.seconds, [*progress.history]
        last = len(self._history) - 1
        is_planned = last < 0 or last == self._best_epoch or monitoring.should_evaluate(last, plan.n_epochs)
        if monitoring.every > 0 and not is_planned:  # evaluated only as the last epoch of the earlier run
            self._history[-1] = {name: self._history[-1][name] for name in ("epoch", "seconds")}
        metrics = (monitoring.main_metrics or (monitoring.monitor,)) if stage.monitored else ()
        sizes = plan.n_epochs, plan.n_rounds, plan.n_lanes, self._executor.n_workers
        first_round = plan.number(progress.epoch, progress.round)
        begins = *plan.place(first_round), first_round, plan.number(plan.n_epochs, 0)
        trainer.emit(events.StageStarted(stage.name, self.record.number, stage.monitored, metrics, *sizes, *begins))
        if (kernels := rounds.kernels_of(stage.learner)) not in trainer.compiled:  # once per fit, in every process
            started = time.perf_counter()
            targets = self._executor.run_on_all_workers(rounds.compile_kernels, self._inputs, plan.n_blocks)
            if not trainer.compiled and {*targets} - {compile_target()}:
                warnings.warn(
                    "a worker compiles its kernels for a different processor, or its NumPy uses AVX-512, so the last bits of "
                    "the model may differ from those of models trained elsewhere. `sdem doctor` lists the workers. For "
                    "equal but slower results, set NUMBA_CPU_NAME=generic and NPY_DISABLE_CPU_FEATURES on all workers",
                    stacklevel=2,
                )
            trainer.compiled.add(kernels)
            trainer.emit(events.Compiled(stage.name, time.perf_counter() - started))
        return first_round

    def _first_blocks(self, saved: SavedState | None) -> Blocks:
        """Let the workers read or make the state; otherwise the driver sends it."""
        executor, n, learner, initial = self._executor, self._plan.n_blocks, self._inputs.learner, self._stage.initial
        if saved is not None:
            visible = executor.run_on_all_workers(saved.is_visible)
            if not visible or not all(visible):
                return rounds.blocks_from_driver(executor, n, lambda b: saved.block(b, n))
        elif initial is not None and not isinstance(initial, MadeByWorkers):
            state, cut = initial() if callable(initial) else initial, learner.block_of_state if n > 1 else None
            return rounds.blocks_from_driver(executor, n, lambda b: state if cut is None else cut(state, b, n))
        make = getattr(saved or initial, "block", None)
        # No affinity: if all workers were lost, Dask would keep the task for the preferred one.
        return [executor.submit(rounds.start_block, learner, make, b, n) for b in range(n)]

    def _wait_oldest(self, evaluates: bool) -> None:
        """Wait for the oldest submitted rounds; emit their events and record their timings and metrics."""
        trainer, executor, name, monitoring = self._trainer, self._executor, self._stage.name, self._monitoring
        epoch, numbers, handles = self._pending[0]
        timings = [timing for handle in handles for timing in executor.result(handle)]
        self._pending.popleft()
        self._states.popleft()
        before, self._clock = self._clock, time.perf_counter()
        seconds = self._clock - before
        self._seconds += seconds
        if timings:
            self._sizes.measured(len(numbers), timings, seconds)
        each = len(timings) // len(numbers)  # several rounds in one task have two timings each
        for i, round_ in enumerate(numbers):
            own = timings[i * each : (i + 1) * each]
            for timing in own:
                if timing.n_lanes:
                    trainer.emit(events.LanesEnded(name, epoch, round_, *timing))
            merge = sum((timing.merge for timing in own if not timing.n_lanes), 0.0)
            trainer.emit(events.RoundEnded(name, epoch, round_, seconds / len(numbers), executor.n_workers, merge))
        if numbers[-1] < self._plan.rounds(epoch) - 1:
            return
        seconds, metrics, self._seconds = self._seconds, dict[str, float](), 0.0
        if evaluates and not self._pending:
            blocks, corpus = self._states[-1], monitoring.validation
            if monitoring.training:
                metrics = rounds.evaluate(self._inputs, rounds.ranges_of_plan(self._plan), executor, blocks)
            if corpus is not None:
                scorer = cast(AnyWideLearner, monitoring.scorer(self._inputs.learner))
                held_out = self._inputs._replace(corpus=corpus, learner=scorer)
                validation = rounds.evaluate(held_out, rounds.ranges_to_score(corpus.n_documents), executor, blocks)
                metrics |= {f"{VALIDATION}{metric}": value for metric, value in validation.items()}
            del blocks
        self._history.append({"epoch": epoch + 1, "seconds": seconds, **metrics})
        rate = self._plan.n_documents / max(seconds, 1e-9)
        self._stopped = trainer.emit(events.EpochEnded(name, epoch, seconds, rate, metrics))
        if monitoring.is_best(self._history, self._best_epoch):
            self.best = None  # frees the old state before the new one is fetched
            self._best_epoch, self.best = epoch, self._state()

    def _state(self, *, last: bool = False) -> Any:
        """Return the last state, undivided; `last`: it is not needed again, so each block is freed on arrival."""
        left = dict(enumerate(self._states[-1]))
        if last:
            self._states[-1].clear()
            self._states.clear()

        def get(number: int) -> Any:
            return self._executor.result(left.pop(number)).value

        return get(0) if len(left) == 1 else self._inputs.learner.gathered(len(left), get)
