"""Benchmarks: the solvers of the weighting program, and whole runs with what they are made of."""
