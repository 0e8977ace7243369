"""Joint training: all data of all tasks so far. Does not forget; the upper bound."""

from __future__ import annotations

from torch import nn

from faircil.learners.base import Learner, LearnerSettings
from faircil.samples import Samples, concatenate


class Joint(Learner):
    """Train on everything seen so far, from the weights reached (warm start)."""

    summary = "all data of all tasks so far (upper bound)"
    no_weighting = "it trains on all data at once, so there is no current task to weigh"

    def __init__(self, net: nn.Module, settings: LearnerSettings) -> None:
        super().__init__(net, settings)
        self.seen: list[Samples] = []

    def begin_task(self, train: Samples) -> Samples:
        """Add the task to all that was seen."""
        self.seen.append(super().begin_task(train))
        return concatenate(self.seen)
