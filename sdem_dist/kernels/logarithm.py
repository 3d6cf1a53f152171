"""A natural logarithm that the compiler vectorises, as libm's does not."""

import numpy as np
from numba import types
from numba.core.errors import TypingError

from sdem_dist.kernels.jit import intrinsic, jit, jit_inline

LEAST = float(np.finfo(np.float64).tiny)
"""Below it, numbers are denormal."""
LARGEST = float(np.finfo(np.float64).max)


def _reinterpreter(source, target):
    """Return what takes the bits of a number of one type for those of another, and refuses to compile for a third."""

    @intrinsic(lambda x: source.cast_python_value(x).view(str(target)))
    def reinterpret(typingctx, x):
        def codegen(context, builder, signature, args):
            return builder.bitcast(args[0], context.get_value_type(target))

        if x != source:
            raise TypingError(f"the bits of a {source} are asked for, and this is {x}: convert it before")
        return target(x), codegen

    return reinterpret


_bits64, _float64 = _reinterpreter(types.float64, types.uint64), _reinterpreter(types.uint64, types.float64)
_bits32, _float32 = _reinterpreter(types.float32, types.uint32), _reinterpreter(types.uint32, types.float32)


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
    It compiles for float64 only.
    """
    shifted = _bits64(x) + (_ONE - _SQRT_HALF)
    k = np.float64(np.int64(shifted >> _SHIFT) - 1023)
    f = _float64((shifted & _MANTISSA) + _SQRT_HALF) - 1.0
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


# The same for single precision, with the polynomial of fdlibm's e_logf.c.
_ONE_32, _SQRT_HALF_32 = np.uint32(0x3F800000), np.uint32(0x3F3504F3)
_MANTISSA_32, _SHIFT_32 = np.uint32(0x007FFFFF), np.uint32(23)
_LN2_HIGH_32, _LN2_LOW_32 = np.float32(6.9313812256e-01), np.float32(9.0580006145e-06)
_EVEN_32 = np.float32(0.40000972152), np.float32(0.24279078841)
_ODD_32 = np.float32(0.66666662693), np.float32(0.28498786688)
_HALF_32, _UNIT_32, _TWO_32 = np.float32(0.5), np.float32(1.0), np.float32(2.0)


@jit_inline
def log_single(x):
    """Return ln x for a positive, normal, finite float32, to about one unit in the last place, as a float32."""
    shifted = types.uint32(_bits32(x) + types.uint32(_ONE_32 - _SQRT_HALF_32))
    k = np.float32(types.int32(shifted >> _SHIFT_32) - types.int32(127))
    f = _float32(types.uint32((shifted & _MANTISSA_32) + _SQRT_HALF_32)) - _UNIT_32
    s = f / (_TWO_32 + f)
    z = s * s
    w = z * z
    rest = w * (_EVEN_32[0] + w * _EVEN_32[1]) + z * (_ODD_32[0] + w * _ODD_32[1])
    half = _HALF_32 * f * f
    return s * (half + rest) + k * _LN2_LOW_32 - half + f + k * _LN2_HIGH_32


@jit
def take_logarithms(values):
    """Replace the entries of a flat float64 array by their logarithms, also where these are infinite or NaN."""
    for i in range(values.size):
        x = values[i]
        found = log(min(max(x, LEAST), LARGEST))
        found = found if x > 0.0 else (-np.inf if x == 0.0 else np.nan)
        values[i] = x if x > LARGEST else found
