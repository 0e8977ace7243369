from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn

from faircil.errors import UsageError
from faircil.nets import MLP
from faircil.samples import Samples
from faircil.testing import check_loss
from faircil.weighting import FairSampleWeights, all_layers
from faircil.weighting.all_layers import all_layer_statistics
from faircil.weighting.groups import Floats, Membership, find_groups
from faircil.weighting.last_layer import group_statistics
from faircil.weighting.losses import LOSSES, cross_entropy, hinge
from faircil.weighting.solver import SOLVERS
from oracles import PLAIN_LOSSES, make_samples, seeded

CURRENT = make_samples([2, 3] * 15, seed=1)
MEMORY = make_samples([0, 1] * 10, seed=2)
MEMBERSHIP = find_groups(CURRENT, MEMORY, by_attribute=False)


def random_logits(n: int, classes: int, size: float, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = size * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    return logits, torch.randint(classes, (n,), generator=generator)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_keeps_the_contract(name: str) -> None:
    check_loss(name)


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(1, 9),
    classes=st.integers(1, 6),
    size=st.sampled_from([0.1, 1.0, 10.0]),
    seed=st.integers(0, 1000),
    name=st.sampled_from(list(LOSSES)),
)
def test_losses_and_gradients_are_those_of_the_formula(
    n: int, classes: int, size: float, seed: int, name: str
) -> None:
    logits, y = random_logits(n, classes, size, seed)
    losses, gradients = LOSSES[name](logits, y)
    leaf = logits.clone().requires_grad_()
    expected = PLAIN_LOSSES[name](leaf, y)
    assert torch.allclose(losses, expected.detach(), rtol=0, atol=1e-12)
    (slow,) = torch.autograd.grad(expected.sum(), leaf)
    assert torch.allclose(gradients, slow, rtol=0, atol=1e-12)


def test_hinge_is_the_number_of_outputs_times_the_probability_of_the_others() -> None:
    logits, y = random_logits(50, 7, 2.0, 0)
    p_y = torch.softmax(logits, dim=1).gather(1, y[:, None]).squeeze(1)
    losses, gradients = hinge(logits, y)
    assert torch.allclose(losses, 7 * (1 - p_y), rtol=0, atol=1e-13)
    delta = cross_entropy(logits, y)[1]
    assert torch.allclose(gradients, 7 * p_y[:, None] * delta, rtol=0, atol=1e-13)


def with_bias(bias: float, dtype: torch.dtype) -> tuple[nn.Module, Samples, Membership]:
    """Return a net, samples of classes 0 and 3, and their groups; the bias of class 0 is given."""
    net = seeded(lambda: MLP(6, 4, (5,))).to(dtype)
    with torch.no_grad():
        net.head.bias[0] = bias
    samples = Samples(CURRENT.x.to(dtype), torch.tensor([0] * 12 + [3] * 18))
    return net, samples, find_groups(samples, None, by_attribute=False)


def alignment(bias: float, dtype: torch.dtype, gradient: str) -> Floats:
    net, samples, membership = with_bias(bias, dtype)
    measure = group_statistics if gradient == "last" else all_layer_statistics
    return measure(net, samples, None, membership, loss=hinge).alignment


