"""The loop: plan, map over lanes, reduce by a fixed tree, update, broadcast; evaluate, record, checkpoint, stop."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sdem_dist.engine import tasks
from sdem_dist.engine.checkpoint import Checkpoints, Progress
from sdem_dist.engine.events import Callback, CheckpointWritten, EpochEnded, RoundEnded, RunEnded, RunStarted
from sdem_dist.engine.executor import Executor
from sdem_dist.engine.plan import Plan, cut
from sdem_dist.errors import ModelError
from sdem_dist.evaluation import finish
from sdem_dist.learners.protocol import Learner

EVALUATION_RANGE = 16_384
"""Documents that one task scores, about."""
BUNDLED_LANE = 2_000
"""Lanes of fewer documents are bundled into tasks."""

Group = tuple[int, list[tuple[int, int]]]
"""Affinity and ranges of documents of a task that scores."""


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
    run: str = "",
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
    run : str
        Fingerprint of what determines the run, kept in checkpoints.
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

    state_value = learner.init() if initial is None else initial
    state_type = type(state_value)
    progress = Progress(epoch=0, round=0, history=[], best_epoch=-1, seconds=0.0)
    best: Any = None
    if checkpoints is not None and resume and (found := checkpoints.latest(run, state_type)) is not None:
        progress, state_value, best = found
        if progress.epoch > plan.n_epochs:
            raise ModelError(
                f"the newest checkpoint in {checkpoints.folder} has run {progress.epoch} epochs, more than the "
                f"{plan.n_epochs} asked for: ask for as many, or choose another checkpoint folder"
            )
    state = executor.put(state_value)
    history, best_epoch, stopped = list(progress.history), progress.best_epoch, False
    emit(RunStarted(plan.n_epochs, plan.n_rounds, plan.n_lanes, executor.n_workers, progress.epoch))
    stopped = _exhausted(history, best_epoch, monitoring)
    for epoch in range(progress.epoch, plan.n_epochs):
        if stopped:
            break
        first = progress.round if epoch == progress.epoch else 0
        seconds = progress.seconds if first else 0.0
        for round_ in range(first, plan.n_rounds):
            started = time.perf_counter()
            previous, state = state, _submit_round(learner, corpus, plan, executor, state, epoch, round_)
            executor.wait(state)
            del previous  # kept until now: what a lost worker held is recomputed from it, not from the beginning
            seconds += time.perf_counter() - started
            emit(RoundEnded(epoch, round_))
            last = round_ == plan.n_rounds - 1
            if checkpoints is not None and not last and checkpoints.due(epoch * plan.n_rounds + round_ + 1, False):
                at = Progress(epoch, round_ + 1, history, best_epoch, seconds)
                state = _publish(executor, checkpoints, run, at, state, best, emit)
        metrics = _evaluate(learner, corpus, plan, executor, state, epoch, monitoring)
        history.append({"epoch": epoch + 1, "seconds": seconds, **metrics})
        emit(EpochEnded(epoch, seconds, plan.n_documents / max(seconds, 1e-9), metrics))
        watched = f"validation_{monitoring.monitor}"
        if monitoring.patience is not None and watched in metrics:
            if best_epoch < 0 or metrics[watched] < history[best_epoch][watched]:
                best_epoch, best = epoch, executor.result(state)
            stopped = _exhausted(history, best_epoch, monitoring)
        if checkpoints is not None and checkpoints.due((epoch + 1) * plan.n_rounds, True):
            at = Progress(epoch + 1, 0, history, best_epoch, 0.0)
            state = _publish(executor, checkpoints, run, at, state, best, emit)
    emit(RunEnded(len(history), "patience" if stopped else "epochs"))
    return Result(best if best is not None else executor.result(state), history)


def _submit_round(
    learner: Learner, corpus: tasks.CorpusLike, plan: Plan, executor: Executor, state: Any, epoch: int, round_: int
) -> Any:
    lanes = plan.lanes(epoch, round_)
    if not lanes:  # more rounds than documents
        return state
    # A bundle is a whole subtree of the reduction, or one leaf: either way the same bits.
    bundle = _bundle(plan)
    level = [
        executor.submit(
            tasks.map_lanes, learner, corpus, state, lanes[i : i + bundle], affinity=lanes[i].lane // bundle
        )
        for i in range(0, len(lanes), bundle)
    ]
    return executor.submit(tasks.update, learner, state, *_reduce(executor, tasks.combine, level, learner))


def _bundle(plan: Plan) -> int:
    return tasks.TREE_ARITY if plan.lane_documents < BUNDLED_LANE else 1


def _reduce(executor: Executor, function: Any, level: list[Any], *leading: Any) -> list[Any]:
    """Reduce to one last group by a tree whose shape depends on the number of parts only."""
    while len(level) > tasks.TREE_ARITY:
        groups = [level[i : i + tasks.TREE_ARITY] for i in range(0, len(level), tasks.TREE_ARITY)]
        level = [executor.submit(function, *leading, *group) for group in groups]
    return level


def _evaluate(
    learner: Learner,
    corpus: tasks.CorpusLike,
    plan: Plan,
    executor: Executor,
    state: Any,
    epoch: int,
    monitoring: Monitoring,
) -> dict[str, float]:
    last = epoch == plan.n_epochs - 1
    if not monitoring.every or ((epoch + 1) % monitoring.every and not last):
        return {}
    metrics = evaluate(learner, corpus, _evaluation_groups(plan), executor, state)
    if monitoring.validation is not None:
        groups = [(i, [r]) for i, r in enumerate(cut(0, monitoring.n_validation, EVALUATION_RANGE))]
        validation = evaluate(learner, monitoring.validation, groups, executor, state)
        metrics |= {f"validation_{name}": value for name, value in validation.items()}
    return metrics


def _evaluation_groups(plan: Plan) -> list[Group]:
    """Return what tasks score of the training corpus: the ranges that `map_lanes` has cached, where it has them."""
    bundle, groups = _bundle(plan), []
    for first in range(0, plan.n_lanes, bundle):
        lanes = range(first, min(first + bundle, plan.n_lanes))
        ranges = [r for lane in lanes for r in plan.ranges(lane) if r[1] > r[0]]
        size = max(1, EVALUATION_RANGE // max(plan.lane_documents, 1))
        groups += [(first // bundle, ranges[i : i + size]) for i in range(0, len(ranges), size)]
    return groups


def evaluate(
    learner: Learner, corpus: tasks.CorpusLike, groups: Sequence[Group], executor: Executor, state: Any
) -> dict[str, float]:
    """Return the metrics of a state over documents, see `sdem_dist.evaluation.finish`.

    Parameters
    ----------
    groups : sequence of (affinity, ranges of documents)
        A task each.
    state : handle of the executor
    """
    level = [
        executor.submit(tasks.evaluate, learner, corpus, state, ranges, affinity=affinity)
        for affinity, ranges in groups
    ]
    return finish(tasks.add(*(executor.result(part) for part in _reduce(executor, tasks.add, level))))


def _exhausted(history: list[dict[str, float]], best_epoch: int, monitoring: Monitoring) -> bool:
    if monitoring.patience is None or best_epoch < 0:
        return False
    watched = f"validation_{monitoring.monitor}"
    return sum(watched in entry for entry in history[best_epoch + 1 :]) >= monitoring.patience


def _publish(
    executor: Executor, checkpoints: Checkpoints, run: str, progress: Progress, state: Any, best: Any, emit: Any
) -> Any:
    """Write a checkpoint and return a fresh handle to its state: the chain of tasks behind it is cut here."""
    value = executor.result(state)
    emit(CheckpointWritten(progress.epoch, progress.round, checkpoints.write(run, progress, value, best)))
    return executor.put(value)
