"""Events as JSON Lines, for programs and for `sdem log`."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sdem_dist.engine.events import Event
from sdem_dist.storage.publish import free_space


class JsonLines:
    """Append every event of a run to a file, a JSON object a line, as it happens.

    Each has ``event``, the name of its class, ``time`` in UTC, and the event's own fields. A disk that fills up during the
    run ends the log with a warning, and not the run.

    Parameters
    ----------
    path : path
        Made where it is absent; a resumed run goes on in the same file.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._ended = False
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab+") as file:  # a path that cannot be written is noticed before the run
            if file.tell():
                file.seek(-1, 2)
                if file.read(1) != b"\n":  # a run that was killed while it wrote
                    file.write(b"\n")

    def __call__(self, event: Event) -> None:
        """Append one event."""
        if self._ended:
            return
        entry: dict[str, Any] = {
            "event": type(event).__name__,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            **asdict(event),
        }
        # Opened each time, so that written lines survive the death of this process.
        try:
            with self._path.open("a", encoding="utf-8") as out:
                out.write(json.dumps(entry, default=str) + "\n")
        except OSError as error:
            self._ended = True  # only the last line may be cut short
            warnings.warn(
                f"the log {self._path} ends here, and the run goes on: {error.strerror or error}"
                f"{free_space(self._path.absolute().parent)}",
                stacklevel=2,
            )
