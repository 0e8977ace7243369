"""Settings of the learners: every learner has a class of its own, with a field per setting."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]


class Options(BaseModel):
    """Settings of every learner.

    A docstring below a field is what ``faircil list settings`` says about it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    lr: Positive = 0.01
    """learning rate of SGD"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """momentum of SGD"""


class BufferOptions(Options):
    """Settings of learners whose buffer is a part of each group, drawn by a rule."""

    buffer_rule: str = "random"
    """which samples of a group stay in the buffer, see `faircil list buffers`"""


class TauOptions(Options):
    """Settings of learners that add the loss of a memory batch."""

    tau: NonNegative = 2.0
    """weight of the replay loss"""


class ReplayOptions(TauOptions, BufferOptions):
    """Settings of learners that replay such a buffer."""
