"""A learner that kills processes at fixed points of a run, and writes down who did what.

A folder holds the plan and the records, so that worker processes, later drivers and the test all see them:
``faults.json`` maps a point such as ``map 1 2 3`` (epoch 1, round 2, lane 3) to who dies there and how often;
``work.log`` has a line of a point and a process for every piece of work begun; ``killed.log`` the processes killed;
``calls.log`` the calls of tasks that fail now and then, always, or fatally.
"""

import contextlib
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock


class Marked(NamedTuple):
    """Statistics that know where in the run they belong."""

    epoch: int
    round: int
    n_lanes: int
    inner: Any


class DeadlyFloat(float):
    """A number that may kill the process that sends it to another."""

    folder: str
    point: str

    def __reduce__(self):
        reach(self.folder, self.point)
        return deadly, (float(self), self.folder, self.point)


def deadly(value: float, folder: str, point: str) -> DeadlyFloat:
    number = DeadlyFloat(value)
    number.folder, number.point = folder, point
    return number


@dataclass(frozen=True)
class Saboteur:
    """`inner`, disturbed as `folder` says."""

    inner: Any
    folder: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("inner", "folder"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def map(self, state, documents, lane):
        reach(self.folder, f"map {lane.epoch} {lane.round} {lane.lane}")
        return Marked(lane.epoch, lane.round, 1, self.inner.map(state, documents, lane))

    def combine(self, parts: Sequence[Marked]):
        n_lanes = sum(p.n_lanes for p in parts)
        reach(self.folder, f"combine {parts[0].epoch} {parts[0].round} {n_lanes}")
        return parts[0]._replace(n_lanes=n_lanes, inner=self.inner.combine([p.inner for p in parts]))

    def update(self, state, statistics: Marked):
        reach(self.folder, f"update {statistics.epoch} {statistics.round}")
        new = self.inner.update(state, statistics.inner)
        return new._replace(t=deadly(new.t, self.folder, f"send {statistics.epoch} {statistics.round}"))


def reach(folder: str, point: str) -> None:
    """Write down that this process begins the work at `point`, and carry out the fault there, if it is still due."""
    note(folder, "work.log", f"{point}:{os.getpid()}")
    fault = json.loads(Path(folder, "faults.json").read_text()).get(point)
    if fault is None:
        return
    for turn in range(fault["times"]):
        try:
            os.close(os.open(Path(folder, f"{point}-{turn}.done"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        victims = list(dict.fromkeys(pid_of(folder, v) for v in fault["victims"]))[: fault["count"]]
        for victim in sorted(victims, key=lambda pid: pid == os.getpid()):  # this process goes last
            note(folder, "killed.log", str(victim))
            os.kill(victim, signal.SIGKILL)
        return


def pid_of(folder: str, victim: str | int) -> int:
    if victim == "self":
        return os.getpid()
    return int(Path(folder, "driver.pid").read_text()) if victim == "driver" else int(victim)


def note(folder: str, file: str, line: str) -> None:
    """Append a line, whole even if others write at the same time."""
    descriptor = os.open(Path(folder, file), os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def plan_faults(folder: Path, *points: str, victims: Sequence[str | int] = ("self",), count: int = 99, times: int = 1):
    """Say that at these points the first `count` of the victims die, the first so many `times` that one is reached."""
    folder.mkdir(exist_ok=True)
    faults = {point: {"victims": list(victims), "count": count, "times": times} for point in points}
    (folder / "faults.json").write_text(json.dumps(faults))


def work(folder: Path) -> Counter[str]:
    return Counter(line.rpartition(":")[0] for line in (folder / "work.log").read_text().splitlines())


def killed(folder: Path) -> list[int]:
    file = folder / "killed.log"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


@contextlib.contextmanager
def sabotaged(folder: Path) -> Iterator[None]:
    """Disturb every learner that estimators make meanwhile, as `folder` says."""
    from sdem_dist import MultinomialNB

    make = MultinomialNB._candidate

    def disturbed(*args, **more):
        made = make(*args, **more)
        return replace(made, learner=Saboteur(made.learner, str(folder)))

    with mock.patch.object(MultinomialNB, "_candidate", disturbed):
        yield


def calls(folder: Path) -> int:
    file = folder / "calls.log"
    return len(file.read_text().splitlines()) if file.exists() else 0


def fail_at_first(folder: Path, times: int, error: Exception) -> str:
    note(str(folder), "calls.log", str(os.getpid()))
    if calls(folder) <= times:
        raise error
    return "done"


def die(folder: Path) -> None:
    note(str(folder), "calls.log", str(os.getpid()))
    os.kill(os.getpid(), signal.SIGKILL)


def kill(process: int) -> str:
    os.system(f"kill -9 {process} 2> /dev/null")  # does not fail where the process was the first to call this
    time.sleep(0.5)
    return "killed"


def repeat(value: Any, *_: Any) -> Any:
    return value


def rest(seconds: float) -> int:
    """Take time, and say which process did."""
    time.sleep(seconds)
    return os.getpid()


@dataclass(frozen=True)
class Picky:
    """A learner that cannot take documents of which a word occurs too often."""

    inner: Any
    most: int
    folder: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("inner", "most", "folder"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def map(self, state, documents, lane):
        note(self.folder, "calls.log", f"{lane.start}:{lane.stop}")
        if documents.documents.data.max(initial=0) > self.most:
            raise ArithmeticError("a word too often")
        return self.inner.map(state, documents, lane)
