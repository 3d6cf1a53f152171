"""Optimisations that LLVM does not make: sums of eight columns in one register, prefetching, a fast logarithm."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from sdem_dist.kernels.jit import intrinsic, jit, jit_inline, jit_once, require_array
from sdem_dist.kernels.parts import larger, same_bits, smaller

WIDTH = 8  # float32 columns per register
LINE = 64  # bytes per cache line
AHEAD = 64  # distance of prefetches in rows
LEAST = float(np.finfo(np.float64).tiny)  # smaller numbers are denormal
LARGEST = float(np.finfo(np.float64).max)


def _adder(n_eights):
    """Return an intrinsic that sums entries times 8, 16, ... columns of their rows, the entries, and their squares."""

    def plain(values, words, rows, column, sums):
        n_columns, numbers = rows.shape[1] // 2, values.astype(np.float64)
        last = min(column + WIDTH * n_eights, n_columns)
        sums[column:last] = values.astype(np.float32) @ rows[words, n_columns + column : n_columns + last]
        return numbers.sum(), numbers @ numbers

    @intrinsic(plain)
    def add(typingctx, values, words, rows, column, sums):
        require_array("values", values, (types.Integer, types.Float))
        require_array("words", words, (types.Integer,))
        require_array("rows", rows, types.float32, 2)
        require_array("sums", sums, types.float32)

        def codegen(context, builder, signature, args):
            of_values, of_words, of_rows, _, of_sums = signature.args
            pairs = ((of_values, args[0]), (of_words, args[1]), (of_rows, args[2]), (of_sums, args[4]))
            values, words, rows, sums = (context.make_array(t)(context, builder, a) for t, a in pairs)
            size, index = context.get_value_type(types.intp), ir.IntType(32)
            eight = ir.VectorType(ir.FloatType(), WIDTH)
            undefined = ir.Constant(eight, None)
            stride = cgutils.unpack_tuple(builder, rows.strides)[0]
            half = builder.lshr(cgutils.unpack_tuple(builder, rows.shape)[1], ir.Constant(size, 1))
            first = builder.gep(rows.data, [builder.add(half, args[3])])
            first = builder.bitcast(first, ir.IntType(8).as_pointer())
            totals = [cgutils.alloca_once_value(builder, ir.Constant(eight, [0.0] * WIDTH)) for _ in range(n_eights)]
            length, square = (cgutils.alloca_once_value(builder, ir.Constant(ir.DoubleType(), 0.0)) for _ in range(2))
            with cgutils.for_range(builder, cgutils.unpack_tuple(builder, values.shape)[0]) as loop:
                given = builder.load(builder.gep(values.data, [loop.index]))
                number = context.cast(builder, given, of_values.dtype, types.float64)
                for total, term in ((length, number), (square, builder.fmul(number, number, flags=("contract",)))):
                    builder.store(builder.fadd(builder.load(total), term, flags=("contract",)), total)
                x = context.cast(builder, given, of_values.dtype, types.float32)
                word = context.cast(
                    builder, builder.load(builder.gep(words.data, [loop.index])), of_words.dtype, types.intp
                )
                place = builder.bitcast(builder.gep(first, [builder.mul(word, stride)]), eight.as_pointer())
                factor = builder.insert_element(undefined, x, ir.Constant(index, 0))
                factor = builder.shuffle_vector(
                    factor, undefined, ir.Constant(ir.VectorType(index, WIDTH), [0] * WIDTH)
                )
                for number, total in enumerate(totals):
                    row = builder.load(builder.gep(place, [ir.Constant(size, number)]), align=4)
                    product = builder.fmul(factor, row, flags=("contract",))
                    builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
            out = builder.bitcast(builder.gep(sums.data, [args[3]]), eight.as_pointer())
            for number, total in enumerate(totals):
                builder.store(builder.load(total), builder.gep(out, [ir.Constant(size, number)]), align=4)
            return context.make_tuple(builder, signature.return_type, [builder.load(length), builder.load(square)])

        return types.UniTuple(types.float64, 2)(values, words, rows, types.intp, sums), codegen

    return add


_add_8, _add_16, _add_24, _add_32 = (_adder(n) for n in range(1, 5))


@jit_once
def add_columns(values, words, rows, first, last, sums):
    """Set ``sums[k]`` to ``sum_j values[j] * rows[words[j], n + k]``, n: half a row; return sums of values and squares.

    It processes eight columns at a time, so `rows` and `sums` need seven more elements after their last.
    """
    k, length, square = first, 0.0, 0.0
    while last - k > 24:
        length, square = _add_32(values, words, rows, k, sums)
        k += 32
    if last - k > 16:
        length, square = _add_24(values, words, rows, k, sums)
    elif last - k > 8:
        length, square = _add_16(values, words, rows, k, sums)
    elif last - k > 0:
        length, square = _add_8(values, words, rows, k, sums)
    return length, square


@intrinsic(lambda array, place, column: None)
def prefetch(typingctx, array, place, column):
    """Prefetch the cache line of an element of a flat array, or of a row; without a view, to save time."""
    require_array("array", array, (types.Integer, types.Float), array.ndim)

    def codegen(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        byte, index = ir.IntType(8).as_pointer(), ir.IntType(32)
        stride = cgutils.unpack_tuple(builder, array.strides)[0]
        row = builder.gep(builder.bitcast(array.data, byte), [builder.mul(args[1], stride)])
        wanted = builder.gep(builder.bitcast(row, array.data.type), [args[2]])
        asked = ir.FunctionType(ir.VoidType(), [byte, index, index, index])
        fetch = cgutils.get_or_insert_function(builder.module, asked, "llvm.prefetch.p0")
        to_read, near, data = ir.Constant(index, 0), ir.Constant(index, 3), ir.Constant(index, 1)
        builder.call(fetch, [builder.bitcast(wanted, byte), to_read, near, data])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), codegen


@jit_once
def fetch(array, first, last):
    for place in range(first, last, LINE // array.itemsize):
        prefetch(array, place, 0)


@jit_inline
def fetch_row(table, words, i):
    """Prefetch the float64 row that is needed `AHEAD` rows after that of ``words[i]``."""
    row = words[smaller(i + AHEAD, words.size - 1)]
    for column in range(0, table.shape[1], LINE // 8):
        prefetch(table, row, column)


@jit_once
def fetch_rows(words, rows, first):
    """Prefetch float32 rows of `words`, from column `first` on, for the next document."""
    for j in range(words.size):
        for column in range(first, rows.shape[1], LINE // 4):
            prefetch(rows, words[j], column)


# Bits of 1 and of sqrt(1/2): the argument is split as 2**k * m with m in [sqrt(1/2), sqrt(2)), as fdlibm does.
_ONE = np.uint64(0x3FF0000000000000)
_SQRT_HALF = np.uint64(0x3FE6A09E667F3BCD)
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
_SHIFT = np.uint64(52)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


@jit_inline
def log(x):
    """Return ln x for a positive, normal, finite float64, to about one unit in the last place.

    The caller must ensure the domain: there is no branch, so that loops over arrays vectorise.
    """
    shifted = same_bits(np.float64(x), np.uint64) + (_ONE - _SQRT_HALF)
    k = np.float64(np.int64(shifted >> _SHIFT) - 1023)
    f = same_bits(np.uint64((shifted & _MANTISSA) + _SQRT_HALF), np.float64) - 1.0
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
    shifted = np.uint32(same_bits(np.float32(x), np.uint32) + types.uint32(_ONE_32 - _SQRT_HALF_32))
    k = np.float32(types.int32(shifted >> _SHIFT_32) - types.int32(127))
    f = same_bits(np.uint32((shifted & _MANTISSA_32) + _SQRT_HALF_32), np.float32) - _UNIT_32
    s = f / (_TWO_32 + f)
    z = s * s
    w = z * z
    rest = w * (_EVEN_32[0] + w * _EVEN_32[1]) + z * (_ODD_32[0] + w * _ODD_32[1])
    half = _HALF_32 * f * f
    return s * (half + rest) + k * _LN2_LOW_32 - half + f + k * _LN2_HIGH_32


@jit
def take_logarithms(values):
    """Replace the entries of a flat float64 array by their logarithms, including -inf, inf and NaN."""
    for i in range(values.size):
        x = values[i]
        logarithm = log(smaller(larger(x, LEAST), LARGEST))
        logarithm = logarithm if x > 0.0 else (-np.inf if x == 0.0 else np.nan)
        values[i] = x if x > LARGEST else logarithm
