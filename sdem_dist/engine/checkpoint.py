"""States of a run on disk, published atomically; resuming from one gives the bits of the uninterrupted run."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sdem_dist.engine.identity import differences
from sdem_dist.errors import ModelError, OtherRunError
from sdem_dist.storage.archive import contents_checksum, read_archive, write_archive
from sdem_dist.storage.hidden import hidden_folder
from sdem_dist.storage.numbers import from_json, to_json

KIND = "sdem-checkpoint"
SEEN_BY_ALL = "keep checkpoints where every worker sees the same files, or none"
_NAME = re.compile(r"checkpoint-(\d{6})-(\d{6})\.sdem")


class Progress(NamedTuple):
    """Where a run stands between two rounds."""

    epoch: int
    """Epochs finished."""
    round: int
    """Rounds of the next epoch finished."""
    history: list[dict[str, float]]
    best_epoch: int
    """Epoch (from 0) of the lowest validation loss so far, or -1."""
    seconds: float
    """Wall time of the unfinished epoch's rounds so far."""


class Saved(NamedTuple):
    """A state in a checkpoint, to be read block by block wherever its file is seen."""

    path: str
    """Absolute: processes have working directories of their own."""
    contents: int | None
    """Checksum of the file's table of contents: elsewhere another file may have its name."""
    state_type: Any
    n_blocks: int

    @property
    def seen(self) -> bool:
        """Whether this process sees the file, and not another of its name."""
        return self.contents is not None and contents_checksum(self.path) == self.contents

    def block(self, number: int) -> Any:
        """Return one block of the state.

        Raises
        ------
        OSError
            The file cannot be read here; another try may succeed.
        ModelError
            It is damaged, or holds something else.
        """
        prefix = _prefix(number, self.n_blocks)
        try:
            if contents_checksum(self.path) not in (self.contents, None):  # of None, reading says why
                raise ModelError(
                    f"{self.path} is not the checkpoint of this run, as {socket.gethostname()} sees it: {SEEN_BY_ALL}"
                )
            arrays, _ = _read(self.path, [f"{prefix}_{name}" for name in self.state_type._fields])
            return _restored(self.state_type, arrays, prefix)
        except ModelError as error:
            if not isinstance(cause := error.__cause__, OSError):
                raise
            # A new one: it would be its own context otherwise, and such a cycle cannot travel from a worker.
            what = f"{cause.strerror or cause}, as {socket.gethostname()} sees it ({SEEN_BY_ALL})"
            raise OSError(cause.errno, what, self.path) from None
        except (KeyError, TypeError) as error:
            raise _unfit(self.path, error) from error


