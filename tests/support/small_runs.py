"""A stream that trains in a moment, and runs on it: those that the public checks use."""

from faircil.testing.learners import (
    ABSENT as ABSENT,
    FEW as FEW,
    PER_GROUP as PER_GROUP,
    TASKS as TASKS,
    small_config as small_config,
    small_stream as small_stream,
)
