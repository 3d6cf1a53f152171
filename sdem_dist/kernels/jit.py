"""The one place that decides how kernels are compiled."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic as numba_intrinsic

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
    return numba.njit(**_OPTIONS)(_wrapping(function))


def jit_inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` to be inlined by the code generator where it is called."""
    return numba.njit(inline="never", **{**_OPTIONS, "forceinline": True})(_wrapping(function))


def _wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let integers wrap around without NumPy's warning where kernels run as Python: hashes of words rely on it."""
    disabled: int = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
    return np.errstate(over="ignore")(function) if disabled else function


def intrinsic(plain: Callable[..., Any] | None) -> Callable[[Callable[..., Any]], Any]:
    """Make an intrinsic of what writes its code; `plain` is the same in Python, for NUMBA_DISABLE_JIT=1."""

    def decorate(function: Callable[..., Any]) -> Any:
        disabled: int = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
        return plain if plain and disabled else numba_intrinsic(function)

    return decorate


def require_array(name: str, array: Any, kinds: tuple[type, ...] | types.Type, ndim: int = 1) -> None:
    """Raise TypingError where an argument of an intrinsic, which reads memory as it lies there, is no such array."""
    fits = isinstance(array, types.Array) and array.ndim == ndim and array.layout == "C"
    if not fits or not (isinstance(array.dtype, kinds) if isinstance(kinds, tuple) else array.dtype == kinds):
        wanted = kinds if isinstance(kinds, types.Type) else " or ".join(kind.__name__.lower() for kind in kinds)
        raise TypingError(f"{name} must be a C-contiguous array of {ndim} dimensions of {wanted}, not {array}")