@dataclass
class Checkpoints:
    """A folder of checkpoints of one run, made if need be.

    Parameters
    ----------
    folder : Path
    every_rounds : int, optional
        Write after so many rounds; None: at the end of each epoch.
    every_seconds : float, optional
        Write after the first round that ends so many seconds after the last checkpoint, instead.
    keep : int
        How many to keep; older ones are removed once a newer one is published.

    Raises
    ------
    ModelError
        The folder cannot be made or written to; better now than after the first epoch.
    """

    folder: Path
    every_rounds: int | None = None
    every_seconds: float | None = None
    keep: int = 2

    def __post_init__(self) -> None:
        self.folder = Path(self.folder)
        self._last = time.monotonic()
        if self.every_rounds is not None and self.every_seconds is not None:
            raise ValueError("give every_rounds or every_seconds, not both")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with hidden_folder(self.folder / "checkpoint", "probe"):
                pass
        except OSError as error:
            raise ModelError(f"cannot keep checkpoints in {self.folder}: {error.strerror or error}") from error

    def refuse_earlier_run(self) -> None:
        """Raise ModelError if the folder has checkpoints, which a run from the beginning would push out."""
        if self._paths():
            raise ModelError(
                f"{self.folder} has checkpoints of an earlier run: resume it (resume=True, --resume), or choose another folder"
            )

    def due(self, rounds_done: int, end_of_epoch: bool) -> bool:
        """Say whether a checkpoint is due after `rounds_done` rounds of the run."""
        if self.every_seconds is not None:
            return time.monotonic() - self._last >= self.every_seconds
        if self.every_rounds is not None:
            return rounds_done % self.every_rounds == 0
        return end_of_epoch

    def write(
        self, run: Any, progress: Progress, state_type: Any, n_blocks: int, get: Callable[[int], Any], best: Any
    ) -> Saved:
        """Publish a checkpoint and remove all but the newest `keep`.

        Parameters
        ----------
        run : JSON value
            What the run is, see `sdem_dist.engine.identity`.
        progress : Progress
        state_type : class
            A NamedTuple of arrays and floats.
        n_blocks : int
            Of the state.
        get : callable
            ``get(block)`` returns one; each is written before the next is asked for.
        best : state or None
            In one piece.
        """

        def arrays() -> Iterator[tuple[str, np.ndarray]]:
            for number in range(n_blocks):
                yield from _named(get(number), _prefix(number, n_blocks))
            if best is not None:
                yield from _named(best, "best")

        path = self.folder.absolute() / f"checkpoint-{progress.epoch:06d}-{progress.round:06d}.sdem"
        write_archive(path, KIND, arrays(), {"run": run, "progress": to_json(progress._asdict())})
        for old in self._paths()[: -self.keep]:
            with suppress(OSError):  # the new one is safe, which is what counts; the next call tries again
                old.unlink()
        self._last = time.monotonic()
        return Saved(str(path), contents_checksum(path), state_type, n_blocks)

    def latest(self, run: Any, state_type: Any, n_blocks: int) -> tuple[Progress, Saved, Any] | None:
        """Return (progress, state, best state or None) of the newest checkpoint, or None where there is none.

        Raises
        ------
        ModelError
            It is damaged, or (`OtherRunError`) belongs to other settings or another corpus.
        """
        paths = self._paths()
        if not paths:
            return None
        path = paths[-1].absolute()
        arrays, metadata = _read(path, [f"best_{name}" for name in state_type._fields])
        if metadata.get("run") != run:
            where = f" ({found})" if (found := differences(run, metadata.get("run"))) else ""
            raise OtherRunError(
                f"{path} was written by a run with other settings or on another corpus{where}: "
                "resume with the same ones, or choose another checkpoint folder"
            )
        try:
            progress = Progress(**from_json(metadata["progress"]))
            best = _restored(state_type, arrays, "best") if arrays else None
        except (KeyError, TypeError) as error:
            raise _unfit(path, error) from error
        return progress, Saved(str(path), contents_checksum(path), state_type, n_blocks), best

    def _paths(self) -> list[Path]:
        return sorted(p for p in self.folder.iterdir() if _NAME.fullmatch(p.name))


def _read(path: str | Path, names: list[str]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    try:
        return read_archive(path, KIND, names)
    except ModelError as error:
        if isinstance(error.__cause__, OSError):
            raise
        raise ModelError(f"{error}; remove a damaged checkpoint, and the run goes on from the one before it") from error


def _prefix(block: int, n_blocks: int) -> str:
    return "state" if n_blocks == 1 else f"state_{block}"


def _named(state: NamedTuple, prefix: str) -> Iterator[tuple[str, np.ndarray]]:
    for name, value in state._asdict().items():
        yield f"{prefix}_{name}", np.asarray(value)


def _restored(state_type: Any, arrays: Mapping[str, np.ndarray], prefix: str) -> Any:
    values = (arrays[f"{prefix}_{name}"] for name in state_type._fields)
    return state_type(*(float(v) if v.ndim == 0 else v for v in values))


def _unfit(path: str | Path, error: Exception) -> ModelError:
    return ModelError(f"{path}: the parts of this checkpoint do not fit together ({error})")
