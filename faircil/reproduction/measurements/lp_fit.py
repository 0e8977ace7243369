"""A power of n through times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import linregress, t

from faircil.reproduction.measurements.lp_time import SolveTime
from faircil.statistics import Interval

LEVEL = 0.95


@dataclass(frozen=True)
class Fit:
    """``seconds = exp(offset) · n ** exponent`` by least squares of logarithms.

    Parameters
    ----------
    sizes, seconds : tuple
        What it is fitted to.
    exponent : Interval
        With its interval at 95 %.
    offset : float
    """

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    exponent: Interval
    offset: float

    def at(self, n: float) -> float:
        """Return the seconds at n samples."""
        return math.exp(self.offset + self.exponent.mean * math.log(n))


def fit_power(times: Sequence[SolveTime]) -> Fit:
    """Fit times of one solver at several sizes."""
    sizes, seconds = zip(*((time.n, time.seconds) for time in times), strict=True)
    line = linregress(np.log(sizes), np.log(seconds))
    half = float(t.ppf((1 + LEVEL) / 2, len(times) - 2)) * float(line.stderr)
    slope = float(line.slope)
    return Fit(sizes, seconds, Interval(slope, slope - half, slope + half), float(line.intercept))
