"""Paths and URLs alike: a URL with the methods of a path, so that code for files also works for objects."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path, PosixPath
from typing import IO, Any

from sdem_dist.errors import SdemError
from sdem_dist.storage import buckets
from sdem_dist.storage.buckets import ChangedError

BLOCK = 4 << 20
AHEAD = 4  # blocks that a reader asks for at once


class Url(PosixPath):
    """The URL of an object, or of a folder of objects: ``s3://bucket/name``.

    Only reading, listing and removing; `sdem_dist.storage.publish` writes.
    """

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    def __fspath__(self) -> str:
        return str(self)

    def absolute(self) -> Url:
        """Return it: URLs are absolute."""
        return self

    def resolve(self, strict: bool = False) -> Url:
        """Return it."""
        return self

    @property
    def parents(self) -> tuple[Url, ...]:  # type: ignore[override]
        """The folders that it is in, the bucket last."""
        bucket, key = buckets.split(str(self))
        return tuple(type(self)(bucket, *key.split("/")[:n]) for n in range(key.count("/"), -1, -1)) if key else ()

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return size and time of change; FileNotFoundError where nothing is."""
        try:
            found = buckets.head(str(self))
        except FileNotFoundError:
            if not self.is_dir():
                raise
            return os.stat_result((stat.S_IFDIR | 0o755, *[0] * 9))
        seconds = found.modified_ns // 10**9
        values = (stat.S_IFREG | 0o644, 0, 0, 0, 0, 0, found.size, seconds, seconds, seconds)
        return os.stat_result(values, {"st_mtime_ns": found.modified_ns})

    def is_file(self) -> bool:
        """Whether there is an object."""
        try:
            return bool(buckets.head(str(self)))
        except FileNotFoundError:
            return False

    def is_dir(self) -> bool:
        """Whether objects have names that begin with this one and a slash."""
        return any(buckets.children(str(self)))

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is an object or a folder."""
        return self.is_file() or self.is_dir()

    def iterdir(self) -> Generator[Url, None, None]:
        """Yield objects and folders in it."""
        folders, objects = buckets.children(str(self))
        yield from (self / name for name in sorted([*folders, *objects]))

    def walk(self, *arguments: Any, **options: Any) -> Generator[tuple[Url, list[str], list[str]], None, None]:
        """Yield (folder, names of folders, names of objects) of it and all below, as ``os.walk`` does."""
        folders, objects = buckets.children(str(self))
        yield self, folders, objects
        for name in folders:
            yield from (self / name).walk()

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a folder is there when something is in it."""

    def read_bytes(self) -> bytes:
        """Return the object's content."""
        return buckets.get(str(self))

    def read_text(self, encoding: str | None = None, errors: str | None = None, newline: str | None = None) -> str:
        """Return the object's content, decoded; line ends stay."""
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object."""
        buckets.delete(str(self))

    def open(  # type: ignore[override]
        self, mode: str = "r", buffering: int = -1, encoding: str | None = None, errors: Any = None, newline: Any = None
    ) -> IO[Any]:
        """Open the object for reading."""
        if set(mode) - set("rbt"):
            raise io.UnsupportedOperation(f"{self}: an object in a bucket is written whole, not opened with {mode!r}")
        raw = io.BufferedReader(_RangeReader(str(self)), 1 << 18)
        return raw if "b" in mode else io.TextIOWrapper(raw, encoding, errors, newline)


class _RangeReader(io.RawIOBase):
    """Reads an object by ranges; in sequential reading the next blocks are requested ahead."""

    def __init__(self, url: str) -> None:
        found = buckets.head(url)
        self._url, self._size, self._tag, self._at, self._read_to = url, found.size, found.tag, 0, -1
        self._blocks: dict[int, Future[bytes]] = {}
        self._pool: ThreadPoolExecutor | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if self._at < 0:
            raise OSError(22, "a place before the beginning", self._url)
        return self._at

    def readinto(self, buffer: Any) -> int:
        if self._at >= self._size:
            return 0
        number, offset = divmod(self._at, BLOCK)
        if number in self._blocks or self._at == self._read_to:
            part = self._block(number)[offset : offset + len(buffer)]
        else:  # reading is not sequential
            part = self._read(self._at, min(self._at + len(buffer), self._size))
        buffer[: len(part)] = part
        self._at = self._read_to = self._at + len(part)
        return len(part)

    def _block(self, number: int) -> bytes:
        stop = min(number + AHEAD, -(-self._size // BLOCK))
        if self._pool is None:
            self._pool = ThreadPoolExecutor(AHEAD, thread_name_prefix="sdem-bucket")
        kept = {block: found for block, found in self._blocks.items() if number <= block < stop}
        for n in range(number, stop):
            if n not in kept:
                kept[n] = self._pool.submit(self._read, n * BLOCK, min((n + 1) * BLOCK, self._size))
        self._blocks = kept
        return kept[number].result()

    def _read(self, start: int, stop: int) -> bytes:
        try:
            return buckets.get(self._url, start, stop, self._tag)
        except ChangedError:
            raise OSError(5, "it was replaced while it was read: read it again", self._url) from None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        super().close()


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a Path makes one slash of two


def is_url(location: str | Path) -> bool:
    """Whether `location` is a URL such as ``s3://bucket/name``, rather than a path of this machine."""
    return "://" in str(location) if isinstance(location, str) else bool(_URL.match(str(location)))


def place(location: str | Path) -> Path:
    """Return a location as a path, or as a `Url` where it is a URL, also one that was made a Path."""
    if not is_url(location):
        return Path(location)
    return location if isinstance(location, Url) else Url(str(location))


def for_a_reader(path: Path) -> Path | IO[Any]:
    """Return what a reader of another package opens: the path of a file, or the open object at a URL."""
    return path.open("rb") if is_url(path) else path


def refuse_url(path: str | Path, what: str) -> None:
    """Raise SdemError if `path` is a URL, also one that was made a Path: as a path it would name a local folder."""
    if _URL.match(str(path)):
        shown = re.sub(":/+", "://", str(path), count=1)
        shown = re.sub(r"(?<=//).*@|\?.*", "", shown)  # these may be credentials
        raise SdemError(f"{shown} is a URL, and {what}: give a path of this machine or of a mounted file system")


def identity_of(path: str) -> tuple[int, ...] | None:
    """Return a mark that changes when another store replaces this one; None if that would cost too much."""
    try:
        status = os.stat(os.path.join(path, "zarr.json"))
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
