"""One file for each outside system, named after it."""
