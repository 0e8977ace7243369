"""Sweeps in medians and shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from faircil.bench.sweep.record import Case, Parts, SweepCost, summed


@dataclass(frozen=True)
class CaseSummary:
    """A number of processes, over repeats.

    Parameters
    ----------
    case : Case
    repeats, runs, processes : int
    wall : float
        Median of the seconds.
    rate : float
        Runs per second.
    speedup : float
        Rate against that of the first case.
    shares : Parts
        Of the time of all processes, mean over repeats; together 1.
    cores : float
        That a process had while it worked, mean over repeats.
    """

    case: Case
    repeats: int
    runs: int
    processes: int
    wall: float
    rate: float
    speedup: float
    shares: Parts
    cores: float

    @property
    def per_run(self) -> Parts:
        """Seconds that a process has for a run: shorter is better, however many there are."""
        return self.shares.times(self.processes * self.wall / self.runs)


def summarise_sweeps(costs: Sequence[SweepCost]) -> list[CaseSummary]:
    """Return a row per case, in the order measured."""
    parts: dict[Case, list[SweepCost]] = {}
    for cost in costs:
        parts.setdefault(cost.case, []).append(cost)
    rates = {case: part[0].runs / _wall(part) for case, part in parts.items()}
    return [
        CaseSummary(
            case,
            len(part),
            part[0].runs,
            part[0].processes,
            _wall(part),
            rates[case],
            rates[case] / rates[costs[0].case],
            _shares(part),
            mean(cost.cores for cost in part),
        )
        for case, part in parts.items()
    ]


def _wall(costs: Sequence[SweepCost]) -> float:
    return median(cost.wall for cost in costs)


def _shares(costs: Sequence[SweepCost]) -> Parts:
    return summed([cost.parts.times(1 / cost.parts.total / len(costs)) for cost in costs])
