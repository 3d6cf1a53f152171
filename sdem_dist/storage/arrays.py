"""Groups and whole arrays in files of zarr's format 3, in a folder or at a URL.

Any reader of zarr opens them. They are written and read without the package zarr: its event loop takes a
millisecond for each array, and it reads a missing file as zeros.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from sdem_dist.errors import BucketError, CorpusError, UnreadableError
from sdem_dist.storage import buckets
from sdem_dist.storage.encoding import JsonObject, in_parts
from sdem_dist.storage.urls import is_url, place

CNAME = "lz4"
CLEVEL = 5
"""A tenth larger than lz4hc, decoded as fast, written thirty times as fast: see docs/decisions/storage.md."""
WHOLE_BYTES, CHUNK_BYTES = 1 << 26, 1 << 23
"""A larger array is cut into chunks of about this many bytes."""
HEADER_BYTES = 16
REQUESTS = 16
"""Objects of a bucket that are read or written at once: each waits for answers."""
Job = TypeVar("Job")
Result = TypeVar("Result")
Kind = tuple[tuple[int, ...], "np.dtype | type | str"]
"""Shape and dtype of an array."""


def map_requests(function: Callable[[Job], Result], jobs: Iterable[Job], folder: Path) -> list[Result]:
    """Return the results of jobs, in order: several at once where `folder` is in a bucket."""
    if not is_url(folder):
        return list(map(function, jobs))
    with ThreadPoolExecutor(REQUESTS) as pool:
        return list(pool.map(function, jobs))


def write_group(folder: Path, attributes: Mapping[str, object] | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "zarr.json").write_bytes(group_json(attributes or {}))


def group_json(attributes: Mapping[str, object]) -> bytes:
    return json.dumps({"attributes": attributes, "zarr_format": 3, "node_type": "group"}, indent=2).encode()


def read_attributes(folder: Path) -> JsonObject:
    """Return the attributes of a group.

    Raises CorpusError: there is none, or (`UnreadableError`) the storage fails, which may pass.
    Raises BucketError: the bucket refuses.
    """
    try:
        attributes = json.loads((folder / "zarr.json").read_bytes())["attributes"]
        if not isinstance(attributes, dict):
            raise ValueError("its attributes are no JSON object")
        return attributes
    except BucketError:
        raise
    except Exception as error:
        raise _failure(error, folder, "zarr group") from error


def write_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    map_requests(lambda name: write_array(folder / name, arrays[name]), arrays, folder)


def write_array(folder: Path, array: np.ndarray) -> None:
    """Write numbers as an array of zarr, compressed; two tasks may write the same one at once."""
    from numcodecs import blosc

    metadata, rows = _metadata(array.shape, array.dtype)
    compressor = blosc.Blosc(CNAME, CLEVEL, blosc.SHUFFLE)
    folder.mkdir(parents=True, exist_ok=True)
    for first, part in in_parts(array, rows) if array.size else ():
        little = np.ascontiguousarray(part, part.dtype.newbyteorder("<"))
        if len(little) < rows:  # all chunks of an array are of one shape
            little = np.concatenate([little, np.zeros((rows - len(little), *array.shape[1:]), little.dtype)])
        file = _chunk(folder, first // rows, array.ndim)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(compressor.encode(little))
    (folder / "zarr.json").write_bytes(msgspec.json.format(msgspec.json.encode(metadata), indent=2))


def read_arrays(folder: Path, kinds: Mapping[str, Kind]) -> dict[str, np.ndarray]:
    arrays = map_requests(lambda name: read_array(folder / name, *kinds[name]), kinds, folder)
    return dict(zip(kinds, arrays, strict=True))


def read_array(folder: Path, shape: tuple[int, ...], dtype: np.dtype | type | str) -> np.ndarray:
    """Read what `write_array` wrote.

    Raises CorpusError: a file is missing or damaged, or the array has another shape or dtype.
    Raises UnreadableError, BucketError: as `read_attributes`.
    """
    metadata, rows = _metadata(shape, np.dtype(dtype))
    try:
        if json.loads((folder / "zarr.json").read_bytes()) != metadata:
            raise ValueError(f"it is not {np.dtype(dtype)} of shape {shape}")
        array = np.empty(shape, dtype)
        starts = range(0, len(array), rows) if array.size else ()
        map_requests(lambda n: _read_chunk(folder, array[n : n + rows], n // rows, rows), starts, folder)
    except BucketError:
        raise
    except Exception as error:
        raise _failure(error, folder, "array") from error
    return array if sys.byteorder == "little" else array.byteswap()


def _read_chunk(folder: Path, array: np.ndarray, number: int, rows: int) -> None:
    from numcodecs import blosc

    packed = _chunk(folder, number, array.ndim).read_bytes()
    to = array if len(array) == rows else np.empty((rows, *array.shape[1:]), array.dtype)
    # Blosc's header: the bytes of what it holds, those of a block, and its own, as unsigned integers of 32 bits.
    if len(packed) < HEADER_BYTES or tuple(np.frombuffer(packed, "<u4", 4)[[1, 3]]) != (to.nbytes, len(packed)):
        raise ValueError(f"chunk {number} is cut short or altered")
    blosc.decompress(packed, to)
    if to is not array:
        array[:] = to[: len(array)]


def _chunk(folder: Path, number: int, n_axes: int) -> Path:
    return folder.joinpath("c", str(number), *["0"] * (n_axes - 1))


def _metadata(shape: tuple[int, ...], dtype: np.dtype) -> tuple[JsonObject, int]:
    """Return what zarr writes beside an array, and how many rows are in a chunk."""
    row_bytes = int(np.prod(shape[1:])) * dtype.itemsize
    rows = max(1, shape[0] if shape[0] * row_bytes <= WHOLE_BYTES else CHUNK_BYTES // row_bytes)
    order = {"name": "bytes"} if dtype.itemsize == 1 else {"name": "bytes", "configuration": {"endian": "little"}}
    compression = {"typesize": dtype.itemsize, "cname": CNAME, "clevel": CLEVEL, "shuffle": "shuffle", "blocksize": 0}
    chunk_shape = [rows, *(max(1, n) for n in shape[1:])]
    metadata = {
        "shape": list(shape),
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk_shape}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": np.zeros((), dtype).item(),
        "codecs": [order, {"name": "blosc", "configuration": compression}],
        "attributes": {},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }
    return metadata, rows


def _failure(error: Exception, folder: Path, what: str) -> CorpusError:
    """Return the error to raise where a group or an array cannot be read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
        return CorpusError(f"the {what} is not there, or a file of it is missing", path=folder)
    kind = UnreadableError if isinstance(error, OSError) else CorpusError
    reason = " ".join(str(getattr(error, "strerror", None) or error).split())
    return kind(f"the {what} cannot be read: {reason or type(error).__name__}", path=folder)


def stored_bytes(location: str | Path) -> int:
    if is_url(location):
        return sum(entry.size for entry in buckets.below(str(place(location))))
    return sum(file.stat().st_size for file in Path(location).rglob("*") if file.is_file())
