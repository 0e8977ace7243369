"""CPLEX, the solver used in the paper, through IBM's own package."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from faircil.errors import SolverError
from faircil.weighting.groups import Floats
from faircil.weighting.program import Solution, WeightProgram
from faircil.weighting.solver.standard_form import (
    TOLERANCE,
    Engine,
    StandardForm,
    no_optimum,
    solve_to_proof,
    standard_form,
)

WORDS = "CPLEX dual simplex"
FREE = 1000  # variables, and constraints, accepted by the free edition
TOO_LARGE = 1016  # CPLEX error code for a larger program
DUAL_SIMPLEX = 2  # CPLEX code of the method


def solve_with_cplex(program: WeightProgram) -> Solution:
    """Solve by CPLEX' dual simplex; the result is a vertex.

    Needs the package ``cplex``, and for more than about 1000 weights a licence.
    """
    try:
        import cplex
    except ImportError as error:
        raise SolverError(
            f"solver=cplex needs the cplex package ({error}): pip install cplex, or use "
            "`solver=auto`"
        ) from error
    try:
        with cplex.Cplex() as problem:
            return solve_to_proof(program, partial(_load, problem), WORDS)
    except cplex.exceptions.CplexError as error:
        raise SolverError(_explain(error, program)) from error


def _load(problem: Any, form: StandardForm) -> Engine:
    """Pass options and arrays to CPLEX."""
    for silence in ("log", "results", "warning", "error"):
        getattr(problem, f"set_{silence}_stream")(None)
    parameters = problem.parameters
    parameters.threads.set(1)
    parameters.lpmethod.set(DUAL_SIMPLEX)
    parameters.preprocessing.presolve.set(0)  # useless for dense columns
    parameters.read.scale.set(-1)  # already scaled
    parameters.simplex.tolerances.feasibility.set(TOLERANCE)
    parameters.simplex.tolerances.optimality.set(TOLERANCE)
    problem.copylp(
        len(form.cost),
        len(form.offsets),
        obj=form.cost.tolist(),
        rhs=form.offsets.tolist(),
        senses="E" * form.equations + "L" * (len(form.offsets) - form.equations),
        matbeg=form.starts[:-1].tolist(),
        matcnt=np.diff(form.starts).tolist(),
        matind=form.index.tolist(),
        matval=form.values.tolist(),
        lb=[0.0] * len(form.cost),
        ub=form.upper.tolist(),
    )
    return partial(_run, problem, form.program)


def _run(problem: Any, program: WeightProgram, costs: Floats) -> tuple[Floats, Floats]:
    """Solve, warm-started from the last run; return column values and row duals."""
    problem.objective.set_linear(list(enumerate(costs.tolist())))
    problem.solve()
    solution = problem.solution
    if solution.get_status() != solution.status.optimal:
        raise no_optimum(WORDS, solution.get_status_string(), program)
    return np.array(solution.get_values()), np.array(solution.get_dual_values())


def _explain(error: Exception, program: WeightProgram) -> str:
    """Explain why CPLEX failed and how to fix it."""
    if TOO_LARGE not in error.args:
        return f"CPLEX refused a program of {len(program)} weights: {error}"
    form = standard_form(program)
    return (
        f"a program of {len(program)} weights has {len(form.cost)} variables and "
        f"{len(form.offsets)} constraints for CPLEX, whose free edition takes {FREE} of each: use "
        "`solver=auto`, or install CPLEX with a licence"
    )
