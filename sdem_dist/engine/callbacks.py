"""Progress for people, bars or plain lines, and the log of a run as lines of JSON."""

from __future__ import annotations

import html
import json
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from sdem_dist import glossary
from sdem_dist.counted import counted
from sdem_dist.engine import events
from sdem_dist.engine.events import Callback, EpochEnded, Event, RoundEnded, RunEnded, StageEnded, StageStarted
from sdem_dist.engine.plan import VALIDATION
from sdem_dist.errors import BucketError
from sdem_dist.storage import buckets
from sdem_dist.storage.buckets import is_url, place
from sdem_dist.storage.publish import free_space

SHORT = 1.0  # seconds of rounds after which a stage that is not monitored gets a line; quicker ones get none
MANY_EPOCHS = 20
PAUSE = 0.1  # seconds between two pictures of bars: in a notebook each is a message to the browser
PUT_SECONDS = 5.0  # seconds after which a log in a bucket is written again: objects cannot be appended to


def brief(event: EpochEnded, main_metrics: tuple[str, ...]) -> str:
    """Return what fits on a line: the metrics `main_metrics`, those of held-out documents if there are any."""
    validated = any(name.startswith(VALIDATION) for name in event.metrics)
    names = [(name, f"{VALIDATION if validated else ''}{name}") for name in main_metrics]
    figures = [f"{glossary.short(name)} {event.metrics[full]:.4f}" for name, full in names if full in event.metrics]
    return "  ".join([f"epoch {event.epoch + 1}", *(["held-out"] if validated else []), *figures])


class LogLines:
    """Write a line for each epoch to standard error; for a stage that is not monitored one line, if it takes long."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix, self._seconds = prefix, 0.0
        self._stage: StageStarted | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self._stage, self._seconds = event, 0.0
        line = self._line(event)
        if line:
            print(f"{self._prefix}{line}", file=sys.stderr, flush=True)

    def _line(self, event: Event) -> str:
        """Return what an event is worth to people; empty if nothing."""
        match event, self._stage:
            case events.WorkerLost(), _:
                return f"lost the worker {event.worker}; what it was doing is done again elsewhere"
            case events.TaskRetried(), _:
                return f"a task failed and is tried again: {event.error}"
            case RoundEnded(), StageStarted(monitored=False) as stage:
                before, self._seconds = self._seconds, self._seconds + event.seconds
                if before < SHORT <= self._seconds:
                    return f"{stage.stage}: {counted(stage.n_epochs, 'epoch')}"
            case StageStarted(monitored=True), _:
                rounds, lanes = counted(event.n_rounds, "round"), counted(event.n_lanes, "lane")
                goes_on = f", from epoch {event.epoch + 1}" if event.epoch else ""
                sizes = f"{counted(event.n_epochs, 'epoch')}, {rounds} per epoch, {lanes} per round"
                return f"{event.stage}: {sizes}, {counted(event.n_workers, 'thread')}{goes_on}"
            case EpochEnded(), StageStarted(monitored=True) as stage:
                # Of many quick epochs without a figure, one in ten gets a line.
                has_figures = any(name.removeprefix(VALIDATION) in stage.main_metrics for name in event.metrics)
                if has_figures or stage.n_epochs < MANY_EPOCHS or event.seconds >= SHORT or event.epoch % 10 == 9:
                    rate = f"{event.documents_per_second:,.0f} documents/s"
                    return f"{event.stage}  {brief(event, stage.main_metrics)}  {rate}"
            case events.CheckpointWritten(), StageStarted(monitored=True):
                return f"checkpoint {event.path}"
            case StageEnded(), StageStarted(monitored=True) if event.why:
                return f"{event.stage}: stopped after epoch {event.n_epochs}, since {event.why}; {event.then}"
        return ""


class Bar(msgspec.Struct):
    """The bar of a stage."""

    text: str
    done: int
    total: int


class ProgressBar:
    """Show a bar over the rounds of each stage; of a stage that is monitored it stays, with the latest metrics.

    The bars stand below each other: in a terminal by `rich`, in a notebook in the output of the cell.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix, self._bars, self._drawn = prefix, list[Bar](), 0.0
        self._stage: StageStarted | None = None
        self._screen: Any = None  # the display of a cell, or a terminal's

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self._drop_unmonitored()
            self._stage = event
            self._bars.append(Bar(event.stage, event.done, max(1, event.total)))
        elif isinstance(event, RunEnded):
            self.stop()
        if self._stage is None:
            return
        bar = self._bars[-1]
        if isinstance(event, RoundEnded):
            bar.done += 1
            if time.monotonic() - self._drawn <= PAUSE:
                return
        elif isinstance(event, EpochEnded) and self._stage.monitored:
            bar.text = f"{event.stage}  {brief(event, self._stage.main_metrics)}"
        elif isinstance(event, StageEnded):
            bar.text, bar.total = bar.text + (f"  stopped, {event.then}" if event.then else ""), max(1, bar.done)
        if isinstance(event, StageStarted | RoundEnded | StageEnded):
            self._draw()

    def _drop_unmonitored(self) -> None:
        if self._stage is not None and not self._stage.monitored:
            self._bars.pop()  # the next bar takes its place

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if in_notebook():
            display = import_module("IPython.display")
            rows = [
                f'<progress value="{bar.done}" max="{bar.total}"></progress> {html.escape(self._prefix + bar.text)}'
                for bar in self._bars
            ]
            picture = display.HTML("<br>".join(rows))
            if self._screen is None:
                self._screen = display.display(picture, display_id=True)
            else:
                self._screen.update(picture)
            return
        from rich.console import Console
        from rich.live import Live
        from rich.progress_bar import ProgressBar as RichBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        for bar in self._bars:
            grid.add_row(Text(self._prefix + bar.text), RichBar(bar.total, bar.done, width=40))
        if self._screen is None:
            self._screen = Live(console=Console(stderr=True), auto_refresh=False)
            self._screen.start()
        self._screen.update(grid, refresh=True)

    def stop(self) -> None:
        """Leave the terminal as it was, also after a training that failed."""
        self._drop_unmonitored()
        self._stage = None
        if self._screen is not None:
            self._draw()
            if not in_notebook():
                self._screen.stop()
        self._screen, self._bars = None, []


