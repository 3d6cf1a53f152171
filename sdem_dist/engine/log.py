"""Events as JSON Lines, for programs and for `sdem log`."""

import json
import time
import warnings
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sdem_dist.engine.events import Event, RunEnded
from sdem_dist.errors import BucketError
from sdem_dist.storage import buckets
from sdem_dist.storage.places import is_url, place
from sdem_dist.storage.publish import free_space

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
        """Append one event."""
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
