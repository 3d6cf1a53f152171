"""Paths and URLs alike: a URL with the methods of a path, so that code for files also works for objects."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Generator
from pathlib import Path, PosixPath
from typing import IO, Any

from sdem_dist.errors import SdemError
from sdem_dist.storage import buckets
from sdem_dist.storage.buckets import ChangedError

BLOCK = 4 << 20  # bytes that a reader of an object requests at once


class Url(PosixPath):
    """The URL of an object, or of a folder of objects: ``s3://bucket/name``. An object is written whole."""

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    def __fspath__(self) -> str:
        return str(self)

    def absolute(self) -> Url:
        return self

    resolve = absolute  # type: ignore[assignment]

    @property
    def parents(self) -> tuple[Url, ...]:  # type: ignore[override]
        bucket, key = buckets.split(str(self))
        return tuple(type(self)(bucket, *key.split("/")[:n]) for n in range(key.count("/"), -1, -1)) if key else ()

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return size and time of change; FileNotFoundError where nothing is."""
        try:
            entry = buckets.head(str(self))
        except FileNotFoundError:
            if not self.is_dir():
                raise
            return os.stat_result((stat.S_IFDIR | 0o755, *[0] * 9))
        seconds = entry.modified_ns // 10**9
        values = (stat.S_IFREG | 0o644, 0, 0, 0, 0, 0, entry.size, seconds, seconds, seconds)
        return os.stat_result(values, {"st_mtime_ns": entry.modified_ns})

    def is_file(self) -> bool:
        try:
            return bool(buckets.head(str(self)))
        except FileNotFoundError:
            return False

    def is_dir(self) -> bool:
        return any(buckets.children(str(self)))

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        return self.is_file() or self.is_dir()

    def iterdir(self) -> Generator[Url, None, None]:
        folders, objects = buckets.children(str(self))
        yield from (self / name for name in sorted([*folders, *objects]))

    def walk(self, *arguments: Any, **options: Any) -> Generator[tuple[Url, list[str], list[str]], None, None]:
        folders, objects = buckets.children(str(self))
        yield self, folders, objects
        for name in folders:
            yield from (self / name).walk()

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a folder is there when something is in it."""

    def read_bytes(self) -> bytes:
        return buckets.get(str(self))

    def read_text(self, encoding: str | None = None, errors: str | None = None, newline: str | None = None) -> str:
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def write_bytes(self, data: Any) -> int:
        buckets.put(str(self), bytes(data))
        return len(data)

    def write_text(self, data: str, encoding: Any = None, errors: Any = None, newline: Any = None) -> int:
        return self.write_bytes(data.encode(encoding or "utf-8", errors or "strict"))

    def unlink(self, missing_ok: bool = False) -> None:
        buckets.delete(str(self))

    def open(  # type: ignore[override]
        self, mode: str = "r", buffering: int = -1, encoding: str | None = None, errors: Any = None, newline: Any = None
    ) -> IO[Any]:
        if set(mode) - set("rbt"):
            raise io.UnsupportedOperation(f"{self}: an object in a bucket is written whole, not opened with {mode!r}")
        raw = io.BufferedReader(_RangeReader(str(self)), BLOCK)
        return raw if "b" in mode else io.TextIOWrapper(raw, encoding, errors, newline)


class _RangeReader(io.RawIOBase):
    """Reads an object by ranges. Unlike obstore's reader it sees that the object was replaced, and retries."""

    def __init__(self, url: str) -> None:
        self._url, self._at, self._entry = url, 0, buckets.head(url)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._entry.size}[whence]
        if self._at < 0:
            raise OSError(22, "a position before the beginning", self._url)
        return self._at

    def readinto(self, buffer: Any) -> int:
        stop = min(self._at + len(buffer), self._entry.size)
        if self._at >= stop:
            return 0
        try:
            part = buckets.get(self._url, self._at, stop, self._entry.tag)
        except ChangedError:
            raise OSError(5, "it was replaced while it was read: read it again", self._url) from None
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a Path makes one slash of two


def is_url(location: str | Path) -> bool:
    """Whether `location` is a URL such as ``s3://bucket/name``, rather than a path of this machine."""
    return "://" in str(location) if isinstance(location, str) else bool(_URL.match(str(location)))


def place(location: str | Path) -> Path:
    """Return a location as a path, or as a `Url` where it is a URL, also one that was made a Path.

    Raises BucketError: a URL has no bucket, or a name that no object has; as a path it would be another one's.
    """
    if not is_url(location):
        return Path(location)
    if isinstance(location, str):
        buckets.split(location)
    return location if isinstance(location, Url) else Url(str(location))


def for_a_reader(path: Path) -> Path | IO[Any]:
    """Return what a reader of another package opens: the path of a file, or the open object at a URL."""
    return path.open("rb") if is_url(path) else path


def refuse_url(path: str | Path, what: str) -> None:
    """Raise SdemError if `path` is a URL, also one that was made a Path: as a path it would name a local folder."""
    if _URL.match(str(path)):
        url = re.sub(":/+", "://", str(path), count=1)
        url = re.sub(r"(?<=//).*@|\?.*", "", url)  # these may be credentials
        raise SdemError(f"{url} is a URL, and {what}: give a path of this machine or of a mounted file system")
