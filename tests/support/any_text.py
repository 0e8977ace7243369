"""Texts that are hard to store."""

from __future__ import annotations

import pandas as pd

# Before pandas 3.1, its CSV reader ends a text at a zero byte.
NUL = "\0" if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else "0"
