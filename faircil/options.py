"""Settings of the learners: every learner has a class of its own, with a field per setting."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from faircil.buffer import RULES
from faircil.fields import SETTINGS, one_of
from faircil.fields import Count as Count
from faircil.fields import NonNegative as NonNegative
from faircil.fields import Positive as Positive
from faircil.fields import Share as Share


class Options(BaseModel):
    """Settings of every learner.

    A docstring below a field is its help text, which ``faircil list settings`` shows.
    """

    model_config = SETTINGS

    lr: Positive = 0.01
    """learning rate of SGD"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """momentum of SGD"""


class BufferOptions(Options):
    """Settings of learners whose buffer is a part of each group, drawn by a rule."""

    buffer_rule: Annotated[str, one_of("buffer rule", RULES)] = "random"
    """which samples of a group stay in the buffer, see `faircil list buffers`"""


class TauOptions(Options):
    """Settings of learners that add the loss of a memory batch."""

    tau: NonNegative = 2.0
    """weight of the replay loss"""


class ReplayOptions(TauOptions, BufferOptions):
    """Settings of learners that replay such a buffer."""
