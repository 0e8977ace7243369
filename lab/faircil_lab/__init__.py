"""The laboratory of faircil: the paper's tables and figures again, and benchmarks."""
