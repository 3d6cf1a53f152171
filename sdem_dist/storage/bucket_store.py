"""A bucket as zarr sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from zarr.storage import ObjectStore

from sdem_dist.storage import buckets
from sdem_dist.storage.buckets import is_cut_short

if TYPE_CHECKING:
    import obstore.store
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

Found = TypeVar("Found")
_SCHEMES = {"S3Store": "s3", "GCSStore": "gs", "AzureStore": "abfs"}


class BucketStore(ObjectStore):  # type: ignore[type-arg]
    """zarr's store of obstore. Messages name it by its URL, and nothing outside its folder is touched.

    `root`: the folder. zarr would make a group of each folder above it, too.
    """

    def __init__(self, store: obstore.store.ObjectStore, root: str = "", *, read_only: bool = False) -> None:
        super().__init__(store, read_only=read_only)
        self.root = root

    def with_read_only(self, read_only: bool = False) -> BucketStore:
        """Return the same, to be written to or not."""
        return type(self)(self.store, self.root, read_only=read_only)

    def _is_within(self, key: str) -> bool:
        return not self.root or key.startswith(f"{self.root}/")

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return an object's content."""
        if not self._is_within(key):
            return None
        whole = super().get
        return await _again(lambda: whole(key, prototype, byte_range))

    async def set(self, key: str, value: Buffer) -> None:
        """Write an object."""
        put = super().set
        await _again(lambda: put(key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write an object where there is none."""
        if self._is_within(key):
            put = super().set_if_not_exists
            await _again(lambda: put(key, value))

    def __str__(self) -> str:
        scheme = _SCHEMES.get(type(self.store).__name__)
        if scheme is None:
            return "memory:/"
        config = dict(self.store.config)
        return f"{scheme}://{config.get('bucket') or config.get('container_name')}"


async def _again(ask: Callable[[], Awaitable[Found]]) -> Found:
    """Return what a request gives, sent again where the connection ended in the middle of the answer."""
    for attempt in range(buckets.TRIES - 1):
        try:
            return await ask()
        except Exception as error:
            if not is_cut_short(error):
                raise
        await asyncio.sleep(buckets.pause(attempt))
    return await ask()
