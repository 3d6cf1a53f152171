"""Progress in the cell of a notebook."""

import html
import sys
import time
from importlib import import_module
from typing import Any

from sdem_dist.engine.events import EpochEnded, Event, RoundEnded, RunEnded, StageEnded, StageStarted
from sdem_dist.engine.monitoring import brief, kept

PAUSE = 0.1  # seconds between two pictures of a bar: every one is a message to the browser


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
