"""Groups and whole arrays in zarr format 3, anywhere zarr can reach: a folder, ``memory://``, ``s3://``, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec

from sdem_dist.errors import CorpusError, UnreadableError
from sdem_dist.storage.numbers import JsonObject
from sdem_dist.storage.places import is_url

Group = zarr.Group

# A tenth larger than lz4hc, decoded as fast, written thirty times as fast: see docs/decisions/storage.md.
_COMPRESSOR = BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")

WHOLE_BYTES, CHUNK_BYTES = 1 << 26, 1 << 23
"""An array of more bytes is cut into such chunks, since zarr holds a few copies of those at work."""


def create_group(location: str | Path, *, overwrite: bool = False) -> zarr.Group:
    """Create the root group of a new hierarchy at `location`, a path or a URL."""
    try:
        return zarr.create_group(location, zarr_format=3, overwrite=overwrite)
    except OSError:
        raise
    except Exception as error:
        raise CorpusError(f"cannot create a zarr group at {location}: {_reason(error)}") from error


def open_group(location: str | Path) -> zarr.Group:
    """Open the root group at `location`, a path or a URL, for reading.

    Raises
    ------
    CorpusError
        There is none, or its metadata cannot be read.
    """
    try:
        return zarr.open_group(location, mode="r", zarr_format=3, use_consolidated=False)
    except Exception as error:
        raise CorpusError(f"{location} cannot be opened as a zarr group: {_reason(error)}") from error


def group_to_fill(location: str | Path) -> zarr.Group:
    """Open a group that another process created, to add to it."""
    return zarr.open_group(location, mode="r+", zarr_format=3, use_consolidated=False)


def add_group(
    parent: zarr.Group, name: str, attributes: Mapping[str, object] | None = None, *, overwrite: bool = False
) -> zarr.Group:
    """Create the group `name` in `parent`."""
    return parent.create_group(name, attributes=dict(attributes) if attributes else None, overwrite=overwrite)


def get_attributes(group: zarr.Group) -> JsonObject:
    """Return a group's attributes, as JSON values."""
    return dict(group.attrs.asdict())


def set_attributes(group: zarr.Group, attributes: Mapping[str, object]) -> None:
    """Add `attributes`, JSON values, to those of a group, replacing those of the same names."""
    group.update_attributes(dict(attributes))


def write_array(group: zarr.Group, name: str, array: np.ndarray) -> None:
    """Write `array` whole as the new array `name` of `group`: compressed, one chunk, or many of a very long array."""
    rows = len(array)
    if array.nbytes > WHOLE_BYTES:
        rows = max(1, CHUNK_BYTES * rows // array.nbytes)
    group.create_array(
        name,
        data=np.ascontiguousarray(array),
        chunks=(max(1, rows), *(max(1, n) for n in array.shape[1:])),
        compressors=_COMPRESSOR,
        filters=None,
    )


def read_array(group: zarr.Group, name: str, *, shape: Sequence[int] | None = None) -> np.ndarray:
    """Read the array at the path `name` of `group` whole.

    Parameters
    ----------
    group : zarr.Group
    name : str
    shape : sequence of int, optional
        The shape it must have, checked before memory is taken for it.

    Raises
    ------
    CorpusError
        The array is missing, has another shape, or does not decode. A missing chunk is *not* noticed: zarr reads it as
        zeros, so that callers verify a checksum.
    UnreadableError
        The storage fails, which may pass.
    """
    array = _child(group, name)
    if not isinstance(array, zarr.Array):
        raise CorpusError(f"{name!r} of {group.store_path} is a group, where an array belongs")
    if shape is not None and array.shape != tuple(shape):
        raise CorpusError(f"array {name!r} of {group.store_path} has shape {array.shape}, where {tuple(shape)} belongs")
    try:
        return np.asarray(array[...])
    except Exception as error:
        raise _kind(error)(f"array {name!r} of {group.store_path} cannot be read: {_reason(error)}") from error


def _child(group: zarr.Group, name: str) -> zarr.Array[Any] | zarr.Group:
    try:
        return group[name]
    except KeyError as error:
        raise CorpusError(f"{name!r} is missing from {group.store_path}") from error
    except Exception as error:
        raise _kind(error)(
            f"the metadata of {name!r} of {group.store_path} cannot be read: {_reason(error)}"
        ) from error


def _kind(error: Exception) -> type[CorpusError]:
    lasting = FileNotFoundError, NotADirectoryError, IsADirectoryError
    return UnreadableError if isinstance(error, OSError) and not isinstance(error, lasting) else CorpusError


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def stored_bytes(location: str | Path) -> int:
    """Return the bytes at `location`: of all files below a path, of all arrays' chunks below a URL."""
    if is_url(location):
        members = open_group(location).members(max_depth=None)
        return sum(int(member.nbytes_stored()) for _, member in members if isinstance(member, zarr.Array))
    return sum(file.stat().st_size for file in Path(location).rglob("*") if file.is_file())
