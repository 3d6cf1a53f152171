"""Basic functions of most kernels, as intrinsics: numba's own versions would be compiled again for each kernel."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError

from sdem_dist.compat import empty_array
from sdem_dist.kernels.jit import intrinsic


def _either(plain: Callable[..., Any], comparison: str) -> Any:
    @intrinsic(plain)
    def either(typingctx, a, b):
        number = typingctx.unify_types(types.unliteral(a), types.unliteral(b))
        if not isinstance(number, (types.Integer, types.Float)):
            raise TypingError(f"{plain.__name__} of {a} and {b} is not a number")

        def codegen(context, builder, signature, args):
            first, second = (context.cast(builder, x, t, number) for x, t in zip(args, signature.args, strict=True))
            compare = builder.icmp_signed if getattr(number, "signed", True) else builder.icmp_unsigned
            compare = builder.fcmp_ordered if isinstance(number, types.Float) else compare
            return builder.select(compare(comparison, second, first), second, first)

        return number(types.unliteral(a), types.unliteral(b)), codegen

    return either


def _maker(plain: Callable[..., Any]) -> Any:
    @intrinsic(plain)
    def make(typingctx, shape, dtype=None):
        n_dims = len(shape) if isinstance(shape, types.BaseTuple) else 1
        made = types.Array(types.float64 if dtype is None else dtype.dtype, n_dims, "C")

        def codegen(context, builder, signature, args):
            sizes, kinds = args[:1], signature.args[:1]
            if isinstance(shape, types.BaseTuple):
                sizes, kinds = cgutils.unpack_tuple(builder, args[0]), tuple(kinds[0])
            sizes = [context.cast(builder, size, kind, types.intp) for size, kind in zip(sizes, kinds, strict=True)]
            array = empty_array(context, builder, made, sizes)
            if plain is np.zeros:
                cgutils.memset(builder, array.data, builder.mul(array.nitems, array.itemsize), 0)
            return array._getvalue()

        return made(types.unliteral(shape), types.Omitted(None) if dtype is None else dtype), codegen

    return make


@intrinsic(lambda number, dtype: number.view(dtype))
def same_bits(typingctx, number, dtype):
    """Return the number of another dtype of the same size with the same bits."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return dtype.dtype(number, dtype), codegen


smaller, larger = _either(min, "<"), _either(max, ">")
empty, zeros = _maker(np.empty), _maker(np.zeros)
