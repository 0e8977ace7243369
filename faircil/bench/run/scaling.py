"""How the weights of an epoch grow with samples, groups, classes and features: generated data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from faircil.bench.run.record import ScalePoint, Workload
from faircil.generators import Generators
from faircil.learners import LEARNERS, Batch, Options
from faircil.nets import build_mlp
from faircil.samples import Samples
from faircil.weighting.weights import FairSampleWeights

FACTORS: dict[str, tuple[int, ...]] = {
    "samples": (1_000, 4_000, 16_000, 64_000),
    "groups": (2, 4, 8, 16),
    "classes": (4, 8, 16, 32),
    "features": (64, 256, 1_024, 4_096),
}
LABELS = {"samples": "samples of the task", "groups": "groups per class"}
NEW = 2  # classes of the current task
MEMORY = 32  # buffer samples per group
STEPS, BATCH = 100, 64  # of the training on the buffer before
REPEATS = 5


def measure_growth(
    factors: Sequence[str],
    device: torch.device,
    base: Workload | None = None,
    repeats: int = REPEATS,
) -> Iterator[ScalePoint]:
    """Vary one factor at a time, the others as in ``base``."""
    for factor in factors:
        for value in FACTORS[factor]:
            workload = replace(base or Workload(), **{factor: value})
            statistics, lp = weigh_generated(workload, device, repeats)
            yield ScalePoint(factor, workload, statistics, lp)


def weigh_generated(workload: Workload, device: torch.device, repeats: int) -> tuple[float, float]:
    """Weigh generated samples as at the start of an epoch.

    Returns
    -------
    tuple of float
        Median seconds of the statistics and of the program.
    """
    generator = torch.Generator().manual_seed(0)
    current, memory = (part.to(device) for part in _generate(workload, generator))
    net = build_mlp(workload.features, workload.classes, (256, 256), 0).to(device)
    _learn(net, memory, generator)
    weigh = FairSampleWeights(measure="eo")
    with threadpool_limits(1, user_api="blas"):
        results = [weigh(net, current, memory) for _ in range(repeats + 1)][1:]
    return (
        median(result.gradient_seconds for result in results),
        median(result.lp_seconds for result in results),
    )


def _generate(workload: Workload, generator: torch.Generator) -> tuple[Samples, Samples]:
    """Draw normal clusters around a centre per class, moved by the attribute value."""
    shape = (workload.classes, workload.features)
    centres = torch.randn(shape, generator=generator)
    moves = torch.randn((workload.groups, workload.features), generator=generator) / 2

    def samples(y: Tensor, z: Tensor) -> Samples:
        noise = torch.randn((len(y), workload.features), generator=generator)
        return Samples(centres[y] + moves[z] + 2 * noise, y, z)

    old = workload.classes - NEW
    place = torch.arange(workload.samples)
    current = samples(old + place % NEW, place // NEW % workload.groups)
    place = torch.arange(old * workload.groups * MEMORY)
    return current, samples(place % old, place // old % workload.groups)


def _learn(net: nn.Module, memory: Samples, generator: torch.Generator) -> None:
    """Train on the buffer for a moment: the old classes are known then, as in a run."""
    learner = LEARNERS["finetune"](net, Options(lr=0.01), Generators.from_seed(0))
    for _ in range(STEPS):
        rows = torch.randint(len(memory), (BATCH,), generator=generator).to(memory.y.device)
        learner.step(Batch(memory.take(rows), rows))
