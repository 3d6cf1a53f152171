"""What happens during a fit, as frozen values that callbacks receive."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A fit begins, or goes on from what its checkpoint folder holds; its stages follow."""

    n_workers: int
    """Tasks that can run at once."""


@dataclass(frozen=True, slots=True)
class StageStarted:
    """A stage begins, or goes on from a checkpoint."""

    stage: str
    number: int
    """Its place among the fit's stages, from 0. Stages that an earlier run finished count, but send no event again."""
    monitored: bool
    """Whether its history is that of the fit."""
    main_metrics: tuple[str, ...]
    """Names of the metrics that people want to see while it runs."""
    n_epochs: int
    n_rounds: int
    """Rounds an epoch; the first epoch may have more."""
    n_lanes: int
    n_workers: int
    epoch: int
    """First epoch that will be run, from 0."""
    round: int
    """First round of it that will be run, from 0."""
    done: int
    """Rounds that were run before, of all epochs."""
    total: int
    """Rounds of all epochs."""


@dataclass(frozen=True, slots=True)
class ShardsLeftOut:
    """Damaged shards are left out of training, as the user asked; comes before `RunStarted`."""

    n_shards: int
    n_documents: int
    problems: tuple[str, ...]
    """What is wrong with each."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Every process has compiled a learner's kernels, or loaded what another of its machine had compiled."""

    stage: str
    """The first stage of the fit that needs them."""
    seconds: float


@dataclass(frozen=True, slots=True)
class LanesEnded:
    """A task of lanes was done; sent when its round has ended."""

    stage: str
    epoch: int
    round: int
    lane: int
    """First of its neighbouring lanes."""
    n_lanes: int
    n_documents: int
    worker: str
    """Host and process."""
    read: float
    """Seconds of reading and verifying documents, 0 for what was cached."""
    prepare: float
    """Seconds of preparing them for the learner, 0 for what was cached."""
    map: float
    """Seconds of the learner's statistics."""
    merge: float
    """Seconds of combining them."""


@dataclass(frozen=True, slots=True)
class WorkerJoined:
    """A worker has appeared; its address."""

    worker: str


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """A worker has gone; what it held is computed again."""

    worker: str


@dataclass(frozen=True, slots=True)
class TaskRetried:
    """A task failed in a way that may pass, and is tried again."""

    failures: int
    """How often it has failed in a row."""
    error: str


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """The lanes of a round have been merged."""

    stage: str
    epoch: int
    round: int
    seconds: float
    """Wall time since the round before ended; of rounds that one task ran, their mean."""
    n_workers: int
    """Tasks that could run at once."""
    merge: float
    """Seconds of tasks that only combined statistics or updated the state."""


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """An epoch is over."""

    stage: str
    epoch: int
    seconds: float
    """Wall time of the epoch's rounds, without evaluation."""
    documents_per_second: float
    transfer: float
    """Seconds that workers spent on fetching results from each other, added up, since the epoch before ended."""
    metrics: Mapping[str, float]
    """What was evaluated after it, see ``sdem_dist.engine.plan``; empty where nothing was."""


@dataclass(frozen=True, slots=True)
class CheckpointWritten:
    """A checkpoint has been published."""

    stage: str
    epoch: int
    round: int
    path: Path


@dataclass(frozen=True, slots=True)
class StageEnded:
    """A stage is over."""

    stage: str
    number: int
    n_epochs: int
    reason: str
    """``"epochs"``, ``"patience"``, or ``"callback"`` where one asked to stop."""
    best_epoch: int
    """The epoch, from 1, whose state is the result: the last, or with patience the best."""
    why: str = ""
    """Why it ended before its last epoch, for people; empty where it did not."""
    then: str = ""
    """What follows from that."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The training documents have been scored at a state, see ``sdem_dist.engine.trainer.Trainer.score``."""

    stage: str
    number: int
    seconds: float
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A fit is over."""

    n_stages: int
    """With those that an earlier run finished."""


Event = (
    RunStarted
    | StageStarted
    | Compiled
    | ShardsLeftOut
    | WorkerJoined
    | WorkerLost
    | TaskRetried
    | LanesEnded
    | RoundEnded
    | EpochEnded
    | CheckpointWritten
    | StageEnded
    | Scored
    | RunEnded
)
Callback = Callable[[Event], object]
"""Takes every event. One whose attribute `may_stop` is true may answer `EpochEnded` with True: the stage ends there."""
