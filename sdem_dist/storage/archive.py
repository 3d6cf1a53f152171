"""One file that holds named arrays and a JSON document: a zarr hierarchy in an uncompressed zip.

Safe to read from anyone: nothing in it is executed, and memory for an array is taken only once the bytes that fill it
are known to exist.
"""

import errno
import json
import math
import zipfile
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from sdem_dist.errors import BucketError, ModelError
from sdem_dist.storage.checksum import crc32c
from sdem_dist.storage.numbers import JsonObject
from sdem_dist.storage.places import for_a_reader, place
from sdem_dist.storage.publish import publish_file
from sdem_dist.storage.versions import version_problem

FORMAT_VERSION = 2
MAX_JSON_BYTES = 64 * 2**20
MAX_DIMENSIONS = 8
PIECE_BYTES = 1 << 20
_DTYPES = frozenset(
    ["bool"] + [f"{k}{n}" for k in ("int", "uint") for n in (8, 16, 32, 64)] + [f"float{n}" for n in (16, 32, 64)]
)


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
    if size > MAX_JSON_BYTES // 4:  # zarr indents it, and must stay below what read_archive accepts
        raise ModelError(f"{path}: the metadata take {size:,} bytes as JSON, above {MAX_JSON_BYTES // 4:,}")
    pairs = arrays.items() if isinstance(arrays, Mapping) else arrays
    publish_file(path, lambda partial: _write(path, partial, kind, pairs, dict(metadata)), error=ModelError)


def _write(
    path: Path, partial: Path, kind: str, arrays: Iterable[tuple[str, np.ndarray]], metadata: JsonObject
) -> None:
    import zarr
    from zarr.codecs import BytesCodec
    from zarr.storage import MemoryStore

    # Not zarr's own ZipStore, which writes the time into each member: equal content must give equal bytes.
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
        kinds: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
        checksums: dict[str, int] = {}
        for name, array in arrays:
            if not name.isidentifier() or not name.isascii():
                raise ModelError(f"{path}: {name!r} cannot be the name of an array: it is not an identifier")
            if array.dtype.name not in _DTYPES or array.ndim > MAX_DIMENSIONS:
                raise ModelError(f"{path}: array {name!r} of {array.dtype}, {array.ndim} dimensions cannot be stored")
            kinds[name] = array.shape, array.dtype
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1)
            checksums[name] = crc32c(little)
            if array.size:
                archive.writestr(_member(_chunk(name, array.ndim)), little.view(np.uint8).data)
            del array, little  # before the next array is made
        members: JsonObject = {}
        document = {"format": kind, "format_version": FORMAT_VERSION, "checksums": checksums, "metadata": metadata}
        group = zarr.create_group(MemoryStore(members), attributes=document, zarr_format=3)
        for name, (shape, dtype) in kinds.items():
            group.create_array(
                name,
                shape=shape,
                dtype=dtype,
                chunks=_chunk_shape(shape),
                filters=None,
                compressors=None,
                serializer=BytesCodec(endian="little"),
            )
        for key, value in members.items():
            archive.writestr(_member(key), value.to_bytes())


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.external_attr = 0o644 << 16
    return info


def _chunk(name: str, n_dimensions: int) -> str:
    return "/".join([name, "c"] + ["0"] * n_dimensions)


def read_archive(
    path: str | Path, kind: str, names: Collection[str] | None = None
) -> tuple[dict[str, np.ndarray], JsonObject]:
    """Read what `write_archive` wrote.

    `kind`: what the file must be.
    `names`: read only those of these arrays that are there; the checksums of others are not verified.
    Raises ModelError: the file is missing, is not a `kind`, was made by a newer format, is cut short or altered, or
    declares more data than it holds.
    """
    path = place(path)
    try:
        return _read(path, kind, names)
    except (ModelError, BucketError):
        raise
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such file") from error
    except Exception as error:  # whatever zipfile, JSON and zarr have to say about a damaged file
        if isinstance(error, OSError) and error.errno not in (
            None,
            errno.EINVAL,
        ):  # EINVAL: a seek to an impossible place
            raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
        if (other := _other_package(path)) is not None:
            raise ModelError(f"{path}: {other}, not a {kind} file") from None
        told = str(error) if isinstance(error, zipfile.BadZipFile) else f"{type(error).__name__}: {error}"
        # Not `from` an OSError, which says to readers that the storage failed.
        cause = None if isinstance(error, OSError) else error
        raise ModelError(f"{path}: damaged (cut short or altered), or not a {kind} file ({told})") from cause


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
    """Return the CRC-32C of an archive's table of contents, which holds those of its arrays; None if there is none."""
    try:
        with zipfile.ZipFile(for_a_reader(place(path))) as archive:
            return crc32c(np.frombuffer(archive.read("zarr.json"), np.uint8))
    except Exception:  # noqa: BLE001  whatever else it is
        return None


def is_archive(path: str | Path, kind: str) -> bool:
    """Whether the file `path` is a `kind` of any version, sound or damaged."""
    try:
        with zipfile.ZipFile(for_a_reader(place(path))) as archive:
            return bool(json.loads(archive.read("zarr.json"))["attributes"]["format"] == kind)
    except Exception:  # noqa: BLE001  whatever else it is, it does not say so
        return False


