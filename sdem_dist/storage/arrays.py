"""Groups and whole arrays in zarr format 3, in a folder or at a URL such as ``s3://bucket/name``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import zarr
from zarr.codecs import BloscCodec
from zarr.storage import LocalStore, StorePath

from sdem_dist.errors import BucketError, CorpusError, UnreadableError
from sdem_dist.storage import buckets
from sdem_dist.storage.buckets import named
from sdem_dist.storage.encoding import JsonObject, in_parts
from sdem_dist.storage.kept import REQUESTS
from sdem_dist.storage.urls import is_url, place

if TYPE_CHECKING:
    from numcodecs.blosc import Blosc


CNAME: Final = "lz4"
CLEVEL: Final = 5
"""A tenth larger than lz4hc, decoded as fast, written thirty times as fast: see docs/decisions/storage.md."""

HEADER: Final = 16  # bytes of Blosc's header
NUMBERS: Final = {f"{kind}{8 * size}" for kind in ("int", "uint", "float") for size in (1, 2, 4, 8)} - {"float8"}
"""Names of the types that arrays may have."""


def write_whole(folder: Path, array: np.ndarray) -> None:
    """Write numbers as the zarr array `folder`, which is new or has the same numbers: compressed, in one chunk."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    chunk = folder.joinpath("c", *["0"] * array.ndim)
    chunk.parent.mkdir(parents=True, exist_ok=True)  # two runs of one task may write at once
    if array.size:
        chunk.write_bytes(_compressor().encode(little))
    (folder / "zarr.json").write_text(_metadata(array), encoding="utf-8")


