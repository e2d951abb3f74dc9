"""Many triples in one kernel on a GPU: Triton, which comes with torch for GPUs on Linux."""
