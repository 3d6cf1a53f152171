"""A whole fit: the stages that a generator yields, on one executor, kept so that it can be resumed in any of them."""

import time
import uuid
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from sdem_dist.compat import compile_target, target_difference
from sdem_dist.documents import CorpusLike
from sdem_dist.engine import tasks
from sdem_dist.engine.checkpoint import Checkpoints
from sdem_dist.engine.claims import Claim, release
from sdem_dist.engine.events import Callback, Compiled, Event, RunEnded, RunStarted, Scored
from sdem_dist.engine.executor import Executor
from sdem_dist.engine.identity import Json, identity
from sdem_dist.engine.memory import check_state, needed_bytes, state_bytes
from sdem_dist.engine.monitoring import UNSEEN, Monitoring
from sdem_dist.engine.scoring import evaluate, groups_of
from sdem_dist.engine.stages import Outcome, Scoring, Stage, StageResult, Stages
from sdem_dist.engine.training import Kept, Training
from sdem_dist.learners.protocol import Prepared, State, Statistics


def run_stages(
    stages: Stages[Outcome],
    corpus: CorpusLike,
    executor: Executor,
    *,
    monitoring: Monitoring = UNSEEN,
    checkpoints: Checkpoints | None = None,
    settings: Json | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Outcome:
    """Run the stages of a fit and return what their generator returns.

    A stage that an earlier run finished is not run again: the generator gets the result that the run left in the
    checkpoint folder. A result is left there when the next stage begins. Until then the stage's checkpoints stay, and a
    scoring after the stage is done again by a resumed run.

    `stages`: see `sdem_dist.engine.stages`.
    `executor`: stays open.
    `monitoring`: of stages that are monitored.
    `checkpoints`: None: nothing is written.
    `settings`: what must be equal for a resume, beside each stage's learner and its plan without `n_epochs`.
    `resume`: go on from what the checkpoint folder holds, if it holds anything.
    Raises ModelError: a checkpoint is damaged, belongs to another run (`OtherRunError`), or has run more epochs than
    are asked for; or the folder holds an earlier run and `resume` is false; or a state is too large for its workers.
    """
    if checkpoints is not None and not resume:
        checkpoints.refuse_earlier_run()
    run = _Run(corpus, executor, monitoring, checkpoints, settings or {}, resume, callbacks)
    try:
        outcome = run.follow(stages)
        executor.everywhere(release, run.name)
    finally:
        release(run.name)
        stages.close()
    return outcome


class _Run:
    def __init__(
        self,
        corpus: CorpusLike,
        executor: Executor,
        monitoring: Monitoring,
        checkpoints: Checkpoints | None,
        settings: Json,
        resume: bool,
        callbacks: Sequence[Callback],
    ) -> None:
        self.name = uuid.uuid4().hex
        self._corpus, self._executor, self._monitoring = corpus, executor, monitoring
        self._checkpoints, self._settings, self._resume, self._callbacks = checkpoints, settings, resume, callbacks
        self._compiled: set[object] = set()
        # (identity, number, result) of the last stage and the scorings after it, not yet in the folder.
        self._unkept: list[tuple[Json, int, StageResult[Any] | dict[str, float]]] = []

    def follow(self, stages: Stages[Outcome]) -> Outcome:
        self._emit(RunStarted(self._executor.n_workers))
        number, result = 0, None
        while True:
            try:
                asked = stages.send(result)
            except StopIteration as end:
                self._emit(RunEnded(number))
                outcome: Outcome = end.value
                return outcome
            result = None  # the generator has it now; keeping it here, too, could double the memory
            result = self._trained(asked, number) if isinstance(asked, Stage) else self._scored(asked, number)
            del asked  # with its start
            number += 1

    def _emit(self, event: Event) -> bool:
        """Tell every callback, and return whether one that may ask to stop does."""
        answers = [(callback(event), getattr(callback, "may_stop", False)) for callback in self._callbacks]
        return any(answer is True and may for answer, may in answers)

    def _trained(self, stage: Stage[State, Statistics, Prepared], number: int) -> StageResult[State]:
        n, plan, kept = stage.plan.n_blocks, asdict(stage.plan), None
        n_epochs = plan.pop("n_epochs")  # a resumed run may go further, but only in its last stage
        first = tasks.initial_block(stage.learner, 0, n).value
        state_type, size, memory = type(first), n * state_bytes(first), self._executor.memory_bytes
        del first
        check_state(size, n, memory, getattr(getattr(stage.learner, "model", None), "n_classes", 0))
        if self._checkpoints is not None:
            self._keep_results(number)
            run = self._identity(stage, plan=plan)
            finished = {**run, "n_epochs": n_epochs}
            if self._resume and (done := self._checkpoints.stage_result(finished, number, state_type)) is not None:
                return done
            kept = Kept(self._checkpoints, run, state_type, n)
        corpus = self._corpus if stage.corpus is None else stage.corpus
        feed = tasks.Feed(stage.learner, corpus, Claim(self.name, needed_bytes(size, n), memory))
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
            self._unkept.append((finished, number, result))
        return result

    def _scored(self, scoring: Scoring[State, Statistics, Prepared], number: int) -> dict[str, float]:
        run, checkpoints = self._identity(scoring), self._checkpoints
        if checkpoints is not None and self._resume and (done := checkpoints.metrics(run, number)) is not None:
            return done
        size, memory = state_bytes(scoring.state), self._executor.memory_bytes
        feed = tasks.Feed(scoring.learner, self._corpus, Claim(self.name, needed_bytes(size, 1), memory))
        started = time.perf_counter()
        block = self._executor.put(tasks.Timed(scoring.state))
        metrics = evaluate(feed, groups_of(self._corpus.n_documents), self._executor, [block])
        self._emit(Scored(scoring.name, number, time.perf_counter() - started, metrics))
        if checkpoints is not None:
            self._unkept.append((run, number, metrics))
        return metrics

    def _keep_results(self, number: int) -> None:
        """Keep the results before stage `number`, which begins; checkpoints of earlier stages are then not needed."""
        assert self._checkpoints is not None
        for run, before, result in self._unkept:
            self._checkpoints.keep_result(run, before, result)
        self._unkept.clear()
        self._checkpoints.remove_before(number)

    def _identity(
        self, asked: Stage[State, Statistics, Prepared] | Scoring[State, Statistics, Prepared], **more: object
    ) -> Json:
        return identity(stage=asked.name, learner=asked.learner, **more, **self._settings)

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
