from __future__ import annotations

from itertools import accumulate

import torch
from small_runs import small_config, small_stream

from faircil.experiment import run
from faircil.learners import LearnerSettings
from faircil.learners.joint import Joint
from faircil.nets import build_mlp


def test_every_task_adds_to_the_data() -> None:
    stream = small_stream(attribute=True)
    learner = Joint(build_mlp(6, 5, (8,), seed=0), LearnerSettings(lr=0.1))
    for number, task in enumerate(stream.tasks, start=1):
        samples = learner.begin_task(task.train)
        parts = [seen.train for seen in stream.tasks[:number]]
        assert torch.equal(samples.x, torch.cat([part.x for part in parts]))
        assert torch.equal(samples.keys(), torch.cat([part.keys() for part in parts]))


def test_a_run_trains_on_all_data_so_far() -> None:
    stream = small_stream(attribute=False)
    sizes = list(accumulate(len(task.train) for task in stream.tasks))
    result = run(small_config("joint", epochs=1), 0, stream=stream)
    assert [epoch.trained for epoch in result.epochs] == sizes


def test_it_does_not_forget() -> None:
    result = run(small_config("joint", epochs=15), 0, stream=small_stream(attribute=False))
    assert min(result.per_task[-1].per_test_task) > 0.75
