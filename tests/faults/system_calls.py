"""Stopping at the n-th of the system calls by which a file is published: write, fsync, rename, unlink.

``python -m faults.system_calls WHAT FOLDER`` kills a process at each call in turn: in ``FOLDER/<n>`` lies what one
that was killed at its n-th call left behind, and it prints how many calls there are.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from sdem_dist.engine.checkpoint import Checkpoints, Progress, StageRecord
from sdem_dist.learners.rules import Merge
from sdem_dist.learners.sdem import SdEM
from sdem_dist.models.heads import Classes
from sdem_dist.models.naive_bayes import NaiveBayes
from sdem_dist.storage import publish as publishing
from sdem_dist.storage.archive import write_archive

LEARNER = SdEM(NaiveBayes(6, Classes(2)), 10.0, Merge())


class Watched:
    """A file that says when something is written to it."""

    def __init__(self, file: Any, before: Callable[[str], None]) -> None:
        self._file, self._before = file, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: Any) -> int:
        self._before("write")
        return self._file.write(data)


@contextmanager
def watched(stop: int | None, action: Callable[[], None]) -> Iterator[list[str]]:
    """Call `action` just before the call number `stop`; yield a list that gets the names of all calls."""
    calls: list[str] = []

    def before(name: str) -> None:
        calls.append(name)
        if len(calls) - 1 == stop:
            action()

    def announced(name: str) -> Callable[..., Any]:
        original = getattr(os, name)

        def call(*args: Any, **more: Any) -> Any:
            before(name)
            return original(*args, **more)

        return call

    io_open = io.open

    def opened(file: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
        result = io_open(file, mode, *args, **more)
        return Watched(result, before) if set(mode) & set("wxa+") else result

    calls_of_os = {name: announced(name) for name in ("fsync", "replace", "rename", "unlink")}
    with mock.patch.multiple(os, **calls_of_os), mock.patch.object(io, "open", opened):
        yield calls


def publish(what: str, folder: Path, generation: int) -> None:
    """Publish a model, a checkpoint or a directory, one a generation, as large runs would."""
    if what == "model":
        write_archive(folder / "model", "sdem-model", {"a": np.full(1000, generation)}, {"generation": generation})
    elif what.startswith("directory"):
        exchange = publishing.exchange if what == "directory" else lambda a, b: False
        patched = mock.patch.object(publishing, "exchange", exchange)
        with patched, publishing.publish_directory(folder / "c", overwrite=True) as partial:
            (partial / "generation").write_text(str(generation))
    else:
        state = LEARNER.init()._replace(t=float(generation))
        record = StageRecord(0, "run", type(state), 1)
        Checkpoints(folder, keep=2).write(record, Progress(generation), lambda _: state, None)


def main(what: str, folder: Path) -> None:
    """Kill a child at every call; the children are forked before this process has threads."""
    generations = range(3)  # the third checkpoint pushes out the first
    for stop in range(10_000):
        child = os.fork()
        if child == 0:
            place = folder / str(stop)
            place.mkdir()
            for generation in generations[:-1]:
                publish(what, place, generation)
            with watched(stop, lambda: os.kill(os.getpid(), signal.SIGKILL)):
                publish(what, place, generations[-1])
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status):
            print(stop)
            sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
