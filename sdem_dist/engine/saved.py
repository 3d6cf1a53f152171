"""States in files: their fields as arrays under their names, in one piece or in blocks."""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, cast

import numpy as np

from sdem_dist.engine.identity import Json, differences
from sdem_dist.errors import ModelError, OtherRunError
from sdem_dist.learners.protocol import State
from sdem_dist.storage.archive import contents_checksum, read_archive

CHECKPOINT = "sdem-checkpoint"
RESULT = "sdem-stage"
SEEN_BY_ALL = "keep checkpoints where every worker sees the same files, or none"
_REMEDY = {
    CHECKPOINT: "remove a damaged checkpoint, and the run goes on from the one before it",
    RESULT: "remove the damaged result of a stage, and the run does this stage again",
}


class Saved(NamedTuple, Generic[State]):
    """A state in a checkpoint, to be read block by block wherever its file is seen."""

    path: str  # absolute: processes have working directories of their own
    contents: int | None  # checksum of the file's table of contents: on another machine another file may have its name
    state_type: type[State]
    n_blocks: int

    @property
    def seen(self) -> bool:
        """Whether this process sees the file, and not another one of that name."""
        return self.contents is not None and contents_checksum(self.path) == self.contents

    def block(self, number: int) -> State:
        """Return one block of the state.

        Raises OSError: the file cannot be read here; another try may succeed.
        Raises ModelError: it is damaged, or holds something else.
        """
        name = prefix(number, self.n_blocks)
        try:
            if contents_checksum(self.path) not in (self.contents, None):  # reading None says why
                raise ModelError(
                    f"{self.path} is not the checkpoint of this run, as {socket.gethostname()} sees it: {SEEN_BY_ALL}"
                )
            arrays, _ = read(self.path, CHECKPOINT, self.state_type, name)
            return restored(self.path, self.state_type, arrays, name)
        except ModelError as error:
            if not isinstance(cause := error.__cause__, OSError):
                raise
            # A new one: it would be its own context otherwise, and such a cycle cannot travel from a worker.
            what = f"{cause.strerror or cause}, as {socket.gethostname()} sees it ({SEEN_BY_ALL})"
            raise OSError(cause.errno, what, self.path) from None


def prefix(block: int, n_blocks: int) -> str:
    """Return what the names of a block's arrays begin with."""
    return "state" if n_blocks == 1 else f"state_{block}"


def named(state: object, name: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the fields of a state, or of a block of one, as arrays with names that begin with `name`."""
    for field, value in cast(Any, state)._asdict().items():
        yield f"{name}_{field}", np.asarray(value)


def read(path: str | Path, kind: str, state_type: type[Any], name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return what `named` wrote under `name`, and the metadata; ModelError says what to do with a damaged file."""
    try:
        return read_archive(path, kind, [f"{name}_{field}" for field in state_type._fields])
    except ModelError as error:
        if isinstance(error.__cause__, OSError):
            raise
        raise ModelError(f"{error}; {_REMEDY[kind]}") from error


def restored(path: str | Path, state_type: type[State], arrays: Mapping[str, np.ndarray], name: str) -> State:
    """Return the state whose fields have names that begin with `name`."""
    try:
        values = [arrays[f"{name}_{field}"] for field in cast(Any, state_type)._fields]
        return state_type(*(float(v) if v.ndim == 0 else v for v in values))
    except (KeyError, TypeError) as error:
        raise unfit(path, error) from error


def unfit(path: str | Path, error: Exception) -> ModelError:
    """Return the error of a file without one of its parts."""
    return ModelError(f"{path}: the parts of this checkpoint do not fit together ({error}): {_REMEDY[CHECKPOINT]}")


def check_run(path: str | Path, run: Json, metadata: Mapping[str, object]) -> None:
    """Raise OtherRunError unless a file was written by the run `run`."""
    if metadata.get("run") != run:
        where = f" ({found})" if (found := differences(run, metadata.get("run"))) else ""
        raise OtherRunError(
            f"{path} was written by a run with other settings or on another corpus{where}: "
            "resume with the same ones, or choose another checkpoint folder"
        )
