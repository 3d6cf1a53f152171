"""Progress for people: a bar in a notebook's cell or a terminal, else plain lines."""

import html
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
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
from sdem_dist.engine.monitoring import VALIDATION, brief, kept

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SHORT = 1.0  # seconds of rounds after which a stage that is not monitored gets a line; quicker ones get none
MANY_EPOCHS = 20
PAUSE = 0.1  # seconds between two pictures of a bar in a cell: every one is a message to the browser


class LogLines:
    """Write a line for each epoch to standard error; for a stage that is not monitored one line, if it takes long."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._stage: StageStarted | None = None
        self._seconds = 0.0

    def __call__(self, event: Event) -> None:
        """Write an event as a line for logs."""
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
            said = brief(event, self._stage.shown)
            self._write(f"{event.stage}  {said}  {event.documents_per_second:,.0f} documents/s")
        elif isinstance(event, CheckpointWritten):
            self._write(f"checkpoint {event.path}")
        elif isinstance(event, StageEnded) and event.why:
            self._write(f"{event.stage}: stopped after epoch {event.n_epochs}, since {event.why}; {event.then}")

    def _write(self, line: str) -> None:
        print(f"{self._prefix}{line}", file=sys.stderr, flush=True)


def _worth_a_line(event: EpochEnded, stage: StageStarted) -> bool:
    """Whether an epoch gets a line: of many quick ones without a figure, one in ten does."""
    said = any(name.removeprefix(VALIDATION) in stage.shown for name in event.metrics)
    return said or stage.n_epochs < MANY_EPOCHS or event.seconds >= SHORT or (event.epoch + 1) % 10 == 0


class ProgressBar:
    """Show a bar over the rounds of each stage; of a stage that is monitored it stays, with the latest metrics."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._stage: StageStarted | None = None

    def __call__(self, event: Event) -> None:
        """Move the bar."""
        if isinstance(event, StageStarted):
            self._start(event)
        elif isinstance(event, RunEnded):
            self.stop()
        elif self._progress is not None and self._task is not None and self._stage is not None:
            if isinstance(event, RoundEnded):
                self._progress.advance(self._task)
            elif isinstance(event, EpochEnded) and self._stage.monitored:
                said = brief(event, self._stage.shown)
                self._progress.update(self._task, description=f"{self._prefix}{event.stage}  {said}")
            elif isinstance(event, StageEnded) and not self._stage.monitored:
                self._progress.remove_task(self._task)
            elif isinstance(event, StageEnded) and (said := kept(event)):
                task = next(task for task in self._progress.tasks if task.id == self._task)
                self._progress.update(self._task, total=task.completed, description=f"{task.description}{said}")

    def _start(self, event: StageStarted) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        if self._progress is None:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
            )
            self._progress.start()
        self._task = self._progress.add_task(f"{self._prefix}{event.stage}", total=event.total, completed=event.done)
        self._stage = event

    def stop(self) -> None:
        """Leave the terminal as it was, also after a training that failed."""
        if self._progress is not None:
            self._progress.stop()


def in_notebook() -> bool:
    """Say whether code runs in the kernel of a notebook, without importing IPython."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


class CellBar:
    """Show a bar over the rounds of each stage; of a stage that is monitored it stays, with the latest metrics."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._stage: StageStarted | None = None
        self._cell: Any = None
        self._said, self._done, self._total = "", 0, 1
        self._shown = 0.0

    def __call__(self, event: Event) -> None:
        """Move the bar."""
        if isinstance(event, StageStarted):
            if self._stage is not None and self._stage.monitored:
                self._show()
                self._cell = None  # earlier lines stay; each stage has its own
            self._stage, self._said = event, event.stage
            self._done, self._total = event.done, max(1, event.total)
            self._show()
        elif self._stage is not None and isinstance(event, RoundEnded):
            self._done += 1
            if time.monotonic() - self._shown > PAUSE:
                self._show()
        elif self._stage is not None and isinstance(event, EpochEnded) and self._stage.monitored:
            self._said = f"{event.stage}  {brief(event, self._stage.shown)}"
        elif isinstance(event, StageEnded) and (said := kept(event)):
            self._said, self._total = self._said + said, max(1, self._done)
            self._show()
        elif isinstance(event, RunEnded):
            self._show()

    def _show(self) -> None:
        display = import_module("IPython.display")
        picture = display.HTML(
            f'<progress value="{self._done}" max="{self._total}"></progress> {html.escape(self._prefix + self._said)}'
        )
        if self._cell is None:
            self._cell = display.display(picture, display_id=True)
        else:
            self._cell.update(picture)
        self._shown = time.monotonic()


def for_terminal(prefix: str = "") -> Callback:
    """Return a progress bar if there is a notebook's cell or standard error is a terminal, else plain lines."""
    if in_notebook():
        return CellBar(prefix)
    return ProgressBar(prefix) if sys.stderr.isatty() else LogLines(prefix)


@contextmanager
def shown(prefix: str = "") -> Iterator[Callback]:
    """Yield what `for_terminal` returns, and stop a bar whatever happens meanwhile."""
    callback = for_terminal(prefix)
    try:
        yield callback
    finally:
        if isinstance(callback, ProgressBar):
            callback.stop()
