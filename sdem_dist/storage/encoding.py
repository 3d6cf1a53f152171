"""Values as bytes and JSON: strings in UTF-8, checksums, and floats that JSON lacks."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from sdem_dist.documents import offsets_of

JsonObject: TypeAlias = dict[str, Any]  # a JSON object: its values are what JSON has
_NAMES = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def crc32c(array: np.ndarray) -> int:
    """Return the CRC-32C (Castagnoli) of `array`'s values in C order, little-endian."""
    import google_crc32c

    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return int(google_crc32c.value(little.reshape(-1).view(np.uint8)))


def to_json(value: object, lacking: Callable[[float], object] = lambda v: {"float": str(float(v))}) -> Any:
    """Return `value` with non-finite floats, which JSON lacks, replaced by ``{"float": name}`` or `lacking`."""
    if isinstance(value, dict):
        return {name: to_json(v, lacking) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(v, lacking) for v in value]
    return lacking(value) if isinstance(value, float) and not math.isfinite(value) else value


def from_json(value: object) -> Any:
    """Return the value that `to_json` converted; tuples become lists."""
    if isinstance(value, dict):
        if value.keys() == {"float"} and value["float"] in _NAMES:
            return _NAMES[value["float"]]
        return {name: from_json(v) for name, v in value.items()}
    return [from_json(v) for v in value] if isinstance(value, list) else value


def encode_strings(strings: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the joined UTF-8 bytes of all strings, and their offsets; UnicodeEncodeError for a lone surrogate."""
    if (odd := next((i for i, string in enumerate(strings) if not isinstance(string, str)), None)) is not None:
        raise TypeError(f"element {odd} is a {type(strings[odd]).__name__}, not a string")
    encoded = [string.encode("utf-8") for string in strings]
    return np.frombuffer(b"".join(encoded), np.uint8), offsets_of([*map(len, encoded)])


def decode_strings(joined: np.ndarray, offsets: np.ndarray) -> list[str]:
    """Split `joined` at `offsets`, the inverse of `encode_strings`; ValueError if they do not fit, or not UTF-8."""
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(joined) or np.any(offsets[1:] < offsets[:-1]):
        raise ValueError(f"the offsets of the strings do not increase from 0 to the number of bytes, {len(joined)}")
    raw, strings = joined.tobytes(), list[str]()
    try:
        for start, stop in pairwise(offsets.tolist()):
            strings.append(raw[start:stop].decode("utf-8"))
    except UnicodeDecodeError as error:
        error.reason += f" (string {len(strings)})"
        raise
    return strings
