"""Seeds as people write them."""

from __future__ import annotations

import re

from faircil.errors import UsageError

MOST_SEEDS = 1000  # more is a slip of the fingers


def parse_seeds(text: str) -> list[int]:
    """Read ``0-4``, ``3`` or ``0,2,5-7``; sorted, each once.

    Examples
    --------
    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    seeds: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part, re.ASCII)
        if match is None:
            raise UsageError(f"--seeds '{text}' cannot be read; write 3, 0-4 or 0,2,5")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise UsageError(f"--seeds '{text}' counts down; write {last}-{first}")
        if last - first >= MOST_SEEDS:
            raise UsageError(
                f"--seeds '{text}' are {last - first + 1:,} seeds, more than {MOST_SEEDS:,}; "
                "write fewer"
            )
        seeds.update(range(first, last + 1))
    return sorted(seeds)
