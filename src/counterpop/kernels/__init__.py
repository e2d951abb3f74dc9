"""Numba kernels: arrays in, arrays out, compiled on first call. Each has a plain NumPy twin in `twins`."""
