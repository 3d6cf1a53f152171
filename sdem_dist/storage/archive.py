"""One file that holds named arrays and a JSON document, in the format safetensors.

Safe to read from anyone: nothing in it is executed, and memory for an array is taken only once the bytes that fill it
are known to exist. The header's ``__metadata__`` holds what safetensors leaves out: what the file is, checksums of all
arrays, and the checksum of this table itself.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from io import BufferedIOBase
from pathlib import Path
from typing import IO, NamedTuple, cast

import msgspec
import numpy as np

from sdem_dist.errors import BucketError, ModelError
from sdem_dist.storage.encoding import JsonObject, crc32c
from sdem_dist.storage.publish import publish_file
from sdem_dist.storage.urls import place

FORMAT_VERSION = 3
MAX_JSON_BYTES = 64 * 2**20
MAX_DIMENSIONS = 8
LENGTH_BYTES = 8  # of the header's length, which a file begins with
ALIGNMENT = 8  # of the first array
DTYPES = {"bool": "BOOL"} | {f"{kind}{bits}": f"{letter}{bits}"
    for kind, letter, sizes in (("int", "I", (8, 16, 32, 64)), ("uint", "U", (8, 16, 32, 64)), ("float", "F", (16, 32, 64)))
    for bits in sizes
}  # fmt: skip


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where an array is: offsets count from the end of the header."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


class ArrayCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an array has to be; the CRC-32C is of its values, little-endian."""

    dtype: str
    shape: list[int]
    crc32c: int


class Contents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file says beside its arrays."""

    arrays: dict[str, ArrayCheck]
    metadata: msgspec.Raw


class Preamble(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``__metadata__`` holds, all as strings: `contents` is JSON, `crc32c` the checksum of its UTF-8 bytes."""

    format: str
    format_version: str
    contents: str
    crc32c: str


class Header(NamedTuple):
    """What a file begins with."""

    preamble: Preamble
    entries: dict[str, Entry]
    start: int  # of the first array


def write_archive(
    path: str | Path,
    kind: str,
    arrays: Mapping[str, np.ndarray] | Iterable[tuple[str, np.ndarray]],
    metadata: Mapping[str, object],
) -> None:
    """Write `arrays` and `metadata` as the file `path`, atomically; equal ones make equal files.

    `path`: file to create or replace.
    `kind`: what the file is, such as ``"sdem-model"``; `read_archive` must be given the same.
    `arrays`: booleans, integers and floats of any shape, empty ones too. A name is a Python identifier. Of an iterable
    each array is written before the next is asked for.
    `metadata`: JSON values; no NaN or infinity.
    Raises ModelError: an array has a name or dtype that cannot be stored, the metadata are not JSON or too large, or
    the disk refuses. What `arrays` itself raises passes through, and what was at `path` stays.
    """
    path = place(path)
    try:
        size = len(json.dumps(dict(metadata), allow_nan=False).encode())
    except (TypeError, ValueError) as error:
        raise ModelError(f"{path}: the metadata are not JSON: {error}") from error
    if size > MAX_JSON_BYTES // 4:  # as a string in JSON they take more
        raise ModelError(f"{path}: the metadata take {size:,} bytes as JSON, above {MAX_JSON_BYTES // 4:,}")
    pairs = arrays.items() if isinstance(arrays, Mapping) else arrays
    publish_file(path, lambda partial: _write(path, partial, kind, pairs, dict(metadata)), error=ModelError)


def _write(
    path: Path, partial: Path, kind: str, arrays: Iterable[tuple[str, np.ndarray]], metadata: JsonObject
) -> None:
    header: JsonObject = {}
    checks: JsonObject = {}
    # The header comes first in the file and is known last.
    with tempfile.TemporaryFile(dir=partial.parent) as data, partial.open("wb") as file:
        for name, array in arrays:
            if not name.isidentifier() or not name.isascii():
                raise ModelError(f"{path}: {name!r} cannot be the name of an array: it is not an identifier")
            if array.dtype.name not in DTYPES or array.ndim > MAX_DIMENSIONS:
                raise ModelError(f"{path}: array {name!r} of {array.dtype}, {array.ndim} dimensions cannot be stored")
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1)
            start = data.tell()
            data.write(little.view(np.uint8).data)
            kept = {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape)}
            header[name] = {**kept, "data_offsets": [start, data.tell()]}
            checks[name] = {**kept, "crc32c": crc32c(little)}
            del array, little  # before the next array is made
        contents = json.dumps({"arrays": checks, "metadata": metadata})
        preamble = Preamble(kind, str(FORMAT_VERSION), contents, str(_checksum(contents)))
        text = json.dumps({"__metadata__": msgspec.to_builtins(preamble), **header}).encode()
        text += b" " * (-len(text) % ALIGNMENT)
        file.write(len(text).to_bytes(LENGTH_BYTES, "little") + text)
        data.seek(0)
        shutil.copyfileobj(data, file, 1 << 20)


def _checksum(contents: str) -> int:
    return crc32c(np.frombuffer(contents.encode(), np.uint8))


def read_archive(
    path: str | Path, kind: str, names: Collection[str] | None = None
) -> tuple[dict[str, np.ndarray], JsonObject]:
    """Read what `write_archive` wrote.

    `kind`: what the file must be.
    `names`: read only those of these arrays that are there; the checksums of others are not verified.
    Raises ModelError: the file is missing, is not a `kind`, was made by another format, is cut short or altered, or
    declares more data than it holds.
    """
    path = place(path)
    try:
        with path.open("rb") as file:
            return _read(path, file, kind, names)
    except (ModelError, BucketError):
        raise
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such file") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (
        ValueError,
        EOFError,
        RecursionError,
        MemoryError,
        msgspec.MsgspecError,
    ) as error:  # of JSON, or of a damaged file
        if (other := _other_package(path)) is not None:
            raise ModelError(f"{path}: {other}, not a {kind} file") from None
        reason = f"{type(error).__name__}: {error}"
        raise ModelError(f"{path}: damaged (cut short or altered), or not a {kind} file ({reason})") from error


