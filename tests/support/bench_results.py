"""Programs and fabricated measurements."""

from __future__ import annotations

from typing import Any

import numpy as np

from faircil.results.record import Seconds
from faircil.weighting.program import WeightProgram
from faircil_lab.bench.lp import LpOptions, LpResults, Skipped, SolverTiming
from faircil_lab.bench.whole_runs import EpochCost, EpochWorkload, RunCost, RunResults, ScalePoint

ENVIRONMENT: dict[str, Any] = {
    "command": "faircil bench",
    "python": "3.11",
    "processor": "x86",
    "gpu": None,
    "threads": 2,
    "packages": {"numpy": "2", "highspy": "1", "torch": "3"},
}


def small_program(n: int = 40, *, k: int = 3, m: int = 2, seed: int = 0) -> WeightProgram:
    """Random rows that leave the solver a choice."""
    rng = np.random.default_rng(seed)
    return WeightProgram(
        rng.uniform(-1, 1, (k, n)),
        rng.uniform(-1, 1, k),
        rng.uniform(-0.5, 0.5, n),
        rng.uniform(-0.5, 1, (m, n)),
        rng.uniform(0.5, 1, m),
    )


def measured(solver: str, size: int | None, *seconds: float, **values: Any) -> SolverTiming:
    """Make a measurement; its program is ``a`` by default."""
    fields: dict[str, Any] = {
        "program": "a",
        "n": size or 50,
        "gap_rows": 4,
        "floor_rows": 2,
        "objective": 1.0,
        "bound": 1.0,
        "violation": 0.0,
        "passes": None,
        "fractional": 3,
        "status": "optimal",
    }
    return SolverTiming(size=size, solver=solver, seconds=seconds, **(fields | values))


def lp_results(*outcomes: SolverTiming | Skipped, **values: Any) -> LpResults:
    """Combine outcomes."""
    sizes = tuple({o.size for o in outcomes if o.size is not None})
    fields: dict[str, Any] = {
        "options": LpOptions(sizes=sizes),
        "command": "faircil bench lp",
        "environment": ENVIRONMENT,
    }
    return LpResults(outcomes, **(fields | values))


def cost(method: str, total: float, *, dataset: str = "made", repeat: int = 1) -> RunCost:
    """Make a run with a tenth of its time for the program, two for statistics, six for training."""
    parts = Seconds(0.2 * total, 0.1 * total, 0.6 * total, 0.1 * total, total)
    return RunCost(dataset, method, repeat, parts, memory=0.5, accuracy=0.9)


def run_results(**values: Any) -> RunResults:
    """Two methods, statistics of two tasks, and growth with samples."""
    outcomes = (
        cost("er", 10.0),
        cost("fsw", 5.0),
        EpochCost("made", "eo", 2, 100, 8, 0.010, {"last layer": 0.012, "all layers": 0.120}),
        EpochCost("made", "eo", 3, 300, 12, 0.010, {"last layer": 0.014, "all layers": 0.140}),
        ScalePoint("samples", EpochWorkload(samples=1000), 0.001, 0.010),
        ScalePoint("samples", EpochWorkload(samples=4000), 0.004, 0.010),
    )
    fields: dict[str, Any] = {
        "outcomes": outcomes,
        "repeats": 1,
        "command": "faircil bench run",
        "environment": ENVIRONMENT,
    }
    return RunResults(**(fields | values))
