"""The checkpoint folder of a fit: progress of each stage, and the results of finished ones, published atomically."""

import errno
import json
import re
import socket
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as brief
from typing import Any, NamedTuple, cast

import numpy as np

from sdem_dist.errors import BucketError, ModelError, OtherRunError
from sdem_dist.records import plain
from sdem_dist.storage.archive import contents_checksum, read_archive, write_archive
from sdem_dist.storage.buckets import place
from sdem_dist.storage.encoding import from_json, to_json
from sdem_dist.storage.publish import check_writable

Json = Mapping[str, object]  # JSON values by name
CHECKPOINT = "sdem-checkpoint"
RESULT = "sdem-stage"
SHARED_FOLDER_HINT = "use a checkpoint folder that all workers can read, or disable checkpoints"
_KINDS = {  # kind of file: the metadata key read besides "run", and advice for a damaged file
    CHECKPOINT: ("progress", "remove the damaged checkpoint to resume from the previous one"),
    RESULT: ("result", "remove the damaged result to repeat this stage"),
}
_CHECKPOINT = re.compile(r"checkpoint-(\d+)-(\d+)-(\d+)\.sdem")


class SavedState(NamedTuple):
    """A state in a checkpoint; any process that sees the file can read it block by block."""

    path: str  # absolute: each process has its own working directory
    contents: str | None  # checksum of the table of contents: another machine may have a different file at this path
    state_type: type[Any]

    def is_visible(self) -> bool:
        """Return whether this process sees the file, and not a different file at the same path."""
        return self.contents is not None and contents_checksum(self.path) == self.contents

    def block(self, number: int, n_blocks: int) -> Any:
        """Return one block of the state; raise OSError if this process cannot read the file, ModelError if damaged."""
        where = f"as seen from {socket.gethostname()}"
        try:
            if contents_checksum(self.path) not in (self.contents, None):  # if None, `_read` raises the cause
                raise ModelError(f"{self.path} is not the checkpoint of this run, {where}: {SHARED_FOLDER_HINT}")
            return _read(self.path, CHECKPOINT, self.state_type, "state" if n_blocks == 1 else f"state_{number}")[0]
        except ModelError as error:
            if not isinstance(cause := error.__cause__, OSError):
                raise
            # Not `raise cause`: it would be its own context, and an error with such a cycle cannot be sent by a worker.
            code = errno.ENOENT if isinstance(cause, FileNotFoundError) else errno.EIO  # safetensors sets no errno
            what = f"{cause.strerror or cause}, {where} ({SHARED_FOLDER_HINT})"
            raise OSError(cause.errno or code, what, self.path) from None


class Progress(NamedTuple):
    """The progress of a stage between two rounds."""

    epoch: int = 0  # epochs finished
    round: int = 0  # rounds of the next epoch finished
    history: Sequence[dict[str, float]] = ()
    best_epoch: int = -1  # epoch (counting from 0) of the lowest validation loss so far, or -1
    seconds: float = 0.0  # wall time of the unfinished epoch's rounds so far


class StageRecord(NamedTuple):
    """The data by which the files of a stage are recognised."""

    number: int  # its position among the stages of the fit
    run: Json  # everything that determines its bits, see `identity`
    state_type: type[Any]  # a NamedTuple of arrays and floats
    n_blocks: int


def checkpoint_folder(folder: str | Path) -> Path:
    """Return a folder or URL for checkpoints, and create it if missing; ModelError if it cannot be written to."""
    folder = place(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder / "checkpoint", error=ModelError)
    except (OSError, ModelError) as error:
        reason = getattr(error.__cause__ or error, "strerror", None) or error
        raise ModelError(f"cannot write checkpoints to {folder}: {reason}") from error
    return folder


