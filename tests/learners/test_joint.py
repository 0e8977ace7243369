from __future__ import annotations

from itertools import accumulate

import torch

from faircil.runs.experiment import run
from learning import buffer_of, new_learner
from small_runs import small_config, small_stream


def test_every_task_adds_to_the_data() -> None:
    stream = small_stream(attribute=True)
    learner = new_learner("joint")
    for number, task in enumerate(stream.tasks, start=1):
        material = learner.begin_task(task.train, buffer_of(None))
        samples = material.current
        assert material.memory is None
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
