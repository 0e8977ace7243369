from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from faircil.learners.replay import project
from faircil.samples import Samples
from learning import batch_of, gradient, new_learner, parameters, random_samples


def losses(learner_net: torch.nn.Module, samples: Samples) -> Tensor:
    return cross_entropy(learner_net(samples.x), samples.y, reduction="none")


def test_a_gradient_that_does_no_harm_stays() -> None:
    g, r = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])], [torch.ones(2), torch.tensor([-0.5])]
    for part, expected in zip(project(g, r), g, strict=True):
        assert torch.equal(part, expected)
    for part, expected in zip(project(g, [0 * part for part in r]), g, strict=True):
        assert torch.equal(part, expected)


def test_a_gradient_that_does_harm_loses_its_part_along_the_reference() -> None:
    g, r = [torch.tensor([1.0, 2.0]), torch.tensor([-3.0])], [torch.ones(2), torch.tensor([2.0])]
    flat, reference = torch.cat(g), torch.cat(r)
    result = torch.cat(project(g, r))
    expected = flat - (flat @ reference) / (reference @ reference) * reference
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(result @ reference, torch.tensor(0.0))


@pytest.mark.parametrize("weight", [None, torch.tensor([0.0, 0.25, 1.0, 0.5, 1.0, 0.0])])
@pytest.mark.parametrize("harms", [False, True])
def test_a_step_goes_along_the_projected_gradient(weight: Tensor | None, harms: bool) -> None:
    learner = new_learner("agem")
    current = random_samples(6)
    # The same inputs with the same classes pull the same way, with other classes against it.
    memory = Samples(current.x, (current.y + harms) % 5)
    before, net = parameters(learner.net), learner.net
    weights = torch.ones(6) if weight is None else weight
    g = gradient(net, (weights * losses(net, current)).mean())
    r = gradient(net, losses(net, memory).mean())
    assert (g @ r < 0) == harms
    learner.step(batch_of(current, weight, memory))
    expected = g - min(g @ r, torch.tensor(0.0)) / (r @ r) * r
    torch.testing.assert_close(parameters(net), before - 0.1 * expected)


def test_without_memory_it_is_fine_tuning() -> None:
    learner, other, current = new_learner("agem"), new_learner("finetune"), random_samples(6)
    for one in (learner, other):
        one.step(batch_of(current))
    assert torch.equal(parameters(learner.net), parameters(other.net))


def test_without_current_samples_it_steps_on_memory() -> None:
    learner, memory = new_learner("agem"), random_samples(6)
    before = parameters(learner.net)
    expected = before - 0.1 * gradient(learner.net, losses(learner.net, memory).mean())
    learner.step(batch_of(memory.take(slice(0)), torch.ones(0), memory))
    torch.testing.assert_close(parameters(learner.net), expected)


def test_one_loss_is_differentiated_before_the_next_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a large net would keep the activations of both."""
    learner, calls = new_learner("agem"), list[str]()
    learner.net.register_forward_hook(lambda *_: calls.append("forward"))
    grad = torch.autograd.grad

    def differentiate(*arguments: Any, **options: Any) -> Any:
        calls.append("backward")
        return grad(*arguments, **options)

    monkeypatch.setattr(torch.autograd, "grad", differentiate)
    learner.step(batch_of(random_samples(6), memory=random_samples(6, seed=1)))
    assert calls == ["forward", "backward"] * 2
