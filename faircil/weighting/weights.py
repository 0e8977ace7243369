"""Fairness-aware sample weights for any training loop."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from faircil.errors import DataError, raise_all, unknown_name
from faircil.samples import Samples
from faircil.weighting.granularity import GRANULARITIES
from faircil.weighting.groups import Floats, Groups, Seen, find_groups
from faircil.weighting.measures import MEASURES, MeasureFunction, disparity_matrix, find_measure
from faircil.weighting.program import formulate
from faircil.weighting.solver import SOLVERS, solve
from faircil.weighting.statistics import group_statistics

AUTO_BUDGET = 12.0  # alpha = AUTO_BUDGET / |T|, that is .001 at 12,000 samples
WHOLE = 1e-6  # a weight this close to 0 or 1 counts as 0 or 1


@dataclass(frozen=True, kw_only=True)
class GroupOutcome(Groups):
    """Groups with their mean loss now, and as predicted after training with the weights."""

    losses: Floats
    predicted_losses: Floats


@dataclass(frozen=True)
class WeightResult:
    """Weights of the current samples, and what the program says about them.

    Parameters
    ----------
    weights : Tensor, shape (n,)
        In [0, 1], on the device of the samples. With granularity ``group``: the drawn 0/1.
    group : Tensor of int64, shape (n,)
        Number of each sample's group among ``groups``.
    groups : GroupOutcome
        The G groups with ``label``, ``attribute``, ``losses``, ``predicted_losses``, ….
    shares : ndarray, shape (G,), or None
        With granularity ``group``: the probability with which samples of a group were drawn; NaN
        for groups outside the current task.
    objective, bound : float
        Predicted disparity plus λ times the predicted loss, and its proven lower bound.
    status : str
        How the solver ended.
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


@dataclass(frozen=True)
class FairSampleWeights:
    """Weigh the samples of the current task so that all groups, old and new, stay even.

    Call it at the start of each epoch, from the second task on.

    Parameters
    ----------
    measure : str or callable
        ``eer``, ``eo``, ``dp``, or a function ``measure(groups) -> D`` of shape (rows, groups).
    alpha : float or "auto"
        Step size of the prediction ``ℓ̃_g = ℓ_g − alpha · Σ_i w_i cos(i, g)``; the larger, the fewer
        samples are kept. ``auto`` is 12 / (number of current samples).
    lam : float
        Weight of the current classes' loss against the disparity.
    granularity : {"sample", "group"}
        Whether the program decides about every sample, or how much of each group to draw.
    floor : bool
        Whether no current class may be predicted to fall below loss 0.
    solver : str
        See :func:`faircil.weighting.solve`.
    head : Linear or str, optional
        The net's last linear layer; found by itself if not given.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Linear(2, 3)
    >>> new = Samples(torch.randn(8, 2), torch.full((8,), 2))
    >>> old = Samples(torch.randn(4, 2), torch.tensor([0, 0, 1, 1]))
    >>> FairSampleWeights(measure="eer", lam=1.0)(net, new, old).weights.shape
    torch.Size([8])
    """

    measure: str | MeasureFunction = "eo"
    alpha: float | Literal["auto"] = "auto"
    lam: float = 0.5
    granularity: str = "sample"
    floor: bool = True
    solver: str = "auto"
    head: nn.Linear | str | None = None

    def __post_init__(self) -> None:
        mistakes = []
        if not callable(self.measure) and self.measure not in MEASURES:
            mistakes.append(unknown_name("measure", self.measure, MEASURES))
        if self.alpha != "auto" and not (
            isinstance(self.alpha, float | int) and 0 < self.alpha < math.inf
        ):
            mistakes.append(f"alpha is {self.alpha!r}, expected a positive number or 'auto'")
        if not (isinstance(self.lam, float | int) and 0 <= self.lam < math.inf):
            mistakes.append(f"lam is {self.lam!r}, expected a number that is at least 0")
        if self.granularity not in GRANULARITIES:
            mistakes.append(unknown_name("granularity", self.granularity, GRANULARITIES))
        if self.solver not in (*SOLVERS, "auto"):
            mistakes.append(unknown_name("solver", self.solver, [*SOLVERS, "auto"]))
        raise_all(mistakes)

    def __call__(
        self,
        net: nn.Module,
        current: Samples,
        memory: Samples | None,
        *,
        seen: Seen | None = None,
        generator: torch.Generator | None = None,
    ) -> WeightResult:
        """Weigh ``current`` for the net as it is.

        Parameters
        ----------
        net : Module
            Any classifier whose logits are the output of a linear layer. Its mode is restored.
        current, memory : Samples
            The task's training data (n samples) and the replay buffer with the old groups.
        seen : mapping, optional
            ``{(y, z): samples seen so far}``, the current task included; needed by ``dp``.
        generator : torch.Generator, optional
            Draws the samples with granularity ``group``; needed there.
        """
        if len(current) == 0:
            raise DataError("there are no current samples to weigh")
        start = time.perf_counter()
        measure = find_measure(self.measure)
        membership = find_groups(current, memory, by_attribute=measure.by_attribute, seen=seen)
        groups = membership.groups
        statistics = group_statistics(net, current, memory, membership, self.head)
        measured = time.perf_counter()
        alpha = AUTO_BUDGET / len(current) if self.alpha == "auto" else float(self.alpha)
        variables = GRANULARITIES[self.granularity](statistics.alignment, membership)
        formulation = formulate(
            variables.columns,
            statistics.losses,
            groups,
            disparity_matrix(measure, groups),
            alpha=alpha,
            lam=self.lam,
            floor=self.floor,
        )
        solution = solve(formulation.program, self.solver)
        weights = torch.from_numpy(variables.sample_weights(solution.weights, generator))
        return WeightResult(
            weights=weights.to(device=current.y.device, dtype=next(net.parameters()).dtype),
            group=membership.current,
            groups=GroupOutcome(
                **vars(groups),
                losses=statistics.losses,
                predicted_losses=statistics.losses - alpha * (variables.columns @ solution.weights),
            ),
            shares=variables.shares(solution.weights),
            objective=solution.objective + formulation.constant,
            bound=solution.bound + formulation.constant,
            status=solution.status,
            gradient_seconds=measured - start,
            lp_seconds=time.perf_counter() - measured,
        )
