"""Solvers of the weighting program, by name: one file each."""

from __future__ import annotations

from collections.abc import Callable

from faircil.errors import UsageError, unknown_name
from faircil.weighting.program import Solution as Solution
from faircil.weighting.program import WeightProgram
from faircil.weighting.solver.cplex import solve_with_cplex
from faircil.weighting.solver.exact import solve_exactly
from faircil.weighting.solver.first_order import solve_first_order
from faircil.weighting.solver.highs import solve_with_highs, solve_with_ipm, solve_with_pdlp

Solver = Callable[[WeightProgram], Solution]

SOLVERS: dict[str, Solver] = {
    "exact": solve_exactly,
    "highs": solve_with_highs,
    "highs-ipm": solve_with_ipm,
    "highs-pdlp": solve_with_pdlp,
    "first-order": solve_first_order,
    "cplex": solve_with_cplex,
}
DEFAULT = "exact"


def solve(program: WeightProgram, solver: str = "auto") -> Solution:
    """Solve a weighting program.

    Parameters
    ----------
    program : WeightProgram
    solver : str
        A name in :data:`SOLVERS`, or ``auto`` for the best one that is installed.

    Examples
    --------
    >>> import numpy as np
    >>> no_floor = np.zeros((0, 2)), np.zeros(0)
    >>> program = WeightProgram(np.ones((1, 2)), np.ones(1), np.array([0.0, 0.1]), *no_floor)
    >>> solve(program).weights
    array([1., 0.])
    """
    name = DEFAULT if solver == "auto" else solver
    if name not in SOLVERS:
        raise UsageError(unknown_name("solver", name, [*SOLVERS, "auto"]))
    return SOLVERS[name](program)
