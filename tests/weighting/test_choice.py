from __future__ import annotations

import numpy as np
import pytest
import torch

from faircil.errors import FaircilError
from faircil.samples import Samples
from faircil.weighting import FairSampleWeights, weights
from faircil.weighting.choice import ProgramInputs, choose_on_device
from faircil.weighting.granularity import GRANULARITIES
from faircil.weighting.groups import find_groups
from faircil.weighting.last_layer import group_statistics
from faircil.weighting.losses import LOSSES
from faircil.weighting.measures import disparity_matrix, find_measure
from faircil.weighting.program import formulate
from faircil.weighting.solver import columns, solve
from oracles import make_samples, seeded

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def scene(n: int = 400) -> tuple[torch.nn.Module, Samples, Samples]:
    """Return a net, samples of two new classes, and a memory of two old ones; two attributes."""
    rng = np.random.default_rng(0)
    new = make_samples(rng.integers(2, 4, n).tolist(), rng.integers(0, 2, n).tolist(), seed=1)
    old = make_samples([0, 0, 1, 1] * 8, [0, 1, 0, 1] * 8, seed=2)
    net = seeded(
        lambda: torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 4))
    )
    return net, new, old


@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize("floor", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("measure", ["eer", "eo"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_program_that_is_never_stored_has_the_same_solution(
    loss: str, measure: str, bias: bool, floor: bool, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "CHUNK", 64)
    net, current, memory = scene()
    if not bias:
        net = seeded(
            lambda: torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(6, 4, bias=False))
        )
    net, current, memory = net.to(where), current.to(where), memory.to(where)
    found = find_measure(measure)
    membership = find_groups(current, memory, by_attribute=found.by_attribute)
    statistics = group_statistics(net, current, memory, membership, loss=LOSSES[loss])
    disparity = disparity_matrix(found, membership.groups)
    formulation = formulate(
        statistics.alignment, statistics.losses, membership.groups, disparity,
        alpha=0.01, lam=0.5, floor=floor,
    )  # fmt: skip
    expected = solve(formulation.program)
    inputs = ProgramInputs(statistics, membership, disparity, 0.01, 0.5, floor, False)
    choice = choose_on_device(inputs, statistics)
    assert np.allclose(choice.weights, expected.weights, atol=1e-9)
    assert choice.objective == pytest.approx(expected.objective + formulation.constant, abs=1e-10)
    assert choice.bound == pytest.approx(expected.bound + formulation.constant, abs=1e-10)
    assert np.allclose(choice.progress, statistics.progress(expected.weights))


@pytest.mark.parametrize("loss", LOSSES)
def test_many_samples_on_a_gpu_stay_there(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    net, current, memory = scene()
    weigh = FairSampleWeights(measure="eo", loss=loss)
    expected = weigh(net, current, memory)
    monkeypatch.setattr(weights, "MANY", 100)
    got = weigh(net.cuda(), current.to("cuda"), memory.to("cuda"))
    assert got.weights.is_cuda
    assert torch.allclose(got.weights.cpu(), expected.weights, atol=1e-9)
    assert np.allclose(got.groups.predicted_losses, expected.groups.predicted_losses)


@pytest.mark.parametrize("granularity", ["cluster", "cluster-weights"])
def test_clusters_are_judged_by_the_program_of_the_samples(granularity: str) -> None:
    net, current, memory = scene()
    best = FairSampleWeights(measure="eo")(net, current, memory)
    losses = []
    for clusters in (4, 40, 400):
        result = FairSampleWeights(measure="eo", granularity=granularity, clusters=clusters)(
            net, current, memory, generator=torch.Generator().manual_seed(0)
        )
        assert result.bound <= best.objective + 1e-12
        assert result.shares is not None
        if granularity == "cluster":
            assert set(result.weights.tolist()) <= {0.0, 1.0}
        assert result.objective >= best.objective - 1e-12
        losses.append(result.objective - best.objective)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] <= 1e-9  # a cluster for each sample: the program by sample


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_no_objective_is_below_its_proven_bound(granularity: str) -> None:
    """Drawn weights may predict a loss below the floor: their objective proves nothing."""
    net, current, memory = scene()
    for seed in range(10):
        weigh = FairSampleWeights(
            measure="eo", alpha=0.5, lam=5.0, granularity=granularity, clusters=12
        )
        generator = torch.Generator().manual_seed(seed)
        result = weigh(net, current, memory, generator=generator)
        assert result.objective >= result.bound - 1e-9


def test_all_layers_weigh_by_whole_gradients() -> None:
    net, current, memory = scene(60)
    result = FairSampleWeights(measure="eo", gradient="all", alpha=0.01)(net, current, memory)
    membership = find_groups(current, memory, by_attribute=True)
    flat = [_gradient(net, current.take(torch.tensor([i]))) for i in range(len(current))]
    old = [_gradient(net, memory.take(torch.tensor([i]))) for i in range(len(memory))]
    mean = [
        torch.stack(
            [g for g, k in zip(flat, membership.current.tolist(), strict=True) if k == group]
            + [g for g, k in zip(old, membership.memory.tolist(), strict=True) if k == group]
        ).mean(dim=0)
        for group in range(len(membership.groups))
    ]
    cosines = torch.nn.functional.cosine_similarity(
        torch.stack(mean)[:, None], torch.stack(flat)[None], dim=2
    ).numpy()
    formulation = formulate(
        cosines, result.groups.losses, membership.groups,
        disparity_matrix(find_measure("eo"), membership.groups), alpha=0.01, lam=0.5,
    )  # fmt: skip
    expected = solve(formulation.program)
    assert result.objective == pytest.approx(expected.objective + formulation.constant, abs=1e-9)
    assert np.allclose(result.weights.numpy(), expected.weights, atol=1e-6)
    predicted = result.groups.losses - 0.01 * (cosines @ expected.weights)
    assert np.allclose(result.groups.predicted_losses, predicted, atol=1e-8)


def _gradient(net: torch.nn.Module, sample: Samples) -> torch.Tensor:
    loss = torch.nn.functional.cross_entropy(net(sample.x), sample.y)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(net.parameters()))])


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(FaircilError) as caught:
        FairSampleWeights(gradient="al", clusters=0, granularity="clutser")
    for words in (
        "unknown gradient 'al'",
        "setting clusters=0 is not allowed",
        "unknown granularity 'clutser'",
    ):
        assert words in str(caught.value)
    with pytest.raises(FaircilError, match="clusters last-layer gradients, but gradient is 'all'"):
        FairSampleWeights(gradient="all", granularity="cluster")
