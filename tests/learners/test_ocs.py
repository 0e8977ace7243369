from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from faircil.compute import one_thread
from faircil.data.datasets import load_dataset
from faircil.learners import Batch
from faircil.learners.ocs import CANDIDATES, Ocs, OcsOptions, balanced
from faircil.nets import build_mlp
from faircil.runs.config import resolve
from faircil.runs.experiment import run
from faircil.runs.saved_states import load_state, save_state
from faircil.runs.state import RunState
from faircil.samples import Samples, group_counts
from learning import batch_of, buffer_of, gradient, new_learner, parameters, random_samples
from small_runs import TASKS, small_config, small_stream
from whole_gradients import unit_rows, whole_gradients

NETS = {
    "linear": lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5)),
    "other": lambda: nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 5)),
}
PICKS = {"pick": 4, "warm_up": 0, "affinity": 0.7, "tau": 3.0}


def begun(train: Samples, memory: Samples | None, net: str = "linear", **settings: object) -> Ocs:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        learner = new_learner("ocs", NETS[net](), **{**PICKS, **settings})
    assert isinstance(learner, Ocs)
    learner.begin_task(train, buffer_of(memory))
    return learner


def slow_typicality(net: nn.Module, samples: Samples) -> Tensor:
    own = whole_gradients(net, samples)
    unit = unit_rows(own)
    similarity = unit @ unit_rows(own.mean(0, keepdim=True)).squeeze(0)
    return similarity - torch.stack([(unit @ row).mean() for row in unit])


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("replayed", [0, 9])
def test_a_step_trains_on_the_samples_with_the_largest_scores(
    net: str, weighted: bool, replayed: int
) -> None:
    train = random_samples(12)
    memory = random_samples(replayed, seed=1) if replayed else None
    learner = begun(train, memory, net)
    before = parameters(learner.net)
    weight = torch.linspace(0.1, 1, 12) if weighted else torch.ones(12)
    score = slow_typicality(learner.net, train)
    if memory is not None:
        reference = whole_gradients(learner.net, memory).sum(0, keepdim=True)
        own = unit_rows(whole_gradients(learner.net, train))
        score = score + 0.7 * (own @ unit_rows(reference).squeeze(0))
    picked = score.argsort(descending=True)[:4]
    losses = cross_entropy(learner.net(train.x), train.y, reduction="none")
    loss = (weight * losses)[picked].mean()
    batch = batch_of(train, weight if weighted else None)
    if memory is not None:
        # The memory batch is a part of the buffer.
        few, rows = memory.take(slice(2, 7)), torch.arange(2, 7)
        loss = loss + 3 * cross_entropy(learner.net(few.x), few.y)
        batch = type(batch)(batch.current, batch.rows, batch.weight, few, rows)
    expected = before - 0.1 * gradient(learner.net, loss)
    learner.step(batch)
    assert sorted(learner.picks.tolist()) == sorted(picked.tolist())
    torch.testing.assert_close(parameters(learner.net), expected, rtol=1e-4, atol=1e-6)


def test_affinity_decides_where_it_is_large() -> None:
    train, memory = random_samples(12), random_samples(9, seed=1)
    picks = []
    for affinity in (0.0, 1000.0):
        learner = begun(train, memory, affinity=affinity)
        own = unit_rows(whole_gradients(learner.net, train))
        reference = whole_gradients(learner.net, memory).sum(0)
        learner.step(batch_of(train, None, memory))
        picks.append(sorted(learner.picks.tolist()))
    assert picks[0] != picks[1]
    assert picks[1] == sorted((own @ reference).argsort(descending=True)[:4].tolist())


def test_the_first_steps_pick_at_random() -> None:
    train = random_samples(12)
    learner = begun(train, None, warm_up=20)
    for _ in range(20):
        learner.step(batch_of(train))
    picks = learner.picks.view(20, 4).tolist()
    assert all(len(set(rows)) == 4 for rows in picks)
    assert len(set(map(tuple, picks))) > 15
    assert {row for rows in picks for row in rows} == set(range(12))
    scored = slow_typicality(learner.net, train).argsort(descending=True)[:4]
    learner.step(batch_of(train))
    assert sorted(learner.picks[-4:].tolist()) == sorted(scored.tolist())


def test_by_default_the_first_hundred_steps_of_a_task_pick_at_random() -> None:
    train = random_samples(12)
    learner = new_learner("ocs", pick=4)
    assert isinstance(learner, Ocs)
    learner.begin_task(train, buffer_of(None))
    for step in range(1, 110):
        score = slow_typicality(learner.net, train)
        learner.step(batch_of(train))
        if step > 100:
            best = score.topk(4).values.sum().item()
            assert score[learner.picks[-4:]].sum().item() == pytest.approx(best, abs=1e-4)
    before = {tuple(sorted(rows)) for rows in learner.picks.view(-1, 4)[90:100].tolist()}
    assert len(before) > 5


