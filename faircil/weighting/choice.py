"""From group statistics to sample weights: formulate the program, solve it, describe the solution.

Programs are solved in memory, or on a GPU without storing the matrix.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from faircil.compute import chunks_of
from faircil.weighting.granularity import Clustering, Granularity
from faircil.weighting.groups import Floats, Groups, Membership
from faircil.weighting.last_layer import (
    GroupStatistics,
    LastLayerStatistics,
    feature_lengths,
    unit,
    unit_gradients,
)
from faircil.weighting.program import Formulation, WeightProgram, formulate
from faircil.weighting.solver import Solution, SolverFunction, solve
from faircil.weighting.solver.ascent import StuckError
from faircil.weighting.solver.columns import DeviceColumns, FactorRows, Rows, StoredRows
from faircil.weighting.solver.exact import solve_columns, solve_exactly

WHOLE = 1e-6  # a weight this close to 0 or 1 counts as 0 or 1
MANY = 200_000  # samples from which a GPU pays off: with fewer, the host is faster


def factor_rows(statistics: LastLayerStatistics, mixed: Floats) -> FactorRows:
    """Express rows that are sums over groups by the gradients they combine.

    Parameters
    ----------
    statistics : LastLayerStatistics
        Statistics of G groups and n samples.
    mixed : ndarray, shape (rows, G)
        Coefficient of each group's cosines in each row.
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
    """Return the rows times column weights, (n,), in one pass."""
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
        K gap rows, m floor rows negated, and the cost.
    offsets : ndarray, shape (K + m,)
        Offsets of the gaps, then of the floors negated.
    gaps : int
        Number of gap rows, K.
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


@dataclass(frozen=True)
class ProgramInputs:
    """The inputs of a program with G groups and n samples.

    Parameters
    ----------
    statistics : GroupStatistics
    membership : Membership
    disparity : ndarray, shape (K, G)
        The measure's matrix D.
    alpha, lam : float
    floor : bool
    combined : bool
        Whether the alignment already refers to the program's rows instead of the groups.
    """

    statistics: GroupStatistics
    membership: Membership
    disparity: Floats
    alpha: float
    lam: float
    floor: bool
    combined: bool

    def formulate(self, columns: Floats) -> Formulation:
        """Formulate the program of some variables, given their alignment, (G, variables)."""
        return formulate(
            columns,
            self.statistics.losses,
            self.membership.groups,
            self.disparity,
            alpha=self.alpha,
            lam=self.lam,
            floor=self.floor,
            combined=self.combined,
        )


@dataclass(frozen=True)
class Choice:
    """Weights of n samples, with their predicted effect and certificate.

    Parameters
    ----------
    weights : ndarray, shape (n,)
    progress : ndarray, shape (G,)
        Weighted sum of the cosines with each group: the predicted decrease of its loss, divided by
        α. If samples are drawn, it is that of the expected weights.
    shares : ndarray, shape (G,), or None
    objective, bound : float
    status : str
    """

    weights: Floats
    progress: Floats
    shares: Floats | None
    objective: float
    bound: float
    status: str


def choose(
    inputs: ProgramInputs,
    granularity: Granularity,
    clustering: Clustering,
    solver: str | SolverFunction,
    generator: torch.Generator | None,
) -> Choice:
    """Choose weights by solving a program in memory.

    Parameters
    ----------
    inputs : ProgramInputs
    granularity : Granularity
    clustering : callable
        Computes clusters, if the granularity needs them.
    solver : str or callable
    generator : torch.Generator, optional
        Draws samples, if the granularity needs draws.
    """
    alignment = inputs.statistics.alignment
    variables = granularity(alignment, inputs.membership, clustering)
    formulation = inputs.formulate(variables.columns)
    solution = solve(formulation.program, solver)
    weights = variables.sample_weights(solution.weights, generator)
    expected = variables.spread(solution.weights)
    objective, bound = solution.objective, solution.bound
    if granularity.approximates:
        # Based on the expected weights, which satisfy the floors. Drawn weights may violate them:
        # their objective can be below the proven bound for feasible weights.
        whole = inputs.formulate(alignment).program
        objective, bound = whole.objective(expected), whole.bound(solution.dual)
    return Choice(
        weights,
        inputs.statistics.progress(expected),
        variables.shares(solution.weights),
        objective + formulation.constant,
        bound + formulation.constant,
        solution.status,
    )


