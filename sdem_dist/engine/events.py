"""What happens during a run, as frozen values that callbacks receive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunStarted:
    """Training begins, or goes on from a checkpoint."""

    n_epochs: int
    n_rounds: int
    n_lanes: int
    n_workers: int
    epoch: int
    """First epoch that will be run, from 0."""


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """The lanes of a round have been merged."""

    epoch: int
    round: int


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """An epoch is over."""

    epoch: int
    seconds: float
    """Wall time of the epoch's rounds, without evaluation."""
    documents_per_second: float
    metrics: Mapping[str, float]
    """What was evaluated after it, see `sdem_dist.engine.trainer.train`; empty where nothing was."""


@dataclass(frozen=True, slots=True)
class CheckpointWritten:
    """A checkpoint has been published."""

    epoch: int
    round: int
    path: Path


@dataclass(frozen=True, slots=True)
class RunEnded:
    """Training is over."""

    n_epochs: int
    reason: str
    """``"epochs"`` or ``"patience"``."""


Event = RunStarted | RoundEnded | EpochEnded | CheckpointWritten | RunEnded
Callback = Callable[[Event], None]
