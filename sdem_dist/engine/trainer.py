"""The loop: plan, map over lanes, reduce by a fixed tree, update, broadcast; evaluate, record, checkpoint, stop."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sdem_dist.counted import counted
from sdem_dist.engine import anchors, tasks
from sdem_dist.engine.checkpoint import Checkpoints, Progress, Saved
from sdem_dist.engine.events import (
    Callback,
    CheckpointWritten,
    Compiled,
    EpochEnded,
    LanesEnded,
    RoundEnded,
    RunEnded,
    RunStarted,
)
from sdem_dist.engine.executor import Executor
from sdem_dist.engine.memory import cache_bytes, check_state, state_bytes
from sdem_dist.engine.plan import Plan
from sdem_dist.engine.rounds import Ended, Flight
from sdem_dist.engine.scoring import evaluate, groups_of, groups_of_plan
from sdem_dist.errors import ModelError
from sdem_dist.learners.protocol import Learner

MANY_TASKS = 20_000
"""Without checkpoints, a state's value takes the place of the tasks behind it when there are so many, or more if they are
still lighter than the value."""
TASK_BYTES = 4096
"""What Dask's scheduler keeps of a task, about."""


class Result(NamedTuple):
    """The outcome of `train`."""

    state: Any
    history: list[dict[str, float]]
    """One entry an epoch."""


@dataclass(frozen=True)
class Monitoring:
    """What is evaluated and when to stop.

    Attributes
    ----------
    every : int
        Evaluate after every so many epochs and after the last; 0 never.
    validation : corpus or None
        Evaluated too, its metrics prefixed with ``validation_``.
    n_validation : int
        Its documents.
    monitor : str
        Metric of the validation corpus that has to fall.
    patience : int or None
        Stop after so many evaluations without a new lowest value, and return the state of the lowest.
    """

    every: int = 1
    validation: tasks.CorpusLike | None = None
    n_validation: int = 0
    monitor: str = "ncll"
    patience: int | None = None