def choose_on_device(inputs: ProgramInputs, statistics: LastLayerStatistics) -> Choice:
    """Choose weights per sample on the gradients' device, without the program's matrix."""
    # The program with the groups as variables contains each group's coefficient in each row.
    unmixed = np.eye(len(statistics.losses))
    formulation = inputs.formulate(unmixed)
    program, constant = formulation.program, formulation.constant
    rows = factor_rows(statistics, program.stacked())
    solution = solve_on_device(rows, program.offsets, len(program.gap_offsets))
    groups = factor_rows(statistics, unmixed)
    return Choice(
        solution.weights,
        added_up(groups, solution.weights),
        None,
        solution.objective + constant,
        solution.bound + constant,
        solution.status,
    )


@dataclass(frozen=True, kw_only=True)
class GroupOutcome(Groups):
    """Groups with their current mean loss and the loss predicted after training."""

    losses: Floats
    predicted_losses: Floats


@dataclass(frozen=True)
class WeightResult:
    """Weights of the current samples, and the result of the program.

    Parameters
    ----------
    weights : Tensor, shape (n,)
        In [0, 1], or 0 or 1 if samples are drawn. On the device of the samples; for a dataset or
        loader, on that of the net.
    group : Tensor of int64, shape (n,)
        Index of each sample's group in ``groups``.
    groups : GroupOutcome
        The G groups with ``label``, ``attribute``, ``losses``, ``predicted_losses``, ….
    shares : ndarray, shape (G,), or None
        With granularity ``group`` or ``cluster``: the fraction of each group that the program
        keeps; NaN for groups outside the current task.
    objective, bound : float
        Predicted disparity plus λ times the predicted loss, and its proven lower bound. With
        clusters, both refer to the program by sample. If samples are drawn, the objective is that
        of their expected weights: drawn weights may predict a loss below the floor.
    status : str
        Status of the solver.
    gradient_seconds, lp_seconds : float
        Wall time of the statistics and of the program.
    """

    weights: Tensor
    group: Tensor
    groups: GroupOutcome
    shares: Floats | None
    objective: float
    bound: float
    status: str
    gradient_seconds: float
    lp_seconds: float

    @property
    def kept(self) -> int:
        """Number of weights that are 1."""
        return int((self.weights >= 1 - WHOLE).sum())

    @property
    def dropped(self) -> int:
        """Number of weights that are 0."""
        return int((self.weights <= WHOLE).sum())

    @property
    def partial(self) -> int:
        """Number of weights between 0 and 1."""
        return len(self.weights) - self.kept - self.dropped


def described(
    inputs: ProgramInputs,
    choice: Choice,
    dtype: torch.dtype,
    seconds: tuple[float, float],
) -> WeightResult:
    """Return weights with their predicted effect, given the seconds of statistics and program."""
    membership, losses = inputs.membership, inputs.statistics.losses
    weights = torch.from_numpy(choice.weights)
    return WeightResult(
        weights=weights.to(device=membership.current.device, dtype=dtype),
        group=membership.current,
        groups=GroupOutcome(
            **vars(membership.groups),
            losses=losses,
            predicted_losses=losses - inputs.alpha * choice.progress,
        ),
        shares=choice.shares,
        objective=choice.objective,
        bound=choice.bound,
        status=choice.status,
        gradient_seconds=seconds[0],
        lp_seconds=seconds[1],
    )
