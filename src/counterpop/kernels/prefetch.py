"""Asking for memory before it is needed: random rows of a large table arrive while other rows are worked on."""

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

AHEAD = 8  # steps: at a hundred nanoseconds each, longer than memory takes
CACHE_LINE = 64  # bytes
NEAR = 8 << 20  # bytes: a table up to this size is in a cache anyway


@intrinsic
def _request(typing_context, address):
    """Starts to load the cache line at an address, for reading and writing; changes nothing else."""
    if not isinstance(address, types.Integer):
        return None

    def generate(context, builder, signature, arguments):
        number, pointer = ir.IntType(32), cgutils.voidptr_t
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        place = builder.inttoptr(arguments[0], pointer)
        builder.call(function, [place, number(1), number(3), number(1)])  # to write, keep in all caches, data
        return context.get_dummy_value()

    return types.void(types.uintp), generate


@njit(nogil=True, inline="always")
def is_far(table):
    """Whether a table is too large for the caches."""
    return table.size * table.itemsize > NEAR


@njit(nogil=True, inline="always")
def fetch_row(table, row):
    """Starts to load a row of a table (N, D) of float32."""
    first = table.ctypes.data + row * table.strides[0]
    for line in range(0, table.strides[0], CACHE_LINE):
        _request(first + line)  # type: ignore[call-arg]  # numba passes the context
