"""A bucket as zarr sees it."""

from __future__ import annotations

from zarr.storage import ObjectStore

_SCHEMES = {"S3Store": "s3", "GCSStore": "gs", "AzureStore": "abfs"}


class BucketStore(ObjectStore):  # type: ignore[type-arg]
    """zarr's store of obstore, which goes by its URL in messages."""

    def __str__(self) -> str:
        scheme = _SCHEMES.get(type(self.store).__name__)
        if scheme is None:
            return "memory:/"
        config = dict(self.store.config)
        return f"{scheme}://{config.get('bucket') or config.get('container_name')}"