# In float32: from 17 on p_0 rounds to 1, and from about 45 away from 0 squares of gradients
# underflow, those of class 0 on one side and of class 3 on the other.
@pytest.mark.parametrize("bias", [-60.0, -40.0, -20.0, 20.0, 40.0, 55.0])
@pytest.mark.parametrize("gradient", ["last", "all", "forward mode"])
def test_certain_and_hopeless_samples_keep_their_digits(
    bias: float, gradient: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if gradient == "forward mode":
        monkeypatch.setattr(all_layers, "linear_layers", lambda *_: None)
    got, expected = (alignment(bias, dtype, gradient) for dtype in (torch.float32, torch.float64))
    assert abs(got - expected).max() < 1e-4
    assert abs(expected).max(axis=0).min() > 0.1


def test_the_loss_of_a_certain_sample_keeps_its_digits() -> None:
    logits, y = torch.tensor([[20.0, 0, 1], [0, 40, 0]]), torch.tensor([0, 1])
    (got, _), (exact, _) = hinge(logits, y), hinge(logits.double(), y)
    assert torch.allclose(got.double(), exact, rtol=1e-5, atol=0)


# In float32 p_0 has fewer digits from −88 on, and is 0 from −104 on.
@pytest.mark.parametrize("gradient", ["last", "all"])
@pytest.mark.parametrize("bias", [-75.0, -95.0, -150.0])
def test_a_probability_that_underflows_leaves_a_direction(bias: float, gradient: str) -> None:
    got, exact = (alignment(bias, dtype, gradient) for dtype in (torch.float32, torch.float64))
    # Group 1 has probabilities: all samples' cosines with it are exact.
    assert abs(got[1] - exact[1]).max() < 1e-4
    assert abs(got).max(axis=1).min() > 0.5
    net, samples, membership = with_bias(bias, torch.float32)
    losses = group_statistics(net, samples, None, membership, loss=hinge).losses
    assert losses[0] == pytest.approx(4)


def test_sample_directions_stay_and_group_directions_change() -> None:
    net = seeded(lambda: MLP(6, 4, (8,)))
    one, other = (
        group_statistics(net, CURRENT, MEMORY, MEMBERSHIP, loss=loss) for loss in LOSSES.values()
    )
    both = (one.factors.delta, other.factors.delta)
    lengths = [delta.norm(dim=1, keepdim=True) for delta in both]
    assert torch.allclose(both[0] / lengths[0], both[1] / lengths[1], rtol=0, atol=1e-14)
    unit = [
        each.gradients / each.gradients.flatten(1).norm(dim=1)[:, None, None]
        for each in (one, other)
    ]
    assert (unit[0] - unit[1]).flatten(1).norm(dim=1).min() > 0.01
    assert abs(one.losses - other.losses).min() > 0.1


@pytest.mark.parametrize(
    ("granularity", "gradient"),
    [("sample", "last"), ("group", "last"), ("cluster", "last"), ("cluster-weights", "last"),
     ("sample", "all"), ("group", "all")],
)  # fmt: skip
def test_every_granularity_takes_it(granularity: str, gradient: str) -> None:
    net = seeded(lambda: MLP(6, 4, (8,)))

    def weigh(loss: str) -> Tensor:
        weigher = FairSampleWeights(
            "eer", 1.0, 2.0, granularity=granularity, gradient=gradient, loss=loss, clusters=6
        )
        result = weigher(net, CURRENT, MEMORY, generator=torch.Generator().manual_seed(0))
        assert 0 <= result.weights.min() < result.weights.max() <= 1
        assert result.bound <= result.objective + 1e-9
        return result.weights

    assert torch.equal(weigh("hinge"), weigh("hinge"))
    assert not torch.equal(weigh("hinge"), weigh("cross-entropy"))


def test_a_loss_and_a_solver_can_be_functions() -> None:
    net = seeded(lambda: MLP(6, 4, (8,)))
    by_name, by_function, by_row = (
        FairSampleWeights("eer", 1.0, 2.0, loss=loss, solver=solver)(net, CURRENT, MEMORY)
        for loss, solver in (
            ("hinge", "highs"),
            (hinge, SOLVERS["highs"].solve),
            (LOSSES["hinge"], SOLVERS["highs"]),
        )
    )
    assert torch.equal(by_name.weights, by_function.weights)
    assert torch.equal(by_name.weights, by_row.weights)


@pytest.mark.parametrize("field", ["measure", "loss", "solver"])
def test_what_is_neither_a_name_nor_a_function_is_refused(field: str) -> None:
    with pytest.raises(UsageError, match=f"{field}=7 is not allowed"):
        FairSampleWeights(**{field: 7})  # type: ignore[arg-type]
