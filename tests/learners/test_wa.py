from __future__ import annotations

import pytest
import torch
from torch import Tensor

from faircil.learners.new_class_bias import WeightAligning
from learning import batch_of, buffer_of, new_learner, of_classes

OLD, NEW, UNSEEN = [0, 2], [1, 4], [3]


def two_tasks(**settings: object) -> WeightAligning:
    """Make a learner in its second task, with rows of any length in its last layer."""
    learner = new_learner("wa", **settings)
    assert isinstance(learner, WeightAligning)
    learner.begin_task(of_classes(16, OLD, 1), buffer_of(None))
    learner.end_task(buffer_of(None))
    learner.begin_task(of_classes(16, NEW, 2), buffer_of(of_classes(16, OLD, 1)))
    assert learner.head is not None
    with torch.no_grad():
        learner.head.weight *= torch.tensor([[1.0], [9.0], [2.0], [100.0], [3.0]])
        learner.head.bias += 1
    return learner


def head_of(learner: WeightAligning) -> tuple[Tensor, Tensor]:
    assert learner.head is not None
    return learner.head.weight.detach().clone(), learner.head.bias.detach().clone()


def gamma_of(weight: Tensor) -> float:
    lengths = [float(row.square().sum()) ** 0.5 for row in weight]
    return sum(lengths[k] for k in OLD) / sum(lengths[k] for k in NEW)


@pytest.mark.parametrize("align_bias", [False, True])
def test_new_rows_become_as_long_as_old_ones(align_bias: bool) -> None:
    learner = two_tasks(align_bias=align_bias)
    before, bias_before = head_of(learner)
    learner.end_task(buffer_of(None))
    after, bias_after = head_of(learner)
    gamma = gamma_of(before)
    assert gamma < 0.7
    torch.testing.assert_close(after[NEW], gamma * before[NEW])
    assert torch.equal(after[OLD + UNSEEN], before[OLD + UNSEEN])
    assert gamma_of(after) == pytest.approx(1)
    torch.testing.assert_close(bias_after[NEW], bias_before[NEW] * (gamma if align_bias else 1))
    assert torch.equal(bias_after[OLD + UNSEEN], bias_before[OLD + UNSEEN])


def test_the_first_task_is_not_aligned() -> None:
    learner = new_learner("wa")
    assert isinstance(learner, WeightAligning)
    learner.begin_task(of_classes(16, OLD, 1), buffer_of(None))
    before, _ = head_of(learner)
    learner.end_task(buffer_of(of_classes(16, OLD, 1)))
    assert torch.equal(head_of(learner)[0], before)


def test_alignment_can_be_put_off_until_after_the_evaluation() -> None:
    learner = two_tasks(evaluate_before_alignment=True)
    before, _ = head_of(learner)
    learner.end_task(buffer_of(None))
    assert torch.equal(head_of(learner)[0], before)
    third, memory = of_classes(16, UNSEEN, 3), of_classes(16, OLD + NEW, 4)
    learner.begin_task(third, buffer_of(memory))
    torch.testing.assert_close(head_of(learner)[0][NEW], gamma_of(before) * before[NEW])
    assert learner.targets is not None
    # The teacher is the aligned net.
    expected = torch.softmax(learner.net(third.x)[:, OLD + NEW] / 2, dim=1)
    torch.testing.assert_close(learner.targets.current, expected)


def test_weights_of_the_last_layer_are_clipped_after_each_step() -> None:
    free, clipped = two_tasks(clip_nonneg=False), two_tasks()
    for learner in (free, clipped):
        learner.step(batch_of(of_classes(16, NEW, 2), None, of_classes(16, OLD, 1)))
    assert (head_of(free)[0] < 0).any()
    torch.testing.assert_close(head_of(clipped)[0], head_of(free)[0].clamp(min=0))
    assert torch.equal(head_of(clipped)[1], head_of(free)[1])
    first = next(clipped.net.parameters())
    assert (first < 0).any()
