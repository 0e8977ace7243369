"""What every learner promises, with every weighting that it allows."""

from __future__ import annotations

import io
from copy import deepcopy
from functools import cache
from itertools import chain

import pytest
import torch
from torch import nn

from faircil.buffer import ReplayBuffer
from faircil.learners import LEARNERS, Learner
from faircil.results.record import RunResult
from faircil.runs.config import RunConfig
from faircil.runs.experiment import run
from faircil.runs.state import RunState, load_state, save_state
from faircil.samples import Samples, group_counts
from faircil.weighting.selection import WEIGHTINGS
from learning import batch_of, buffer_of, new_learner, parameters
from small_runs import ABSENT, PER_GROUP, TASKS, small_config, small_stream

Case = tuple[str, str, bool]  # method, weighting, whether there is an attribute
CASES: list[Case] = [
    (method, weighting, attribute)
    for method, learner in LEARNERS.items()
    for weighting in WEIGHTINGS
    if weighting == "none" or learner.no_weighting is None
    for attribute in (False, True)
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
every_learner = pytest.mark.parametrize("method", LEARNERS)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
QUOTA = 6
Moment = tuple[int, int]  # task and epoch
MOMENTS: tuple[Moment, ...] = ((1, 1), (2, 1), (3, 2))
# Methods whose step passes more than once through the net, or through other nets as well.
MORE_PASSES: set[str] = {"agem", "gss", "ocs"}
# Methods that do not predict by the largest logit of the net.
OTHER_SCORES: set[str] = {"icarl", "logit-adjustment"}

# Methods that take few steps in an epoch of the small stream.
MORE_EPOCHS: dict[str, int] = {"gdumb": 16}


def config_of(case: Case, **settings: object) -> RunConfig:
    method, weighting, attribute = case
    values = {"epochs": MORE_EPOCHS.get(method, 2), **settings}
    return small_config(method, weighting, attribute=attribute, **values)


def run_and_keep(case: Case, seed: int = 0, **settings: object) -> tuple[RunResult, RunState]:
    """Run a case; return the result, and the state as it was in the end."""
    states: list[RunState] = []
    stream = small_stream(attribute=case[2])
    result = run(config_of(case, **settings), seed, stream=stream, checkpoint=states.append)
    return result, states[-1]


@cache
def finished_and_saved(case: Case) -> tuple[RunResult, RunState, dict[Moment, bytes]]:
    """Run a case and save its state at some moments; return the end, and what was saved."""
    states, saved = list[RunState](), dict[Moment, bytes]()

    def save(state: RunState) -> None:
        states.append(state)
        moment = state.epochs[-1].task, state.epochs[-1].epoch
        if moment in MOMENTS:
            file = io.BytesIO()
            save_state(state, file)
            saved[moment] = file.getvalue()

    result = run(config_of(case), 0, stream=small_stream(attribute=case[2]), checkpoint=save)
    return result, states[-1], saved


def finished(case: Case) -> tuple[RunResult, RunState]:
    return finished_and_saved(case)[:2]


def begun(learner: Learner, current: Samples, memory: Samples) -> Samples | None:
    """Begin a task; return what it replays."""
    buffer = ReplayBuffer(QUOTA) if not learner.replays else buffer_of(memory, QUOTA)
    return learner.begin_task(current, buffer).memory


@every_case
def test_the_same_seed_gives_the_same_run(case: Case) -> None:
    (first, one), (again, two), (other, three) = (
        finished(case), run_and_keep(case), run_and_keep(case, seed=1)
    )  # fmt: skip
    assert first.per_task == again.per_task
    assert torch.equal(parameters(one.learner.net), parameters(two.learner.net))
    assert not torch.equal(parameters(one.learner.net), parameters(three.learner.net))
    assert other.seed == 1


@every_case
def test_the_data_is_left_as_it_was(case: Case) -> None:
    stream = small_stream(attribute=case[2])
    before = deepcopy(stream)
    run(config_of(case, epochs=1), 0, stream=stream)
    for mine, kept in zip(stream.tasks, before.tasks, strict=True):
        for now, then in ((mine.train, kept.train), (mine.test, kept.test)):
            assert torch.equal(now.x, then.x)
            assert torch.equal(now.keys(), then.keys())


@every_case
def test_the_buffer_keeps_its_quota_of_every_group(case: Case) -> None:
    kept = finished(case)[1].buffer.samples
    if not LEARNERS[case[0]].replays:
        assert kept is None
        return
    assert kept is not None
    stream = small_stream(attribute=case[2])
    there = {key: n for task in stream.tasks for key, n in group_counts(task.train).items()}
    assert group_counts(kept) == {key: min(QUOTA, n) for key, n in there.items()}
    assert ABSENT not in there
    rows = {tuple(row) for task in stream.tasks for row in task.train.x.tolist()}
    assert len({tuple(row) for row in kept.x.tolist()} & rows) == len(kept)


@every_case
def test_it_predicts_every_seen_class_after_each_task(case: Case) -> None:
    result = finished(case)[0]
    assert len(result.predictions) == len(TASKS)
    for number, predictions in enumerate(result.predictions, start=1):
        seen = set(chain.from_iterable(TASKS[:number]))
        assert set(predictions.y_true.tolist()) == seen
        assert len(predictions.y_pred) == 2 * PER_GROUP * len(seen)
        assert set(predictions.y_pred.tolist()) <= set(range(5))
    assert result.per_task[0].accuracy > 0.6


@every_case
def test_a_buffer_larger_than_the_data_keeps_all_of_it(case: Case) -> None:
    _, state = run_and_keep(case, buffer_size=1000)
    assert torch.isfinite(parameters(state.learner.net)).all()
    if LEARNERS[case[0]].replays:
        tasks = small_stream(attribute=case[2]).tasks
        assert state.buffer.samples is not None
        rows = sorted(state.buffer.samples.x.tolist())
        assert rows == sorted(chain.from_iterable(task.train.x.tolist() for task in tasks))


@every_case
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_goes_on_from_a_saved_state(case: Case, moment: Moment) -> None:
    whole, end, saved = finished_and_saved(case)
    state = load_state(io.BytesIO(saved[moment]))
    rest = run(config_of(case), 0, stream=small_stream(attribute=case[2]), state=state)
    assert rest.per_task == whole.per_task
    assert torch.equal(parameters(state.learner.net), parameters(end.learner.net))
    assert len(rest.epochs) == len(whole.epochs)
    assert rest.seconds.total >= rest.seconds.train


@needs_gpu
@every_case
def test_it_runs_on_a_gpu(case: Case) -> None:
    stream = small_stream(attribute=case[2])
    result = run(config_of(case), 0, stream=stream, device="cuda")
    assert abs(result.per_task[0].accuracy - finished(case)[0].per_task[0].accuracy) < 0.15


@every_learner
@pytest.mark.parametrize("weighted", [False, True])
def test_a_step_is_one_forward_and_one_backward_pass(method: str, weighted: bool) -> None:
    if method in MORE_PASSES or (weighted and LEARNERS[method].no_weighting):
        pytest.skip("by design")
    learner = new_learner(method)
    first, second, _ = (task.train for task in small_stream(attribute=True).tasks)
    memory = begun(learner, second, first.take(slice(0, None, 8)))
    passes = []
    learner.net.register_forward_hook(lambda *_: passes.append("forward"))
    weights = next(learner.net.parameters())
    weights.register_post_accumulate_grad_hook(lambda _: passes.append("backward"))
    before = parameters(learner.net)
    learner.step(batch_of(second.take(slice(16)), torch.rand(16) if weighted else None, memory))
    assert passes == ["forward", "backward"]
    assert not torch.equal(parameters(learner.net), before)


@every_learner
def test_a_step_leaves_its_batches_as_they_were(method: str) -> None:
    learner = new_learner(method)
    first, second, _ = (task.train for task in small_stream(attribute=True).tasks)
    memory = begun(learner, second, first.take(slice(0, None, 8)))
    weight = None if LEARNERS[method].no_weighting else torch.rand(16)
    batch = batch_of(second.take(slice(16)), weight, memory)
    before = deepcopy(batch)
    learner.begin_epoch(1, 2)
    learner.step(batch)
    learner.predict(batch.current.x)
    assert torch.equal(batch.x, before.x)
    assert torch.equal(batch.y, before.y)
    assert torch.equal(batch.current.keys(), before.current.keys())
    if weight is not None and before.weight is not None:
        assert torch.equal(weight, before.weight)


@every_learner
def test_memory_alone_can_be_a_batch_where_samples_are_weighted(method: str) -> None:
    if LEARNERS[method].no_weighting:
        pytest.skip("its samples are not weighted, so none are dropped")
    learner = new_learner(method)
    first, second, _ = (task.train for task in small_stream(attribute=True).tasks)
    memory = begun(learner, second, first.take(slice(0, None, 8)))
    before = parameters(learner.net)
    learner.begin_epoch(1, 2)
    learner.step(batch_of(second.take(slice(0)), torch.ones(0), memory))
    assert torch.isfinite(parameters(learner.net)).all()
    assert not torch.equal(parameters(learner.net), before)


@every_learner
def test_every_task_gets_a_new_optimizer(method: str) -> None:
    learner = new_learner(method)
    first, second, _ = (task.train for task in small_stream(attribute=True).tasks)
    for current in (first, second):
        memory = begun(learner, current, first.take(slice(0, None, 8)))
        assert not learner.optimizer.state
        learner.begin_epoch(1, 2)
        learner.step(batch_of(current.take(slice(16)), None, memory))
        assert learner.optimizer.state
        learner.end_task(buffer_of(first.take(slice(0, None, 8))))


@every_learner
def test_dropout_is_on_in_a_step_and_off_in_prediction(method: str) -> None:
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5))
    learner = new_learner(method, net)
    first, second, _ = (task.train for task in small_stream(attribute=True).tasks)
    memory = begun(learner, second, first.take(slice(0, None, 8)))
    modes = []
    net[0].register_forward_hook(lambda *_: modes.append(net[0].training))
    learner.begin_epoch(1, 2)
    modes.clear()
    learner.step(batch_of(second.take(slice(16)), None, memory))
    assert True in modes
    learner.end_task(buffer_of(first.take(slice(0, None, 8))))
    assert torch.equal(learner.predict(second.x), learner.predict(second.x))


@every_learner
def test_long_inputs_are_predicted_in_parts_with_the_same_result(method: str) -> None:
    learner = new_learner(method)
    first = small_stream(attribute=True).tasks[0].train
    begun(learner, first, first)
    learner.end_task(buffer_of(first if learner.replays else None))
    x = torch.randn(10_000, 6, generator=torch.Generator().manual_seed(0))
    scores, predicted = learner.scores(x), learner.predict(x)
    assert scores.shape == (10_000, 5)
    assert predicted.shape == (10_000,)
    torch.testing.assert_close(scores[5000:5100], learner.scores(x[5000:5100]))
    assert torch.equal(predicted, scores.argmax(dim=1))
    if method not in OTHER_SCORES:
        with torch.no_grad():
            torch.testing.assert_close(scores[5000:5100], learner.net(x[5000:5100]))
    assert not scores.requires_grad
    assert learner.predict(x[:0]).tolist() == []


@every_learner
def test_every_learner_says_what_it_is(method: str) -> None:
    assert LEARNERS[method].summary
    assert LEARNERS[method].source
    for field in LEARNERS[method].options.model_fields.values():
        assert field.description
