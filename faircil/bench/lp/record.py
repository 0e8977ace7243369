"""What a benchmark of solvers is asked and what it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from faircil.bench.record import Circumstances


@dataclass(frozen=True)
class LpOptions:
    """How to measure.

    Parameters
    ----------
    sizes : tuple of int
        Columns to bring every program to; empty: each at its own size.
    repeats : int
        Timed solves of each program by each solver.
    limit : float
        Seconds; a solver that would take longer for one solve is left out.
    threads : int
        Of the linear algebra.
    """

    sizes: tuple[int, ...] = ()
    repeats: int = 5
    limit: float = 60.0
    threads: int = 1


@dataclass(frozen=True)
class Measurement:
    """One solver on one program.

    Parameters
    ----------
    size : int or None
        Columns asked for; None: the program's own.
    program, solver : str
    n, gap_rows, floor_rows : int
        Columns and rows of the program.
    seconds : tuple of float
        Of every timed solve.
    objective, bound : float
        Computed anew from the weights and the dual that came back, whatever the solver says.
    violation : float
        Largest amount by which a floor is broken.
    passes : int or None
        How often all columns were read, where the solver counts it.
    fractional : int
        Weights strictly between 0 and 1.
    status : str
        How the solver ended, in words.
    """

    size: int | None
    program: str
    solver: str
    n: int
    gap_rows: int
    floor_rows: int
    seconds: tuple[float, ...]
    objective: float
    bound: float
    violation: float
    passes: int | None
    fractional: int
    status: str

    @property
    def median(self) -> float:
        """Median of the seconds."""
        return median(self.seconds)

    @property
    def gap(self) -> float:
        """Distance to the proven bound, relative to the objective."""
        return (self.objective - self.bound) / (1 + abs(self.objective))


@dataclass(frozen=True)
class Skipped:
    """A solver that was not measured at a size (None: own), or on one program of it, and why."""

    size: int | None
    program: str | None
    solver: str
    why: str


@dataclass(frozen=True)
class LpResults(Circumstances):
    """A benchmark of solvers.

    Parameters
    ----------
    outcomes : tuple of Measurement and Skipped
        In the order in which they came.
    options : LpOptions
    """

    outcomes: tuple[Measurement | Skipped, ...]
    options: LpOptions

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What was measured."""
        return tuple(o for o in self.outcomes if isinstance(o, Measurement))

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What was not."""
        return tuple(o for o in self.outcomes if isinstance(o, Skipped))