@dataclass
class Checkpoints:
    """The folder of one fit, created if missing, or a URL; ModelError if it cannot be created or written to.

    ``checkpoint-STAGE-EPOCH-ROUND.sdem`` holds the progress of a stage; ``stage-STAGE.sdem`` holds its result, and is
    written when the next stage begins. Checkpoints of the last stage are kept: a run of more epochs can continue them.
    """

    folder: Path
    every_rounds: int | None = None  # write after this many rounds of a stage; None: at the end of each epoch
    every_seconds: float | None = None  # or: after the first round that ends this long after the last checkpoint
    keep: int = 2  # number of checkpoints kept per stage; older ones are removed after a newer one is published

    def __post_init__(self) -> None:
        if self.every_rounds is not None and self.every_seconds is not None:
            raise ValueError("pass every_rounds or every_seconds, not both")
        self.folder, self._last = checkpoint_folder(self.folder).absolute(), time.monotonic()

    def refuse_earlier_run(self) -> None:
        """Raise ModelError if the folder contains files of an earlier fit, which a new fit would overwrite."""
        if any(re.fullmatch(r"(checkpoint-\d+-\d+|stage)-\d+\.sdem", path.name) for path in self.folder.iterdir()):
            hint = "resume it (resume=True, --resume), or choose another folder"
            raise ModelError(f"{self.folder} contains checkpoints of an earlier run: {hint}")

    def should_write(self, rounds_done: int, end_of_epoch: bool) -> bool:
        if self.every_seconds is not None:
            return time.monotonic() - self._last >= self.every_seconds
        return end_of_epoch if self.every_rounds is None else rounds_done % self.every_rounds == 0

    def write(self, stage: StageRecord, progress: Progress, get: Callable[[int], Any], best: Any) -> SavedState:
        """Publish blocks, each fetched after the previous is written, and the best state; remove old checkpoints."""

        def arrays() -> Iterator[tuple[str, np.ndarray]]:
            for block in range(stage.n_blocks):
                yield from _named(get(block), "state" if stage.n_blocks == 1 else f"state_{block}")
            if best is not None:
                yield from _named(best, "best")

        path = self.folder / f"checkpoint-{stage.number:03d}-{progress.epoch:06d}-{progress.round:06d}.sdem"
        write_archive(path, CHECKPOINT, arrays(), {"run": stage.run, "progress": to_json(progress._asdict())})
        self.remove([stage.number], self.keep)
        self._last = time.monotonic()
        return SavedState(str(path), contents_checksum(path), stage.state_type)

    def latest(self, stage: StageRecord, n_epochs: int) -> tuple[Progress, SavedState, Any] | None:
        """Return (progress, state, best state or None) of a stage's newest checkpoint; ModelError if of another run."""
        if not (paths := self._of([stage.number])):
            return None
        path = paths[-1]
        best, saved = _read(path, CHECKPOINT, stage.state_type, "best", stage.run)
        progress = Progress(**saved)
        if progress.epoch > n_epochs:
            done = f"is at epoch {progress.epoch}, but n_epochs is {n_epochs}: increase n_epochs"
            raise ModelError(f"the newest checkpoint in {self.folder} {done}, or choose another checkpoint folder")
        return progress, SavedState(str(path), contents_checksum(path), stage.state_type), best

    def write_result(self, run: Json, stage: int, state: Any, values: object) -> None:
        """Publish the state and history of a finished stage, or None and the metrics of a scoring."""
        arrays = {} if state is None else dict(_named(state, "state"))
        path = self.folder / f"stage-{stage:03d}.sdem"
        write_archive(path, RESULT, arrays, {"run": run, "result": to_json(values)})

    def result(self, run: Json, stage: int, state_type: type[Any] | None = None) -> tuple[Any, Any] | None:
        """Return the state (None for a scoring) and the values passed to `write_result`; None if there is no result."""
        path = self.folder / f"stage-{stage:03d}.sdem"
        return _read(path, RESULT, state_type, "state", run) if path.exists() else None

    def remove(self, stages: Container[int], keep: int = 0) -> None:
        """Remove the checkpoints of stages, except the newest `keep`."""
        for path in self._of(stages)[: -keep or None]:
            with suppress(OSError, BucketError):  # newer checkpoints are published; the next call retries
                path.unlink()

    def _of(self, stages: Container[int]) -> list[Path]:
        """Return the checkpoints of stages, oldest first."""
        names = [(_CHECKPOINT.fullmatch(path.name), path) for path in self.folder.iterdir()]
        numbered = [([int(number) for number in name.groups()], path) for name, path in names if name]
        return [path for numbers, path in sorted(numbered) if numbers[0] in stages]


def _named(state: Any, prefix: str) -> Iterator[tuple[str, np.ndarray]]:
    for field, value in state._asdict().items():
        yield f"{prefix}_{field}", np.asarray(value)


def _read(
    path: str | Path, kind: str, state_type: type[Any] | None, prefix: str, run: Json | None = None
) -> tuple[Any, Any]:
    """Return a state (None if the file has no best state) and, if `run` is passed, its progress or result."""
    names = [] if state_type is None else [f"{prefix}_{field}" for field in state_type._fields]
    part, remedy = _KINDS[kind]
    try:
        arrays, metadata = read_archive(path, kind, names)
    except ModelError as error:
        if isinstance(error.__cause__, OSError):
            raise
        raise ModelError(f"{error}; {remedy}") from error
    if run is not None:
        check_run(path, run, metadata)  # before the arrays: those of another run may differ
    try:
        value = None if run is None else from_json(metadata[part])
        if state_type is None or (prefix == "best" and not arrays):
            return None, value
        fields = [arrays[name] for name in names]
    except KeyError as error:
        raise ModelError(f"{path}: this file is inconsistent ({error}): {remedy}") from error
    return state_type(*(float(field) if field.ndim == 0 else field for field in fields)), value


def check_run(path: str | Path, run: Json, metadata: Mapping[str, object]) -> None:
    """Raise OtherRunError, which names the first settings that differ, unless the file was written by the run `run`."""

    def leaves(tree: object, path: str = "") -> Iterator[tuple[str, object]]:
        for name, value in tree.items() if isinstance(tree, dict) else ():
            yield from leaves(value, f"{path}{name}.") if isinstance(value, dict) else [(f"{path}{name}", value)]

    if (before := metadata.get("run")) == run:
        return
    a, b = dict(leaves(run)), dict(leaves(before))
    differing = [name for name in sorted({*a, *b}) if (name in a, a.get(name)) != (name in b, b.get(name))]
    values = [[brief(tree[name]) if name in tree else "not set" for tree in (a, b)] for name in differing[:3]]
    texts = [f"{name}: {now}, was {then}" for name, (now, then) in zip(differing, values, strict=False)]
    where = f" ({'; '.join(texts + ['...'] * (len(differing) > 3))})" if a and b else ""
    what, hint = "other settings or another corpus", "restore the earlier ones, or choose another folder"
    raise OtherRunError(f"{path} was written by a run with {what}{where}: {hint}")


def identity(**parts: object) -> Json:
    """Return everything that determines the bits of a run, as JSON."""
    as_text = json.dumps(parts, default=lambda value: str(value) if plain(value) is value else plain(value))
    return cast(Json, to_json(json.loads(as_text)))
