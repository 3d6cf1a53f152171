"""The checkpoint folder of a fit: progress of each stage, and the results of finished ones, published atomically."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sdem_dist.engine import saved
from sdem_dist.engine.identity import Json
from sdem_dist.engine.monitoring import History
from sdem_dist.engine.saved import CHECKPOINT, RESULT, Saved
from sdem_dist.engine.stages import StageResult
from sdem_dist.errors import BucketError, ModelError
from sdem_dist.learners.protocol import State
from sdem_dist.storage.archive import contents_checksum, read_archive, write_archive
from sdem_dist.storage.hidden import hidden_folder
from sdem_dist.storage.numbers import from_json, to_json
from sdem_dist.storage.places import is_url, place
from sdem_dist.storage.publish import check_writable

_CHECKPOINT = re.compile(r"checkpoint-(\d+)-(\d+)-(\d+)\.sdem")
_RESULT = re.compile(r"stage-(\d+)\.sdem")


class Progress(NamedTuple):
    """The progress of a stage between two rounds."""

    stage: int  # its place among the stages of the fit
    epoch: int  # epochs finished
    round: int  # rounds of the next epoch finished
    history: History
    best_epoch: int  # epoch (from 0) of the lowest validation loss so far, or -1
    seconds: float  # wall time of the unfinished epoch's rounds so far


@dataclass
class Checkpoints:
    """A folder of one fit, made if need be, or a URL.

    ``checkpoint-STAGE-EPOCH-ROUND.sdem`` is where a stage stood, ``stage-STAGE.sdem`` the result of a stage that
    another follows.  The checkpoints of the last stage stay, so that a run of more epochs can go on from them.

    Raises ModelError: the folder cannot be made or written to, or it holds checkpoints that are named in another way.
    """

    folder: Path
    every_rounds: int | None = None  # write after this many rounds of a stage; None: at the end of each epoch
    every_seconds: float | None = None
    """Instead, write after the first round that ends this many seconds after the last checkpoint."""
    keep: int = 2  # how many of a stage to keep; older ones are removed once a newer one is published

    def __post_init__(self) -> None:
        self.folder = place(self.folder)
        self._last = time.monotonic()
        if self.every_rounds is not None and self.every_seconds is not None:
            raise ValueError("give every_rounds or every_seconds, not both")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with hidden_folder(self.folder / "checkpoint", "probe"):
                pass
            if is_url(self.folder):
                check_writable(self.folder / "checkpoint", error=ModelError)
        except OSError as error:
            raise ModelError(f"cannot keep checkpoints in {self.folder}: {error.strerror or error}") from error
        if strange := sorted(
            p.name for p in self.folder.iterdir() if p.match("checkpoint-*.sdem") and not _CHECKPOINT.fullmatch(p.name)
        ):
            raise ModelError(
                f"{self.folder} holds {strange[0]}, which is named as checkpoints of earlier versions were: this one cannot go "
                "on from it; choose another folder, or remove it"
            )

    def refuse_earlier_run(self) -> None:
        """Raise ModelError if the folder has files of a fit, which a new fit would replace."""
        if self._checkpoints() or any(_RESULT.fullmatch(path.name) for path in self.folder.iterdir()):
            raise ModelError(
                f"{self.folder} has checkpoints of an earlier run: resume it (resume=True, --resume), or choose another folder"
            )

    def due(self, rounds_done: int, end_of_epoch: bool) -> bool:
        """Say whether a checkpoint is due after `rounds_done` rounds of a stage."""
        if self.every_seconds is not None:
            return time.monotonic() - self._last >= self.every_seconds
        if self.every_rounds is not None:
            return rounds_done % self.every_rounds == 0
        return end_of_epoch

    def write(
        self,
        run: Json,
        progress: Progress,
        state_type: type[State],
        n_blocks: int,
        get: Callable[[int], State],
        best: State | None,
    ) -> Saved[State]:
        """Publish a checkpoint and remove all but the newest `keep` of its stage.

        `run`: what the stage is, see `sdem_dist.engine.identity`.
        `state_type`: a NamedTuple of arrays and floats.
        `n_blocks`: of the state.
        `get`: ``get(block)`` returns one; each is written before the next is asked for.
        `best`: the best state, in one piece.
        """

        def arrays() -> Iterator[tuple[str, np.ndarray]]:
            for number in range(n_blocks):
                yield from saved.named(get(number), saved.prefix(number, n_blocks))
            if best is not None:
                yield from saved.named(best, "best")

        at = (progress.stage, progress.epoch, progress.round)
        path = self.folder.absolute() / "checkpoint-{:03d}-{:06d}-{:06d}.sdem".format(*at)
        write_archive(path, CHECKPOINT, arrays(), {"run": run, "progress": to_json(progress._asdict())})
        self._remove([old for number, *_, old in self._checkpoints() if number == progress.stage][: -self.keep])
        self._last = time.monotonic()
        return Saved(str(path), contents_checksum(path), state_type, n_blocks)

    def latest(
        self, run: Json, stage: int, state_type: type[State], n_blocks: int
    ) -> tuple[Progress, Saved[State], State | None] | None:
        """Return (progress, state, best state or None) of a stage's newest checkpoint, or None where there is none.

        Raises ModelError: it is damaged, or (`OtherRunError`) belongs to other settings or another corpus.
        """
        paths = [path for number, *_, path in self._checkpoints() if number == stage]
        if not paths:
            return None
        path = paths[-1].absolute()
        arrays, metadata = saved.read(path, CHECKPOINT, state_type, "best")
        saved.check_run(path, run, metadata)
        try:
            progress = Progress(**from_json(metadata["progress"]))
        except (KeyError, TypeError) as error:
            raise saved.unfit(path, error) from error
        best = saved.restored(path, state_type, arrays, "best") if arrays else None
        return progress, Saved(str(path), contents_checksum(path), state_type, n_blocks), best

    def keep_result(self, run: Json, stage: int, result: StageResult[State] | dict[str, float]) -> None:
        """Publish what a finished stage gave, or the metrics of a scoring."""
        arrays = dict(saved.named(result.state, "state")) if isinstance(result, StageResult) else {}
        found = result.history if isinstance(result, StageResult) else result
        write_archive(self._result(stage), RESULT, arrays, {"run": run, "result": to_json(found)})

    def stage_result(self, run: Json, stage: int, state_type: type[State]) -> StageResult[State] | None:
        """Return what a stage gave, or None where it has not finished; raises as `latest` does."""
        path = self._result(stage)
        if not path.exists():
            return None
        arrays, metadata = saved.read(path, RESULT, state_type, "state")
        saved.check_run(path, run, metadata)
        return StageResult(saved.restored(path, state_type, arrays, "state"), from_json(metadata.get("result")))

    def metrics(self, run: Json, stage: int) -> dict[str, float] | None:
        """Return the metrics that a scoring gave, or None where it has not finished."""
        path = self._result(stage)
        if not path.exists():
            return None
        _, metadata = read_archive(path, RESULT, [])
        saved.check_run(path, run, metadata)
        return dict(from_json(metadata.get("result")))

    def remove_before(self, stage: int) -> None:
        """Remove the checkpoints of stages before this one, whose results are kept."""
        self._remove([path for number, *_, path in self._checkpoints() if number < stage])

    def _result(self, stage: int) -> Path:
        return self.folder.absolute() / f"stage-{stage:03d}.sdem"

    def _checkpoints(self) -> list[tuple[int, int, int, Path]]:
        found = ((_CHECKPOINT.fullmatch(path.name), path) for path in self.folder.iterdir())
        return sorted((int(name[1]), int(name[2]), int(name[3]), path) for name, path in found if name)

    @staticmethod
    def _remove(paths: list[Path]) -> None:
        for path in paths:
            with suppress(OSError, BucketError):  # the new ones are safe; the next call tries again
                path.unlink()
