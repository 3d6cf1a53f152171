"""CRC-32C of an array's values, the same whatever the machine's byte order or the array's memory layout."""

import numpy as np


def crc32c(array: np.ndarray) -> int:
    """Return the CRC-32C (Castagnoli) of `array`'s values in C order, little-endian."""
    import google_crc32c

    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return int(google_crc32c.value(little.reshape(-1).view(np.uint8)))