def _other_package(path: Path) -> str | None:
    """Say what kind of file this is, if it begins as pickle, joblib or NumPy's files do."""
    begin = b""
    with suppress(OSError, BucketError), path.open("rb") as file:
        begin = file.read(6)
    if begin.startswith(b"\x93NUMPY"):
        return "an array of NumPy"
    if begin[:1] == b"\x80" and begin[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "a file of pickle or joblib, such as a model of scikit-learn, which could run code when it is loaded"
    return None


def contents_checksum(path: str | Path) -> int | None:
    """Return the checksum of an archive's table of contents, which holds those of its arrays; None if there is none."""
    try:
        with place(path).open("rb") as file:
            return int(_header(file).preamble.crc32c)
    except Exception:  # noqa: BLE001  whatever else it is
        return None


def is_archive(path: str | Path, kind: str) -> bool:
    """Whether the file `path` is a `kind` of any version, sound or damaged."""
    try:
        with place(path).open("rb") as file:
            return _header(file).preamble.format == kind
    except Exception:  # noqa: BLE001  whatever else it is, it does not say so
        return False


def _header(file: IO[bytes]) -> Header:
    """Read the header; raise ValueError or EOFError where there is none."""
    length = int.from_bytes(_exactly(file, LENGTH_BYTES), "little")
    if length > MAX_JSON_BYTES:
        raise ValueError(f"its header would take {length:,} bytes, above {MAX_JSON_BYTES:,}")
    nodes = msgspec.json.decode(_exactly(file, length), type=dict[str, msgspec.Raw])
    if "__metadata__" not in nodes:
        raise ValueError("its header does not say what it is")
    preamble = msgspec.json.decode(nodes.pop("__metadata__"), type=Preamble)
    entries = {name: msgspec.json.decode(node, type=Entry) for name, node in nodes.items()}
    return Header(preamble, entries, LENGTH_BYTES + length)


def _exactly(file: IO[bytes], n: int) -> bytes:
    content = file.read(n)
    if len(content) < n:
        raise EOFError("it is cut short")
    return content


def _read(
    path: Path, file: IO[bytes], kind: str, names: Collection[str] | None
) -> tuple[dict[str, np.ndarray], JsonObject]:
    header = _header(file)
    preamble = header.preamble
    if preamble.format != kind:
        raise ModelError(f"{path}: a {preamble.format!r} file, where a {kind!r} file is needed")
    if preamble.format_version != str(FORMAT_VERSION):
        raise ModelError(
            f"{path}: made by another version of the format ({preamble.format_version!r}; this package reads "
            f"{FORMAT_VERSION}): train it again, or install the version of sdem_dist that made it"
        )
    if preamble.crc32c != str(_checksum(preamble.contents)):
        raise ModelError(f"{path}: its table of contents does not match its checksum: the file is altered")
    contents = msgspec.json.decode(preamble.contents, type=Contents)
    metadata = json.loads(bytes(contents.metadata))
    if not isinstance(metadata, dict):
        raise ModelError(f"{path}: its metadata are not a JSON object")
    if contents.arrays.keys() != header.entries.keys():
        odd = min(contents.arrays.keys() ^ header.entries.keys())
        raise ModelError(f"{path}: array {odd!r} is missing or does not belong there")
    position = 0
    for name, entry in header.entries.items():
        _check_entry(path, name, entry, contents.arrays[name], position)
        position = entry.data_offsets[1]
    held = file.seek(0, 2) - header.start
    if held != position:
        raise ModelError(
            f"{path}: the arrays take {position:,} bytes and the file holds {held:,} for them: it is cut short"
        )
    arrays = {}
    for name, entry in header.entries.items():
        if names is None or name in names:
            arrays[name] = _array(file, header.start, entry)
            if crc32c(arrays[name]) != contents.arrays[name].crc32c:
                raise ModelError(f"{path}: array {name!r} does not match its checksum: the file is altered")
    return arrays, metadata


def _check_entry(path: Path, name: str, entry: Entry, check: ArrayCheck, position: int) -> None:
    """Raise ModelError unless an array begins where the one before ends, and is as long as its shape says."""
    known = {code: np.dtype(dtype) for dtype, code in DTYPES.items()}
    if entry.dtype not in known or len(entry.shape) > MAX_DIMENSIONS or min(entry.shape, default=0) < 0:
        raise ModelError(f"{path}: array {name!r} is {entry.dtype!r} of shape {entry.shape}, which cannot be read")
    n_bytes = math.prod(entry.shape) * known[entry.dtype].itemsize
    if (entry.dtype, entry.shape) != (check.dtype, check.shape) or entry.data_offsets != (position, position + n_bytes):
        raise ModelError(
            f"{path}: array {name!r} is not where the header says, or not what it says: the file is altered"
        )


def _array(file: IO[bytes], start: int, entry: Entry) -> np.ndarray:
    dtype = np.dtype(next(dtype for dtype, code in DTYPES.items() if code == entry.dtype)).newbyteorder("<")
    array = np.empty(math.prod(entry.shape), dtype)
    file.seek(start + entry.data_offsets[0])
    rest = array.view(np.uint8).data
    while rest:
        if not (n := cast(BufferedIOBase, file).readinto(rest)):
            raise EOFError("it is cut short")
        rest = rest[n:]
    return array.astype(dtype.newbyteorder("="), copy=False).reshape(entry.shape)
