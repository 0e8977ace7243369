"""What the paper's figures show that no finished run keeps: measured once, and kept as files."""
