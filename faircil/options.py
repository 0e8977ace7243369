"""Base classes of the learners' settings; each learner extends one with a field per setting."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from faircil.buffer import RULES
from faircil.fields import (
    SETTINGS,
    Count as Count,
    Natural as Natural,
    NonNegative as NonNegative,
    Positive as Positive,
    Share as Share,
    one_of,
)


class Options(BaseModel):
    """Settings shared by all learners.

    The docstring below a field is its help text, shown by ``faircil list settings``.
    """

    model_config = SETTINGS

    lr: Positive = 0.01
    """learning rate of SGD"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """momentum of SGD"""


class BufferOptions(Options):
    """Settings of learners with a buffer filled from each group by a rule."""

    buffer_rule: Annotated[str, one_of("buffer rule", RULES)] = "random"
    """which samples of a group stay in the buffer, see `faircil list buffers`"""


class TauOptions(Options):
    """Settings of learners that add the loss of a memory batch."""

    tau: NonNegative = 2.0
    """weight of the replay loss"""


class ReplayOptions(TauOptions, BufferOptions):
    """Settings of learners that replay a buffer filled by a rule."""

    predictor: Literal["net", "moments"] = "net"
    """what predicts: net, its own last layer; moments, a fair ridge head fitted at the end of each
    task on the buffer's last activations (see docs/moments.md)"""
