"""What the weights of an epoch cost, and how that grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from faircil.buffer import ReplayBuffer
from faircil.compute import Generators, chunk_size, map_chunks
from faircil.learners import LEARNERS, Batch, Options
from faircil.nets import build_mlp
from faircil.runs.config import RunConfig
from faircil.runs.state import load_stream
from faircil.samples import Samples
from faircil.weighting.all_layers import all_layer_statistics
from faircil.weighting.groups import Floats, Membership, find_groups
from faircil.weighting.last_layer import group_statistics
from faircil.weighting.measures import MEASURES
from faircil.weighting.weights import FairSampleWeights
from faircil_lab.bench.measuring import medians
from faircil_lab.bench.whole_runs import (
    EpochCost,
    EpochWorkload,
    RunOutcome,
    ScalePoint,
    TimedMethod,
    measure_runs,
)

EPOCH_REPEATS = 15
FORWARD = "forward"
# Ways to measure the groups, by kind of gradient.
STATISTICS: dict[str, Callable[[nn.Module, Samples, Samples | None, Membership], Floats]] = {
    "last layer": lambda *arguments: group_statistics(*arguments).alignment,
    "all layers": lambda *arguments: all_layer_statistics(*arguments).alignment,
}


def measure_all(
    runs: Sequence[TimedMethod], factors: Sequence[str], repeats: int, device: torch.device
) -> Iterator[RunOutcome]:
    """Measure whole runs, the epochs of each dataset, and how they grow with these factors.

    Whole runs come first: a process's peak counts what its parent held when it began.
    """
    yield from measure_runs(runs, repeats, str(device))
    first: dict[str, TimedMethod] = {}
    for run in runs:
        first.setdefault(run.dataset, run)
    for run in first.values():
        yield from measure_epochs(run.config(), device)
    yield from measure_growth(factors, device)


def measure_epochs(
    config: RunConfig, device: torch.device, repeats: int = EPOCH_REPEATS
) -> Iterator[EpochCost]:
    """Measure every task of a run's data but the first, on a fresh net.

    Parameters
    ----------
    config : RunConfig
        For its data, net, measure and buffer.
    device : torch.device
    repeats : int
    """
    stream, settings = load_stream(config, 0), config.settings.training
    n_inputs = stream.tasks[0].train.x[0].numel()
    net = build_mlp(n_inputs, stream.n_classes, settings.hidden, 0).to(device)
    buffer, generator = ReplayBuffer(settings.buffer_size), torch.Generator().manual_seed(0)
    by_attribute = MEASURES[config.measure].by_attribute
    for number, task in enumerate(stream.tasks, start=1):
        current, memory = task.train.to(device), buffer.samples
        buffer = buffer.with_task(current, None, generator)
        if memory is None:
            continue
        functions = _functions(net, current, memory, by_attribute)
        with threadpool_limits(1, user_api="blas"):
            seconds = medians(functions, repeats)
        groups = len(find_groups(current, memory, by_attribute=by_attribute).groups)
        forward = seconds.pop(FORWARD)
        yield EpochCost(
            config.dataset, config.measure, number, len(current), groups, forward, seconds
        )


def _functions(
    net: nn.Module, current: Samples, memory: Samples, by_attribute: bool
) -> dict[str, Callable[[], None]]:
    """Return the forward pass and all kinds of statistics, by name."""
    size, on_cpu = chunk_size(current.y.device), current.y.device.type == "cpu"

    def forward() -> None:
        with torch.no_grad():
            map_chunks(lambda rows: net(current.x[rows]), len(current), size, threads=on_cpu)
        if not on_cpu:
            torch.cuda.synchronize()

    def statistics(kind: str) -> Callable[[], None]:
        def measure() -> None:
            membership = find_groups(current, memory, by_attribute=by_attribute)
            STATISTICS[kind](net, current, memory, membership)

        return measure

    return {FORWARD: forward} | {kind: statistics(kind) for kind in STATISTICS}


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
    base: EpochWorkload | None = None,
    repeats: int = REPEATS,
) -> Iterator[ScalePoint]:
    """Vary one factor at a time, the others as in ``base``."""
    for factor in factors:
        for value in FACTORS[factor]:
            workload = replace(base or EpochWorkload(), **{factor: value})
            statistics, lp = weigh_generated(workload, device, repeats)
            yield ScalePoint(factor, workload, statistics, lp)


def weigh_generated(
    workload: EpochWorkload, device: torch.device, repeats: int
) -> tuple[float, float]:
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


def _generate(workload: EpochWorkload, generator: torch.Generator) -> tuple[Samples, Samples]:
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
