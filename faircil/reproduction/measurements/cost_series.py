"""Cost and disparity over epochs and seeds, and whether they move together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from faircil.reproduction.measurements.epochs import WatchedRun
from faircil.reproduction.measurements.statements import Statement, above_zero, statement, written
from faircil.statistics import Interval, interval
from faircil.weighting.groups import Floats

SAYS = "On {}, cost and EO disparity move together"

Correlation = Callable[[Floats, Floats], float]


@dataclass(frozen=True)
class Series:
    """Cost and disparity, (seeds, E), of E epochs, and the task of each."""

    tasks: tuple[int, ...]
    cost: Floats
    disparity: Floats

    @classmethod
    def of(cls, part: str, runs: Sequence[WatchedRun]) -> Series:
        """Gather what several seeds have measured on the training or on the test data."""
        cost, disparity = (
            np.array([[getattr(getattr(e, part), name) for e in run.epochs] for run in runs])
            for name in ("cost", "disparity")
        )
        return cls(tuple(epoch.task for epoch in runs[0].epochs), cost, disparity)

    def over_all(self, correlation: Correlation) -> Interval:
        """Correlate over all epochs, seed by seed."""
        pairs = zip(self.cost, self.disparity, strict=True)
        return interval([correlation(*pair) for pair in pairs])

    def within_tasks(self, correlation: Correlation) -> Interval:
        """Correlate over the epochs of a task, seed by seed, and average over tasks.

        Unlike the correlation over all epochs, this is not high merely because both values are
        higher in some tasks than in others.
        """
        parts = [np.array(self.tasks) == task for task in dict.fromkeys(self.tasks)]
        pairs = zip(self.cost, self.disparity, strict=True)
        return interval(
            [float(np.mean([correlation(a[part], b[part]) for part in parts])) for a, b in pairs]
        )

    def statement(self, where: str) -> Statement:
        """Say whether both move together."""
        found = self.within_tasks(spearman)
        ours = f"rank correlation within tasks {written(found)}"
        return statement(SAYS.format(where), ours, above_zero(found))


def spearman(a: Floats, b: Floats) -> float:
    """Return the rank correlation; 0 where one of the two does not move."""
    return pearson(rankdata(a), rankdata(b))


def pearson(a: Floats, b: Floats) -> float:
    """Return the linear correlation; 0 where one of the two does not move."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])
