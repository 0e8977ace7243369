"""What the program lowers and what it is meant to lower: disparity of losses and of accuracies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch.nn.functional import cross_entropy

from faircil.learners import Learner
from faircil.reproduction.measurements.expansion import group_means
from faircil.samples import Samples
from faircil.weighting.groups import Floats, find_groups
from faircil.weighting.measures import disparity_matrix, find_measure


@dataclass(frozen=True)
class Fit:
    """Cross-entropy of each sample, and 1 where it is predicted right, both (n,)."""

    losses: Floats
    hits: Floats


@dataclass(frozen=True)
class CostAndDisparity:
    """``‖D ℓ‖₁`` of the groups' losses and ``‖D a‖₁`` of their accuracies.

    With the D of ``eo`` the latter is the metric ``eo``, where every class has every value.
    """

    cost: float
    disparity: float


def fit(learner: Learner, samples: Samples) -> Fit:
    """Measure how a learner does on samples."""
    scores = learner.scores(samples.x)
    losses = cross_entropy(scores, samples.y, reduction="none")
    hits = scores.argmax(dim=1) == samples.y
    return Fit(losses.double().cpu().numpy(), hits.double().cpu().numpy())


def cost_and_disparity(
    name: str, parts: Sequence[Samples], fits: Sequence[Fit]
) -> CostAndDisparity:
    """Apply a measure to the losses and to the accuracies of groups of one or two parts."""
    measure = find_measure(name)
    membership = find_groups(
        parts[0], parts[1] if len(parts) == 2 else None, by_attribute=measure.by_attribute
    )
    matrix = disparity_matrix(measure, membership.groups)
    losses = group_means([part.losses for part in fits], membership)
    accuracies = group_means([part.hits for part in fits], membership)
    return CostAndDisparity(*(float(np.abs(matrix @ v).sum()) for v in (losses, accuracies)))
