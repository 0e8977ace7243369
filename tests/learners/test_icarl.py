from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from faircil.learners import Batch
from faircil.learners.icarl import Icarl, first_of_each_class, herd, herd_each
from faircil.nets import MLP
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.samples import Samples, group_counts
from learning import buffer_of, gradient, moved, new_learner, of_classes, random_samples
from small_runs import small_config, small_stream

TAU = 0.7
OLD, NEW = [3, 1], [4, 0]


def icarl(**settings: object) -> Icarl:
    learner = new_learner("icarl", tau=TAU, **settings)
    assert isinstance(learner, Icarl)
    return learner


def features(learner: Icarl, x: Tensor) -> Tensor:
    assert isinstance(learner.net, MLP)
    return normalize(learner.net.features(x)).detach()


def naive_loss(
    learner: Icarl, samples: Samples, weights: list[float], teacher: Tensor, old: list[int]
) -> Tensor:
    """One output at a time; weights only where an output is not old."""
    total = torch.zeros(())
    for x, y, weight, said in zip(samples.x, samples.y, weights, teacher, strict=True):
        for k, p in enumerate(torch.sigmoid(learner.net(x[None])[0])):
            target = torch.sigmoid(said[k]) if k in old else float(k == y)
            loss = -target * torch.log(p) - (1 - target) * torch.log(1 - p)
            total = total + (1.0 if k in old else weight) * loss
    return total / (5 * len(samples))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("current", [0, 6])
def test_loss_and_gradient_are_those_of_the_formula(weighted: bool, current: int) -> None:
    learner = icarl()
    first, second = of_classes(30, OLD, seed=1), of_classes(20, NEW, seed=2)
    memory = first.take(slice(9))
    learner.begin_task(first, buffer_of(None))
    learner.end_task(buffer_of(memory))
    learner.begin_task(second, buffer_of(memory))
    said = learner.net(torch.cat([second.x, memory.x])).detach()
    moved(learner)
    rows, memory_rows = torch.arange(19, 19 - current, -1), torch.tensor([8, 2, 5])
    weight = torch.rand(current, generator=torch.Generator().manual_seed(0)) if weighted else None
    batch = Batch(second.take(rows), rows, weight, memory.take(memory_rows), memory_rows)
    expected = TAU * naive_loss(
        learner, batch.memory or memory, [1.0] * 3, said[20 + memory_rows], OLD
    )
    if current:
        weights = [1.0] * current if weight is None else weight.tolist()
        expected = expected + naive_loss(learner, batch.current, weights, said[rows], OLD)
    loss = learner.loss(batch)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(learner.net, loss), gradient(learner.net, expected))


def test_the_first_task_has_hard_targets_only() -> None:
    learner, samples = icarl(), random_samples(12)
    learner.begin_task(samples, buffer_of(None))
    weight = torch.linspace(0, 1, 12)
    loss = learner.loss(Batch(samples, torch.arange(12), weight))
    expected = naive_loss(learner, samples, weight.tolist(), torch.zeros(12, 5), [])
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("prototypes", ["exemplars", "all"])
def test_the_nearest_mean_is_predicted(prototypes: str) -> None:
    learner = icarl(prototypes=prototypes)
    first, second = of_classes(60, OLD, seed=1), of_classes(60, NEW, seed=2)
    buffer = buffer_of(None, quota=5)
    for train in (first, second):
        learner.begin_task(train, buffer)
        moved(learner)
        buffer = learner.remember(train, None, buffer)
        learner.end_task(buffer)
    assert buffer.samples is not None
    x = random_samples(50, seed=5).x
    scores = learner.scores(x)
    for k in OLD + NEW:
        source = second if prototypes == "all" and k in NEW else buffer.samples
        mean = normalize(features(learner, source.x[source.y == k]).mean(dim=0), dim=0)
        gaps = torch.stack([(phi - mean).square().sum() for phi in features(learner, x)])
        torch.testing.assert_close(scores[:, k], -gaps)
    assert (scores[:, 2] == -torch.inf).all()
    assert learner.predict(x).tolist() == scores.argmax(dim=1).tolist()


def test_between_tasks_scores_are_distances_and_in_a_task_logits() -> None:
    learner, train = icarl(), of_classes(60, OLD, seed=1)
    learner.begin_task(train, buffer_of(None))
    torch.testing.assert_close(learner.scores(train.x), learner.net(train.x).detach())
    learner.end_task(learner.remember(train, None, buffer_of(None)))
    assert learner.scores(train.x).max() <= 1e-6


