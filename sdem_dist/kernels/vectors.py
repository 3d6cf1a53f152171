"""What LLVM does not do of itself: eight columns in one register, and rows that are fetched before they are needed."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sdem_dist.kernels.jit import jit_inline
from sdem_dist.kernels.logarithm import (
    _EVEN_32,
    _HALF_32,
    _LN2_HIGH_32,
    _LN2_LOW_32,
    _MANTISSA_32,
    _ODD_32,
    _ONE_32,
    _SHIFT_32,
    _SQRT_HALF_32,
)

WIDTH = 8
"""Columns of a register of single precision."""
LINE = 16
"""Single precision numbers in a line of cache."""


@intrinsic
def add_eight(typingctx, values, words, rows, column, sums):
    """Set ``sums[column + i]``, i up to 8, to ``sum_j values[j] * rows[words[j], n + column + i]``, n half the row's length.

    It reads and writes all eight, also where the row has fewer: `rows` and `sums` need room behind their last element.
    """

    def codegen(context, builder, signature, args):
        of_values, of_words, of_rows, _, of_sums = signature.args
        pairs = ((of_values, args[0]), (of_words, args[1]), (of_rows, args[2]), (of_sums, args[4]))
        values, words, rows, sums = (context.make_array(t)(context, builder, a) for t, a in pairs)
        size, eight = context.get_value_type(types.intp), ir.VectorType(ir.FloatType(), WIDTH)
        stride = cgutils.unpack_tuple(builder, rows.strides)[0]
        half = builder.lshr(cgutils.unpack_tuple(builder, rows.shape)[1], ir.Constant(size, 1))
        first = builder.gep(rows.data, [builder.add(half, args[3])])
        first = builder.bitcast(first, ir.IntType(8).as_pointer())
        total = cgutils.alloca_once_value(builder, ir.Constant(eight, [0.0] * WIDTH))
        with cgutils.for_range(builder, cgutils.unpack_tuple(builder, values.shape)[0]) as loop:
            x = builder.load(builder.gep(values.data, [loop.index]))
            x = context.cast(builder, x, of_values.dtype, types.float32)
            word = context.cast(
                builder, builder.load(builder.gep(words.data, [loop.index])), of_words.dtype, types.intp
            )
            place = builder.bitcast(builder.gep(first, [builder.mul(word, stride)]), eight.as_pointer())
            row = builder.load(place, align=4)
            product = builder.fmul(_eight(x, builder), row, flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
        out = builder.bitcast(builder.gep(sums.data, [args[3]]), eight.as_pointer())
        builder.store(builder.load(total), out, align=4)
        return context.get_dummy_value()

    return types.void(values, words, rows, types.intp, sums), codegen


def _eight(value, builder):
    """Return a register of eight equal numbers."""
    index, one = ir.IntType(32), ir.Constant(ir.VectorType(value.type, WIDTH), None)
    first = builder.insert_element(one, value, ir.Constant(index, 0))
    return builder.shuffle_vector(first, one, ir.Constant(ir.VectorType(index, WIDTH), [0] * WIDTH))


def _log_of_eight(x, builder):
    """Return the logarithms of eight numbers, `sdem_dist.kernels.logarithm.log_single` to the bit."""
    whole, single = ir.VectorType(ir.IntType(32), WIDTH), x.type

    def bits(number):
        return ir.Constant(whole, [int(number)] * WIDTH)

    def of(number):
        return ir.Constant(single, [float(number)] * WIDTH)

    def times(a, b):
        return builder.fmul(a, b, flags=("contract",))

    def plus(a, b):
        return builder.fadd(a, b, flags=("contract",))

    def minus(a, b):
        return builder.fsub(a, b, flags=("contract",))

    shifted = builder.add(builder.bitcast(x, whole), bits(_ONE_32 - _SQRT_HALF_32))
    k = builder.sitofp(builder.sub(builder.lshr(shifted, bits(_SHIFT_32)), bits(127)), single)
    mantissa = builder.add(builder.and_(shifted, bits(_MANTISSA_32)), bits(_SQRT_HALF_32))
    f = minus(builder.bitcast(mantissa, single), of(1.0))
    s = builder.fdiv(f, plus(of(2.0), f), flags=("contract",))
    z = times(s, s)
    w = times(z, z)
    even, odd = (plus(of(a), times(w, of(b))) for a, b in (_EVEN_32, _ODD_32))
    rest = plus(times(w, even), times(z, odd))
    half = times(times(of(_HALF_32), f), f)
    found = minus(plus(times(s, plus(half, rest)), times(k, of(_LN2_LOW_32))), half)
    return plus(plus(found, f), times(k, of(_LN2_HIGH_32)))


@intrinsic
def move_eight(typingctx, values, words, rows, column, rho, least, gains):
    """Add ``rho[i] * values[j]`` to ``rows[words[j], column + i]``, i up to 8, no count below `least`; renew their logarithms.

    `rho` is of single precision, like `rows`. A column with a `rho` of 0 stays as it is. Set ``gains[i]`` to what column i
    gained. No word may occur twice.
    """

    def codegen(context, builder, signature, args):
        kinds = signature.args
        which = (0, 1, 2, 4, 6)
        values, words, rows, rho, gains = (context.make_array(kinds[i])(context, builder, args[i]) for i in which)
        single = ir.VectorType(ir.FloatType(), WIDTH).as_pointer()
        double, byte = ir.VectorType(ir.DoubleType(), WIDTH), ir.IntType(8).as_pointer()
        size = context.get_value_type(types.intp)
        half = builder.lshr(cgutils.unpack_tuple(builder, rows.shape)[1], ir.Constant(size, 1))
        stride = cgutils.unpack_tuple(builder, rows.strides)[0]
        step = builder.load(builder.bitcast(rho.data, single), align=4)
        still = builder.fcmp_ordered("==", step, ir.Constant(step.type, [0.0] * WIDTH))
        floor = _eight(args[5], builder)
        total = cgutils.alloca_once_value(builder, ir.Constant(double, [0.0] * WIDTH))
        with cgutils.for_range(builder, cgutils.unpack_tuple(builder, values.shape)[0]) as loop:
            x = context.cast(
                builder, builder.load(builder.gep(values.data, [loop.index])), kinds[0].dtype, types.float32
            )
            word = context.cast(
                builder, builder.load(builder.gep(words.data, [loop.index])), kinds[1].dtype, types.intp
            )
            row = builder.gep(builder.bitcast(rows.data, byte), [builder.mul(word, stride)])
            row = builder.gep(builder.bitcast(row, rows.data.type), [args[3]])
            counts, logs = (builder.bitcast(place, single) for place in (row, builder.gep(row, [half])))
            old, log = builder.load(counts, align=4), builder.load(logs, align=4)
            product = builder.fmul(step, _eight(x, builder), flags=("contract",))
            new = builder.fadd(old, product, flags=("contract",))
            new = builder.select(builder.fcmp_ordered(">", new, floor), new, floor)
            new = builder.select(still, old, new)
            builder.store(new, counts, align=4)
            builder.store(builder.select(still, log, _log_of_eight(new, builder)), logs, align=4)
            gain = builder.fpext(builder.fsub(new, old), double)
            builder.store(builder.fadd(builder.load(total), gain), total)
        builder.store(builder.load(total), builder.bitcast(gains.data, double.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(values, words, rows, types.intp, rho, types.float32, gains), codegen


@intrinsic
def _fetch(typingctx, rows, row, column):
    """Ask for the line of cache that holds an element."""

    def codegen(context, builder, signature, args):
        rows = context.make_array(signature.args[0])(context, builder, args[0])
        byte, index = ir.IntType(8).as_pointer(), ir.IntType(32)
        stride = cgutils.unpack_tuple(builder, rows.strides)[0]
        place = builder.gep(builder.bitcast(rows.data, byte), [builder.mul(args[1], stride)])
        place = builder.gep(builder.bitcast(place, rows.data.type), [args[2]])
        asked = ir.FunctionType(ir.VoidType(), [byte, index, index, index])
        fetch = cgutils.get_or_insert_function(builder.module, asked, "llvm.prefetch.p0")
        to_read, near, data = ir.Constant(index, 0), ir.Constant(index, 3), ir.Constant(index, 1)
        builder.call(fetch, [builder.bitcast(place, byte), to_read, near, data])
        return context.get_dummy_value()

    return types.void(rows, types.intp, types.intp), codegen


@jit_inline
def fetch_logarithms(words, rows):
    """Bring the second halves of some rows, float32, into the cache, while other documents are at work."""
    n_columns = rows.shape[1] // 2
    for j in range(words.size):
        for column in range(n_columns, 2 * n_columns, LINE):
            _fetch(rows, words[j], column)
        _fetch(rows, words[j], 2 * n_columns - 1)
