"""Numba kernels: arrays in, arrays out, compiled on first call. The tests compare each with a plain twin."""