def in_notebook() -> bool:
    """Say whether code runs in the kernel of a notebook, without importing IPython."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and type(ipython.get_ipython()).__name__ == "ZMQInteractiveShell"


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


class JsonLines:
    """Append every event of a run to a file, a JSON object per line, as it happens.

    Each has ``event``, the name of its class, ``time`` in UTC, and the event's own fields. A disk that fills up during
    the run ends the log with a warning, and not the run. A file is opened for each line, so that written lines survive
    the death of this process. An object at a URL is written whole every few seconds: the last seconds of a run that is
    killed are missing.

    `path`: made where it is absent; a resumed run goes on in the same file.
    """

    def __init__(self, path: str | Path) -> None:
        self._path, self._is_object = place(path), is_url(path)
        self._ended, self._content, self._written = False, b"", 0.0  # of an object all, of a file nothing
        if self._is_object:
            with suppress(FileNotFoundError):
                self._content = buckets.get(str(self._path))
        else:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab+") as file:
                file.seek(max(0, file.tell() - 1))
                self._content = b"" if file.read() in (b"", b"\n") else b"\n"  # a run that was killed while it wrote
        self._append(b"", last=True)  # a path that cannot be written is noticed before the run

    def __call__(self, event: Event) -> None:
        if self._ended:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = {"event": type(event).__name__, "time": now, **msgspec.structs.asdict(event)}
        try:
            self._append((json.dumps(entry, default=str) + "\n").encode(), last=isinstance(event, RunEnded))
        except (OSError, BucketError) as error:
            self._ended = True  # only the last line may be cut short
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            room = "" if self._is_object else free_space(self._path.absolute().parent)
            warnings.warn(f"the log {self._path} ends here, and the run goes on: {reason}{room}", stacklevel=2)

    def failed(self) -> None:
        """Write what waits; `fit` calls it where it does not reach its end."""
        with suppress(OSError, BucketError):  # the failure itself says more
            self._append(b"", last=True)

    def _append(self, line: bytes, *, last: bool) -> None:
        self._content += line
        if not self._is_object:
            with self._path.open("ab") as out:
                out.write(self._content)
            self._content = b""
        elif last or time.monotonic() - self._written >= PUT_SECONDS:
            buckets.put(str(self._path), self._content)
            self._written = time.monotonic()
