"""Training with torch, everything resident on the device; needs neither numba nor polars."""
