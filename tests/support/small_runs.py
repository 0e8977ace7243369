"""A stream that trains in a moment, and runs on it: those that the public checks use."""

from faircil.testing.learners import ABSENT as ABSENT
from faircil.testing.learners import FEW as FEW
from faircil.testing.learners import PER_GROUP as PER_GROUP
from faircil.testing.learners import TASKS as TASKS
from faircil.testing.learners import small_config as small_config
from faircil.testing.learners import small_stream as small_stream
