"""HiGHS, called with arrays: dual simplex, interior point, and a first-order method (PDLP)."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

import highspy
import numpy as np
from highspy import HighsModelStatus, HighsStatus

from faircil.errors import SolverError
from faircil.weighting.groups import Floats
from faircil.weighting.program import Solution, WeightProgram, certify
from faircil.weighting.solver.standard_form import (
    TINY,
    TOLERANCE,
    StandardForm,
    no_optimum,
    solve_to_proof,
    standard_form,
)

ROUGH = 1e-6  # tolerance of the first-order method
ROUNDING = 1e-14  # of a floor's sum, relative to its positive terms
ROUNDS = 100  # over the floors, to satisfy all of them
SOLVED = (HighsModelStatus.kOptimal, HighsModelStatus.kModelEmpty)
Options = tuple[tuple[str, str | float], ...]
SHARED: Options = (
    ("output_flag", False),
    ("parallel", "off"),
    ("presolve", "off"),  # useless for dense columns
    ("simplex_scale_strategy", 0),  # already scaled
    ("small_matrix_value", 1e-12),
)


@dataclass(frozen=True)
class Method:
    """One of HiGHS' methods.

    Parameters
    ----------
    words : str
        Its name in ``status``.
    solver : str
        Its name among HiGHS' options.
    tolerance : float
        For feasibility and optimality, in the scaled program.
    options : tuple of (str, value)
        Further options, in addition to :data:`SHARED`.
    endings : tuple of HighsModelStatus
        Model statuses with a usable solution.
    """

    words: str
    solver: str
    tolerance: float
    options: Options = ()
    endings: tuple[HighsModelStatus, ...] = SOLVED


SIMPLEX = Method("HiGHS dual simplex", "simplex", TOLERANCE)
IPM = Method("HiGHS interior point and crossover", "ipm", TOLERANCE, (("run_crossover", "on"),))
PDLP = Method(
    "HiGHS PDLP",
    "pdlp",
    ROUGH,
    (
        ("pdlp_optimality_tolerance", ROUGH),
        ("pdlp_iteration_limit", 100_000),
        ("time_limit", 600.0),
    ),
    (
        *SOLVED,
        HighsModelStatus.kUnknown,  # relative tolerances are met, HiGHS' absolute ones are not
        HighsModelStatus.kIterationLimit,
        HighsModelStatus.kTimeLimit,
    ),
)


def solve_with_highs(program: WeightProgram) -> Solution:
    """Solve by HiGHS' dual simplex; the result is a vertex."""
    return _solve_by_vertices(SIMPLEX, program)


def solve_with_ipm(program: WeightProgram) -> Solution:
    """Solve by HiGHS' interior point method with crossover; the result is a vertex."""
    return _solve_by_vertices(IPM, program)


def solve_with_pdlp(program: WeightProgram) -> Solution:
    """Solve approximately by HiGHS' first-order method; ``status`` reports the gap.

    The weights satisfy the floors: if some are slightly violated, weights are lowered. The bound is
    valid, but further from the objective than that of an exact solver.
    """
    start = time.perf_counter()
    form = standard_form(program)
    highs = _load(PDLP, form)
    values, row_dual = _run(highs, PDLP, form, form.cost)
    weights = keep_floors(program, values[: len(program)])
    size = np.abs(program.floor_rows).max(axis=1, initial=TINY)
    below = np.max((program.floor_rows @ weights - program.floor_offsets) / size, initial=0.0)
    ending = highs.modelStatusToString(highs.getModelStatus())
    if below > ROUGH * (1 + np.linalg.norm(form.offsets)):
        raise no_optimum(PDLP.words, ending, program)
    found = certify(program, weights, form.prices(row_dual), "", 0.0)
    parts = [PDLP.words, f"{highs.getInfo().pdlp_iteration_count} iterations"]
    if highs.getModelStatus() not in SOLVED:
        parts.append(f"ended with '{ending}'")
    if below > TOLERANCE:
        parts.append(f"a floor broken by {program.violation(weights):.1e}")
    parts.append(f"within {max(found.gap, 0.0):.1e} of the optimum")
    status = f"approximate ({', '.join(parts)})"
    return replace(found, status=status, seconds=time.perf_counter() - start)


def keep_floors(program: WeightProgram, weights: Floats) -> Floats:
    """Lower weights, (n,), clipped to [0, 1], until they satisfy the floors.

    For a violated floor, all columns with positive entries are scaled by the smallest sufficient
    reduction. This can violate another floor, so the floors are processed in rounds: weights only
    decrease, and with offsets ≥ 0 they converge to weights that satisfy every floor. A floor with a
    negative offset may stay violated.
    """
    weights = np.clip(weights, 0.0, 1.0)
    for _ in range(ROUNDS):
        before = weights
        for row, offset in zip(program.floor_rows, program.floor_offsets, strict=True):
            push = np.maximum(row, 0.0) @ weights
            excess = row @ weights - offset
            if push > 0 and excess > ROUNDING * push:
                weights = np.where(row > 0, weights * max(0.0, 1 - excess / push), weights)
        if weights is before:
            break
    return weights


def _solve_by_vertices(method: Method, program: WeightProgram) -> Solution:
    return solve_to_proof(
        program, lambda form: partial(_run, _load(method, form), method, form), method.words
    )


def _load(method: Method, form: StandardForm) -> highspy.Highs:
    """Pass options and arrays to HiGHS."""
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    own: Options = (
        ("solver", method.solver),
        ("primal_feasibility_tolerance", method.tolerance),
        ("dual_feasibility_tolerance", method.tolerance),
        *method.options,
    )
    for option, value in SHARED + own:
        if highs.setOptionValue(option, value) != HighsStatus.kOk:
            raise SolverError(
                f"HiGHS {highs.version()} does not know {option}={value}, which {method.words} "
                "needs: pip install --upgrade highspy"
            )
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(form.cost), len(form.offsets)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = form.cost, np.zeros_like(form.cost), form.upper
    lower = form.offsets.copy()
    lower[form.equations :] = -highspy.kHighsInf
    lp.row_lower_, lp.row_upper_ = lower, form.offsets
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = form.starts, form.index
    lp.a_matrix_.value_ = form.values
    if highs.passModel(lp) == HighsStatus.kError:
        raise no_optimum(method.words, "a refused model", form.program)
    return highs


def _run(
    highs: highspy.Highs, method: Method, form: StandardForm, costs: Floats
) -> tuple[Floats, Floats]:
    """Solve, warm-started from the last run; return column values and row duals."""
    highs.changeColsCost(len(costs), np.arange(len(costs), dtype=np.int32), costs)
    highs.run()
    ending = highs.getModelStatus()
    if ending not in method.endings:
        raise no_optimum(method.words, highs.modelStatusToString(ending), form.program)
    highs.setOptionValue("solver", "simplex")  # which warm-starts from a vertex in a further run
    solution = highs.getSolution()
    values, row_dual = np.array(solution.col_value), np.array(solution.row_dual)
    if not (np.isfinite(values).all() and np.isfinite(row_dual).all()):
        raise no_optimum(method.words, "values that are not finite", form.program)
    return values, row_dual
