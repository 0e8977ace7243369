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
from faircil.weighting.all_layers import all_layer_statistics
from faircil.weighting.choice import MANY, Choice, Question, choose, choose_on_device
from faircil.weighting.granularity import GRANULARITIES, cluster, required
from faircil.weighting.groups import Floats, Groups, Membership, Seen, find_groups
from faircil.weighting.last_layer import GroupStatistics, LastLayerStatistics, group_statistics
from faircil.weighting.losses import LOSSES, Loss, LossFunction, find_loss
from faircil.weighting.measures import (
    MEASURES,
    Measure,
    MeasureFunction,
    disparity_matrix,
    find_measure,
)
from faircil.weighting.program import program_rows
from faircil.weighting.solver import SOLVERS, Solver, SolverFunction

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
        In [0, 1], on the device of the samples. Where samples are drawn: 0/1.
    group : Tensor of int64, shape (n,)
        Number of each sample's group among ``groups``.
    groups : GroupOutcome
        The G groups with ``label``, ``attribute``, ``losses``, ``predicted_losses``, ….
    shares : ndarray, shape (G,), or None
        With granularity ``group`` or ``cluster``: how much of each group the program takes; NaN
        for groups outside the current task.
    objective, bound : float
        Predicted disparity plus λ times the predicted loss, and its proven lower bound. With
        clusters, both are of the program by sample: what these weights reach there.
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


AUTO_BUDGET = 12.0  # alpha = AUTO_BUDGET / |T|, that is .001 at 12,000 samples
GRADIENTS = ("last", "all")


@dataclass(frozen=True)
class FairSampleWeights:
    """Weigh the samples of the current task so that all groups, old and new, stay even.

    Call it at the start of each epoch, from the second task on.

    Parameters
    ----------
    measure : str, Measure or callable
        ``eer``, ``eo``, ``dp``, another registered name, or a function ``measure(groups) -> D`` of
        shape (rows, groups).
    alpha : float or "auto"
        Step size of the prediction ``ℓ̃_g = ℓ_g − alpha · Σ_i w_i cos(i, g)``; the larger, the fewer
        samples are kept. ``auto`` is 12 / (number of current samples).
    lam : float
        Weight of the current classes' loss against the disparity.
    granularity : {"sample", "group", "cluster", "cluster-weights"}
        Whether the program decides about every sample, how much of each group or cluster to draw,
        or one weight for each cluster.
    gradient : {"last", "all"}
        Whether samples and groups are compared by the gradients of the last layer or of all.
    loss : str or callable
        ``cross-entropy``, ``hinge``, another registered name, or a function ``loss(logits, y)``
        that returns losses, (n,), and gradients at the logits, (n, classes).
    clusters : int
        How many to make, of last-layer gradients within groups.
    floor : bool
        Whether no current class may be predicted to fall below loss 0.
    solver : str or callable
        See :func:`faircil.weighting.solve`.
    head : Linear or str, optional
        The net's last linear layer; found automatically if not given. Not used by
        ``gradient="all"``.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Linear(2, 3)
    >>> new = Samples(torch.randn(8, 2), torch.full((8,), 2))
    >>> old = Samples(torch.randn(4, 2), torch.tensor([0, 0, 1, 1]))
    >>> FairSampleWeights(measure="eer", lam=1.0)(net, new, old).weights.shape
    torch.Size([8])
    """

    measure: str | Measure | MeasureFunction = "eo"
    alpha: float | Literal["auto"] = "auto"
    lam: float = 0.5
    granularity: str = "sample"
    gradient: str = "last"
    loss: str | Loss | LossFunction = "cross-entropy"
    clusters: int = 300
    floor: bool = True
    solver: str | Solver | SolverFunction = "auto"
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
        if self.gradient not in GRADIENTS:
            mistakes.append(unknown_name("gradient", self.gradient, GRADIENTS))
        mistakes += cluster_mistakes(self.gradient, self.granularity)
        if not callable(self.loss) and self.loss not in LOSSES:
            mistakes.append(unknown_name("loss", self.loss, LOSSES))
        if self.clusters < 1:
            mistakes.append(f"clusters is {self.clusters}, expected at least 1")
        if not callable(self.solver) and self.solver not in (*SOLVERS, "auto"):
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
            Draws clusters and samples; needed by every granularity but ``sample``.
        """
        if len(current) == 0:
            raise DataError("there are no current samples to weigh")
        start = time.perf_counter()
        measure = find_measure(self.measure)
        membership = find_groups(current, memory, by_attribute=measure.by_attribute, seen=seen)
        groups, disparity = membership.groups, disparity_matrix(measure, membership.groups)
        statistics = self._measure(net, current, memory, membership, disparity)
        measured = time.perf_counter()
        alpha = AUTO_BUDGET / len(current) if self.alpha == "auto" else float(self.alpha)
        every = self.gradient == "all"
        question = Question(statistics, membership, disparity, alpha, self.lam, self.floor, every)
        choice = self._choose(question, generator)
        dtype = next(net.parameters()).dtype
        return WeightResult(
            weights=torch.from_numpy(choice.weights).to(device=current.y.device, dtype=dtype),
            group=membership.current,
            groups=GroupOutcome(
                **vars(groups),
                losses=statistics.losses,
                predicted_losses=statistics.losses - alpha * choice.progress,
            ),
            shares=choice.shares,
            objective=choice.objective,
            bound=choice.bound,
            status=choice.status,
            gradient_seconds=measured - start,
            lp_seconds=time.perf_counter() - measured,
        )

    def _measure(
        self,
        net: nn.Module,
        current: Samples,
        memory: Samples | None,
        membership: Membership,
        disparity: Floats,
    ) -> GroupStatistics:
        loss = find_loss(self.loss)
        if self.gradient == "all":
            combine = program_rows(disparity, membership.groups)
            return all_layer_statistics(net, current, memory, membership, combine, loss)
        statistics = group_statistics(net, current, memory, membership, self.head, loss)
        if not self._on_device(membership):
            _ = statistics.alignment  # now: it is part of what is measured
        return statistics

    def _on_device(self, membership: Membership) -> bool:
        """Whether the program is solved on the GPU, without its matrix."""
        plain = (self.granularity, self.gradient, self.solver) == ("sample", "last", "auto")
        return plain and membership.current.is_cuda and len(membership.current) >= MANY

    def _choose(self, question: Question, generator: torch.Generator | None) -> Choice:
        """Solve the program and read its solution."""
        statistics, member = question.statistics, question.membership
        if self._on_device(member) and isinstance(statistics, LastLayerStatistics):
            return choose_on_device(question, statistics)

        def clustering() -> Tensor:
            assert isinstance(statistics, LastLayerStatistics)  # as __post_init__ made sure
            draw, count = required(generator), len(member.groups)
            return cluster(statistics.factors, member.current, count, self.clusters, draw)

        granularity = GRANULARITIES[self.granularity]
        return choose(question, granularity, clustering, self.solver, generator)


def cluster_mistakes(gradient: str, granularity: str) -> list[str]:
    """Say that clusters are made of gradients of the last layer, if others are wanted."""
    if gradient != "all" or not granularity.startswith("cluster"):
        return []
    return [
        f"granularity '{granularity}' clusters last-layer gradients, but gradient is 'all'; use "
        "gradient='last', or granularity 'sample' or 'group'"
    ]
