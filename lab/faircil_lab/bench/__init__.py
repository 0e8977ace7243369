"""Benchmarks: solvers of the weighting program, runs and their parts, sweeps, encoders of texts."""
