"""Weights and buffers of samples that are on several ranks, against those of one process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from faircil import FairSampleWeights, ReplayBuffer, Samples, WeightResult
from faircil.errors import DataError, UsageError
from faircil.ranks import ALONE, Ranks, shards_of
from faircil.weighting import over_ranks, weights as module
from together import in_ranks


def case(n: int = 600) -> tuple[nn.Module, Samples, Samples]:
    """A net, a task of two classes by two values, one of them rare, and a memory of two more."""
    generator = torch.Generator().manual_seed(3)
    centres = torch.randn(4, 6, generator=generator)

    def samples(count: int, first: int) -> Samples:
        y = torch.randint(first, first + 2, (count,), generator=generator)
        z = (torch.rand(count, generator=generator) < 0.1 + 0.3 * (y % 2)).long()
        x = centres[y] + z[:, None] + torch.randn(count, 6, generator=generator)
        return Samples(x, y, z)

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
    return net, samples(n, 2), samples(40, 0)


def shards_in(samples: Samples, count: int, ranks: Ranks) -> list[Samples]:
    own = shards_of(ranks.rank, ranks.size, count)
    return [samples.take(torch.arange(shard, len(samples), count)) for shard in own]


OPTIONS: list[dict[str, object]] = [
    {},
    {"measure": "eer", "lam": 1.0},
    {"measure": "dp", "floor": False},
    {"alpha": 0.05},
    {"granularity": "group"},
    {"solver": "highs"},
    {"loss": "hinge"},
]


def weighed(ranks: Ranks, options: dict[str, object], shards: int) -> list[WeightResult]:
    net, task, memory = case()
    seen = {(y, z): 300 for y in range(4) for z in range(2)}
    generator = torch.Generator().manual_seed(5)
    weigh = FairSampleWeights(**options)  # type: ignore[arg-type]
    parts = shards_in(task, shards, ranks)
    return weigh.of_shards(net, parts, memory, ranks, seen=seen, generator=generator)


def kept(ranks: Ranks) -> list[Samples]:
    """Three tasks in a buffer, by each rule, from contiguous parts; the last has old classes."""
    _, task, memory = case()
    found = []
    for rule in ("random", "large-weight-first"):
        buffer = ReplayBuffer(7)
        for samples in (memory, task, replace(memory, x=memory.x + 1)):
            rows = torch.arange(len(samples)).tensor_split(ranks.size)[ranks.rank]
            weights = torch.linspace(0, 1, len(samples))[rows]
            given = None if ranks.size == 1 else ranks
            buffer = buffer.add(samples.take(rows), weights, rule=rule, ranks=given)
        assert buffer.samples is not None
        found.append(buffer.samples)
    return found


def refused(ranks: Ranks) -> list[str]:
    """What all ranks say of mistakes that one of them makes."""
    net, task, memory = case()
    part = shards_in(task, ranks.size, ranks)[0]
    odd = ranks.rank == 1
    told = []
    for current, old in (
        (Samples(part.x, part.y) if odd else part, memory),
        (part.take(slice(0)) if odd else part, memory),
        (part, memory.take(slice(20)) if odd else memory),
        (replace(part, z=-torch.ones_like(part.y)) if odd else part, memory),
        (replace(part, y=part.y + 9) if odd else part, memory),
        (replace(part, x=part.x * torch.inf) if odd else part, memory),
    ):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            FairSampleWeights(measure="eo")(net, current, old, ranks=ranks)
        told.append(f"{type(caught.value).__name__}: {caught.value}")
    with pytest.raises(DataError) as differs:
        ReplayBuffer(3).add(Samples(part.x, part.y) if odd else part, ranks=ranks)
    return [*told, str(differs.value)]


def wrapped(ranks: Ranks) -> list[np.ndarray]:
    """Weights of a net in DistributedDataParallel, from a dataset and from samples."""
    net, task, memory = case()
    part = shards_in(task, ranks.size, ranks)[0]
    copies = nn.parallel.DistributedDataParallel(net)
    dataset = torch.utils.data.TensorDataset(part.x, part.y, part.z)
    weigh = FairSampleWeights(measure="eo")
    given = ((copies, part, memory), (copies, dataset, memory), (net, part, memory))
    return [weigh(*each, ranks=ranks).weights.numpy() for each in given]


def everything(ranks: Ranks) -> dict[str, object]:
    found: dict[str, object] = {
        "weighed": [weighed(ranks, options, 4) for options in OPTIONS],
        "kept": kept(ranks),
    }
    if ranks.size > 1:
        found |= {"refused": refused(ranks), "wrapped": wrapped(ranks)}
    return found


@pytest.fixture(scope="module")
def alone() -> dict[str, object]:
    return everything(ALONE)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    return in_ranks(tmp_path_factory.mktemp("ranks"), 2, everything)


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_two_processes_weigh_to_the_bits_of_one(
    number: int, alone: dict[str, list], two: list[dict[str, list]]
) -> None:
    expected = alone["weighed"][number]
    found = [result for one in two for result in one["weighed"][number]]
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(one.weights, other.weights)
        assert torch.equal(one.group, other.group)
        assert (one.objective, one.bound, one.status) == (
            other.objective,
            other.bound,
            other.status,
        )
        for name in ("label", "attribute", "size", "losses", "predicted_losses"):
            assert np.array_equal(getattr(one.groups, name), getattr(other.groups, name)), name


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_shards_have_the_weights_of_all_samples_together(
    number: int, alone: dict[str, list]
) -> None:
    net, task, memory = case()
    seen = {(y, z): 300 for y in range(4) for z in range(2)}
    weigh = FairSampleWeights(**OPTIONS[number])  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(5)
    whole = weigh(net, task, memory, seen=seen, generator=generator)
    parts = alone["weighed"][number]
    # Sums in float32 differ in their last digits, and cosines with them.
    assert parts[0].objective == pytest.approx(whole.objective, rel=1e-5)
    assert parts[0].bound == pytest.approx(whole.bound, rel=1e-5)
    assert parts[0].groups.losses == pytest.approx(whole.groups.losses, rel=1e-5)
    assert np.array_equal(parts[0].groups.size, whole.groups.size)
    assert parts[0].groups.predicted_losses == pytest.approx(
        whole.groups.predicted_losses, rel=1e-3, abs=1e-4
    )
    if weigh.granularity == "group":
        assert parts[0].shares == pytest.approx(whole.shares, rel=1e-3, abs=1e-4, nan_ok=True)
        return
    together = torch.empty(len(task))
    for shard, part in enumerate(parts):
        together[shard :: len(parts)] = part.weights
    assert (together - whole.weights).abs().sum() < 0.1  # of 600: the vertex is the same


def test_two_processes_keep_the_buffer_of_one(
    alone: dict[str, list], two: list[dict[str, list]]
) -> None:
    for found in two:
        for one, other in zip(alone["kept"], found["kept"], strict=True):
            for name in ("x", "y", "z"):
                assert torch.equal(getattr(one, name), getattr(other, name)), name


def test_a_mistake_of_one_process_is_told_by_all(two: list[dict[str, list]]) -> None:
    first, second = (found["refused"] for found in two)
    assert first == second
    for told, part in zip(
        first,
        (
            "process 1: this measure compares attribute values",
            "process 1: there are no current samples to weight",
            "the processes have different memories, of [40, 20] samples",
            "process 1: 300 of 300 samples have an unknown attribute",
            "class 12 is beyond the net's 4 outputs",
            "DivergedError: the net's losses are not finite",
            "the processes have samples of [1, 0] attributes",
        ),
        strict=True,
    ):
        assert part in told


def test_a_net_that_is_copied_and_a_dataset_give_the_same_weights(
    two: list[dict[str, list]],
) -> None:
    for found in two:
        copies, dataset, plain = found["wrapped"]
        assert np.array_equal(copies, plain)
        assert dataset == pytest.approx(plain, abs=1e-3)  # batches of 256 round otherwise


def test_what_several_processes_cannot_weigh_is_refused() -> None:
    net, task, memory = case()
    for options in ({"gradient": "all"}, {"granularity": "cluster"}):
        with pytest.raises(UsageError, match="is for one process, without `ranks`"):
            FairSampleWeights(**options)(net, task, memory, ranks=ALONE)  # type: ignore[arg-type]
    assert over_ranks.MANY == module.MANY
