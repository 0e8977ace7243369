from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from faircil.errors import DataError
from faircil.learners import Batch
from faircil.learners.derpp import DarkReplay
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.samples import Samples, concatenate
from learning import batch_of, buffer_of, gradient, moved, new_learner, random_samples
from small_runs import small_config, small_stream

TAU, DISTILL = 3.0, 0.7


def dark(**settings: object) -> DarkReplay:
    learner = new_learner("der++", tau=TAU, distill=DISTILL, **settings)
    assert isinstance(learner, DarkReplay)
    return learner


def targets_after_two_tasks(rule: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return the targets, and the logits of the whole buffer after either task."""
    learner = dark(logits=rule)
    first, second = random_samples(7, seed=1), random_samples(5, seed=2)
    both = concatenate([first, second])
    learner.begin_task(random_samples(20), buffer_of(first))
    early = learner.net(both.x).detach()
    moved(learner)
    late = learner.net(both.x).detach()
    learner.begin_task(random_samples(20, seed=3), buffer_of(both))
    assert learner.targets is not None
    return learner.targets, early, late


def test_targets_at_task_end_are_the_last_nets() -> None:
    targets, early, late = targets_after_two_tasks("task-end")
    torch.testing.assert_close(targets, late)
    assert not torch.allclose(early, late)


def test_stored_targets_are_those_of_the_task_of_the_sample() -> None:
    targets, early, late = targets_after_two_tasks("stored")
    torch.testing.assert_close(targets, torch.cat([early[:7], late[7:]]))


def naive_loss(
    learner: DarkReplay, current: Samples, weights: list[float], memory: Samples, targets: Tensor
) -> Tensor:
    """One sample and one class at a time."""
    total = torch.zeros(())
    for x, y, weight in zip(current.x, current.y, weights, strict=True):
        total = total + weight * cross_entropy(learner.net(x[None])[0], y) / len(current)
    for x, y, target in zip(memory.x, memory.y, targets, strict=True):
        logits = learner.net(x[None])[0]
        total = total + TAU * cross_entropy(logits, y) / len(memory)
        for now, then in zip(logits, target, strict=True):
            total = total + DISTILL * (now - then) ** 2 / (len(memory) * len(target))
    return total


@pytest.mark.parametrize("weights", [None, [0.0, 0.25, 1.0, 0.5]])
@pytest.mark.parametrize("n", [4, 0])
def test_loss_and_gradient_are_those_of_the_formula(weights: list[float] | None, n: int) -> None:
    learner = dark()
    current, kept = random_samples(4, seed=1).take(slice(n)), random_samples(9, seed=2)
    learner.begin_task(random_samples(30), buffer_of(kept))
    targets = learner.net(kept.x).detach()
    moved(learner)
    rows = torch.tensor([8, 0, 5])
    weight = None if weights is None else torch.tensor(weights[:n])
    batch = Batch(current, torch.arange(n), weight, kept.take(rows), rows)
    loss = learner.loss(batch)
    expected = naive_loss(
        learner, current, (weights or [1.0] * 4)[:n], kept.take(rows), targets[rows]
    )
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(learner.net, loss), gradient(learner.net, expected))


def test_the_first_task_is_that_of_plain_replay() -> None:
    current = random_samples(6)
    learner, plain = dark(), new_learner("er")
    for either in (learner, plain):
        either.begin_task(current, buffer_of(None))
    torch.testing.assert_close(learner.loss(batch_of(current)), plain.loss(batch_of(current)))


def test_without_distillation_it_is_plain_replay() -> None:
    stream = small_stream(attribute=True)
    plain = run(small_config("er", attribute=True), 0, stream=stream)
    without, with_ = (
        run(small_config("der++", attribute=True, distill=value), 0, stream=stream)
        for value in (0, 5)
    )
    assert [p.y_pred.tolist() for p in without.predictions] == [
        p.y_pred.tolist() for p in plain.predictions
    ]
    assert with_.per_task != plain.per_task


@pytest.mark.parametrize("rule", ["task-end", "stored"])
def test_targets_cover_the_buffer_of_a_whole_run(rule: str) -> None:
    sizes = []

    def note(state: RunState) -> None:
        assert isinstance(state.learner, DarkReplay)
        if state.buffer.samples is not None and state.learner.targets is not None:
            sizes.append((len(state.buffer.samples), len(state.learner.targets)))

    stream = small_stream(attribute=True)
    run(small_config("der++", attribute=True, logits=rule), 0, stream=stream, checkpoint=note)
    assert sizes == [(24, 24)] * 2 + [(30, 30)] * 2


def test_stored_logits_need_samples_that_stay() -> None:
    stream = small_stream(attribute=False)
    first = stream.tasks[0]
    back = replace(first, classes=(), renewed=first.classes)
    stream = replace(stream, tasks=(*stream.tasks, back))
    run(small_config("der++"), 0, stream=stream)
    with pytest.raises(DataError, match=r"classes came back .*; use `logits=task-end`"):
        run(small_config("der++", logits="stored"), 0, stream=stream)
