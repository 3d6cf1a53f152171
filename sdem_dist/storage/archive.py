"""Named arrays and a JSON document in one safetensors file; reading it never executes code.

``__metadata__`` holds `contents` (JSON with each array's dtype, shape and checksum) and the checksum of `contents`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np

from sdem_dist.errors import BucketError, ModelError
from sdem_dist.storage.buckets import is_url, place
from sdem_dist.storage.encoding import JsonObject, crc32c
from sdem_dist.storage.publish import publish_file

Arrays: TypeAlias = Mapping[str, np.ndarray] | Iterable[tuple[str, np.ndarray]]  # by name
FORMAT_VERSION = 3
MAX_JSON_BYTES = 64 * 2**20
DTYPES = {"bool": "BOOL", **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)}}
DTYPES |= {f"{kind}{bits}": f"{kind[0].upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}


def write_archive(path: str | Path, kind: str, arrays: Arrays, metadata: Mapping[str, object]) -> None:
    """Write arrays and JSON to a file; equal contents give equal files. An iterable is consumed one array at a time.

    Raises ModelError if an array or the metadata cannot be stored, or on errors of the disk; then `path` is unchanged.
    """
    path = place(path)
    try:
        metadata_json = json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the metadata are not JSON: {error}", path=path) from error
    if (size := len(metadata_json)) > (limit := MAX_JSON_BYTES // 4):  # escaped in a JSON string, they get longer
        raise ModelError(f"the metadata need {size:,} bytes as JSON, but the limit is {limit:,}", path=path)

    def write(partial: Path) -> None:
        """Write the file without safetensors, which needs all arrays in memory, and orders metadata randomly."""
        header: JsonObject = {}
        checks = dict[str, JsonObject]()
        # The header comes first in the file, but depends on the arrays: they go to a temporary file.
        with tempfile.TemporaryFile(dir=partial.parent) as data, partial.open("wb") as file:
            for name, array in arrays.items() if isinstance(arrays, Mapping) else arrays:
                if not name.isidentifier() or not name.isascii() or array.dtype.name not in DTYPES:
                    raise ModelError(f"array {name!r} of {array.dtype} cannot be stored", path=path)
                start, check = data.tell(), {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape)}
                data.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data)
                header[name] = {**check, "data_offsets": [start, data.tell()]}
                checks[name] = {**check, "crc32c": crc32c(array)}
                del array  # frees it before the next is made
            contents = f'{{"arrays":{msgspec.json.encode(checks).decode()},"metadata":{metadata_json}}}'
            preamble = {"format": kind, "format_version": str(FORMAT_VERSION), "contents": contents}
            preamble["crc32c"] = _checksum(contents)
            text = msgspec.json.encode({"__metadata__": preamble, **header})
            text += b" " * (-len(text) % 8)  # aligns the arrays
            file.write(len(text).to_bytes(8, "little") + text)
            data.seek(0)
            shutil.copyfileobj(data, file, 1 << 20)

    publish_file(path, write, error=ModelError)


def read_archive(
    path: str | Path, kind: str, names: Collection[str] | None = None
) -> tuple[dict[str, np.ndarray], JsonObject]:
    """Read the arrays `names` (None: all) and the JSON of a file; ModelError unless it is an intact file of `kind`."""
    from safetensors import safe_open

    path = place(path)
    try:
        with ExitStack() as stack:
            file: Path = path
            if is_url(path):
                copy = stack.enter_context(tempfile.NamedTemporaryFile())
                with path.open("rb") as source:
                    shutil.copyfileobj(source, copy)
                copy.flush()
                file = Path(copy.name)
            archive = stack.enter_context(safe_open(file, "numpy"))
            preamble = archive.metadata() or {}
            if preamble["format"] != kind:
                raise ModelError(f"expected a {kind!r} file, got a {preamble['format']!r} file", path=path)
            if (version := preamble["format_version"]) != str(FORMAT_VERSION):
                raise ModelError(
                    f"its format version is {version!r}, but this package reads version {FORMAT_VERSION}: repeat "
                    "the training, or install the version of sdem_dist that wrote it",
                    path=path,
                )
            if preamble["crc32c"] != _checksum(preamble["contents"]):
                raise ModelError("its table of contents does not match its checksum: the file was altered", path=path)
            contents = json.loads(preamble["contents"])
            checks, metadata = contents["arrays"], contents["metadata"]
            if odd := checks.keys() ^ archive.keys():
                raise ModelError(f"array {min(odd)!r} is missing or unexpected", path=path)
            arrays = {name: archive.get_tensor(name) for name in checks if names is None or name in names}
        for name, array in arrays.items():
            check = {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape), "crc32c": crc32c(array)}
            if check != checks[name]:
                raise ModelError(f"array {name!r} does not match its checksum: the file was altered", path=path)
        if not isinstance(metadata, dict):
            raise ValueError("its metadata are not a JSON object")
        return arrays, metadata
    except (ModelError, BucketError):
        raise
    except FileNotFoundError as error:
        raise ModelError("no such file", path=path) from error
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror or error}", path=path) from error
    except Exception as error:  # errors of JSON or safetensors
        begin = b""
        with suppress(OSError, BucketError), path.open("rb") as opened:
            begin = opened.read(6)
        what = f"damaged (truncated or altered), or not a {kind} file: {type(error).__name__}: {error}"
        if begin.startswith(b"\x93NUMPY"):
            what = f"not a {kind} file, but a NumPy array"
        elif begin[:1] == b"\x80" and begin[1:2] in (b"\2", b"\3", b"\4", b"\5"):
            what = f"not a {kind} file, but a pickle or joblib file, such as a scikit-learn model, which could run code"
        raise ModelError(what, path=path) from error


def contents_checksum(path: str | Path) -> str | None:
    """Return the checksum of a file's table of contents, and thus of all its arrays; None if it is not an archive."""
    return _preamble(path).get("crc32c")


def is_archive(path: str | Path, kind: str) -> bool:
    """Return whether the file `path` is a `kind` of any version, even if it is damaged."""
    return _preamble(path).get("format") == kind


def _checksum(text: str) -> str:
    return str(crc32c(np.frombuffer(text.encode(), np.uint8)))


def _preamble(path: str | Path) -> dict[str, str]:
    """Return the ``__metadata__`` of a file from its header alone; empty if it cannot be read."""
    try:
        with place(path).open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = file.read(length) if length <= MAX_JSON_BYTES else b""
        return msgspec.convert(json.loads(header)["__metadata__"], dict[str, str])
    except Exception:  # noqa: BLE001  any other file
        return {}