def read_whole(folder: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return the array of this shape that `write_whole` wrote; None for any other, or a damaged one: zarr says why."""
    from numcodecs import blosc

    try:
        text = (folder / "zarr.json").read_text(encoding="utf-8")
        if (kind := json.loads(text)["data_type"]) not in NUMBERS:
            return None
        array = np.empty(shape, kind)
        if array.size == 0 or text != _metadata(array):
            return None
        chunk = folder.joinpath("c", *["0"] * array.ndim).read_bytes()
        # Blosc's header: the bytes of what it holds, those of a block, and its own, as unsigned integers of 32 bits.
        if len(chunk) < HEADER or tuple(np.frombuffer(chunk, "<u4", 4)[[1, 3]]) != (array.nbytes, len(chunk)):
            return None
        blosc.decompress(chunk, array)
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, MemoryError):
        return None
    return array if sys.byteorder == "little" else array.byteswap()


@lru_cache(maxsize=1)
def _compressor() -> Blosc:
    from numcodecs import blosc

    return blosc.Blosc(CNAME, CLEVEL, blosc.SHUFFLE)


def _metadata(array: np.ndarray) -> str:
    """Return what zarr writes beside such an array."""
    text = _template(array.dtype, array.ndim)
    for axis, n in enumerate(array.shape):
        text = text.replace(f'"shape {axis}"', str(n)).replace(f'"chunk {axis}"', str(max(1, n)))
    return text


@lru_cache(maxsize=64)
def _template(dtype: np.dtype, n_axes: int) -> str:
    """Return the metadata of all arrays of a dtype: indenting JSON takes a millisecond."""
    size = dtype.itemsize
    compression = {"typesize": size, "cname": CNAME, "clevel": CLEVEL, "shuffle": "shuffle", "blocksize": 0}
    order = {"name": "bytes"} if size == 1 else {"name": "bytes", "configuration": {"endian": "little"}}
    chunks = [f"chunk {axis}" for axis in range(n_axes)]
    metadata = {
        "shape": [f"shape {axis}" for axis in range(n_axes)],
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": np.zeros((), dtype).item(),
        "codecs": [order, {"name": "blosc", "configuration": compression}],
        "attributes": {},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }
    return json.dumps(metadata, indent=2)


Group = zarr.Group

_COMPRESSOR = BloscCodec(cname=CNAME, clevel=CLEVEL, shuffle="shuffle")

WHOLE_BYTES, CHUNK_BYTES = 1 << 26, 1 << 23
"""A larger array is cut into chunks of this many bytes, since zarr holds a few copies of the current ones."""


def _store(location: str | Path) -> Path | StorePath:
    """Return where zarr finds what is at `location`."""
    if not is_url(location):
        return Path(location)
    from sdem_dist.storage.bucket_store import BucketStore

    bucket, key = buckets.split(str(place(location)))
    return StorePath(BucketStore(buckets.store(bucket), key), key)


def create_group(location: str | Path) -> zarr.Group:
    """Create the root group of a new hierarchy at `location`, a path or a URL."""
    try:
        with _written(location):
            return zarr.create_group(_store(location), zarr_format=3)
    except (OSError, BucketError):
        raise
    except Exception as error:
        raise CorpusError(f"cannot create a zarr group at {location}: {_reason(error)}") from error


@contextmanager
def _written(location: object) -> Iterator[None]:
    """Turn what a bucket refuses while it is written into an error of ours."""
    try:
        yield
    except Exception as error:
        if (told := named(error, str(location))) is error or isinstance(error, zarr.errors.BaseZarrError):
            raise
        raise told from None


def open_group(location: str | Path) -> zarr.Group:
    """Open the root group at `location`, a path or a URL, for reading.

    Raises CorpusError: there is none, or its metadata cannot be read.
    Raises BucketError: the bucket refuses.
    """
    try:
        return zarr.open_group(_store(location), mode="r", zarr_format=3, use_consolidated=False)
    except BucketError:
        raise
    except Exception as error:  # noqa: BLE001  whatever zarr and the store raise
        kind, reason = CorpusError, _reason(error)
        if is_url(location):
            try:
                buckets.get(f"{place(location)}/zarr.json")  # says why
            except FileNotFoundError:
                reason = "there is none"
            except OSError as cause:
                kind, reason = UnreadableError, str(cause.strerror)
        raise kind(f"{location} cannot be opened as a zarr group: {reason}") from _quotable(error)


def group_to_fill(location: str | Path) -> zarr.Group:
    """Open a group that another process created, to add to it."""
    with _written(location):
        return zarr.open_group(_store(location), mode="r+", zarr_format=3, use_consolidated=False)


def add_group(
    parent: zarr.Group, name: str, attributes: Mapping[str, object] | None = None, *, overwrite: bool = False
) -> zarr.Group:
    """Create the group `name` in `parent`."""
    with _written(parent.store_path):
        return parent.create_group(name, attributes=dict(attributes) if attributes else None, overwrite=overwrite)


def get_attributes(group: zarr.Group) -> JsonObject:
    """Return a group's attributes, as JSON values."""
    return dict(group.attrs.asdict())


def set_attributes(group: zarr.Group, attributes: Mapping[str, object]) -> None:
    """Add `attributes`, JSON values, to those of a group, replacing those of the same names."""
    with _written(group.store_path):
        group.update_attributes(dict(attributes))


def write_arrays(group: zarr.Group, contents: Mapping[str, np.ndarray]) -> None:
    """Write arrays as `write_array` does, in a bucket several at once."""
    if isinstance(group.store, LocalStore):
        for name, array in contents.items():
            write_array(group, name, array)
        return
    with ThreadPoolExecutor(REQUESTS) as pool:
        for done in [pool.submit(write_array, group, *pair) for pair in contents.items()]:
            done.result()


def read_arrays(group: zarr.Group, shapes: Mapping[str, Sequence[int]]) -> list[np.ndarray]:
    """Read arrays as `read_array` does, in a bucket several at once."""
    if isinstance(group.store, LocalStore):
        return [read_array(group, name, shape=shape) for name, shape in shapes.items()]
    with ThreadPoolExecutor(REQUESTS) as pool:
        jobs = [pool.submit(read_array, group, name, shape=shape) for name, shape in shapes.items()]
        return [job.result() for job in jobs]


def write_array(group: zarr.Group, name: str, array: np.ndarray) -> None:
    """Write `array` whole as the new array `name` of `group`: compressed, one chunk, or many of a very long array."""
    rows = len(array)
    if array.nbytes > WHOLE_BYTES:
        rows = max(1, CHUNK_BYTES * rows // array.nbytes)
    elif isinstance(group.store, LocalStore):
        write_whole(group.store.root / group.path / name, array)
        return
    with _written(group.store_path):
        made = group.create_array(
            name,
            shape=array.shape,
            dtype=array.dtype,
            chunks=(max(1, rows), *(max(1, n) for n in array.shape[1:])),
            compressors=_COMPRESSOR,
            filters=None,
        )
        at_once = 2 if isinstance(group.store, LocalStore) else REQUESTS
        for first, part in in_parts(array, max(1, rows) * at_once):
            made[first : first + len(part)] = part


def read_array(group: zarr.Group, name: str, *, shape: Sequence[int] | None = None) -> np.ndarray:
    """Read the array at the path `name` of `group` whole.

    `shape`: the shape it must have, checked before memory is taken for it.
    Raises CorpusError: the array is missing, has another shape, or does not decode. A missing chunk is *not* noticed:
    zarr reads it as zeros, so that callers verify a checksum.
    Raises UnreadableError: the storage fails, which may pass.
    Raises BucketError: the bucket refuses.
    """
    if shape is not None and isinstance(group.store, LocalStore):
        found = read_whole(group.store.root / group.path / name, tuple(shape))
        if found is not None:
            return found
    array = _child(group, name)
    if not isinstance(array, zarr.Array):
        raise CorpusError(f"{name!r} of {group.store_path} is a group, where an array belongs")
    if shape is not None and array.shape != tuple(shape):
        raise CorpusError(f"array {name!r} of {group.store_path} has shape {array.shape}, where {tuple(shape)} belongs")
    try:
        return np.asarray(array[...])
    except Exception as error:  # noqa: BLE001  whatever zarr and the store raise
        raise _failure(error, group, f"array {name!r}") from _quotable(error)


def _child(group: zarr.Group, name: str) -> zarr.Array[Any] | zarr.Group:
    try:
        return group[name]
    except KeyError as error:
        raise CorpusError(f"{name!r} is missing from {group.store_path}") from error
    except Exception as error:  # noqa: BLE001  whatever zarr and the store raise
        raise _failure(error, group, f"the metadata of {name!r}") from _quotable(error)


def _failure(error: Exception, group: zarr.Group, what: str) -> CorpusError | BucketError:
    """Return the error to raise where `what` cannot be read."""
    told = named(error, str(group.store_path))
    if isinstance(told, BucketError):
        return told
    lasting = FileNotFoundError, NotADirectoryError, IsADirectoryError
    kind = UnreadableError if isinstance(told, OSError) and not isinstance(told, lasting) else CorpusError
    return kind(f"{what} of {group.store_path} cannot be read: {_reason(told)}")


def _quotable(error: Exception) -> Exception | None:
    """Return the cause to show: none of obstore's errors, which may quote credentials."""
    return error if named(error, "") is error else None


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def stored_bytes(location: str | Path) -> int:
    """Return the bytes of all files or objects at `location`."""
    if is_url(location):
        return sum(found.size for found in buckets.below(str(place(location))))
    return sum(file.stat().st_size for file in Path(location).rglob("*") if file.is_file())