def test_exemplars_of_each_group_are_herded_in_features_of_length_one() -> None:
    learner, train = icarl(), of_classes(80, OLD, seed=1, attribute=True)
    assert train.z is not None
    learner.begin_task(train, buffer_of(None))
    kept = learner.remember(train, None, buffer_of(None, quota=6)).samples
    assert kept is not None
    expected = []
    for y in sorted(OLD):
        for z in (0, 1):
            x = train.x[(train.y == y) & (train.z == z)]
            expected.append(x[herd(features(learner, x), 6)])
    assert torch.equal(kept.x, torch.cat(expected))


@pytest.mark.parametrize("attribute", [False, True])
def test_the_original_rule_shares_one_budget_among_the_classes_seen(attribute: bool) -> None:
    states: list[RunState] = []
    kept: list[Samples] = []

    def record(state: RunState) -> None:
        states.append(state)
        if state.buffer.samples is not None:
            kept.append(state.buffer.samples)

    config = small_config("icarl", attribute=attribute, quota="total", buffer_size=4, epochs=1)
    run(config, 0, stream=small_stream(attribute=attribute), checkpoint=record)
    kept.append(states[-1].buffer.samples or kept[-1])
    total = 4 * 5 * (2 if attribute else 1)
    there = {0: 48, 1: 48, 2: 24, 3: 48, 4: 27}
    for samples, seen in zip(kept, [(0, 1), (0, 1, 2), (0, 1, 2, 3, 4)], strict=True):
        counts = group_counts(Samples(samples.x, samples.y))
        assert counts == {(k,): min(total // len(seen), there[k]) for k in seen}
        assert len(samples) <= total
    # What is left of a list is its beginning.
    for earlier, later in pairwise(kept):
        for k in earlier.y.unique():
            was, now = earlier.x[earlier.y == k], later.x[later.y == k]
            assert torch.equal(was[: len(now)], now)


def some_features(n: int, seed: int = 0) -> Tensor:
    """Features as the net gives them: none below 0, some samples with none at all."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, 7, generator=generator, dtype=torch.float64).clamp(min=0)
    features[::11] = 0
    return normalize(features)


def slow_herd(features: Tensor, count: int) -> list[int]:
    """Try every sample that is left, each time."""
    chosen: list[int] = []
    for _ in range(count):
        left = [j for j in range(len(features)) if j not in chosen]
        gaps = [
            float((features.mean(dim=0) - features[[*chosen, j]].mean(dim=0)).norm()) for j in left
        ]
        chosen.append(left[min(range(len(left)), key=gaps.__getitem__)])
    return chosen


@pytest.mark.parametrize("seed", range(4))
def test_herding_is_the_greedy_choice(seed: int) -> None:
    features = some_features(40, seed)
    assert herd(features, 15).tolist() == slow_herd(features, 15)


def test_a_shorter_list_is_the_beginning_of_a_longer() -> None:
    features = some_features(40)
    assert torch.equal(herd(features, 6), herd(features, 20)[:6])


@pytest.mark.parametrize("count", [9, 10, 100])
def test_no_sample_is_chosen_twice(count: int) -> None:
    order = herd(some_features(10), count)
    assert len(order) == len(order.unique()) == min(count, 10)


def test_herded_samples_are_closer_to_the_mean_than_random_ones() -> None:
    features = some_features(500)
    mean = features.mean(dim=0)
    assert (features[herd(features, 20)].mean(dim=0) - mean).norm() < 0.5 * min(
        (features[start : start + 20].mean(dim=0) - mean).norm() for start in range(0, 500, 20)
    )


def test_features_stay_as_they_were() -> None:
    features = some_features(20)
    before = features.clone()
    herd(features, 5)
    assert torch.equal(features, before)


def test_each_group_has_a_list_of_its_own() -> None:
    samples, features = random_samples(60, classes=3, attribute=True), some_features(60)
    expected: list[int] = []
    for key in samples.keys().unique(dim=0):
        rows = (samples.keys() == key).all(dim=1).nonzero()[:, 0]
        expected += rows[herd(features[rows], 4)].tolist()
    assert herd_each(features, samples.keys(), 4).tolist() == expected


def test_lists_are_cut_at_their_end() -> None:
    y = torch.tensor([1, 0, 1, 1, 2, 0, 0])
    cut = first_of_each_class(Samples(torch.arange(7.0)[:, None], y), 2)
    assert cut.x[:, 0].tolist() == [0, 1, 2, 4, 5]
    assert cut.y.tolist() == [1, 0, 1, 2, 0]
