"""Events as JSON Lines, for programs and for `sdem log`."""

import atexit
import json
import time
import warnings
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

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
        self._append: _AppendedObject | _AppendedFile
        self._append = _opened_object(str(self._path)) if is_url(path) else _AppendedFile(self._path)

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
            self._append((json.dumps(entry, default=str) + "\n").encode(), last=isinstance(event, RunEnded))
        except (OSError, BucketError) as error:
            self._ended = True  # only the last line may be cut short
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            room = "" if is_url(self._path) else free_space(self._path.absolute().parent)
            warnings.warn(f"the log {self._path} ends here, and the run goes on: {reason}{room}", stacklevel=2)


class _AppendedFile:
    """A file that is opened for each line, so that written lines survive the death of this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:  # a path that cannot be written is noticed before the run
            if file.tell():
                file.seek(-1, 2)
                if file.read(1) != b"\n":  # a run that was killed while it wrote
                    file.write(b"\n")

    def __call__(self, line: bytes, last: bool) -> None:
        with self._path.open("ab") as out:
            out.write(line)


class _AppendedObject:
    """An object that is written whole every few seconds, after the last line, and when the process ends."""

    def __init__(self, url: str) -> None:
        self._url, self._content, self._waiting = url, bytearray(), False

    def open(self) -> None:
        """Take over the bucket's log, unless lines wait here, and write it: one that cannot be is noticed early."""
        if not self._waiting:
            try:
                self._content = bytearray(buckets.get(self._url))
            except FileNotFoundError:
                self._content = bytearray()
        self._put()

    def __call__(self, line: bytes, last: bool) -> None:
        self._content += line
        self._waiting = True
        _unwritten.add(self)
        if last or time.monotonic() - self._written >= PUT_SECONDS:
            self._put()

    def _put(self) -> None:
        buckets.put(self._url, bytes(self._content))
        self._written, self._waiting = time.monotonic(), False
        _unwritten.discard(self)

    def finish(self) -> None:
        """Write the lines that wait, if that can be done."""
        with suppress(OSError, BucketError):  # nobody is left to be told
            self._put()


_objects: WeakValueDictionary[str, _AppendedObject] = WeakValueDictionary()
"""By URL: two logs at one URL would write over each other's lines."""
_unwritten: set[_AppendedObject] = set()


def _opened_object(url: str) -> _AppendedObject:
    found = _objects.setdefault(url, _AppendedObject(url))
    found.open()
    return found


@atexit.register
def _finish() -> None:
    for waiting in list(_unwritten):
        waiting.finish()
