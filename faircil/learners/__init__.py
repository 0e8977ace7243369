"""Learners by name: one small file each."""

from __future__ import annotations

from faircil.learners.base import Learner as Learner
from faircil.learners.batch import Batch as Batch
from faircil.learners.batch import Material as Material
from faircil.learners.finetune import FineTune
from faircil.learners.joint import Joint
from faircil.learners.options import Options as Options
from faircil.learners.replay import Replay

LEARNERS: dict[str, type[Learner]] = {
    "finetune": FineTune,
    "joint": Joint,
    "er": Replay,
}
# Another name for a learner with a weighting switched on.
ALIASES: dict[str, tuple[str, str]] = {"fsw": ("er", "fsw")}