@pytest.mark.parametrize("dataset", ["digits", "toy"])
def test_with_shipped_settings_most_steps_of_a_task_score(dataset: str) -> None:
    settings = resolve(dataset=dataset, method="ocs").settings
    assert isinstance(settings.learner, OcsOptions)
    training = settings.training
    for task in load_dataset(dataset, 0).tasks:
        steps = training.epochs * -(-len(task.train) // training.batch_size)
        assert steps > 2 * settings.learner.warm_up


def test_a_batch_that_is_no_larger_than_the_picks_is_taken_whole() -> None:
    learner, train = begun(random_samples(12), None), random_samples(3)
    learner.step(batch_of(train))
    assert sorted(learner.picks.tolist()) == [0, 1, 2]


def test_picks_of_the_last_epoch_stay_first() -> None:
    train = random_samples(60, classes=2)
    learner = begun(train, None)
    learner.step(batch_of(train))
    learner.begin_epoch(2, 2)
    picked = torch.cat([torch.nonzero(train.y == y).squeeze(1)[-3:] for y in (0, 1)])
    for few in picked.split(3):
        learner.step(Batch(train.take(few), few))
    kept = learner.remember(train, None, buffer_of(None, 5)).samples
    assert kept is not None
    assert group_counts(kept) == {(0,): 5, (1,): 5}
    assert {tuple(row) for row in train.x[picked].tolist()} <= set(map(tuple, kept.x.tolist()))


def test_only_so_many_picks_are_candidates() -> None:
    train = random_samples(CANDIDATES + 500, classes=1)
    learner = begun(train, None)
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    for few in order.split(4):
        learner.step(Batch(train.take(few), few))
    kept = learner.remember(train, None, buffer_of(None, CANDIDATES)).samples
    assert kept is not None
    expected = train.x[order[:CANDIDATES]]
    assert sorted(kept.x.tolist()) == sorted(expected.tolist())


def test_the_original_rule_divides_the_whole_buffer_among_the_tasks_so_far() -> None:
    first, second = random_samples(60, classes=2), random_samples(60, classes=2, seed=1)
    second = Samples(second.x, second.y + 2)
    learner = begun(first, None, quota="total")
    buffer = learner.remember(first, None, buffer_of(None, 4))  # 4 for each of 5 classes
    assert buffer.samples is not None
    assert group_counts(buffer.samples) == {(0,): 10, (1,): 10}
    learner.begin_task(second, buffer)
    score = slow_typicality(learner.net.eval(), buffer.samples)
    best = [score * (buffer.samples.y == y) + -9.0 * (buffer.samples.y != y) for y in (0, 1)]
    rows = torch.cat([part.argsort(descending=True)[:5] for part in best])
    again = learner.remember(second, None, buffer).samples
    assert again is not None
    assert group_counts(again) == {(0,): 5, (1,): 5, (2,): 5, (3,): 5}
    kept = again.x[again.y < 2].tolist()
    assert sorted(kept) == sorted(buffer.samples.x[rows].tolist())


def test_balance_takes_the_first_of_each_class() -> None:
    y, order = torch.tensor([3, 1, 3, 1, 1, 3]), torch.tensor([5, 4, 3, 2, 1, 0])
    assert sorted(balanced(y, order, 5).tolist()) == [2, 3, 4, 5]


@pytest.mark.parametrize("quota", ["group", "total"])
def test_a_run_that_scores_goes_on_from_a_saved_state(quota: str, tmp_path: Path) -> None:
    saved, states = tmp_path / "state", list[RunState]()

    def save(state: RunState) -> None:
        states.append(state)
        if (state.epochs[-1].task, state.epochs[-1].epoch) == (3, 1):
            save_state(state, saved)

    config = small_config("ocs", attribute=True, pick=5, warm_up=2, quota=quota)
    stream = small_stream(attribute=True)
    whole = run(config, 0, stream=stream, checkpoint=save)
    rest = run(config, 0, stream=stream, state=load_state(saved))
    assert rest.per_task == whole.per_task
    assert whole.per_task[0].accuracy > 0.6
    learner = states[-1].learner
    assert isinstance(learner, Ocs)
    if quota == "total":
        assert len(learner.sizes) == len(TASKS)
        assert states[-1].buffer.samples is not None
        assert len(states[-1].buffer.samples) == sum(learner.sizes)


def test_steps_are_alike_with_any_number_of_threads() -> None:
    """To the last bits, which are the BLAS's own affair: on some machines it cuts sums in parts."""
    train, memory = (random_samples(n, features=700, seed=n) for n in (200, 300))
    before, nets, picks = torch.get_num_threads(), [], []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        learner = new_learner("ocs", build_mlp(700, 5, (64, 64), seed=0), **PICKS)
        learner.begin_task(train, buffer_of(memory))
        learner.begin_epoch(1, 1)
        with one_thread():
            for rows in torch.arange(200).split(50):
                old = torch.arange(32)
                learner.step(Batch(train.take(rows), rows, None, memory.take(old), old))
        assert isinstance(learner, Ocs)
        nets.append(parameters(learner.net))
        picks.append(learner.picks.tolist())
    torch.set_num_threads(before)
    assert picks[0] == picks[1]
    torch.testing.assert_close(*nets, rtol=1e-4, atol=1e-5)


def test_scores_that_are_not_needed_do_not_matter() -> None:
    """On a GPU a step that picks at random measures scores as well."""
    train, memory = random_samples(12), random_samples(9, seed=1)
    rows = torch.arange(5)
    batch = replace(batch_of(train), memory=memory.take(rows), memory_rows=rows)
    nets = []
    for measured in (False, True):
        learner = begun(train, memory, warm_up=9)
        full = learner.prepared(batch)
        if measured:
            assert full.noise is not None
            learner.steps += 1
            learner._pick_and_train(full, full.noise)
        else:
            learner.step(full)
        nets.append(parameters(learner.net))
    torch.testing.assert_close(*nets)
