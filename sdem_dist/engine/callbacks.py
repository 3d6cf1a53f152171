"""Progress for people, a bar or plain lines, and the log of a run as lines of JSON."""

from __future__ import annotations

import html
import json
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdem_dist.counted import counted
from sdem_dist.engine.events import (
    Callback,
    CheckpointWritten,
    EpochEnded,
    Event,
    RoundEnded,
    RunEnded,
    StageEnded,
    StageStarted,
    TaskRetried,
    WorkerLost,
)
from sdem_dist.engine.plan import VALIDATION, brief, outcome
from sdem_dist.errors import BucketError
from sdem_dist.storage import buckets
from sdem_dist.storage.publish import free_space
from sdem_dist.storage.urls import is_url, place

if TYPE_CHECKING:
    from rich.progress import TaskID


SHORT = 1.0  # seconds of rounds after which a stage that is not monitored gets a line; quicker ones get none
MANY_EPOCHS = 20
PAUSE = 0.1  # seconds between two pictures of a bar: in a notebook each is a message to the browser


class LogLines:
    """Write a line for each epoch to standard error; for a stage that is not monitored one line, if it takes long."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._stage: StageStarted | None = None
        self._seconds = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self._stage, self._seconds = event, 0.0
        if isinstance(event, WorkerLost):
            self._write(f"lost the worker {event.worker}; what it was doing is done again elsewhere")
        elif isinstance(event, TaskRetried):
            self._write(f"a task failed and is tried again: {event.error}")
        elif self._stage is not None and self._stage.monitored:
            self._monitored(event)
        elif self._stage is not None and isinstance(event, RoundEnded):
            before, self._seconds = self._seconds, self._seconds + event.seconds
            if before < SHORT <= self._seconds:
                self._write(f"{event.stage}: {counted(self._stage.n_epochs, 'epoch')}")

    def _monitored(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            rounds, lanes = counted(event.n_rounds, "round"), counted(event.n_lanes, "lane")
            self._write(
                f"{event.stage}: {counted(event.n_epochs, 'epoch')}, {rounds} per epoch, {lanes} per round, "
                f"{counted(event.n_workers, 'thread')}" + (f", from epoch {event.epoch + 1}" if event.epoch else "")
            )
        elif isinstance(event, EpochEnded) and self._stage is not None and _worth_a_line(event, self._stage):
            line = brief(event, self._stage.main_metrics)
            self._write(f"{event.stage}  {line}  {event.documents_per_second:,.0f} documents/s")
        elif isinstance(event, CheckpointWritten):
            self._write(f"checkpoint {event.path}")
        elif isinstance(event, StageEnded) and event.why:
            self._write(f"{event.stage}: stopped after epoch {event.n_epochs}, since {event.why}; {event.then}")

    def _write(self, line: str) -> None:
        print(f"{self._prefix}{line}", file=sys.stderr, flush=True)


def _worth_a_line(event: EpochEnded, stage: StageStarted) -> bool:
    """Whether an epoch gets a line: of many quick ones without a figure, one in ten does."""
    has_figures = any(name.removeprefix(VALIDATION) in stage.main_metrics for name in event.metrics)
    return has_figures or stage.n_epochs < MANY_EPOCHS or event.seconds >= SHORT or (event.epoch + 1) % 10 == 0


class _TerminalLines:
    """Bars of `rich` in a terminal, below each other."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
        self._progress = Progress(*columns, console=Console(stderr=True))
        self._bar: TaskID | None = None

    def begin(self) -> None:
        if self._bar is None:
            self._progress.start()
        self._bar = self._progress.add_task("")

    def remove(self) -> None:
        if self._bar is not None:
            self._progress.remove_task(self._bar)

    def draw(self, text: str, done: int, total: int) -> None:
        assert self._bar is not None
        self._progress.update(self._bar, description=text, completed=done, total=total)

    def stop(self) -> None:
        self._progress.stop()


class _CellLines:
    """Bars in the cell of a notebook, below each other."""

    def __init__(self) -> None:
        self._cell: Any = None
        self._removed = False

    def begin(self) -> None:
        if not self._removed:
            self._cell = None
        self._removed = False

    def remove(self) -> None:
        self._removed = True  # the next bar takes its place

    def draw(self, text: str, done: int, total: int) -> None:
        display = import_module("IPython.display")
        picture = display.HTML(f'<progress value="{done}" max="{total}"></progress> {html.escape(text)}')
        if self._cell is None:
            self._cell = display.display(picture, display_id=True)
        else:
            self._cell.update(picture)

    def stop(self) -> None:
        pass


