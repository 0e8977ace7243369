"""What weighting returns."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from faircil.weighting.groups import Floats, Groups

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
