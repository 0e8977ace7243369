"""Nets of any precision are weighed, and every net is left as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from faircil import FairSampleWeights, Samples
from faircil.errors import DataError, FaircilError
from faircil.nets import MLP
from faircil.weighting import Solution, WeightProgram, WeightResult, solve
from oracles import make_samples, seeded

LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}


def in_float32(samples: Samples) -> Samples:
    return Samples(samples.x.float(), samples.y, samples.z)


CURRENT = in_float32(make_samples([2, 3, 3] * 20, [0, 1, 1, 0] * 15, seed=1))
MEMORY = in_float32(make_samples([0, 1] * 10, [0, 1, 1, 0] * 5, seed=2))


class Attends(nn.Module):
    """Layers that no factors exist for."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.body, self.head = nn.LayerNorm(6), nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.tanh(self.body(self.norm(x))))
        return logits


NETS: dict[str, Callable[[], nn.Module]] = {"mlp": lambda: MLP(6, 4, (8,)), "norm": Attends}


def solved(weigh: FairSampleWeights, *data: Any) -> tuple[WeightResult, WeightProgram]:
    """The weights, and the program that they solve."""
    seen: list[WeightProgram] = []

    def spy(program: WeightProgram) -> Solution:
        seen.append(program)
        return solve(program)

    return replace(weigh, solver=spy)(*data), seen[0]


@pytest.mark.parametrize("gradient", ["last", "all"])
@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("how", ["autocast", "net"])
@pytest.mark.parametrize("name", NETS)
def test_low_precision_costs_no_more_than_its_rounding(
    name: str, how: str, low: str, gradient: str
) -> None:
    net, kind = seeded(NETS[name]).float(), LOW[low]
    weigh = FairSampleWeights(alpha=0.05, gradient=gradient)
    _, exact = solved(weigh, net, CURRENT, MEMORY)
    current, memory, cast = CURRENT, MEMORY, torch.autocast("cpu", kind)
    if how == "net":
        net, cast = deepcopy(net).to(kind), nullcontext()
        current, memory = (Samples(s.x.to(kind), s.y, s.z) for s in (CURRENT, MEMORY))
    with cast:
        result, program = solved(weigh, net, current, memory)
    assert result.weights.dtype == torch.float32
    # Inputs, weights and activations of two layers are rounded, by half of eps each. A row is the
    # deviation of a mean from a mean, over 8 groups: the roundings of single samples average out.
    most = torch.finfo(kind).eps
    rows, offsets = (
        np.abs(getattr(program, field) - getattr(exact, field)).max()
        for field in ("gap_rows", "gap_offsets")
    )
    assert rows <= 0.05 * most
    assert offsets <= most
    # Both programs differ by at most `apart` at any weights, so their optima do, and the best
    # weights of the one are within twice that of the best of the other.
    gaps = np.abs(program.gap_rows - exact.gap_rows).sum()
    gaps += np.abs(program.gap_offsets - exact.gap_offsets).sum()
    apart = gaps + np.abs(program.cost - exact.cost).sum()
    best = solve(exact)
    assert exact.objective(result.weights.double().numpy()) <= best.objective + 2 * apart


class Merged(nn.Linear):
    """A low-rank change of weights that is merged for evaluation, as adapters do."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__(n_inputs, n_outputs)
        self.change = nn.Parameter(torch.randn(n_outputs, n_inputs) / 3)
        self.merged = False

    def train(self, mode: bool = True) -> Merged:
        super().train(mode)
        if self.merged == mode:
            self.weight.data += -self.change.data if mode else self.change.data
            self.merged = not mode
        return self

    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        return out if self.merged else out + x @ self.change.T


class Lively(nn.Module):
    """A net that does all that evaluation should not, and breaks at some call."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.norm, self.drop = Merged(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)
        self.head = nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.calls: Tensor
        self.done, self.breaks = 0, -1

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.done += 1
        noise = nn.functional.dropout(torch.ones(8), training=True).mean()
        h = self.drop(self.norm(self.body(x)))
        if self.done == self.breaks:
            raise RuntimeError("broken in the middle")
        logits: Tensor = self.head(h) + 0 * noise.item()
        return logits


def state_of(net: Lively) -> list[Any]:
    tensors = [*net.parameters(), *net.buffers()]
    return [
        [tensor.clone() for tensor in tensors],
        [None if p.grad is None else p.grad.clone() for p in net.parameters()],
        [p.requires_grad for p in net.parameters()],
        [(module.training, getattr(module, "merged", None)) for module in net.modules()],
        [(dict(one._forward_hooks), dict(one._forward_pre_hooks)) for one in net.modules()],
        torch.get_rng_state(),
        torch.is_grad_enabled(),
        torch.backends.mha.get_fastpath_enabled(),
    ]


@settings(deadline=None, max_examples=40)
@given(
    breaks=st.integers(-1, 12),
    gradient=st.sampled_from(["last", "all"]),
    modes=st.lists(st.booleans(), min_size=5, max_size=5),
    frozen=st.integers(0, 4),
    streamed=st.booleans(),
)
def test_a_net_is_left_as_it_was_whatever_happens(
    breaks: int, gradient: str, modes: list[bool], frozen: int, streamed: bool
) -> None:
    net = seeded(Lively).float()
    for module, mode in zip(net.modules(), modes, strict=True):
        module.train(mode)
    list(net.parameters())[frozen].requires_grad_(False)
    net.body.bias.grad = torch.ones(8)
    net.head.register_forward_hook(lambda *_: None)
    before = state_of(net)
    net.done, net.breaks = 0, breaks
    assert CURRENT.z is not None
    current = TensorDataset(CURRENT.x, CURRENT.y, CURRENT.z) if streamed else CURRENT
    weigh = FairSampleWeights(gradient=gradient)
    # What a net does with its first sample is told in a sentence; later, the error is the net's.
    if 0 < breaks <= 2:
        with pytest.raises((RuntimeError, DataError), match="broken in the middle"):
            weigh(net, current, MEMORY)
    else:
        with contextlib.suppress(RuntimeError, DataError):
            weigh(net, current, MEMORY)
    after = state_of(net)
    assert all(torch.equal(a, b) for a, b in zip(after[0], before[0], strict=True))
    for new, old in zip(after[1], before[1], strict=True):
        assert (new is None) == (old is None)
        assert new is None or torch.equal(new, old)
    assert after[2:5] == before[2:5]
    assert torch.equal(after[5], before[5])
    assert after[6:] == before[6:]


