"""A URL with the methods of a path, so that what names files names objects."""

from __future__ import annotations

from pathlib import PosixPath

from sdem_dist.storage import buckets


class Url(PosixPath):
    """The URL of an object, or of a folder of objects: ``s3://bucket/name``."""

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    def __fspath__(self) -> str:
        return str(self)

    def absolute(self) -> Url:
        """Return it: URLs are absolute."""
        return self

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is an object, or a folder of objects."""
        try:
            return bool(buckets.head(str(self)))
        except FileNotFoundError:
            return any(buckets.children(str(self)))
