"""From statistics to weights: write the program, solve it, read the solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from faircil.weighting.granularity import Clustering, Granularity
from faircil.weighting.groups import Floats, Membership
from faircil.weighting.on_device import added_up, factor_rows, solve_on_device
from faircil.weighting.program import Formulation, formulate
from faircil.weighting.solver import solve
from faircil.weighting.statistics import GroupStatistics, LastLayerStatistics


@dataclass(frozen=True)
class Question:
    """What a program is made of: G groups, n samples.

    Parameters
    ----------
    statistics : GroupStatistics
    membership : Membership
    disparity : ndarray, shape (K, G)
        The measure's matrix D.
    alpha, lam : float
    floor : bool
    combined : bool
        Whether the alignment is with the program's rows already, not with the groups.
    """

    statistics: GroupStatistics
    membership: Membership
    disparity: Floats
    alpha: float
    lam: float
    floor: bool
    combined: bool

    def formulate(self, columns: Floats) -> Formulation:
        """Write the program of some variables, given their alignment, (G, variables)."""
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
    """Weights of n samples, (n,), and what they promise.

    Parameters
    ----------
    weights : ndarray, shape (n,)
    progress : ndarray, shape (G,)
        Cosines with the groups, weighted and added up: what training takes off their losses, over
        α. Of the expected weights where samples are drawn.
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
    question: Question,
    granularity: Granularity,
    clustering: Clustering,
    solver: str,
    generator: torch.Generator | None,
) -> Choice:
    """Solve in memory.

    Parameters
    ----------
    question : Question
    granularity : Granularity
    clustering : callable
        Finds clusters, if the granularity asks for them.
    solver : str
    generator : torch.Generator, optional
        Draws samples, if the granularity does.
    """
    alignment = question.statistics.alignment
    variables = granularity(alignment, question.membership, clustering)
    formulation = question.formulate(variables.columns)
    solution = solve(formulation.program, solver)
    weights = variables.sample_weights(solution.weights, generator)
    objective, bound = solution.objective, solution.bound
    if granularity.approximates:
        whole = question.formulate(alignment).program
        objective, bound = whole.objective(weights), whole.bound(solution.dual)
    return Choice(
        weights,
        question.statistics.progress(variables.spread(solution.weights)),
        variables.shares(solution.weights),
        objective + formulation.constant,
        bound + formulation.constant,
        solution.status,
    )


def choose_on_device(question: Question, statistics: LastLayerStatistics) -> Choice:
    """Solve by sample where the gradients are, without the matrix of the program."""
    # A program whose variables are the groups says what each row takes of each group.
    unmixed = np.eye(len(statistics.losses))
    formulation = question.formulate(unmixed)
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