class ProgressBar:
    """Show a bar over the rounds of each stage; of a stage that is monitored it stays, with the latest metrics."""

    def __init__(self, prefix: str = "") -> None:
        self._lines, self._prefix = _CellLines() if in_notebook() else _TerminalLines(), prefix
        self._stage: StageStarted | None = None
        self._text, self._done, self._total, self._drawn = "", 0, 1, 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self._lines.begin()
            self._stage, self._text, self._done, self._total = event, event.stage, event.done, max(1, event.total)
            self._draw()
        elif isinstance(event, RoundEnded):
            self._done += 1
            if time.monotonic() - self._drawn > PAUSE:
                self._draw()
        elif isinstance(event, EpochEnded) and self._stage is not None and self._stage.monitored:
            self._text = f"{event.stage}  {brief(event, self._stage.main_metrics)}"
        elif isinstance(event, StageEnded) and self._stage is not None and not self._stage.monitored:
            self._lines.remove()
            self._stage = None
        elif isinstance(event, StageEnded):
            self._text, self._total = self._text + outcome(event), max(1, self._done)
            self._draw()
        elif isinstance(event, RunEnded):
            self.stop()

    def _draw(self) -> None:
        if self._stage is not None:
            self._lines.draw(self._prefix + self._text, self._done, self._total)
            self._drawn = time.monotonic()

    def stop(self) -> None:
        """Leave the terminal as it was, also after a training that failed."""
        self._draw()
        self._lines.stop()


def in_notebook() -> bool:
    """Say whether code runs in the kernel of a notebook, without importing IPython."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def progress_callback(prefix: str = "") -> Iterator[Callback]:
    """Yield a progress bar if there is a notebook's cell or standard error is a terminal, else plain lines.

    A bar is stopped whatever happens meanwhile.
    """
    if not in_notebook() and not sys.stderr.isatty():
        yield LogLines(prefix)
        return
    bar = ProgressBar(prefix)
    try:
        yield bar
    finally:
        bar.stop()


PUT_SECONDS = 5.0  # seconds after which a log in a bucket is written again: objects cannot be appended to


class JsonLines:
    """Append every event of a run to a file, a JSON object per line, as it happens.

    Each has ``event``, the name of its class, ``time`` in UTC, and the event's own fields. A disk that fills up during
    the run ends the log with a warning, and not the run. At a URL the last seconds of a run that is killed are missing.

    `path`: made where it is absent; a resumed run goes on in the same file.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = place(path)
        self._ended = False
        self._log = _Object(str(self._path)) if is_url(path) else _File(self._path)

    def __call__(self, event: Event) -> None:
        if self._ended:
            return
        entry: dict[str, Any] = {
            "event": type(event).__name__,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            **asdict(event),
        }
        try:
            self._log.append((json.dumps(entry, default=str) + "\n").encode(), last=isinstance(event, RunEnded))
        except (OSError, BucketError) as error:
            self._ended = True  # only the last line may be cut short
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            room = "" if is_url(self._path) else free_space(self._path.absolute().parent)
            warnings.warn(f"the log {self._path} ends here, and the run goes on: {reason}{room}", stacklevel=2)

    def failed(self) -> None:
        """Write what waits; `fit` calls it where it does not reach its end."""
        with suppress(OSError, BucketError):  # the failure itself says more
            self._log.append(b"", last=True)


class _File:
    """A file that is opened for each line, so that written lines survive the death of this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:  # a path that cannot be written is noticed before the run
            if file.tell():
                file.seek(-1, 2)
                if file.read(1) != b"\n":  # a run that was killed while it wrote
                    file.write(b"\n")

    def append(self, line: bytes, last: bool) -> None:
        with self._path.open("ab") as out:
            out.write(line)


class _Object:
    """An object that is written whole every few seconds, and after the last line."""

    def __init__(self, url: str) -> None:
        self._url, self._content = url, bytearray()
        with suppress(FileNotFoundError):
            self._content += buckets.get(url)
        self._put()  # one that cannot be written is noticed before the run

    def append(self, line: bytes, last: bool) -> None:
        self._content += line
        if last or time.monotonic() - self._written >= PUT_SECONDS:
            self._put()

    def _put(self) -> None:
        buckets.put(self._url, bytes(self._content))
        self._written = time.monotonic()
