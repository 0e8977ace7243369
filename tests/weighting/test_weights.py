from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from faircil import FairSampleWeights
from faircil.errors import DataError, UsageError
from faircil.nets import MLP
from faircil.samples import Samples, concatenate, group_counts
from faircil.weighting.choice import WeightResult
from faircil.weighting.groups import Floats
from faircil.weighting.losses import LOSSES
from oracles import PLAIN_LOSSES, make_samples, seeded, slow_statistics


def scene(attributes: int = 1) -> tuple[MLP, Samples, Samples, dict[tuple[int, ...], int]]:
    """A net, 30 samples of two new classes, a buffer of two old ones, and counts."""
    rng = np.random.default_rng(attributes)
    z = rng.integers(0, 2, (50, max(attributes, 1))).squeeze().tolist() if attributes else None
    current = make_samples([2, 3] * 15, z[:30] if z else None, seed=1)
    memory = make_samples([0, 1] * 10, z[30:] if z else None, seed=2)
    counts = group_counts(concatenate([current, memory]))
    seen = {key: 7 * count + sum(key) for key, count in counts.items()}
    return seeded(lambda: MLP(6, 4, (8,))), current, memory, seen


def slow_disparity(measure: str, keys: list[tuple[int, ...]], losses: Floats, seen: Any) -> float:
    """The measure's formula, group by group."""
    values = dict(zip(keys, losses.tolist(), strict=True))
    if measure == "dp":
        totals = {
            key: sum(n for other, n in seen.items() if other[1:] == key[1:]) for key in values
        }
        values = {key: seen[key] / totals[key] * loss for key, loss in values.items()}
    total = 0.0
    for key, loss in values.items():
        compared = [v for other, v in values.items() if measure == "eer" or other[0] == key[0]]
        total += abs(loss - sum(compared) / len(compared))
    return total / len(values)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("granularity", ["sample", "group"])
@pytest.mark.parametrize(
    ("measure", "attributes"), [("eer", 0), ("eer", 1), ("eo", 1), ("dp", 1), ("eo", 2), ("dp", 2)]
)
def test_the_result_is_the_methods_formula(
    measure: str, attributes: int, granularity: str, loss: str
) -> None:
    net, current, memory, seen = scene(attributes)
    alpha, lam = 0.03, 0.7
    weigh = FairSampleWeights(measure, alpha, lam, granularity=granularity, loss=loss)
    result = weigh(net, current, memory, seen=seen, generator=torch.Generator().manual_seed(0))
    by_attribute, plain = measure != "eer", PLAIN_LOSSES[loss]
    keys, losses, aligned = slow_statistics(net, net.head, current, memory, by_attribute, plain)
    weights = result.weights.numpy()
    if granularity == "group":  # what the program decides about is the shares
        assert result.shares is not None
        own = [keys.index(tuple(key)) for key in current.keys(by_attribute).tolist()]
        weights = result.shares[own]
    predicted = losses - alpha * aligned @ weights
    assert np.allclose(result.groups.losses, losses, rtol=0, atol=1e-10)
    assert np.allclose(result.groups.predicted_losses, predicted, rtol=0, atol=1e-9)
    classes = [
        np.mean([p for key, p in zip(keys, predicted, strict=True) if key[0] == y]) for y in (2, 3)
    ]
    expected = slow_disparity(measure, keys, predicted, seen) + lam * np.mean(classes)
    assert result.objective == pytest.approx(expected, abs=1e-9)
    assert result.bound == pytest.approx(result.objective, abs=1e-9)
    assert min(classes) >= -1e-9


@pytest.mark.parametrize("granularity", ["sample", "group"])
def test_weights_are_between_0_and_1_and_counted(granularity: str) -> None:
    net, current, memory, _ = scene()
    weigh = FairSampleWeights(alpha=0.3, granularity=granularity)
    result = weigh(net, current, memory, generator=torch.Generator().manual_seed(0))
    weights = result.weights
    assert weights.shape == (30,)
    assert weights.dtype == torch.float64
    assert 0 <= weights.min() <= weights.max() <= 1
    assert result.kept == (weights >= 1 - 1e-6).sum()
    assert result.dropped == (weights <= 1e-6).sum()
    assert result.kept + result.dropped + result.partial == 30
    assert result.partial == 0 if granularity == "group" else 0 < result.partial <= 5
    assert "optimal" in result.status
    assert result.gradient_seconds > 0
    assert result.lp_seconds > 0


def test_auto_alpha_is_12_over_the_number_of_samples() -> None:
    net, current, memory, _ = scene()
    auto, number = (
        FairSampleWeights(alpha=alpha)(net, current, memory) for alpha in ("auto", 12 / 30)
    )
    assert torch.equal(auto.weights, number.weights)
    assert auto.objective == number.objective


def draw(result_of: FairSampleWeights, seed: int) -> WeightResult:
    net, current, memory, _ = scene()
    return result_of(net, current, memory, generator=torch.Generator().manual_seed(seed))


