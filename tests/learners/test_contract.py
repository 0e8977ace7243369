"""What every learner promises, with every weighting that it allows."""

from __future__ import annotations

from copy import deepcopy
from itertools import chain

import pytest
import torch
from small_runs import ABSENT, FEW, PER_GROUP, TASKS, small_config, small_stream
from torch import nn

from faircil.config import RunConfig
from faircil.experiment import run
from faircil.learners import LEARNERS, Learner, LearnerSettings
from faircil.nets import build_mlp
from faircil.samples import Samples, group_counts
from faircil.state import RunState
from faircil.weighting.training import WEIGHTINGS

Case = tuple[str, str, bool]
CASES: list[Case] = [
    (method, weighting, attribute)
    for method, learner in LEARNERS.items()
    for weighting in WEIGHTINGS
    if weighting == "none" or learner.no_weighting is None
    for attribute in (False, True)
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
every_learner = pytest.mark.parametrize("method", LEARNERS)


def config_of(case: Case, **settings: object) -> RunConfig:
    method, weighting, attribute = case
    return small_config(method, weighting, attribute=attribute, **settings)


def parameters(state: RunState) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in state.learner.net.parameters()])


def new_learner(method: str, net: nn.Module | None = None) -> Learner:
    net = build_mlp(6, 5, (8,), seed=0) if net is None else net
    return LEARNERS[method](net, LearnerSettings(lr=0.1, momentum=0.9, tau=0.5))


def memory_for(learner: Learner, samples: Samples) -> Samples | None:
    return samples if learner.replays else None


@every_case
def test_the_same_seed_gives_the_same_run(case: Case, states: list[RunState]) -> None:
    stream = small_stream(attribute=case[2])
    first, again, other = (run(config_of(case), seed, stream=stream) for seed in (0, 0, 1))
    assert first.per_task == again.per_task
    assert torch.equal(parameters(states[0]), parameters(states[1]))
    assert not torch.equal(parameters(states[0]), parameters(states[2]))
    assert other.seed == 1


@every_case
def test_the_data_is_left_as_it_was(case: Case) -> None:
    stream = small_stream(attribute=case[2])
    before = deepcopy(stream)
    run(config_of(case), 0, stream=stream)
    for mine, kept in zip(stream.tasks, before.tasks, strict=True):
        for now, then in ((mine.train, kept.train), (mine.test, kept.test)):
            assert torch.equal(now.x, then.x)
            assert torch.equal(now.keys(), then.keys())


@every_case
def test_the_buffer_keeps_its_quota_of_every_group(case: Case, states: list[RunState]) -> None:
    run(config_of(case), 0, stream=small_stream(attribute=case[2]))
    kept = states[0].buffer.samples
    if not LEARNERS[case[0]].replays:
        assert kept is None
        return
    assert kept is not None
    counts = group_counts(kept)
    if case[2]:
        assert counts.pop((4, 1)) == FEW
        assert ABSENT not in counts
    assert set(counts.values()) == {6}


@every_case
def test_it_predicts_every_seen_class_after_each_task(case: Case) -> None:
    result = run(config_of(case), 0, stream=small_stream(attribute=case[2]))
    assert len(result.predictions) == len(TASKS)
    for number, predictions in enumerate(result.predictions, start=1):
        seen = set(chain.from_iterable(TASKS[:number]))
        assert set(predictions.y_true.tolist()) == seen
        assert len(predictions.y_pred) == 2 * PER_GROUP * len(seen)
        assert set(predictions.y_pred.tolist()) <= set(range(5))
    assert result.per_task[0].accuracy > 0.6


@every_case
def test_a_buffer_larger_than_the_data_keeps_all_of_it(case: Case, states: list[RunState]) -> None:
    stream = small_stream(attribute=case[2])
    run(config_of(case, buffer_size=1000), 0, stream=stream)
    assert torch.isfinite(parameters(states[0])).all()
    if LEARNERS[case[0]].replays:
        assert states[0].buffer.samples is not None
        rows = sorted(states[0].buffer.samples.x.tolist())
        assert rows == sorted(chain.from_iterable(task.train.x.tolist() for task in stream.tasks))


@every_learner
@pytest.mark.parametrize("weighted", [False, True])
def test_a_step_is_one_forward_and_one_backward_pass(method: str, weighted: bool) -> None:
    learner = new_learner(method)
    train = small_stream(attribute=False).tasks[0].train
    learner.begin_task(train)
    passes = []
    learner.net.register_forward_hook(lambda *_: passes.append("forward"))
    weights = next(learner.net.parameters())
    weights.register_post_accumulate_grad_hook(lambda _: passes.append("backward"))
    before = deepcopy(learner.net.state_dict())
    weight = torch.rand(16) if weighted else None
    learner.step(train.take(slice(16)), weight, memory_for(learner, train.take(slice(16, 24))))
    assert passes == ["forward", "backward"]
    assert all(not torch.equal(before[name], now) for name, now in learner.net.state_dict().items())


@every_learner
def test_a_step_leaves_its_batches_as_they_were(method: str) -> None:
    learner = new_learner(method)
    train = small_stream(attribute=True).tasks[0].train
    current, memory, weight = train.take(slice(16)), train.take(slice(16, 24)), torch.rand(16)
    before = deepcopy((current, memory, weight))
    learner.begin_task(train)
    learner.step(current, weight, memory_for(learner, memory))
    learner.predict(current.x)
    assert torch.equal(weight, before[2])
    for now, then in ((current, before[0]), (memory, before[1])):
        assert torch.equal(now.x, then.x)
        assert torch.equal(now.keys(), then.keys())


@every_learner
def test_every_task_gets_a_new_optimizer(method: str) -> None:
    learner = new_learner(method)
    train = small_stream(attribute=False).tasks[0].train
    learner.begin_task(train)
    first = learner.optimizer
    learner.step(train, None, memory_for(learner, train))
    assert first.state
    learner.end_task()
    learner.begin_task(train)
    assert learner.optimizer is not first
    assert not learner.optimizer.state
    assert learner.optimizer.defaults["lr"] == 0.1
    assert learner.optimizer.defaults["momentum"] == 0.9


@every_learner
def test_dropout_is_on_in_a_step_and_off_in_prediction(method: str) -> None:
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 5))
    learner = new_learner(method, net)
    train = small_stream(attribute=False).tasks[0].train
    assert torch.equal(learner.predict(train.x), learner.predict(train.x))
    modes = []
    net.register_forward_hook(lambda *_: modes.append(net.training))
    learner.step(train, None, memory_for(learner, train))
    assert modes == [True]


@every_learner
def test_long_inputs_are_predicted_in_parts_with_the_same_result(method: str) -> None:
    learner = new_learner(method)
    x = torch.randn(10_000, 6, generator=torch.Generator().manual_seed(0))
    predicted = learner.predict(x)
    assert predicted.shape == (10_000,)
    with torch.no_grad():
        logits = learner.net(x[5000:5100])
    assert torch.equal(predicted[5000:5100], logits.argmax(dim=1))
    assert not predicted.requires_grad
    assert learner.predict(x[:0]).tolist() == []


@every_learner
def test_every_learner_says_what_it_is(method: str) -> None:
    assert LEARNERS[method].summary
