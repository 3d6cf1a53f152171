"""Where things are: paths of this machine, and URLs of objects in buckets."""

import os
import re
from pathlib import Path
from typing import IO, Any

from sdem_dist.errors import SdemError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a Path makes one slash of two


def is_url(location: str | Path) -> bool:
    """Whether `location` is a URL such as ``s3://bucket/name``, rather than a path of this machine."""
    return "://" in str(location) if isinstance(location, str) else bool(_URL.match(str(location)))


def place(location: str | Path) -> Path:
    """Return a location as a path, or as a `Url` where it is a URL, also one that was made a Path."""
    if not is_url(location):
        return Path(location)
    from sdem_dist.storage.urls import Url

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
