"""How long runs take, roughly: to begin with the longest, and to tell when all will be done."""

from __future__ import annotations

from faircil.learners import LEARNERS
from faircil.sweep.work import Work

# Training samples; only the proportions matter.
SAMPLES = {
    "mnist": 60_000,
    "fashion-mnist": 60_000,
    "biased-mnist": 60_000,
    "drug": 1_300,
    "biasbios": 253_000,
}
OTHER_SAMPLES = 10_000
# A step against one of plain replay.
EFFORT = {"joint": 2.5, "gss": 3.0, "ocs": 2.0, "fairl": 2.0, "finetune": 0.5}
WIDE = {"biased-mnist": 2.0}  # inputs of three channels
TRAINED_ENCODER = 100.0


def effort(work: Work) -> float:
    """Return the cost of a run in steps of plain replay on MNIST."""
    config, settings = work.config, work.config.settings
    steps = SAMPLES.get(config.dataset, OTHER_SAMPLES) / settings.batch_size * settings.epochs
    wide = TRAINED_ENCODER if config.trains_encoder else WIDE.get(config.dataset, 1.0)
    return steps * EFFORT.get(config.method, 1.0) * wide


def suits_gpu(work: Work) -> bool:
    """Whether a GPU replays the steps as graphs, or they are large; else CPUs are faster."""
    return LEARNERS[work.config.method].graphable or work.config.trains_encoder
