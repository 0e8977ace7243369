"""Sizes as people write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

UNITS = {"": 1, "k": 1_000, "M": 1_000_000}
LARGEST = 100_000_000  # columns: beyond, the arrays take tens of gigabytes


def parse_sizes(texts: Sequence[str], mistakes: list[str]) -> tuple[int, ...]:
    """Read ``1000``, ``12k`` or ``1M``; sorted, each once; adds to ``mistakes`` what is wrong.

    Examples
    --------
    >>> parse_sizes(["1M", "12k", "1000"], [])
    (1000, 12000, 1000000)
    """
    sizes = set()
    for text in texts:
        match = re.fullmatch(r"(\d{1,9})([kM]?)", text, re.ASCII)
        if match is None:
            mistakes.append(
                f"--sizes: '{text}' is no number of columns; write 1000, 12k or 1M "
                "(files come before --sizes)"
            )
            continue
        size = int(match[1]) * UNITS[match[2]]
        if 1 <= size <= LARGEST:
            sizes.add(size)
        else:
            mistakes.append(f"--sizes: '{text}' is not between 1 and {LARGEST:,} columns")
    return tuple(sorted(sizes))