def _read(path: Path, kind: str, wanted: Collection[str] | None) -> tuple[dict[str, np.ndarray], JsonObject]:
    with zipfile.ZipFile(for_a_reader(path)) as archive:
        members = _checked_members(path, archive)
        document = _checked_document(path, kind, _json_member(path, archive, members, "zarr.json"))
        kinds: dict[str, tuple[list[int], np.dtype]] = {}
        expected = {"zarr.json"}
        for name in document["checksums"]:
            kinds[name], own = _checked_array(path, archive, members, name)
            expected |= own
        if set(members) != expected:
            odd = min(set(members) ^ expected)
            raise ModelError(f"{path}: member {odd!r} of the zip is missing or does not belong there")
        arrays = {n: _array(archive, n, *kind) for n, kind in kinds.items() if wanted is None or n in wanted}
    for name, array in arrays.items():
        if crc32c(array) != document["checksums"][name]:
            raise ModelError(f"{path}: array {name!r} does not match its checksum: the file is altered")
    return arrays, document["metadata"]


def _checked_members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    members = {info.filename: info for info in infos}
    if len(members) != len(infos):
        raise ModelError(f"{path}: the zip holds two members of one name")
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ModelError(f"{path}: member {info.filename!r} of the zip is compressed, which is not allowed")
    if sum(info.file_size for info in infos) > path.stat().st_size:
        raise ModelError(f"{path}: the zip declares more bytes than the file holds")
    return members


def _json_member(path: Path, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], name: str) -> JsonObject:
    if name not in members:
        raise ModelError(
            f"{path}: not one of this package's files, or altered: member {name!r} is missing from the zip"
        )
    if members[name].file_size > MAX_JSON_BYTES:
        raise ModelError(f"{path}: member {name!r} of the zip is larger than {MAX_JSON_BYTES:,} bytes")
    return json.loads(archive.read(name))


def _checked_document(path: Path, kind: str, node: object) -> JsonObject:
    document = node.get("attributes") if isinstance(node, dict) else None
    if not isinstance(document, dict) or not isinstance(document.get("format"), str):
        raise ModelError(f"{path}: not a {kind} file: it does not say what it is")
    if document["format"] != kind:
        raise ModelError(f"{path}: a {document['format']!r} file, where a {kind!r} file is needed")
    if problem := version_problem(document.get("format_version"), FORMAT_VERSION, "train it again"):
        raise ModelError(f"{path}: {problem}")
    checksums, metadata = document.get("checksums"), document.get("metadata")
    if not isinstance(checksums, dict) or not isinstance(metadata, dict):
        raise ModelError(f"{path}: the checksums or the metadata are missing")
    if not all(name.isidentifier() and name.isascii() and type(crc) is int for name, crc in checksums.items()):
        raise ModelError(f"{path}: the table of checksums is malformed")
    return document


def _array(archive: zipfile.ZipFile, name: str, shape: list[int], dtype: np.dtype) -> np.ndarray:
    """Return an array that was checked. Not by zarr, which takes a third of a second to import."""
    array = np.empty(math.prod(shape), dtype)
    if array.size:
        with archive.open(_chunk(name, len(shape))) as stream:
            rest = array.view(np.uint8).data
            while rest:
                if not (piece := stream.read(min(len(rest), PIECE_BYTES))):
                    raise EOFError(f"array {name!r} is cut short")
                rest[: len(piece)] = piece
                rest = rest[len(piece) :]
    return array.astype(dtype.newbyteorder("="), copy=False).reshape(shape)


def _checked_array(
    path: Path, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], name: str
) -> tuple[tuple[list[int], np.dtype], set[str]]:
    """Check that the bytes an array declares are there, plainly stored; return its shape and dtype, and its members."""
    node = _json_member(path, archive, members, f"{name}/zarr.json")
    shape, dtype = node["shape"], node["data_type"]
    plain = (
        node["node_type"] == "array"
        and node["zarr_format"] == 3
        and isinstance(shape, list)
        and len(shape) <= MAX_DIMENSIONS
        and all(type(n) is int and n >= 0 for n in shape)
        and dtype in _DTYPES
        and node["chunk_grid"] == {"name": "regular", "configuration": {"chunk_shape": list(_chunk_shape(shape))}}
        and node["chunk_key_encoding"] == {"name": "default", "configuration": {"separator": "/"}}
        and len(node["codecs"]) == 1
        and node["codecs"][0]["name"] == "bytes"
        and node["codecs"][0].get("configuration", {}).get("endian", "little") == "little"
        and not node.get("storage_transformers")
    )
    if not plain:
        raise ModelError(
            f"{path}: array {name!r} is not stored plainly (one raw chunk of booleans, integers or floats)"
        )
    chunk = _chunk(name, len(shape))
    kind = shape, np.dtype(dtype).newbyteorder("<")
    nbytes = math.prod(shape) * kind[1].itemsize
    if nbytes == 0:
        return kind, {f"{name}/zarr.json"}
    if chunk not in members or members[chunk].file_size != nbytes:
        held = members[chunk].file_size if chunk in members else 0
        raise ModelError(f"{path}: array {name!r} declares {nbytes:,} bytes and the zip holds {held:,} of them")
    return kind, {f"{name}/zarr.json", chunk}


def _chunk_shape(shape: tuple[int, ...] | list[int]) -> tuple[int, ...]:
    return tuple(max(1, n) for n in shape)
