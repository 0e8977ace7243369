from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from faircil.learners import Learner
from faircil.nets import build_mlp
from faircil.samples import Samples
from learning import batch_of, gradient, new_learner

TAU = 3.0


@pytest.fixture
def learner() -> Learner:
    return new_learner("er", build_mlp(4, 3, (5,), seed=0), tau=TAU)


def batch(n: int, seed: int) -> Samples:
    generator = torch.Generator().manual_seed(seed)
    return Samples(
        torch.randn(n, 4, generator=generator), torch.randint(3, (n,), generator=generator)
    )


def naive_loss(net: nn.Module, samples: Samples, weights: list[float]) -> Tensor:
    """One sample at a time: ``Σ w_i · −log p_i(y_i) / n``."""
    total = torch.zeros(())
    for x, y, weight in zip(samples.x, samples.y, weights, strict=True):
        total = total - weight * torch.log(torch.softmax(net(x[None])[0], dim=0)[y])
    return total / len(samples)


@pytest.mark.parametrize("weights", [None, [0.0, 0.25, 1.0, 0.5, 1.0, 0.0]])
@pytest.mark.parametrize("replayed", [0, 9])
def test_loss_and_gradient_are_those_of_the_formula(
    learner: Learner, weights: list[float] | None, replayed: int
) -> None:
    current = batch(6, seed=1)
    memory = batch(replayed, seed=2) if replayed else None
    loss = learner.loss(
        batch_of(current, None if weights is None else torch.tensor(weights), memory)
    )
    expected = naive_loss(learner.net, current, weights or [1.0] * 6)
    if memory is not None:
        expected = expected + TAU * naive_loss(learner.net, memory, [1.0] * replayed)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(learner.net, loss), gradient(learner.net, expected))


@pytest.mark.parametrize("weight", [None, torch.zeros(0)])
def test_an_empty_current_batch_trains_on_memory_alone(
    learner: Learner, weight: Tensor | None
) -> None:
    memory = batch(9, seed=2)
    empty = memory.take(torch.zeros(0, dtype=torch.int64))
    loss = learner.loss(batch_of(empty, weight, memory))
    expected = TAU * naive_loss(learner.net, memory, [1.0] * 9)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(learner.net, loss), gradient(learner.net, expected))


def test_a_step_is_one_of_sgd_with_momentum(learner: Learner) -> None:
    net = build_mlp(4, 3, (5,), seed=0)
    current, memory, weights = batch(6, seed=1), batch(9, seed=2), [0.5] * 6
    velocity = torch.zeros(())
    for _ in range(3):
        loss = naive_loss(net, current, weights) + TAU * naive_loss(net, memory, [1.0] * 9)
        velocity = 0.9 * velocity + gradient(net, loss)
        flat = nn.utils.parameters_to_vector(net.parameters()).detach()
        nn.utils.vector_to_parameters(flat - 0.1 * velocity, net.parameters())
        learner.step(batch_of(current, torch.tensor(weights), memory))
    torch.testing.assert_close(
        nn.utils.parameters_to_vector(learner.net.parameters()),
        nn.utils.parameters_to_vector(net.parameters()),
    )
