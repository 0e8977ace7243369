"""Time and memory of whole runs, and what the weights of an epoch cost."""
