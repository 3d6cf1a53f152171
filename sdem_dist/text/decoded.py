"""Text of a file, line by line, with the number of each line."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from sdem_dist.errors import IngestError
from sdem_dist.text.bad_lines import LineGate, not_unicode
from sdem_dist.text.compressed import open_binary


@contextmanager
def open_text(path: Path, encoding: str, newline: str) -> Iterator[TextIO]:
    """Open `path`, compressed or not, as text; bytes that `encoding` forbids arrive as U+DC80..U+DCFF.

    So the caller can say on which line they are. A byte order mark at the beginning of UTF-8 is dropped.
    """
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        encoding = "utf-8-sig"
    with open_binary(path) as raw:
        try:
            stream = io.TextIOWrapper(raw, encoding, errors="surrogateescape", newline=newline)
        except LookupError as error:
            raise IngestError(
                f"{path}: {encoding!r} is not an encoding that Python knows, such as 'latin-1'"
            ) from error
        try:
            yield stream
            stream.detach()  # the caller that opened the bytes closes them
        except UnicodeDecodeError as error:
            raise IngestError(f"{path}: it is not {encoding} text ({error.reason}); name its own encoding") from error


def numbered_lines(path: Path, encoding: str, gate: LineGate) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, line without its end) for every line of `path` that is not blank."""
    with open_text(path, encoding, newline="\n") as stream:
        for number, line in enumerate(stream, 1):
            if line.isspace() and "\t" not in line:
                continue
            if (problem := not_unicode(line)) is not None:
                gate.refuse(path, number, f"the line has {problem}")
                continue
            yield number, line.rstrip("\r\n")
