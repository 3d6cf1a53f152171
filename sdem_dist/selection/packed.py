"""Tables of words in checkpoints: only changes since the start, in single precision where that is exact."""

from collections.abc import Mapping

import numpy as np

PARTS = ("changed", "exact", "single", "double")
"""Names of the arrays of a packed table."""


def packed(table: np.ndarray, start: np.ndarray) -> dict[str, np.ndarray]:
    """Return a table as bits that say which entries differ from `start` and which by a number of single precision.

    An epoch adds numbers of single precision, so after the first all changes are such; a loss that leaves most
    documents alone leaves most entries alone.
    """
    changed = table != start
    single = (table[changed] - start[changed]).astype(np.float32)
    exact = start[changed] + single == table[changed]
    return {
        "changed": np.packbits(changed),
        "exact": np.packbits(exact),
        "single": single[exact],
        "double": table[changed][~exact],
    }


def unpacked(parts: Mapping[str, np.ndarray], start: np.ndarray) -> np.ndarray:
    """Return the table that `packed` was given.

    Raises ValueError: the parts do not fit together, or not the start.
    """
    changed = np.unpackbits(parts["changed"], count=start.size).astype(bool).reshape(start.shape)
    exact = np.unpackbits(parts["exact"], count=int(changed.sum())).astype(bool)
    values, table = start[changed], start.copy()
    values[exact] += parts["single"]
    values[~exact] = parts["double"]
    table[changed] = values
    return table
