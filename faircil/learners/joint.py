"""Joint training: all data of all tasks so far. Does not forget; the upper bound."""

from __future__ import annotations

from torch import nn

from faircil.buffer import ReplayBuffer
from faircil.generators import Generators
from faircil.learners.base import Learner
from faircil.learners.batch import Material
from faircil.learners.options import Options
from faircil.samples import Samples, concatenate


class Joint(Learner):
    """Train on everything seen so far, from the weights reached (warm start)."""

    summary = "all data of all tasks so far (upper bound)"
    source = "–"
    no_weighting = "it trains on all data at once, so there is no current task to weigh"

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.seen: list[Samples] = []

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Add the task to all that was seen."""
        super().begin_task(train, buffer)
        self.seen.append(train)
        return Material(concatenate(self.seen))
