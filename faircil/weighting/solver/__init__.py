"""The registry of solvers of the weighting program, one module each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from faircil.errors import UsageError, unknown_name
from faircil.registry import Loaded, Registry, summary_of
from faircil.weighting.program import Solution as Solution, WeightProgram

SolverFunction = Callable[[WeightProgram], Solution]


@dataclass(frozen=True)
class Solver:
    """A solver of the weighting program.

    Parameters
    ----------
    solve : callable
        Maps a :class:`WeightProgram` to a :class:`Solution`; see
        :func:`faircil.weighting.program.certify`.
    summary : str
        One-line description.
    exact : bool
        Whether its solutions are optimal vertices up to rounding; otherwise they are approximate,
        with an error limited by the bound.
    """

    solve: Loaded[SolverFunction] = Loaded()
    summary: str = ""
    exact: bool = True

    def __call__(self, program: WeightProgram) -> Solution:
        """Solve a program."""
        return self.solve(program)


def as_solver(piece: Any) -> Solver:
    """Build a registry row from a function: exact, with its docstring as summary."""
    if isinstance(piece, Solver):
        return piece
    if not callable(piece):
        raise TypeError(f"expected a Solver or a function of a WeightProgram, got {piece!r}")
    return Solver(piece, summary_of(piece))


_BUILT_IN = {
    "exact": Solver(
        "faircil.weighting.solver.exact:solve_exactly",
        "our exact solver; an optimal vertex with a proof; HiGHS as fallback, noted in status",
    ),
    "highs": Solver(
        "faircil.weighting.solver.highs:solve_with_highs", "HiGHS, dual simplex; a vertex"
    ),
    "highs-ipm": Solver(
        "faircil.weighting.solver.highs:solve_with_ipm",
        "HiGHS, interior point with crossover; a vertex",
    ),
    "highs-pdlp": Solver(
        "faircil.weighting.solver.highs:solve_with_pdlp",
        "HiGHS, first-order method; approximate, with the gap in the status",
        exact=False,
    ),
    "first-order": Solver(
        "faircil.weighting.solver.first_order:solve_first_order",
        "our first-order method; approximate, with a proven relative gap of 1e-4",
        exact=False,
    ),
    "cplex": Solver(
        "faircil.weighting.solver.cplex:solve_with_cplex",
        "CPLEX, dual simplex; a vertex (extra: cplex)",
    ),
}
SOLVERS: Registry[Solver] = Registry("solver", "faircil.solvers", as_solver, _BUILT_IN)
DEFAULT = "exact"


def find_solver(solver: str | Solver | SolverFunction) -> SolverFunction:
    """Look up a solver by name, including ``auto``; accept a Solver or a function."""
    if not isinstance(solver, str):
        return as_solver(solver).solve
    name = DEFAULT if solver == "auto" else solver
    if name not in SOLVERS:
        raise UsageError(unknown_name("solver", name, [*SOLVERS, "auto"]))
    return SOLVERS[name].solve


def solve(program: WeightProgram, solver: str | SolverFunction = "auto") -> Solution:
    """Solve a weighting program.

    Parameters
    ----------
    program : WeightProgram
    solver : str or callable
        A name in :data:`SOLVERS`, ``auto`` for the default, or a function from the program to a
        :class:`Solution`.

    Examples
    --------
    >>> import numpy as np
    >>> no_floor = np.zeros((0, 2)), np.zeros(0)
    >>> program = WeightProgram(np.ones((1, 2)), np.ones(1), np.array([0.0, 0.1]), *no_floor)
    >>> solve(program).weights
    array([1., 0.])
    """
    return find_solver(solver)(program)


def try_solver(solver: str | SolverFunction) -> None:
    """Solve a program of two weights, to check a solver before training.

    Raises
    ------
    SolverError
        If the solver needs a missing package, or cannot be used here for another reason.
    """
    no_floor = np.zeros((0, 2)), np.zeros(0)
    solve(WeightProgram(np.ones((1, 2)), np.ones(1), np.array([0.0, 0.1]), *no_floor), solver)
