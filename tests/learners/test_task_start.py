from __future__ import annotations

import pytest
import torch

from faircil.learners.replay import SelectsAtTaskStart
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.samples import Samples
from learning import buffer_of, new_learner
from small_runs import small_config, small_stream


def kept_by(method: str, seed: int) -> Samples:
    states: list[RunState] = []
    stream = small_stream(attribute=True)
    run(small_config(method, attribute=True), seed, stream=stream, checkpoint=states.append)
    assert states[-1].buffer.samples is not None
    return states[-1].buffer.samples


@pytest.mark.parametrize("method", ["er-ace", "gdumb"])
def test_what_is_drawn_ahead_is_what_replay_draws_later(method: str) -> None:
    assert torch.equal(kept_by(method, 0).x, kept_by("er", 0).x)
    assert not torch.equal(kept_by(method, 0).x, kept_by("er", 1).x)


@pytest.mark.parametrize("first", [True, False])
def test_a_part_of_the_task_is_memory_from_its_start(first: bool) -> None:
    one, two, _ = (task.train for task in small_stream(attribute=True).tasks)
    old = None if first else one.take(slice(0, None, 8))
    learner = new_learner("er-ace")
    assert isinstance(learner, SelectsAtTaskStart)
    buffer = buffer_of(old, quota=5)
    material = learner.begin_task(two, buffer)
    assert material.current is two
    assert material.memory is not None
    before = 0 if old is None else len(old)
    assert old is None or torch.equal(material.memory.x[:before], old.x)
    drawn = material.memory.x[before:].tolist()
    assert len(drawn) == 5  # one class, one of its two attribute values is absent
    assert all(row in two.x.tolist() for row in drawn)
    assert learner.remember(two, torch.zeros(len(two)), buffer).samples is material.memory