def test_autocast_around_weighing_leaves_training_its_gradients() -> None:
    net = seeded(NETS["mlp"]).float()
    with torch.autocast("cpu", torch.bfloat16):
        FairSampleWeights()(net, CURRENT, MEMORY)
        loss = nn.functional.cross_entropy(net(CURRENT.x), CURRENT.y)
    loss.backward()
    assert all(p.grad is not None and p.grad.any() for p in net.parameters())


class TwoNames(nn.Module):
    """A module that is found under two names, and a weight that two modules share."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.a, self.c = nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.b, self.head = self.a, nn.Linear(6, 4)
        self.c.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.c(torch.tanh(self.b(torch.tanh(self.a(self.norm(x)))))))
        logits: Tensor = self.head(h)
        return logits


def test_a_module_with_two_names_keeps_its_parameters() -> None:
    net = seeded(TwoNames).float()
    before = [(name, p, p.requires_grad) for name, p in everywhere(net)]
    result = FairSampleWeights(alpha=0.05, gradient="all")(net, CURRENT, MEMORY)
    after = list(everywhere(net))
    assert all(p is q for (_, p, _), (_, q) in zip(before, after, strict=True))
    assert [p.requires_grad for _, p in after] == [trained for *_, trained in before]
    plain = FairSampleWeights(alpha=0.05, gradient="all")(Alone(net), CURRENT, MEMORY)
    assert plain.objective == pytest.approx(result.objective, rel=1e-4)  # float32 gradients


def everywhere(net: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return list(net.named_parameters(remove_duplicate=False))


class Alone(nn.Module):
    """The same net with every parameter in one place only."""

    def __init__(self, net: TwoNames) -> None:
        super().__init__()
        self.norm, self.a, self.head = deepcopy(net.norm), deepcopy(net.a), deepcopy(net.head)
        self.bias = nn.Parameter(net.c.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(torch.tanh(self.a(self.norm(x)))))
        logits: Tensor = self.head(torch.tanh(nn.functional.linear(h, self.a.weight, self.bias)))
        return logits


def test_an_activation_in_place_after_the_last_layer_is_noticed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    net = seeded(lambda: nn.Sequential(MLP(6, 4, (8,)), nn.ReLU(inplace=True))).float()
    weigh = FairSampleWeights(alpha=0.05)
    with torch.inference_mode():
        found = weigh(net, CURRENT, MEMORY)
    assert "is not the output of its last linear layer" in caplog.text
    expected = replace(weigh, gradient="all")(net, CURRENT, MEMORY)
    assert torch.equal(found.weights, expected.weights)


@pytest.mark.parametrize("gradient", ["last", "all"])
@pytest.mark.parametrize("name", NETS)
def test_samples_made_under_inference_mode_are_weighed(name: str, gradient: str) -> None:
    with torch.inference_mode():
        current, memory = (Samples(s.x.clone(), s.y.clone(), s.z) for s in (CURRENT, MEMORY))
    weigh, net = FairSampleWeights(alpha=0.05, gradient=gradient), seeded(NETS[name]).float()
    found, expected = weigh(net, current, memory), weigh(net, CURRENT, MEMORY)
    assert torch.equal(found.weights, expected.weights)


def untrainable() -> nn.Module:
    with torch.inference_mode():
        return MLP(6, 4, (8,))


def mixing() -> nn.Module:
    norm = nn.BatchNorm1d(8, track_running_stats=False)
    return nn.Sequential(nn.Linear(6, 8), norm, nn.Linear(8, 4))


@pytest.mark.parametrize("gradient", ["last", "all"])
@pytest.mark.parametrize(
    ("net", "x", "less", "message"),
    [
        (NETS["mlp"], torch.Tensor.double, 0, "MLP cannot take inputs of torch.float64"),
        (NETS["mlp"], torch.Tensor.long, 0, "parameters are torch.float32 on cpu: give it inputs"),
        (NETS["mlp"], lambda x: x[:, :5], 0, r"shape \(8, 5\).*shape that it expects"),
        (NETS["mlp"], torch.Tensor.to_sparse, 0, r"sparse_coo, expected a dense one: x.to_dense"),
        (NETS["mlp"], torch.Tensor.float, 3, "has class -1; classes count from 0"),
        (lambda: MLP(6, 4, (8,)).to("meta"), torch.Tensor.float, 0, "on the device 'meta'"),
        (mixing, torch.Tensor.float, 0, "keeps no statistics"),
        (untrainable, torch.Tensor.float, 0, "was created under torch.inference_mode"),
    ],
)  # fmt: skip
def test_what_a_net_cannot_take_is_told(
    net: Callable[[], nn.Module],
    x: Callable[[Tensor], Tensor],
    less: int,
    message: str,
    gradient: str,
) -> None:
    with pytest.raises(FaircilError, match=message):
        FairSampleWeights(gradient=gradient)(
            net(), Samples(x(CURRENT.x), CURRENT.y - less, CURRENT.z)
        )
