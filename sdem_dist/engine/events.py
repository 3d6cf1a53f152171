"""Events of a fit, which callbacks receive."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec


class Event(msgspec.Struct, frozen=True):
    """Base class of events; epochs, rounds, lanes and stages are counted from 0."""


class RunStarted(Event, frozen=True):
    """A fit starts, or resumes from its checkpoint folder."""

    n_workers: int  #: Tasks that can run at once.


class StageStarted(Event, frozen=True):
    """A stage starts, or resumes from a checkpoint."""

    stage: str
    number: int  #: Its place in the fit. Stages that an earlier run finished count, but send no event again.
    monitored: bool  #: Whether its history is that of the fit.
    main_metrics: tuple[str, ...]  #: Names of the metrics that people want to see while it runs.
    n_epochs: int
    n_rounds: int  #: Rounds an epoch; the first epoch may have more.
    n_lanes: int
    n_workers: int
    epoch: int  #: First epoch that will be run.
    round: int  #: First round of it that will be run.
    done: int  #: Rounds that were run before, of all epochs.
    total: int  #: Rounds of all epochs.


class ShardsLeftOut(Event, frozen=True):
    """Damaged shards are skipped (`skip_damaged`); precedes `RunStarted`."""

    n_shards: int
    n_documents: int
    problems: tuple[str, ...]  #: What is wrong with each.


class Compiled(Event, frozen=True):
    """Every process has compiled a learner's kernels, or loaded what another of its machine had compiled."""

    stage: str  #: The first stage of the fit that needs them.
    seconds: float


class LanesEnded(Event, frozen=True):
    """A task of neighbouring lanes has ended; sent after its round. Seconds of cached documents are 0."""

    stage: str
    epoch: int
    round: int
    lane: int  #: The first of them.
    n_lanes: int
    n_documents: int
    worker: str  #: Host and process.
    read: float  #: Seconds of reading and verifying documents.
    prepare: float  #: Seconds of preparing them for the learner.
    map: float  #: Seconds of the learner's statistics.
    merge: float  #: Seconds of combining them.


class WorkerJoined(Event, frozen=True):
    """A worker has joined; its address."""

    worker: str


class WorkerLost(Event, frozen=True):
    """A worker was lost; its results are recomputed."""

    worker: str


class TaskRetried(Event, frozen=True):
    """A task failed with a transient error, and is retried."""

    failures: int  #: How often it has failed in a row.
    error: str


class RoundEnded(Event, frozen=True):
    """The lanes of a round have been merged."""

    stage: str
    epoch: int
    round: int
    seconds: float  #: Wall time since the round before ended; of rounds that one task ran, their mean.
    n_workers: int  #: Tasks that could run at once.
    merge: float  #: Seconds of tasks that only combined statistics or updated the state.


class EpochEnded(Event, frozen=True):
    """An epoch has ended."""

    stage: str
    epoch: int
    seconds: float  #: Wall time of the epoch's rounds, without evaluation.
    documents_per_second: float
    metrics: Mapping[str, float]  #: What was evaluated after it, see ``sdem_dist.engine.plan``.


class CheckpointWritten(Event, frozen=True):
    """A checkpoint has been published."""

    stage: str
    epoch: int
    round: int
    path: Path


class StageEnded(Event, frozen=True):
    """A stage has ended."""

    stage: str
    number: int
    n_epochs: int
    reason: str  #: ``"epochs"``, ``"patience"``, or ``"callback"`` where one asked to stop.
    best_epoch: int  #: The epoch, from 1, whose state is the result: the last, or with patience the best.
    why: str = ""  #: Why it ended before its last epoch, for people; empty where it did not.
    then: str = ""  #: What follows from that.


class Scored(Event, frozen=True):
    """The training documents have been scored at a state, see ``sdem_dist.engine.trainer.Trainer.score``."""

    stage: str
    number: int
    seconds: float
    metrics: Mapping[str, float]


class RunEnded(Event, frozen=True):
    """A fit has ended."""

    n_stages: int  #: With those that an earlier run finished.


Callback = Callable[[Event], object]
"""Takes every event. One whose attribute `may_stop` is true may answer `EpochEnded` with True: the stage ends there."""
