"""Fabricated sweeps."""

from __future__ import annotations

from typing import Any

from bench_results import ENVIRONMENT
from faircil_lab.bench.sweeps import Processes, SweepCost, SweepResults, TimeParts

ONE, TWO = Processes(1), Processes(2)


def cost(case: Processes, wall: float, *, repeat: int = 1, cores: float = 1.0) -> SweepCost:
    """Make a sweep of 10 runs: 20 % start, 10 % data and weights each, 50 % training."""
    processes = case.jobs + case.gpu_jobs
    shares = TimeParts(0.2, 0.1, 0.1, 0.5, 0.02, 0.01, 0.03, 0.04)
    return SweepCost(case, repeat, 10, processes, wall, shares.times(processes * wall), cores)


def sweep_results(*costs: SweepCost, **values: Any) -> SweepResults:
    """Combine costs; by default, two processes that take a quarter less time than one."""
    fields: dict[str, Any] = {
        "costs": costs or (cost(ONE, 20.0), cost(TWO, 15.0)),
        "works": tuple(f"made er eo (validation) seed {seed}" for seed in range(10)),
        "command": "faircil bench sweep",
        "environment": ENVIRONMENT,
    }
    return SweepResults(**(fields | values))
