"""Learners by name: one small file each."""

from __future__ import annotations

from faircil.learners.agem import AGem
from faircil.learners.base import Batch as Batch
from faircil.learners.base import Learner as Learner
from faircil.learners.base import Material as Material
from faircil.learners.bic import BiasCorrection
from faircil.learners.clad import Clad
from faircil.learners.derpp import DarkReplay
from faircil.learners.er_ace import AsymmetricReplay
from faircil.learners.fairbatch import FairBatch
from faircil.learners.fairl import Fairl
from faircil.learners.gdumb import Dumb
from faircil.learners.group_dro import GroupDro
from faircil.learners.gss import Gss
from faircil.learners.icarl import Icarl
from faircil.learners.logit_adjustment import LogitAdjustment
from faircil.learners.ocs import Ocs
from faircil.learners.replay import FineTune, Joint, Replay
from faircil.learners.wa import WeightAligning
from faircil.options import Options as Options

LEARNERS: dict[str, type[Learner]] = {
    "finetune": FineTune,
    "joint": Joint,
    "er": Replay,
    "icarl": Icarl,
    "wa": WeightAligning,
    "bic": BiasCorrection,
    "clad": Clad,
    "der++": DarkReplay,
    "er-ace": AsymmetricReplay,
    "gdumb": Dumb,
    "fairl": Fairl,
    "group-dro": GroupDro,
    "fairbatch": FairBatch,
    "logit-adjustment": LogitAdjustment,
    "gss": Gss,
    "ocs": Ocs,
    "agem": AGem,
}
# Another name for a learner with a weighting switched on.
ALIASES: dict[str, tuple[str, str]] = {"fsw": ("er", "fsw")}