def train(
    learner: Learner,
    corpus: tasks.CorpusLike,
    plan: Plan,
    executor: Executor,
    *,
    monitoring: Monitoring,
    initial: Any = None,
    checkpoints: Checkpoints | None = None,
    run: Any = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Train a learner on a corpus.

    Parameters
    ----------
    learner : Learner
    corpus : corpus on disk or in memory
    plan : Plan
    executor : Executor
    monitoring : Monitoring
    initial : state, optional
        Where to start; None: ``learner.init()``.
    checkpoints : Checkpoints, optional
    run : JSON value
        What determines the run, kept in checkpoints; see `sdem_dist.engine.identity`.
    resume : bool
        Go on from the newest checkpoint, if there is one.
    callbacks : sequence of callables that take an event

    Returns
    -------
    Result
    """

    def emit(event: Any) -> None:
        for callback in callbacks:
            callback(event)

    n = plan.n_blocks
    first = tasks.initial_block(learner, 0, n).value
    state_type, size, memory = type(first), n * state_bytes(first), executor.memory_bytes
    del first
    check_state(size, n, memory)
    progress = Progress(epoch=0, round=0, history=[], best_epoch=-1, seconds=0.0)
    saved: Saved | None = None
    best: Any = None
    if checkpoints is not None and resume and (found := checkpoints.latest(run, state_type, n)) is not None:
        progress, saved, best = found
        del found  # a wide state is not to be kept twice
        if progress.epoch > plan.n_epochs:
            raise ModelError(
                f"the newest checkpoint in {checkpoints.folder} has run {counted(progress.epoch, 'epoch')}, more than the "
                f"{plan.n_epochs} asked for: ask for as many, or choose another checkpoint folder"
            )
    source = tasks.Source(learner, corpus, cache_bytes(size, n, memory))
    if saved is not None:
        states = anchors.from_checkpoint(executor, saved)
    elif initial is not None:
        states = anchors.from_state(executor, learner, initial, n)
    else:
        states = anchors.from_nothing(executor, learner, n)
    flight = Flight(source, plan, executor, states, max(MANY_TASKS, size // TASK_BYTES))
    del initial, states  # what has a name here is never let go
    history, best_epoch, seconds = list(progress.history), progress.best_epoch, progress.seconds
    emit(RunStarted(plan.n_epochs, plan.n_rounds, plan.n_lanes, executor.n_workers, progress.epoch, progress.round))
    started = time.perf_counter()
    executor.everywhere(tasks.compile_kernels, source, plan.n_blocks)
    emit(Compiled(time.perf_counter() - started))
    stopped = _exhausted(history, best_epoch, monitoring)
    started = time.perf_counter()
    with _all_told(executor, emit):
        for number in range(progress.epoch * plan.n_rounds + progress.round, plan.n_epochs * plan.n_rounds):
            if stopped:
                break
            epoch, round_ = divmod(number, plan.n_rounds)
            flight.submit(epoch, round_)
            last_of_epoch = round_ == plan.n_rounds - 1
            last = last_of_epoch and epoch == plan.n_epochs - 1
            scores = last_of_epoch and monitoring.every > 0 and (last or (epoch + 1) % monitoring.every == 0)
            saves = checkpoints is not None and checkpoints.due(number + 1, last_of_epoch)
            burdened = flight.burdened
            while len(flight) > (0 if last or scores or saves or burdened else executor.rounds_ahead):
                ended = flight.land()
                for event in executor.noticed():
                    emit(event)
                before, started = started, time.perf_counter()
                seconds += started - before
                _tell(emit, ended, started - before, executor.n_workers)
                if ended.round < plan.n_rounds - 1:
                    continue
                moved = executor.transfer_seconds()
                metrics = _score(source, plan, executor, flight.blocks, monitoring) if scores and not flight else {}
                history.append({"epoch": ended.epoch + 1, "seconds": seconds, **metrics})
                rate = plan.n_documents / max(seconds, 1e-9)
                emit(EpochEnded(ended.epoch, seconds, rate, moved, metrics))
                executor.transfer_seconds()  # what evaluation moved belongs to no epoch
                seconds, started = 0.0, time.perf_counter()
                watched = metrics.get(f"validation_{monitoring.monitor}")
                if monitoring.patience is not None and watched is not None:
                    if best_epoch < 0 or watched < history[best_epoch][f"validation_{monitoring.monitor}"]:
                        best = None  # or there would be two
                        best_epoch, best = ended.epoch, flight.value()
                    stopped = _exhausted(history, best_epoch, monitoring)
            due = checkpoints is not None and (saves or checkpoints.due(number + 1, last_of_epoch))
            if flight or not (due or burdened):
                continue
            if checkpoints is not None and due:
                at = Progress(*divmod(number + 1, plan.n_rounds), history, best_epoch, seconds)
                saved = checkpoints.write(run, at, state_type, n, flight.block, best)
                emit(CheckpointWritten(at.epoch, at.round, Path(saved.path)))
                if executor.n_remembered:
                    flight.replace(anchors.from_checkpoint(executor, saved))
            else:
                flight.replace(anchors.from_driver(executor, n, flight.block))
            started = time.perf_counter()
    kept = len(history) if best is None else best_epoch + 1
    emit(RunEnded(len(history), "patience" if stopped else "epochs", kept))
    return Result(best if best is not None else flight.take(), history)


@contextmanager
def _all_told(executor: Executor, emit: Callback) -> Iterator[None]:
    """Emit what has happened to workers and tasks also where a run ends with an error."""
    try:
        yield
    finally:
        for event in executor.noticed():
            emit(event)


def _tell(emit: Callback, ended: Ended, seconds: float, n_workers: int) -> None:
    for work in ended.work:
        if work.n_lanes:
            emit(LanesEnded(ended.epoch, ended.round, *work))
    merge = sum(w.merge for w in ended.work if not w.n_lanes)
    emit(RoundEnded(ended.epoch, ended.round, seconds, n_workers, merge))


def _score(
    source: tasks.Source, plan: Plan, executor: Executor, blocks: list[Any], monitoring: Monitoring
) -> dict[str, float]:
    metrics = evaluate(source, groups_of_plan(plan), executor, blocks)
    if monitoring.validation is not None:
        held_out = source._replace(corpus=monitoring.validation)
        validation = evaluate(held_out, groups_of(monitoring.n_validation), executor, blocks)
        metrics |= {f"validation_{name}": value for name, value in validation.items()}
    return metrics


def _exhausted(history: list[dict[str, float]], best_epoch: int, monitoring: Monitoring) -> bool:
    if monitoring.patience is None or best_epoch < 0:
        return False
    watched = f"validation_{monitoring.monitor}"
    return sum(watched in entry for entry in history[best_epoch + 1 :]) >= monitoring.patience
