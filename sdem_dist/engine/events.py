"""Events of a fit, which callbacks receive."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec


class Event(msgspec.Struct, frozen=True):
    """Base class of events; epochs, rounds, lanes and stages are counted from 0."""


class RunStarted(Event, frozen=True):
    """A fit starts, or resumes from its checkpoint folder."""

    n_workers: int  #: Tasks that can run at the same time.


class StageStarted(Event, frozen=True):
    """A stage starts, or resumes from a checkpoint."""

    stage: str
    number: int  #: Position in the fit, including stages that an earlier run completed.
    monitored: bool  #: Whether its history is the history of the fit.
    main_metrics: tuple[str, ...]  #: Names of the metrics to display during the stage.
    n_epochs: int
    n_rounds: int  #: Rounds per epoch; the first epoch may have more.
    n_lanes: int
    n_workers: int
    epoch: int  #: First epoch that will be run.
    round: int  #: First round of this epoch that will be run.
    done: int  #: Rounds completed earlier, over all epochs.
    total: int  #: Rounds in all epochs.


class ShardsLeftOut(Event, frozen=True):
    """Damaged shards are skipped (`skip_damaged`); precedes `RunStarted`."""

    n_shards: int
    n_documents: int
    problems: tuple[str, ...]  #: The problem of each shard.


class Compiled(Event, frozen=True):
    """All processes have compiled the kernels of a learner, or loaded them from the cache."""

    stage: str  #: The first stage of the fit that needs the kernels.
    seconds: float


class LanesEnded(Event, frozen=True):
    """A task of neighbouring lanes has ended; sent after its round. Seconds of cached documents are 0."""

    stage: str
    epoch: int
    round: int
    lane: int  #: The first lane.
    n_lanes: int
    n_documents: int
    worker: str  #: Host and process.
    read: float  #: Seconds for reading and verifying documents.
    prepare: float  #: Seconds for preparing documents for the learner.
    map: float  #: Seconds for computing statistics.
    merge: float  #: Seconds for combining statistics.


class WorkerJoined(Event, frozen=True):
    """A worker has joined; `worker` is its address."""

    worker: str


class WorkerLost(Event, frozen=True):
    """A worker was lost; its results are recomputed."""

    worker: str


class TaskRetried(Event, frozen=True):
    """A task failed with a transient error, and is retried."""

    failures: int  #: Number of consecutive failures.
    error: str


class RoundEnded(Event, frozen=True):
    """The lanes of a round have been merged."""

    stage: str
    epoch: int
    round: int
    seconds: float  #: Wall time since the previous round; the mean, for rounds in one task.
    n_workers: int  #: Tasks that could run at the same time.
    merge: float  #: Seconds of tasks that only combined statistics or updated the state.


class EpochEnded(Event, frozen=True):
    """An epoch has ended."""

    stage: str
    epoch: int
    seconds: float  #: Wall time of the rounds, without evaluation.
    documents_per_second: float
    metrics: Mapping[str, float]  #: Metrics evaluated after the epoch, see ``sdem_dist.engine.plan``.


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
    reason: str  #: ``"epochs"``, ``"patience"``, or ``"callback"`` if a callback stopped it.
    best_epoch: int  #: Epoch (from 1) of the result: the last, or the best with patience.
    why: str = ""  #: Message that explains why the stage ended early; otherwise empty.
    then: str = ""  #: Message about the consequence.


class Scored(Event, frozen=True):
    """The training documents have been scored at a state, see ``sdem_dist.engine.trainer.Trainer.score``."""

    stage: str
    number: int
    seconds: float
    metrics: Mapping[str, float]


class RunEnded(Event, frozen=True):
    """A fit has ended."""

    n_stages: int  #: Including stages that an earlier run completed.


Callback = Callable[[Event], object]
"""A function of an event. If its attribute `may_stop` is true, it ends a stage by returning True for `EpochEnded`."""
