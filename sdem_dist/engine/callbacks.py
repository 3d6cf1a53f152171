"""Progress for people: a bar where somebody watches, plain lines where nobody does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sdem_dist.counted import counted
from sdem_dist.engine.events import (
    Callback,
    CheckpointWritten,
    EpochEnded,
    Event,
    RoundEnded,
    RunEnded,
    RunStarted,
    TaskRetried,
    WorkerLost,
)


def describe_epoch(event: EpochEnded) -> str:
    """Return one line about an epoch."""
    metrics = "  ".join(f"{name} {value:.4f}" for name, value in event.metrics.items())
    return f"epoch {event.epoch + 1}  {event.documents_per_second:,.0f} documents/s  {metrics}".rstrip()


def _brief(event: EpochEnded) -> str:
    """Return what leaves room for a bar: the accuracy and the conditional loss, on validation documents if there are any."""
    where = "validation_" if "validation_accuracy" in event.metrics else ""
    shown = [
        f"{name} {event.metrics[where + name]:.4f}" for name in ("accuracy", "ncll") if where + name in event.metrics
    ]
    return "  ".join([f"epoch {event.epoch + 1}", *(["validation"] if where else []), *shown])


class LogLines:
    """Write a line an epoch to standard error."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __call__(self, event: Event) -> None:
        """Write what a person without a terminal wants to know of an event."""
        if isinstance(event, RunStarted):
            rounds, lanes = counted(event.n_rounds, "round"), counted(event.n_lanes, "lane")
            self._write(
                f"{counted(event.n_epochs, 'epoch')}, {rounds} an epoch, {lanes} a round, "
                f"{counted(event.n_workers, 'worker')}" + (f", from epoch {event.epoch + 1}" if event.epoch else "")
            )
        elif isinstance(event, EpochEnded):
            self._write(describe_epoch(event))
        elif isinstance(event, CheckpointWritten):
            self._write(f"checkpoint {event.path}")
        elif isinstance(event, WorkerLost):
            self._write(f"lost the worker {event.worker}; what it was doing is done again elsewhere")
        elif isinstance(event, TaskRetried):
            self._write(f"a task failed and is tried again: {event.error}")
        elif isinstance(event, RunEnded) and event.reason == "patience":
            self._write(
                f"stopped after epoch {event.n_epochs}: the validation loss did not improve; epoch {event.kept} is kept"
            )

    def _write(self, line: str) -> None:
        print(f"{self._prefix}{line}", file=sys.stderr, flush=True)


class ProgressBar:
    """Show a bar over the rounds of the run, and the latest metrics."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._progress: Any = None
        self._task: Any = None

    def __call__(self, event: Event) -> None:
        """Move the bar."""
        if isinstance(event, RunStarted):
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=True),
            )
            self._progress.start()
            total, done = event.n_epochs * event.n_rounds, event.epoch * event.n_rounds + event.round
            self._task = self._progress.add_task(self._prefix, total=total, completed=done)
        elif isinstance(event, RoundEnded):
            self._progress.advance(self._task)
        elif isinstance(event, EpochEnded):
            self._progress.update(self._task, description=f"{self._prefix}{_brief(event)}")
        elif isinstance(event, RunEnded):
            self.stop()

    def stop(self) -> None:
        """Leave the terminal as it was, also after a training that failed."""
        if self._progress is not None:
            self._progress.stop()


def for_terminal(prefix: str = "") -> Callback:
    """Return a progress bar if standard error is a terminal, else plain lines."""
    return ProgressBar(prefix) if sys.stderr.isatty() else LogLines(prefix)


@contextmanager
def shown(prefix: str) -> Iterator[Callback]:
    """Yield what `for_terminal` returns, and stop a bar whatever happens meanwhile."""
    callback = for_terminal(prefix)
    try:
        yield callback
    finally:
        if isinstance(callback, ProgressBar):
            callback.stop()
