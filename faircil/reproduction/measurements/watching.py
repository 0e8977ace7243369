"""See every epoch of a run from both of its ends."""

from __future__ import annotations

import copy
from collections.abc import Callable

from torch import nn

from faircil.config import RunConfig
from faircil.epoch import weigh_samples
from faircil.experiment import Checkpoint
from faircil.state import RunState
from faircil.weighting.result import WeightResult

Look = Callable[[RunState, nn.Module | None], None]


def watching(look: Look) -> Checkpoint:
    """Make a checkpoint that is told of the net at the start of the epoch, too.

    Only for learners that leave the net alone between two epochs and between two tasks, as replay
    does: what one epoch left is then what the next began with.

    Parameters
    ----------
    look : callable
        Is given the state at the end of every epoch, and the net at its start, in eval mode; None
        in the first epoch of the run.
    """
    before: nn.Module | None = None

    def checkpoint(state: RunState) -> None:
        nonlocal before
        look(state, before)
        before = copy.deepcopy(state.learner.net).eval()

    return checkpoint


def weights_of_epoch(config: RunConfig, state: RunState, before: nn.Module) -> WeightResult:
    """Solve the program of an epoch again, given the state at its end and the net at its start.

    By sample nothing is drawn, so this is what the epoch has used.
    """
    learner = copy.copy(state.learner)
    learner.net = before
    start = copy.copy(state)
    start.learner = learner
    assert state.task is not None
    result = weigh_samples(config, start, state.task.material.current)
    assert result is not None
    return result
