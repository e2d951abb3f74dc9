"""An exponential that compilers can vectorise: libm's is called one number at a time."""

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

LOWEST = np.float32(-87.0)  # exp of less is no normal float32


@intrinsic
def _as_float(context, bits):
    """The float32 that has these 32 bits."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.float32))

    return types.float32(types.int32), generate


@njit(nogil=True, cache=True, fastmath=True, inline="always")
def exp32(x):
    """exp(x) of a float32 up to 88, with a relative error of about 1e-7 (1 + |x|); below -87 it stays at exp(-87)."""
    scaled = max(x, LOWEST) * np.float32(1.4426950408889634)
    whole = np.floor(scaled + np.float32(0.5))
    rest = (scaled - whole) * np.float32(0.6931471805599453)  # up to log(2) / 2 either way
    power = np.float32(1 / 720)
    for factor in (1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
        power = power * rest + np.float32(factor)
    return power * _as_float((np.int32(whole) + np.int32(127)) << np.int32(23))  # type: ignore[call-arg]
