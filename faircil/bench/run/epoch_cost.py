"""What the statistics of an epoch cost, against one forward pass over the same samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from threadpoolctl import threadpool_limits
from torch import nn

from faircil.bench.run.record import EpochCost
from faircil.bench.timing import medians
from faircil.buffer import ReplayBuffer
from faircil.config import RunConfig
from faircil.loading import load_stream
from faircil.nets import build_mlp
from faircil.samples import Samples
from faircil.threads import chunk_size, map_chunks
from faircil.weighting.all_layers import all_layer_statistics
from faircil.weighting.groups import Floats, Membership, find_groups
from faircil.weighting.measures import MEASURES
from faircil.weighting.statistics import group_statistics

REPEATS = 15
FORWARD = "forward"
# Ways to measure the groups, by kind of gradient.
STATISTICS: dict[str, Callable[[nn.Module, Samples, Samples | None, Membership], Floats]] = {
    "last layer": lambda *arguments: group_statistics(*arguments).alignment,
    "all layers": lambda *arguments: all_layer_statistics(*arguments).alignment,
}


def measure_epochs(
    config: RunConfig, device: torch.device, repeats: int = REPEATS
) -> Iterator[EpochCost]:
    """Measure every task of a run's data but the first, on a fresh net.

    Parameters
    ----------
    config : RunConfig
        For its data, net, measure and buffer.
    device : torch.device
    repeats : int
    """
    stream, settings = load_stream(config, 0), config.settings
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
