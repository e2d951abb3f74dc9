"""A small random stream for kernels: splitmix64, one state for each thread."""

import numpy as np
from numba import njit, uint64

_STEP = uint64(0x9E3779B97F4A7C15)
_MIX_A = uint64(0xBF58476D1CE4E5B9)
_MIX_B = uint64(0x94D049BB133111EB)


@njit(nogil=True, cache=True, inline="always")
def next_bits(state):
    """64 fresh random bits; `state` is one uint64 in an array and moves on."""
    state[0] += _STEP
    z = state[0]
    z = (z ^ (z >> uint64(30))) * _MIX_A
    z = (z ^ (z >> uint64(27))) * _MIX_B
    return z ^ (z >> uint64(31))


@njit(nogil=True, cache=True, inline="always")
def next_below(state, n):
    """A random integer in [0, n), n < 2^32; the bias of the short cut is below n / 2^32."""
    return np.int64(((next_bits(state) >> uint64(32)) * uint64(n)) >> uint64(32))


@njit(nogil=True, cache=True, inline="always")
def next_unit(state):
    """A random float64 in [0, 1)."""
    return np.float64(next_bits(state) >> uint64(11)) * (1.0 / 9007199254740992.0)
