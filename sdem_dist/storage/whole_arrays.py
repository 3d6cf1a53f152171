"""Whole arrays in a folder as zarr writes and reads them, without its event loop, which takes milliseconds an array."""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

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
