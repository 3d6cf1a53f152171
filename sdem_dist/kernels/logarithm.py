"""A natural logarithm that the compiler vectorises, as libm's does not."""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

from sdem_dist.kernels.jit import jit, jit_inline


@intrinsic
def _as_bits(typingctx, x):
    """Reinterpret a float64 as its 64 bits."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.uint64))

    return types.uint64(types.float64), codegen


@intrinsic
def _as_float(typingctx, bits):
    """Reinterpret 64 bits as a float64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.uint64), codegen


# Bits of 1 and of sqrt(1/2): the argument is split as 2**k * m with m in [sqrt(1/2), sqrt(2)), as fdlibm does.
_ONE = np.uint64(0x3FF0000000000000)
_SQRT_HALF = np.uint64(0x3FE6A09E667F3BCD)
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
_SHIFT = np.uint64(52)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


@jit_inline
def log(x):
    """Return ln x for a positive, normal, finite float64, to about one unit in the last place.

    The caller guarantees the domain: there is no branch, so that loops over arrays vectorise.
    """
    shifted = _as_bits(x) + (_ONE - _SQRT_HALF)
    k = np.float64(np.int64(shifted >> _SHIFT) - 1023)
    f = _as_float((shifted & _MANTISSA) + _SQRT_HALF) - 1.0
    # ln(1 + f) = f - (f^2/2 - s (f^2/2 + R)) with s = f / (2 + f), R the minimax polynomial of fdlibm's e_log.c.
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    odd = z * (
        6.666666666666735130e-01
        + w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
    )
    half = 0.5 * f * f
    return k * _LN2_HIGH - ((half - (s * (half + even + odd) + k * _LN2_LOW)) - f)


@jit
def log_shifted(values, shift, out):
    """Write ``ln(values + shift)`` into `out`; both flat float64 arrays, ``values + shift > 0``."""
    for i in range(values.size):
        out[i] = log(values[i] + shift)
