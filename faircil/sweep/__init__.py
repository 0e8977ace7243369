"""Sweeps: many runs, each executed once, by one of several processes, and reused."""
