from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from faircil.runs.experiment import run
from learning import batch_of, new_learner
from small_runs import small_config, small_stream


def test_memory_plays_no_part() -> None:
    learner = new_learner("finetune")
    first, second, _ = (task.train for task in small_stream(attribute=False).tasks)
    expected = cross_entropy(learner.net(first.x), first.y)
    torch.testing.assert_close(learner.loss(batch_of(first)), expected)
    assert torch.equal(learner.loss(batch_of(first, None, second)), learner.loss(batch_of(first)))
    weights = torch.linspace(0, 1, len(first))
    losses = cross_entropy(learner.net(first.x), first.y, reduction="none")
    torch.testing.assert_close(learner.loss(batch_of(first, weights)), (weights * losses).mean())


def test_it_forgets() -> None:
    result = run(small_config("finetune", epochs=15), 0, stream=small_stream(attribute=False))
    assert result.per_task[0].per_test_task[0] > 0.9
    assert result.per_task[-1].per_test_task[0] < 0.3
    assert [epoch.trained for epoch in result.epochs] == [epoch.samples for epoch in result.epochs]
