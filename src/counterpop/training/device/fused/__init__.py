"""Whole epochs of matrix factorisation in one kernel on a GPU: Triton, which comes with torch for GPUs."""
