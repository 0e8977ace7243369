"""The program of many samples on a GPU, solved where its numbers are.

The rows of the program are never stored: a pass over the columns computes what it needs from the
gradients' factors (see :mod:`faircil.weighting.solver.device`).
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch

from faircil.threads import chunks_of
from faircil.weighting.gradients import feature_lengths, unit, unit_gradients
from faircil.weighting.groups import Floats
from faircil.weighting.program import WeightProgram
from faircil.weighting.solver import Solution
from faircil.weighting.solver.ascent import StuckError
from faircil.weighting.solver.bands import solve_columns
from faircil.weighting.solver.device import DeviceColumns, FactorRows, Rows, StoredRows
from faircil.weighting.solver.exact import solve_exactly
from faircil.weighting.statistics import LastLayerStatistics

MANY = 200_000  # samples from which on a GPU is worth its transfers: below, the host takes less


def factor_rows(statistics: LastLayerStatistics, mixed: Floats) -> FactorRows:
    """Describe rows that are sums over groups by the gradients that they are made of.

    Parameters
    ----------
    statistics : LastLayerStatistics
        Of G groups and n samples.
    mixed : ndarray, shape (rows, G)
        What each row takes of each group's cosines.
    """
    factors = statistics.factors
    groups = unit_gradients(statistics.gradients.double())
    length = feature_lengths(factors.features, factors.bias).double()
    return FactorRows(
        delta=unit(factors.delta),
        features=factors.features,
        shrink=torch.where(length == 0, 0.0, 1 / length),
        directions=torch.tensordot(torch.from_numpy(mixed).to(groups), groups, dims=1),
    )


def added_up(rows: FactorRows, weights: Floats) -> Floats:
    """Return rows times the columns' weights, (n,), in one pass."""
    on_device = torch.from_numpy(weights).to(rows.device)
    parts = [rows.add(on_device[part], part) for part in chunks_of(len(rows), rows.chunk)]
    total: Floats = torch.stack(parts).sum(dim=0).cpu().numpy()
    return total


def stored_rows(program: WeightProgram, device: torch.device | str) -> StoredRows:
    """Copy a program to a device."""
    return StoredRows(torch.from_numpy(program.stacked()).to(device))


def solve_on_device(rows: Rows, offsets: Floats, gaps: int) -> Solution:
    """Solve a program whose rows are on a device.

    Parameters
    ----------
    rows : Rows
        K gap rows, m floor rows negated, the cost.
    offsets : ndarray, shape (K + m,)
        Of the gaps, then of the floors negated.
    gaps : int
        K.
    """
    start = time.perf_counter()
    try:
        solution = solve_columns(DeviceColumns(rows), offsets, gaps)
    except StuckError:
        part = DeviceColumns(rows).take(np.arange(len(rows)))
        floors, floor_offsets = -part.rows[gaps:], -offsets[gaps:]
        program = WeightProgram(part.rows[:gaps], offsets[:gaps], part.cost, floors, floor_offsets)
        solution = solve_exactly(program)
    return replace(solution, seconds=time.perf_counter() - start)
