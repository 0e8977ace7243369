from __future__ import annotations

import pytest
import torch
from torch import Tensor

from faircil.learners import Batch, Material
from faircil.learners.distillation import Distilling, teach
from learning import (
    batch_of,
    buffer_of,
    gradient,
    moved,
    new_learner,
    of_classes,
    parameters,
    random_samples,
)

TEMPERATURE = 3.0


def naive_loss(
    learner: Distilling, old: list[int], share: float, batch: Batch, teacher: Tensor
) -> Tensor:
    """One sample at a time; teacher: logits, (b + k, classes)."""
    weights = [1.0] * len(batch.current) if batch.weight is None else batch.weight.tolist()
    weights += [1.0] * (len(batch.x) - len(weights))
    total = torch.zeros(())
    for x, y, weight, said in zip(batch.x, batch.y, weights, teacher, strict=True):
        logits = learner.net(x[None])[0]
        total = total - (1 - share) * weight * torch.log(torch.softmax(logits, dim=0)[y])
        if old:
            target = torch.softmax(said[old] / TEMPERATURE, dim=0)
            mine = torch.softmax(logits[old] / TEMPERATURE, dim=0)
            total = total - share * sum(t * torch.log(p) for t, p in zip(target, mine, strict=True))
    return total / len(batch.x)


@pytest.mark.parametrize("method", ["wa", "bic"])
@pytest.mark.parametrize("current", [0, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_and_gradient_are_those_of_the_formula(
    method: str, current: int, weighted: bool
) -> None:
    learner = new_learner(method, temperature=TEMPERATURE)
    assert isinstance(learner, Distilling)
    first, second = of_classes(30, [3, 1, 0], seed=1), of_classes(20, [4], seed=2)
    memory = first.take(slice(9))
    learner.begin_task(first, buffer_of(None))
    learner.begin_task(second, buffer_of(memory))
    said = learner.net(torch.cat([second.x, memory.x])).detach()
    moved(learner)
    rows, memory_rows = torch.arange(19, 19 - current, -1), torch.tensor([8, 2, 5])
    weight = torch.rand(current, generator=torch.Generator().manual_seed(0)) if weighted else None
    batch = Batch(second.take(rows), rows, weight, memory.take(memory_rows), memory_rows)
    loss = learner.loss(batch)
    teacher = torch.cat([said[rows], said[20 + memory_rows]])
    expected = naive_loss(learner, [0, 1, 3], 3 / 4, batch, teacher)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(learner.net, loss), gradient(learner.net, expected))


@pytest.mark.parametrize("method", ["wa", "bic"])
def test_the_first_task_is_cross_entropy(method: str) -> None:
    learner = new_learner(method)
    assert isinstance(learner, Distilling)
    samples = random_samples(12)
    learner.begin_task(samples, buffer_of(None))
    batch = batch_of(samples, torch.linspace(0, 1, 12))
    expected = naive_loss(learner, [], 0.0, batch, torch.zeros(12, 5))
    torch.testing.assert_close(learner.loss(batch), expected)


def test_rows_find_what_the_old_net_said() -> None:
    learner = new_learner("er")
    material = Material(random_samples(40, seed=1), random_samples(12, seed=2))
    before = learner.net(torch.cat([material.current.x, material.memory.x])).detach()
    teacher = teach(learner, material)
    learner.begin_task(material.current, buffer_of(material.memory))
    learner.step(batch_of(material.current, None, material.memory))
    rows, old = torch.tensor([7, 0, 31]), torch.tensor([11, 3])
    batch = Batch(material.current.take(rows), rows, None, material.memory.take(old), old)
    torch.testing.assert_close(teacher.of(batch), torch.cat([before[rows], before[40 + old]]))
    assert not torch.allclose(learner.net(batch.x), teacher.of(batch))


def test_without_memory_there_are_current_rows_only() -> None:
    learner = new_learner("er")
    current = random_samples(9)
    assert teach(learner, Material(current)).of(batch_of(current)).shape == (9, 5)


def test_the_teacher_can_be_a_target() -> None:
    learner = new_learner("er")
    current = random_samples(9)
    teacher = teach(learner, Material(current))
    before = parameters(learner.net)
    loss = (learner.net(current.x) - 2 * teacher.of(batch_of(current))).square().mean()
    loss.backward()
    learner.optimizer.step()
    assert not torch.equal(parameters(learner.net), before)
