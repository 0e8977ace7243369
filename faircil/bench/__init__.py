"""Benchmarks: the solvers of the weighting program, whole runs and their parts, and sweeps."""
