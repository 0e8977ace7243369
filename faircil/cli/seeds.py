"""Seeds as people write them."""

from __future__ import annotations

import re

from faircil.errors import UsageError


def parse_seeds(text: str) -> list[int]:
    """Read ``0-4``, ``3`` or ``0,2,5-7``; sorted, each once.

    Examples
    --------
    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    seeds: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first or last - first >= 10_000:
            raise UsageError(f"--seeds '{text}' cannot be read; write 3, 0-4 or 0,2,5")
        seeds.update(range(first, last + 1))
    return sorted(seeds)
