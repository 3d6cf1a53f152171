"""The one place that decides how kernels are compiled."""

from collections.abc import Callable
from typing import Any

import numba

# Serial and without the GIL: parallelism belongs to the executor, and numba's own threads abort the process when
# two Dask threads enter them.  Of fast-math only `contract` (fused multiply-add): `nnan` and `ninf` would break the
# -inf of impossible classes, `reassoc` would let the optimiser choose the bits.  The disk cache makes compilation
# an event of a machine, not of every worker process; NUMBA_CACHE_DIR moves it.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "fastmath": {"contract"},
    "error_model": "numpy",
    "boundscheck": False,
}


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` for nopython mode; ``.py_func`` keeps the plain version for tests."""
    return numba.njit(**_OPTIONS)(function)


def jit_inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` to be inlined by the code generator where it is called."""
    return numba.njit(inline="never", **{**_OPTIONS, "forceinline": True})(function)
