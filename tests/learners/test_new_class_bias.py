from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from faircil.learners.new_class_bias import (
    LEAST_DECAY,
    BiasCorrection,
    WeightAligning,
    fit_correction,
)
from faircil.samples import Samples, concatenate
from learning import batch_of, buffer_of, new_learner, of_classes

NEW = torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0])


def biased_logits(n: int, noise: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits that find the class but for noise, and favour the new ones."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(5, (n,), generator=generator)
    logits = noise * torch.randn(n, 5, generator=generator)
    logits[torch.arange(n), y] += 3
    return logits + NEW * (0.5 * logits + 2), y


def objective(logits: Tensor, y: Tensor, fit: Tensor, decay: float) -> Tensor:
    """Correct one logit at a time."""
    columns = [
        fit[0] * logits[:, k] + fit[1] if NEW[k] else logits[:, k] for k in range(logits.shape[1])
    ]
    pull = LEAST_DECAY * (fit[0] - 1) ** 2 + (LEAST_DECAY + decay) * fit[1] ** 2
    return cross_entropy(torch.stack(columns, dim=1), y) + pull / 2


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.5, 6.0])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_the_fit_is_the_minimum(noise: float, decay: float) -> None:
    logits, y = biased_logits(200, noise)
    fit = fit_correction(logits, y, NEW, decay).requires_grad_()
    least = objective(logits.double(), y, fit, decay)
    (slope,) = torch.autograd.grad(least, fit)
    assert slope.norm() < 1e-5
    descent = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([descent], lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        loss = objective(logits.double(), y, descent, decay)
        loss.backward()
        optimizer.step()
    assert least <= loss + 1e-9


def test_a_known_bias_is_found() -> None:
    generator = torch.Generator().manual_seed(0)
    right = 2 * torch.randn(20_000, 5, generator=generator)
    y = torch.multinomial(right.softmax(dim=1), 1, generator=generator)[:, 0]
    biased = right + NEW * (0.5 * right + 2)  # o ↦ 1.5 o + 2
    scale, offset = fit_correction(biased, y, NEW).tolist()
    assert scale == pytest.approx(1 / 1.5, abs=0.03)
    assert offset == pytest.approx(-2 / 1.5, abs=0.06)


def test_a_buffer_without_new_samples_has_a_finite_fit() -> None:
    logits, y = biased_logits(50, 1.0)
    old = NEW[y] == 0
    assert torch.isfinite(fit_correction(logits[old], y[old], NEW)).all()


def corrected(**settings: object) -> tuple[BiasCorrection, Samples]:
    """Make a learner at the end of its second task, and its buffer."""
    learner = new_learner("bic", **settings)
    assert isinstance(learner, BiasCorrection)
    first, second = of_classes(40, [0, 2, 3], seed=1), of_classes(40, [1, 4], seed=2)
    learner.begin_task(first, buffer_of(None))
    learner.end_task(buffer_of(first))
    assert learner.correction is None
    learner.begin_task(second, buffer_of(first))
    memory = concatenate([first, second])
    learner.end_task(buffer_of(memory))
    return learner, memory


def test_only_the_latest_classes_are_corrected_by_the_fit() -> None:
    learner, memory = corrected(offset_decay=0.3)
    logits = learner.net(memory.x).detach()
    scale, offset = fit_correction(logits, memory.y, NEW, 0.3).float()
    scores = learner.scores(memory.x)
    new = NEW.bool()
    torch.testing.assert_close(scores[:, ~new], logits[:, ~new])
    torch.testing.assert_close(scores[:, new], scale * logits[:, new] + offset)
    assert not torch.allclose(scores[:, new], logits[:, new], atol=0.01)
    assert cross_entropy(scores, memory.y) < cross_entropy(logits, memory.y)


def test_the_offset_is_held_back_unless_told_otherwise() -> None:
    offsets = []
    for settings in ({}, {"offset_decay": 0.1}, {"offset_decay": 0.0}):
        learner, _ = corrected(**settings)
        assert learner.correction is not None
        offsets.append(learner.correction[1].abs().max().item())
    by_default, held, free = offsets
    assert by_default == held
    assert held < 0.7 * free


def test_the_corrected_net_teaches_and_the_next_task_starts_without_correction() -> None:
    learner, memory = corrected()
    third = of_classes(10, [1], seed=3)
    taught = torch.softmax(learner.scores(third.x)[:, [0, 2, 3, 1, 4]] / 2, dim=1)
    learner.begin_task(third, buffer_of(memory))
    assert learner.targets is not None
    torch.testing.assert_close(learner.targets.current, taught)
    torch.testing.assert_close(learner.scores(third.x), learner.net(third.x).detach())


def test_a_task_without_new_classes_needs_no_correction() -> None:
    learner, memory = corrected()
    learner.begin_task(of_classes(10, [1], seed=3), buffer_of(memory))
    learner.end_task(buffer_of(memory))
    assert learner.correction is None


OLD_CLASSES, NEW_CLASSES, UNSEEN_CLASSES = [0, 2], [1, 4], [3]


def two_tasks(**settings: object) -> WeightAligning:
    """Make a learner in its second task, with rows of any length in its last layer."""
    learner = new_learner("wa", **settings)
    assert isinstance(learner, WeightAligning)
    learner.begin_task(of_classes(16, OLD_CLASSES, 1), buffer_of(None))
    learner.end_task(buffer_of(None))
    learner.begin_task(of_classes(16, NEW_CLASSES, 2), buffer_of(of_classes(16, OLD_CLASSES, 1)))
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
    return sum(lengths[k] for k in OLD_CLASSES) / sum(lengths[k] for k in NEW_CLASSES)


@pytest.mark.parametrize("align_bias", [False, True])
def test_new_rows_become_as_long_as_old_ones(align_bias: bool) -> None:
    learner = two_tasks(align_bias=align_bias)
    before, bias_before = head_of(learner)
    learner.end_task(buffer_of(None))
    after, bias_after = head_of(learner)
    gamma = gamma_of(before)
    assert gamma < 0.7
    torch.testing.assert_close(after[NEW_CLASSES], gamma * before[NEW_CLASSES])
    assert torch.equal(after[OLD_CLASSES + UNSEEN_CLASSES], before[OLD_CLASSES + UNSEEN_CLASSES])
    assert gamma_of(after) == pytest.approx(1)
    torch.testing.assert_close(
        bias_after[NEW_CLASSES], bias_before[NEW_CLASSES] * (gamma if align_bias else 1)
    )
    assert torch.equal(
        bias_after[OLD_CLASSES + UNSEEN_CLASSES], bias_before[OLD_CLASSES + UNSEEN_CLASSES]
    )


def test_the_first_task_is_not_aligned() -> None:
    learner = new_learner("wa")
    assert isinstance(learner, WeightAligning)
    learner.begin_task(of_classes(16, OLD_CLASSES, 1), buffer_of(None))
    before, _ = head_of(learner)
    learner.end_task(buffer_of(of_classes(16, OLD_CLASSES, 1)))
    assert torch.equal(head_of(learner)[0], before)


def test_alignment_can_be_put_off_until_after_the_evaluation() -> None:
    learner = two_tasks(evaluate_before_alignment=True)
    before, _ = head_of(learner)
    learner.end_task(buffer_of(None))
    assert torch.equal(head_of(learner)[0], before)
    third, memory = of_classes(16, UNSEEN_CLASSES, 3), of_classes(16, OLD_CLASSES + NEW_CLASSES, 4)
    learner.begin_task(third, buffer_of(memory))
    torch.testing.assert_close(
        head_of(learner)[0][NEW_CLASSES], gamma_of(before) * before[NEW_CLASSES]
    )
    assert learner.targets is not None
    # The teacher is the aligned net.
    expected = torch.softmax(learner.net(third.x)[:, OLD_CLASSES + NEW_CLASSES] / 2, dim=1)
    torch.testing.assert_close(learner.targets.current, expected)


def test_weights_of_the_last_layer_are_clipped_after_each_step() -> None:
    free, clipped = two_tasks(clip_nonneg=False), two_tasks()
    for learner in (free, clipped):
        learner.step(batch_of(of_classes(16, NEW_CLASSES, 2), None, of_classes(16, OLD_CLASSES, 1)))
    assert (head_of(free)[0] < 0).any()
    torch.testing.assert_close(head_of(clipped)[0], head_of(free)[0].clamp(min=0))
    assert torch.equal(head_of(clipped)[1], head_of(free)[1])
    first = next(clipped.net.parameters())
    assert (first < 0).any()
