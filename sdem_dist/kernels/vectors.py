"""What LLVM does not do of itself: eight sums of rows in one register, and rows that are fetched before they are needed."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sdem_dist.kernels.jit import jit_inline
from sdem_dist.kernels.logarithm import logarithms

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
        size, index = context.get_value_type(types.intp), ir.IntType(32)
        eight, undefined = ir.VectorType(ir.FloatType(), WIDTH), ir.Constant(ir.VectorType(ir.FloatType(), WIDTH), None)
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
            factor = builder.insert_element(undefined, x, ir.Constant(index, 0))
            factor = builder.shuffle_vector(factor, undefined, ir.Constant(ir.VectorType(index, WIDTH), [0] * WIDTH))
            product = builder.fmul(factor, row, flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
        out = builder.bitcast(builder.gep(sums.data, [args[3]]), eight.as_pointer())
        builder.store(builder.load(total), out, align=4)
        return context.get_dummy_value()

    return types.void(values, words, rows, types.intp, sums), codegen


@intrinsic
def move_eight(typingctx, values, words, rows, column, rhos, lows, totals):
    """Add documents' entries times `rhos` to eight columns of counts from `column` on, bounded by `lows`; renew logarithms.

    Counts of column k become ``max(N + rhos[k] x, lows[k])``, and ``totals[k]`` gains what they gain. The arrays but `values`
    and `words` are of single precision, `totals` of double, and all have room for eight columns.
    """

    def codegen(context, builder, signature, args):
        of_values, of_words, of_rows, _, of_rhos, of_lows, of_totals = signature.args
        given = zip((of_values, of_words, of_rows, of_rhos, of_lows, of_totals), (*args[:3], *args[4:]), strict=True)
        values, words, rows, rhos, lows, totals = (context.make_array(t)(context, builder, a) for t, a in given)
        size, index, byte = context.get_value_type(types.intp), ir.IntType(32), ir.IntType(8)
        eight, whole = ir.VectorType(ir.FloatType(), WIDTH), ir.VectorType(index, WIDTH)
        wide = ir.VectorType(ir.DoubleType(), WIDTH)
        stride = cgutils.unpack_tuple(builder, rows.strides)[0]
        half = builder.lshr(cgutils.unpack_tuple(builder, rows.shape)[1], ir.Constant(size, 1))

        def at(array, place, kind=eight):
            return builder.bitcast(builder.gep(array.data, [place]), kind.as_pointer())

        def op(name, a, b):
            return getattr(builder, name)(a, b, flags=("contract",))

        rho, low = builder.load(at(rhos, args[3]), align=4), builder.load(at(lows, args[3]), align=4)
        gains = cgutils.alloca_once_value(builder, ir.Constant(wide, [0.0] * WIDTH))
        with cgutils.for_range(builder, cgutils.unpack_tuple(builder, values.shape)[0]) as loop:
            x = builder.load(builder.gep(values.data, [loop.index]))
            x = context.cast(builder, x, of_values.dtype, types.float32)
            word = builder.load(builder.gep(words.data, [loop.index]))
            word = context.cast(builder, word, of_words.dtype, types.intp)
            row = builder.gep(builder.bitcast(rows.data, byte.as_pointer()), [builder.mul(word, stride)])
            row = builder.gep(builder.bitcast(row, ir.FloatType().as_pointer()), [args[3]])
            counts = builder.bitcast(row, eight.as_pointer())
            logs = builder.bitcast(builder.gep(row, [half]), eight.as_pointer())
            factor = builder.insert_element(ir.Constant(eight, None), x, ir.Constant(index, 0))
            factor = builder.shuffle_vector(factor, ir.Constant(eight, None), ir.Constant(whole, [0] * WIDTH))
            old = builder.load(counts, align=4)
            new = op("fadd", old, op("fmul", rho, factor))
            new = builder.select(builder.fcmp_ordered(">", new, low), new, low)
            gain = builder.fpext(op("fsub", new, old), wide)
            builder.store(op("fadd", builder.load(gains), gain), gains)
            builder.store(new, counts, align=4)
            builder.store(logarithms(builder, new), logs, align=4)
        total = at(totals, args[3], wide)
        builder.store(op("fadd", builder.load(total, align=8), builder.load(gains)), total, align=8)
        return context.get_dummy_value()

    return types.void(values, words, rows, types.intp, rhos, lows, totals), codegen


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
def fetch_rows(words, rows, first):
    """Bring some rows, float32, into the cache from a column on, while other documents are at work."""
    last = rows.shape[1] - 1
    for j in range(words.size):
        for column in range(first, last, LINE):
            _fetch(rows, words[j], column)
        _fetch(rows, words[j], last)
