"""Which numbers documents may be made of."""

from __future__ import annotations

from typing import Any

import numpy as np

LARGEST = float(np.finfo(np.float32).max)
FIT = f"counts and weights are finite, not negative, and at most {LARGEST:.3g}"
"""The rule, for messages."""


def unfit_row(data: np.ndarray, indptr: np.ndarray) -> tuple[int, Any] | None:
    """Return the first row of CSR arrays with an entry that no corpus may hold, and that entry; None if all are fit."""
    # max() carries NaN along, so two reductions see every unfit entry
    if len(data) == 0 or (data.min() >= 0 and data.max() <= LARGEST):
        return None
    entry = int(np.argmax(~((data >= 0) & (data <= LARGEST))))
    return int(np.searchsorted(indptr, entry, side="right")) - 1, data[entry]
