"""Progress for people, bars or plain lines, and the log of a run as lines of JSON."""

from __future__ import annotations

import html
import json
import re
import sys
import time
import warnings
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec

from sdem_dist.counted import counted, metric_of
from sdem_dist.engine import events
from sdem_dist.engine.events import Callback, EpochEnded, Event, RoundEnded, RunEnded, StageEnded, StageStarted
from sdem_dist.engine.plan import VALIDATION
from sdem_dist.errors import BucketError
from sdem_dist.storage import buckets
from sdem_dist.storage.buckets import is_url, place
from sdem_dist.storage.publish import free_space

SHORT = 1.0  # an unmonitored stage gets a line once its rounds have taken this many seconds
MANY_EPOCHS = 20
PAUSE = 0.1  # least seconds between two redraws in a notebook: each redraw is a message to the browser
PUT_SECONDS = 5.0  # least seconds between two uploads of a log to a bucket: objects cannot be appended to


def brief(event: EpochEnded, main_metrics: tuple[str, ...]) -> str:
    """Return one line: the epoch and the metrics `main_metrics`, of held-out documents if they were evaluated."""
    validated = any(name.startswith(VALIDATION) for name in event.metrics)
    names = [(name, f"{VALIDATION if validated else ''}{name}") for name in main_metrics]
    figures = [f"{metric_of(name).name} {event.metrics[full]:.4f}" for name, full in names if full in event.metrics]
    line = "  ".join([f"epoch {event.epoch + 1}", *(["held-out"] if validated else []), *figures])
    return re.sub(r" \([^()]*\)|calibrated ", "", line)


class LogLines:
    """Write a line per epoch to standard error; an unmonitored stage gets a single line, and only if it takes long."""

    _seconds, _stage = 0.0, cast(StageStarted | None, None)

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self._stage, self._seconds = event, 0.0
        line = ""
        match event, self._stage:
            case events.WorkerLost(), _:
                line = f"lost the worker {event.worker}; other workers repeat its tasks"
            case events.TaskRetried(), _:
                line = f"retrying a failed task: {event.error}"
            case RoundEnded(), StageStarted(monitored=False) as stage:
                before, self._seconds = self._seconds, self._seconds + event.seconds
                if before < SHORT <= self._seconds:
                    line = f"{stage.stage}: {counted(stage.n_epochs, 'epoch')}"
            case StageStarted(monitored=True), _:
                rounds, lanes = counted(event.n_rounds, "round"), counted(event.n_lanes, "lane")
                line = f"{event.stage}: {counted(event.n_epochs, 'epoch')}, {rounds} per epoch, {lanes} per round, "
                line += counted(event.n_workers, "thread") + (f", from epoch {event.epoch + 1}" if event.epoch else "")
            case EpochEnded(), StageStarted(monitored=True) as stage:
                # If epochs are many, quick and without metrics, only every tenth gets a line.
                has_figures = any(name.removeprefix(VALIDATION) in stage.main_metrics for name in event.metrics)
                if has_figures or stage.n_epochs < MANY_EPOCHS or event.seconds >= SHORT or event.epoch % 10 == 9:
                    figures = brief(event, stage.main_metrics)
                    line = f"{event.stage}  {figures}  {event.documents_per_second:,.0f} documents/s"
            case events.CheckpointWritten(), StageStarted(monitored=True):
                line = f"checkpoint {event.path}"
            case StageEnded(), StageStarted(monitored=True) if event.why:
                line = f"{event.stage}: stopped after epoch {event.n_epochs}, because {event.why}{event.then}"
        if line:
            print(line, file=sys.stderr, flush=True)


class ProgressBar(ExitStack):
    """Show a bar per stage, with `rich` or in a notebook cell; the bar of a monitored stage stays, with its metrics."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns, screen = (TextColumn("{task.description}", markup=False), BarColumn()), Console(stderr=True)
        self._bars = self.enter_context(Progress(*columns, console=screen, disable=in_notebook()))
        self._drawn, self._stage, self._cell = 0.0, cast(StageStarted | None, None), cast(Any, None)

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            if self._stage is not None and not self._stage.monitored:
                self._bars.remove_task(self._bars.task_ids[-1])  # the next progress bar overwrites this line
            self._stage = event
            self._bars.add_task(event.stage, completed=event.done, total=max(1, event.total))
        if self._stage is None:
            return
        bar = self._bars.tasks[-1]
        if isinstance(event, RoundEnded):
            self._bars.advance(bar.id)
        elif isinstance(event, EpochEnded) and self._stage.monitored:
            self._bars.update(bar.id, description=f"{event.stage}  {brief(event, self._stage.main_metrics)}")
        elif isinstance(event, StageEnded):
            text = bar.description + (f"  stopped{event.then}" if event.then else "")
            self._bars.update(bar.id, description=text, total=max(1, bar.completed))
        draws = isinstance(event, RoundEnded) and time.monotonic() - self._drawn > PAUSE
        if in_notebook() and (draws or isinstance(event, StageStarted | StageEnded)):
            self._drawn, display, rows = time.monotonic(), import_module("IPython.display"), list[str]()
            for bar in self._bars.tasks:
                progress = f'<progress value="{bar.completed:.0f}" max="{bar.total:.0f}"></progress>'
                rows.append(f"{progress} {html.escape(bar.description)}")
            picture = display.HTML("<br>".join(rows))
            if self._cell is None:
                self._cell = display.display(picture, display_id=True)
            else:
                self._cell.update(picture)


def in_notebook() -> bool:
    """Return whether the code runs in a notebook kernel, without importing IPython."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and type(ipython.get_ipython()).__name__ == "ZMQInteractiveShell"


def progress_callback() -> AbstractContextManager[Callback]:
    """Return a progress bar in a notebook or a terminal, otherwise a writer of plain lines."""
    return ProgressBar() if in_notebook() or sys.stderr.isatty() else nullcontext(LogLines())


class JsonLines:
    """Append every event of a run to a file, a JSON object per line: ``event``, ``time`` in UTC, and its fields.

    If the disk is full, the log ends with a warning and the run continues. A file is opened and closed for each line,
    so that lines survive if this process is killed; an object at a URL is uploaded every few seconds.
    """

    def __init__(self, path: str | Path) -> None:
        self._path, self._is_object = place(path), is_url(path)
        self._ended, self._content, self._written = False, b"", 0.0  # _content: an object's whole log; empty for a file
        if self._is_object:
            with suppress(FileNotFoundError):
                self._content = buckets.get(str(self._path))
        else:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab+") as file:
                file.seek(max(0, file.tell() - 1))
                self._content = b"" if file.read() in (b"", b"\n") else b"\n"  # ends a line cut short by a killed run
        self._append(b"", last=True)  # raises before the run if the path cannot be written

    def __call__(self, event: Event) -> None:
        if self._ended:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = {"event": type(event).__name__, "time": now, **msgspec.structs.asdict(event)}
        try:
            self._append((json.dumps(entry, default=str) + "\n").encode(), last=isinstance(event, RunEnded))
        except (OSError, BucketError) as error:
            self._ended = True  # a line cut short must remain the last
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            room = "" if self._is_object else free_space(self._path.absolute().parent)
            warnings.warn(f"cannot write to the log {self._path}: {reason}{room}; the run continues", stacklevel=2)

    def failed(self) -> None:
        """Write the lines not yet uploaded; `fit` calls this when it fails."""
        with suppress(OSError, BucketError):  # an error here must not hide the error of the fit
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
