"""Where consecutive ranges of some sizes begin."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def offsets_of(sizes: ArrayLike) -> np.ndarray:
    """Return where ranges of these sizes begin, one after another, and where the last ends: int64 of shape (n + 1,)."""
    sizes = np.asarray(sizes)
    found = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, dtype=np.int64, out=found[1:])
    return found


def offsets_of_lengths(values: Sequence[Sized]) -> np.ndarray:
    """Return the same of texts, lists or arrays that are joined."""
    return offsets_of(np.fromiter(map(len, values), np.int64, len(values)))