def test_group_shares_decide_how_many_samples_are_drawn() -> None:
    weigh = FairSampleWeights(alpha=0.3, granularity="group")
    results = [draw(weigh, seed) for seed in range(200)]
    shares = results[0].shares
    assert shares is not None
    current = results[0].groups.current
    assert np.array_equal(np.isnan(shares), ~current)
    assert ((shares[current] > 0) & (shares[current] < 1)).any()
    assert torch.equal(results[0].weights, draw(weigh, 0).weights)
    assert any(not torch.equal(results[0].weights, other.weights) for other in results)
    mean = torch.stack([result.weights for result in results]).mean(dim=0).numpy()
    keys = list(zip(results[0].groups.label, results[0].groups.attribute, strict=True))
    for i, key in enumerate(scene()[1].keys().tolist()):
        share = shares[keys.index(tuple(key))]
        assert abs(mean[i] - share) <= 4.5 * np.sqrt(share * (1 - share) / 200)


def test_drawing_needs_a_generator() -> None:
    net, current, memory, _ = scene()
    with pytest.raises(DataError, match="generator="):
        FairSampleWeights(granularity="group")(net, current, memory)


def test_dp_needs_the_counts() -> None:
    net, current, memory, _ = scene()
    with pytest.raises(DataError, match="pass seen="):
        FairSampleWeights(measure="dp")(net, current, memory)


def test_the_floor_can_be_lifted() -> None:
    net, current, memory, _ = scene(0)
    predicted = {
        floor: FairSampleWeights(measure="eer", alpha=2.0, lam=2.0, floor=floor)(
            net, current, memory
        ).groups.predicted_losses[2:]
        for floor in (True, False)
    }
    assert predicted[True].min() == pytest.approx(0, abs=1e-9)
    assert predicted[False].min() < -0.1


@pytest.mark.parametrize("memory", [None, make_samples([])])
def test_without_memory_the_current_loss_is_what_counts(memory: Samples | None) -> None:
    net, current = scene(0)[0], make_samples([3] * 10)
    result = FairSampleWeights(measure="eer", alpha=1e-3)(net, current, memory)
    aligned = slow_statistics(net, net.head, current, None, False)[2][0]
    assert result.weights.tolist() == (aligned > 0).astype(float).tolist()


class Own(nn.Module):
    """Someone's net: layers in no particular order, named in no particular way."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(5, 4)
        self.norm = nn.BatchNorm1d(5)
        self.drop = nn.Dropout(0.3)
        self.into = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.out(self.drop(torch.tanh(self.norm(self.into(x)))))
        return logits


def test_an_own_net_is_weighed_and_left_as_it_was() -> None:
    _, current, memory, seen = scene()
    net = seeded(Own).float()
    current, memory = (Samples(part.x.float(), part.y, part.z) for part in (current, memory))
    net(current.x).sum().backward()
    net.norm.eval()
    modes = [module.training for module in net.modules()]
    tensors = [
        *net.state_dict().values(),
        *(p.grad for p in net.parameters() if p.grad is not None),
    ]
    tensors += [t for part in (current, memory) for t in (part.x, part.y, part.z) if t is not None]
    before, counts = [tensor.clone() for tensor in tensors], dict(seen)
    state = torch.get_rng_state()
    results = [
        FairSampleWeights(alpha=0.3, head=head)(net, current, memory, seen=seen)
        for head in (None, "out", net.out)
    ]
    assert results[0].weights.dtype == torch.float32
    assert all(torch.equal(result.weights, results[0].weights) for result in results)
    assert all(torch.equal(now, then) for now, then in zip(tensors, before, strict=True))
    assert [module.training for module in net.modules()] == modes
    assert seen == counts
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(result.weights.requires_grad for result in results)
    with pytest.raises(UsageError, match="not the output of the given linear layer"):
        FairSampleWeights(head="into")(net, current, memory)


def test_all_bad_arguments_are_named_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        FairSampleWeights(
            measure="eoo",
            alpha=-1,
            lam="much",  # type: ignore[arg-type]
            granularity="samples",
            loss="hing",
            solver="higs",
        )
    message = str(caught.value)
    assert message.count("\n- ") == 5
    for part in ("'eo'?", "alpha=-1 is", "lam=much is", "'sample'?", "'hinge'?", "'highs'?"):
        assert part in message


@pytest.mark.parametrize("bad", [0, -0.1, float("nan"), float("inf"), "automatic", None])
def test_alpha_is_a_positive_number(bad: Any) -> None:
    with pytest.raises(UsageError, match=r"alpha=.* is not allowed: it should be .* or 'auto'"):
        FairSampleWeights(alpha=bad)


@pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf"), None])
def test_lam_is_a_number(bad: Any) -> None:
    with pytest.raises(UsageError, match=r"lam=.* is not allowed: it should be "):
        FairSampleWeights(lam=bad)


@pytest.mark.parametrize("bad", [3, None])
def test_a_measure_is_a_name_or_a_function(bad: Any) -> None:
    with pytest.raises(
        UsageError, match=r"measure=.* is not allowed: it should be a valid string or callable"
    ):
        FairSampleWeights(measure=bad)


def test_there_must_be_samples() -> None:
    net, current, memory, _ = scene()
    with pytest.raises(DataError, match="no current samples"):
        FairSampleWeights()(net, current.take(slice(0)), memory)


@pytest.mark.parametrize("part", ["current", "memory"])
def test_unknown_attribute_values_are_refused_where_they_are_compared(part: str) -> None:
    net, current, memory, _ = scene()
    altered = current if part == "current" else memory
    assert altered.z is not None
    altered.z[:2] = -1
    with pytest.raises(DataError, match=r"2 of \d+ samples have an unknown attribute value"):
        FairSampleWeights(measure="eo")(net, current, memory)
    assert len(FairSampleWeights(measure="eer")(net, current, memory).weights) == len(current)
