"""The solvers to measure, each with what it needs before the clock starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from faircil.errors import SolverError, unknown_name
from faircil.weighting.groups import Floats
from faircil.weighting.on_device import solve_on_device, stored_rows
from faircil.weighting.program import WeightProgram
from faircil.weighting.solver import SOLVERS, Solution
from faircil.weighting.solver.device import StoredRows

REFERENCE = "highs"  # ratios are against it
ON_DEVICE = "device"  # the exact solver with the program in the memory of a GPU
PROBE = WeightProgram(
    gap_rows=np.array([[1.0, 2.0, -1.0]]),
    gap_offsets=np.array([1.0]),
    cost=np.array([-0.5, 0.25, 0.1]),
    floor_rows=np.array([[1.0, 1.0, 0.0]]),
    floor_offsets=np.array([1.5]),
)


@dataclass(frozen=True)
class Case:
    """A solver under measurement.

    Parameters
    ----------
    name : str
    prepare : callable
        Brings a program to where the solver wants it; not timed.
    solve : callable
        Solves what ``prepare`` returned; timed.
    """

    name: str
    prepare: Callable[[WeightProgram], Any]
    solve: Callable[[Any], Solution]


def all_cases(device: torch.device | None = None) -> dict[str, Case]:
    """Return every solver there is, installed or not, by name; with a GPU also the one for it."""
    cases = {name: Case(name, lambda program: program, SOLVERS[name]) for name in SOLVERS}
    if device is None or device.type == "cpu":
        return cases

    def to_device(program: WeightProgram) -> tuple[StoredRows, Floats, int]:
        return stored_rows(program, device), program.offsets, len(program.gap_offsets)

    return cases | {ON_DEVICE: Case(ON_DEVICE, to_device, lambda given: solve_on_device(*given))}


def usable_cases(
    names: Sequence[str] | None, mistakes: list[str], device: torch.device | None = None
) -> tuple[list[Case], list[str]]:
    """Choose the solvers to measure.

    Parameters
    ----------
    names : sequence of str or None
        Those the user wants; None: all that are installed.
    mistakes : list of str
        Gets what is wrong with the names.
    device : torch.device, optional
        A GPU to measure, too.

    Returns
    -------
    cases : list of Case
    notes : list of str
        Why a solver that nobody named is left out.
    """
    known = all_cases(device)
    unknown = [name for name in names or () if name not in known]
    mistakes += [unknown_name("solver", name, known) for name in unknown]
    cases, reasons = [], []
    for name in dict.fromkeys(known if names is None else names):
        if name in known:
            reason = _why_not(known[name])
            if reason is None:
                cases.append(known[name])
            else:
                reasons.append(f"solver '{name}' cannot be used here: {reason}")
    if names is None:
        return cases, reasons
    mistakes += reasons
    return cases, []


def _why_not(case: Case) -> str | None:
    """Try a tiny program, which also loads what the solver needs; None if it works."""
    try:
        case.solve(case.prepare(PROBE))
    except SolverError as error:
        return str(error)
    return None
