"""Results: records of runs, their folders, and averages over seeds."""
