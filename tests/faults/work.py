"""What test tasks do on workers: fail now and then, always, or fatally; every call is written down."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.saboteur import note


def calls(folder: Path) -> int:
    """Return how many calls were written down in a folder."""
    file = folder / "calls.log"
    return len(file.read_text().splitlines()) if file.exists() else 0


def fail_at_first(folder: Path, times: int, error: Exception) -> str:
    """Fail so many times, then succeed."""
    note(str(folder), "calls.log", str(os.getpid()))
    if calls(folder) <= times:
        raise error
    return "done"


def die(folder: Path) -> None:
    """Kill the worker."""
    note(str(folder), "calls.log", str(os.getpid()))
    os.kill(os.getpid(), signal.SIGKILL)


def kill(process: int) -> str:
    """Kill another worker, so that nobody answers at its address."""
    os.kill(process, signal.SIGKILL)
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
