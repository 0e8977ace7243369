"""How long a solver will take at the next size, so that none runs for hours."""

from __future__ import annotations

from faircil.bench.timing import Growth, exponent, written

ASSUMED = 1.7  # exponent where only one size is known: that of the simplex method on these programs
LOWEST = 1.0  # no solver gets by without reading all columns


class Pace:
    """What solvers took so far, and whether they would pass the limit.

    Parameters
    ----------
    limit : float
        Seconds for one solve.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._slowest: dict[str, dict[int, float]] = {}

    def note(self, solver: str, n: int, seconds: float) -> None:
        """Take note of a solve; of those at one size the slowest counts."""
        known = self._slowest.setdefault(solver, {})
        known[n] = max(seconds, known.get(n, 0.0))

    def too_slow(self, solver: str, n: int) -> str | None:
        """Say why the solver is left out at size ``n``; None if it is not, or if nothing is known.

        Its growth is that between the two largest sizes so far.
        """
        known = sorted(self._slowest.get(solver, {}).items())[-2:]
        if not known:
            return None
        last, seconds = known[-1]
        fitted = exponent(*zip(*known, strict=True))
        growth = Growth(last, seconds, ASSUMED if fitted is None else max(fitted, LOWEST))
        predicted = growth.at(n)
        if predicted <= self._limit:
            return None
        return (
            f"predicted {written(predicted)} for one solve, more than the limit of "
            f"{self._limit:g} s, from {written(seconds)} at n = {last:,} and growth "
            f"n^{growth.exponent:.2f}{' (assumed)' if fitted is None else ''}"
        )
