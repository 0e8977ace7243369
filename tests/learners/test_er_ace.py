from __future__ import annotations

import pytest
import torch
from torch import Tensor

from faircil.learners import Learner
from faircil.learners.adjusted_logits import AsymmetricReplay
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.samples import Samples
from learning import batch_of, buffer_of, gradient, new_learner, of_classes, parameters
from small_runs import small_config, small_stream

TAU = 3.0
OLD, NEW = (0, 3), (1, 2)  # class 4 is not yet seen


@pytest.fixture
def learner() -> Learner:
    """In its second task, with classes 0 and 3 behind it."""
    learner = new_learner("er-ace", tau=TAU)
    learner.begin_task(of_classes(20, OLD), buffer_of(None))
    learner.begin_task(of_classes(20, NEW), buffer_of(of_classes(8, OLD)))
    return learner


def naive_loss(
    learner: Learner, current: Samples, weights: list[float], memory: Samples | None
) -> Tensor:
    """One sample at a time, with a softmax over the classes that count."""
    present = set(current.y.tolist())
    counting = [label for label in range(5) if label not in OLD or label in present]
    total = torch.zeros(())
    for x, y, weight in zip(current.x, current.y.tolist(), weights, strict=True):
        share = torch.softmax(learner.net(x[None])[0, counting], dim=0)[counting.index(y)]
        total = total - weight * torch.log(share) / len(current)
    if memory is not None:
        for x, y in zip(memory.x, memory.y, strict=True):
            share = torch.softmax(learner.net(x[None])[0], dim=0)[y]
            total = total - TAU * torch.log(share) / len(memory)
    return total


@pytest.mark.parametrize("weights", [None, [0.0, 0.25, 1.0, 0.5]])
@pytest.mark.parametrize("classes", [NEW, (2,), (1, 3)], ids=str)  # 3 comes back
@pytest.mark.parametrize("n", [4, 0])
@pytest.mark.parametrize("replayed", [7, 0])
def test_loss_and_gradient_are_those_of_the_formula(
    learner: Learner, weights: list[float] | None, classes: tuple[int, ...], n: int, replayed: int
) -> None:
    if n + replayed == 0:
        pytest.skip("no batch is empty")
    current = of_classes(n, classes, seed=1)
    memory = of_classes(replayed, (0, 1, 2, 3), seed=2) if replayed else None
    weight = None if weights is None else torch.tensor(weights[:n])
    loss = learner.loss(batch_of(current, weight, memory))
    expected = naive_loss(learner, current, (weights or [1.0] * 4)[:n], memory)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(learner.net, loss), gradient(learner.net, expected))


def test_current_samples_leave_the_logits_of_old_classes_alone(learner: Learner) -> None:
    learner.loss(batch_of(of_classes(6, NEW))).backward()
    bias = learner.net.head.bias.grad
    assert bias is not None
    assert bias[list(OLD)].tolist() == [0, 0]
    assert (bias[[1, 2, 4]] != 0).all()


def test_in_the_first_task_all_classes_count() -> None:
    learner, plain = new_learner("er-ace"), new_learner("er")
    current, memory = of_classes(6, OLD), of_classes(5, OLD, seed=2)
    learner.begin_task(current, buffer_of(None))
    batch = batch_of(current, None, memory)
    torch.testing.assert_close(learner.loss(batch), plain.loss(batch))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_recorded_steps_are_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    nets = []
    for graphable in (True, False):
        monkeypatch.setattr(AsymmetricReplay, "graphable", graphable)
        states: list[RunState] = []
        config, stream = small_config("er-ace", attribute=True), small_stream(attribute=True)
        run(config, 0, stream=stream, device="cuda", checkpoint=states.append)
        nets.append(parameters(states[-1].learner.net))
    assert torch.equal(*nets)
