"""Learners by name: one small file each."""

from __future__ import annotations

from faircil.learners.base import Learner as Learner
from faircil.learners.base import LearnerSettings as LearnerSettings
from faircil.learners.finetune import FineTune
from faircil.learners.joint import Joint
from faircil.learners.replay import Replay

LEARNERS: dict[str, type[Learner]] = {
    "finetune": FineTune,
    "joint": Joint,
    "er": Replay,
}
# Another name for a learner with a weighting switched on.
ALIASES: dict[str, tuple[str, str]] = {"fsw": ("er", "fsw")}
