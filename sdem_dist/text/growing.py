"""Arrays that grow."""

import numpy as np


def lengthened(array: np.ndarray, needed: int) -> np.ndarray:
    """Return an array of at least `needed` rows that begins with those of `array`: itself if it is long enough."""
    if needed <= len(array):
        return array
    longer = np.empty((max(needed, 2 * len(array)), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


class Scratch:
    """Temporary arrays, kept so that memory is allocated once."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}

    def array(self, name: str, size: int, dtype: type, kept: int = 0) -> np.ndarray:
        """Return an array of `size` elements or more; the one of the same name returned before is overwritten.

        It begins with the first `kept` elements of that one.
        """
        found = self._arrays.get(name)
        if found is None or len(found) < size:
            longer = self._arrays[name] = np.empty(max(size, 1024), dtype)
            if found is not None:
                longer[:kept] = found[:kept]
            return longer
        return found
