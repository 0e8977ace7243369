"""Measurements of solvers in a few numbers: per size and solver, and the growth of each solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from faircil.bench.lp.cases import REFERENCE
from faircil.bench.lp.record import LpResults, Measurement
from faircil.bench.timing import exponent


@dataclass(frozen=True)
class SolverAtSize:
    """A solver on all programs of one size.

    Parameters
    ----------
    size : int or None
        Columns asked for; None: the programs' own sizes.
    smallest, largest : int
        Columns that the programs have.
    solver : str
    programs : int
        How many of them it solved.
    seconds : float
        Geometric mean over programs of the median time.
    ratio : float or None
        How many times faster than the reference, a geometric mean over programs that both solved.
    gap, violation : float
        The worst relative gap, and the largest amount by which a floor is broken.
    passes : int or None
        The most passes over all columns.
    fractional : int
        The most weights strictly between 0 and 1.
    """

    size: int | None
    smallest: int
    largest: int
    solver: str
    programs: int
    seconds: float
    ratio: float | None
    gap: float
    violation: float
    passes: int | None
    fractional: int

    @property
    def label(self) -> str:
        """The size as people read it."""
        if self.smallest == self.largest:
            return f"n = {self.smallest:,}"
        return f"n = {self.smallest:,} to {self.largest:,}"


def summarise(results: LpResults) -> list[SolverAtSize]:
    """Return a row per size and solver, sizes rising, solvers in the order measured."""
    parts: dict[tuple[int, str], list[Measurement]] = {}
    for item in results.measurements:
        parts.setdefault((item.size or 0, item.solver), []).append(item)
    sizes = {
        size: [item.n for (other, _), items in parts.items() if other == size for item in items]
        for size, _ in parts
    }
    return [
        _row(items, parts.get((size, REFERENCE), []), sizes[size])
        for (size, _), items in sorted(parts.items(), key=lambda part: part[0][0])
    ]


def _row(
    items: Sequence[Measurement], reference: Sequence[Measurement], columns: Sequence[int]
) -> SolverAtSize:
    base = {item.program: item.median for item in reference}
    ratios = [base[item.program] / item.median for item in items if item.program in base]
    passes = [item.passes for item in items if item.passes is not None]
    return SolverAtSize(
        size=items[0].size,
        smallest=min(columns),
        largest=max(columns),
        solver=items[0].solver,
        programs=len({item.program for item in items}),
        seconds=geometric_mean(item.median for item in items),
        ratio=geometric_mean(ratios) if ratios else None,
        gap=max(item.gap for item in items),
        violation=max(item.violation for item in items),
        passes=max(passes, default=None),
        fractional=max(item.fractional for item in items),
    )


def exponents(rows: Sequence[SolverAtSize]) -> dict[str, float]:
    """Return, for solvers measured at several sizes, the exponent of time against n."""
    fits = {}
    for solver in dict.fromkeys(row.solver for row in rows):
        own = [row for row in rows if row.solver == solver and row.size is not None]
        fit = exponent([row.smallest for row in own], [row.seconds for row in own])
        if fit is not None:
            fits[solver] = fit
    return fits
