"""Programs to solve: plain ones, and ties, zeros, rows and columns of very different size."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from faircil.weighting.groups import Floats
from faircil.weighting.program import Solution, WeightProgram

OWN = "optimal (ascent of the dual"

any_program = given(
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(0, 6),
    m=st.integers(0, 3),
    n=st.integers(1, 40),
    scale=st.sampled_from([1e-6, 1e-4, 1e-2, 1.0, 10.0]),
)
"""Draws what :func:`random_program` takes."""

KINDS = (
    "plain",
    "integers",
    "equal columns",
    "rows of any size",
    "equal rows",
    "zero row and column",
    "columns of any size",
    "few values",
)


def random_program(seed: int, k: int, m: int, n: int, scale: float = 1.0) -> WeightProgram:
    """Return random rows and costs in units of ``scale``, as set by alpha; floors may be active."""
    rng = np.random.default_rng(seed)
    return WeightProgram(
        rng.uniform(-1, 1, (k, n)) * scale,
        rng.uniform(-1, 1, k) * rng.choice([0, scale, 1]),
        rng.uniform(-1, 1, n) * rng.choice([0, 0.1 * scale, scale]),
        rng.uniform(-0.5, 1, (m, n)) * scale,
        rng.uniform(0, 1, m) * rng.choice([0, scale, 1]),
    )


def hard_program(rng: np.random.Generator, kind: str, most: int = 60) -> WeightProgram:
    """Draw a program with up to ``most`` columns; floors may be active or infeasible."""
    k, m, n = int(rng.integers(0, 7)), int(rng.integers(0, 4)), int(rng.integers(1, most))
    rows = _rows(rng, kind, max(k + m, 1), n)
    k = len(rows) - m if k + m else 1
    gaps, floors = rows[:k], rows[k:]
    reached = gaps @ rng.random(n) * rng.choice([0.0, 0.5, 1.0, 2.0, 5.0])
    gap_offsets = reached if rng.random() < 0.7 else rng.standard_normal(k)
    floor_offsets = np.abs(rng.standard_normal(m)) * np.abs(floors).sum(axis=1)
    floor_offsets *= rng.choice([0.0, 0.01, 0.1, 1.0]) * (-1 if rng.random() < 0.1 else 1)
    lam = rng.choice([0.0, 0.1, 1.0])
    # The method's own cost is a sum of floor rows: at price λ for each, all reduced costs vanish.
    cost = -lam * floors.sum(axis=0) if rng.random() < 0.5 else lam * rng.standard_normal(n)
    if kind == "integers":
        cost, gap_offsets, floor_offsets = (
            np.round(array) for array in (cost, gap_offsets, floor_offsets)
        )
    return WeightProgram(gaps, gap_offsets, cost, floors, floor_offsets)


def _rows(rng: np.random.Generator, kind: str, r: int, n: int) -> Floats:
    rows = rng.standard_normal((r, n))
    match kind:
        case "integers":
            return rng.integers(-2, 3, (r, n)).astype(np.float64)
        case "equal columns":
            rows[:, rng.integers(0, n, n)] = rows[:, :1]
        case "rows of any size":
            rows *= 10.0 ** rng.integers(-12, 7, (r, 1))
        case "equal rows":
            rows[rng.integers(0, r)] = rows[0]
        case "zero row and column":
            rows[rng.integers(0, r)] = 0
            rows[:, rng.integers(0, n)] = 0
        case "columns of any size":
            rows *= 10.0 ** rng.integers(-6, 3, (1, n))
        case "few values":
            rows = np.round(rows)
    return rows


def rounding(program: WeightProgram, solution: Solution) -> float:
    """Return a bound on rounding in objective and bound: n · eps · Σ |terms|."""
    gaps = np.abs(program.gap_rows).sum() + np.abs(program.gap_offsets).sum()
    floors = np.abs(solution.dual.floor) @ (
        np.abs(program.floor_rows).sum(axis=1) + np.abs(program.floor_offsets)
    )
    terms = gaps + floors + np.abs(program.cost).sum()
    return float(len(program) * np.finfo(np.float64).eps * terms)


def check(program: WeightProgram, solution: Solution) -> None:
    """Assert the promises of a solution, by its own certificate."""
    weights, digits = solution.weights, 1 + abs(solution.objective)
    assert weights.min() >= 0
    assert weights.max() <= 1
    summing = 1e-13 * np.abs(program.floor_rows).sum(axis=1).max(initial=0.0)
    largest = np.abs(program.floor_offsets).max(initial=0.0)
    assert program.violation(weights) <= 2e-9 * (1 + largest) + summing
    close = 1e-9 * digits + rounding(program, solution)
    assert abs(solution.objective - program.objective(weights)) <= close
    assert abs(solution.bound - program.bound(solution.dual)) <= close
    assert solution.gap <= close or OWN not in solution.status
    fractional = (weights > 1e-9) & (weights < 1 - 1e-9)
    assert fractional.sum() <= len(program.gap_rows) + len(program.floor_rows)
