from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from faircil.learners import Batch
from faircil.learners.clad import Clad, Conflicts, find_conflicts
from faircil.nets import build_mlp
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.samples import Samples
from learning import batch_of, buffer_of, gradient, new_learner, parameters, random_samples
from small_runs import small_config, small_stream

TAU, ETA = 3.0, 0.7
MEMORY = random_samples(40, 3, seed=2)  # classes 0 to 2


def new_task(n: int, classes: int = 2, seed: int = 1) -> Samples:
    samples = random_samples(n, classes, seed=seed)
    return Samples(samples.x, samples.y + 3)


def begun(**settings: object) -> Clad:
    """Return a learner in a task of classes 3 and 4, with two conflict classes and a moved net."""
    learner = new_learner("clad", tau=TAU, eta=ETA, conflicts=0.67, **settings)
    assert isinstance(learner, Clad)
    learner.begin_task(new_task(30), buffer_of(MEMORY))
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in learner.net.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return learner


def feature(learner: Clad, x: Tensor) -> Tensor:
    return learner.net.features(x[None])[0]


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / (a.square().sum().sqrt() * b.square().sum().sqrt())


def mean(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts).mean(dim=0)


def replay_part(learner: Clad, batch: Batch, weights: list[float]) -> Tensor:
    """One sample at a time."""
    total = torch.zeros(())
    for x, y, weight in zip(batch.current.x, batch.current.y, weights, strict=True):
        total = total + weight * cross_entropy(learner.net(x[None])[0], y) / len(weights)
    assert batch.memory is not None
    for x, y in zip(batch.memory.x, batch.memory.y, strict=True):
        total = total + TAU * cross_entropy(learner.net(x[None])[0], y) / len(batch.memory)
    return total


def batch_part(learner: Clad, batch: Batch) -> Tensor:
    assert learner.conflicts is not None
    assert batch.memory is not None
    chosen = learner.conflicts.old.tolist()
    assert len(chosen) == 2
    u = mean([feature(learner, x) for x in batch.current.x])
    total = 1 + cosine(u, learner.conflicts.centre)
    pairs = zip(batch.memory.x, batch.memory.y.tolist(), strict=True)
    old = [feature(learner, x) for x, y in pairs if y in chosen]
    return total + 1 + cosine(u, mean(old)) if old else total


def class_part(learner: Clad, batch: Batch) -> Tensor:
    assert learner.conflicts is not None
    terms = []
    for label in sorted(set(batch.current.y.tolist())):
        pairs = zip(batch.current.x, batch.current.y.tolist(), strict=True)
        centre = mean([feature(learner, x) for x, y in pairs if y == label])
        terms += [1 + cosine(centre, prototype) for prototype in learner.conflicts.prototypes]
    return mean(terms)


@pytest.mark.parametrize("variant", ["batch", "class"])
@pytest.mark.parametrize("weights", [None, [0.0, 0.25, 1.0, 0.5, 0.0]])
@pytest.mark.parametrize("classes", [2, 1])
@pytest.mark.parametrize("in_conflict", [True, False])
def test_loss_and_gradient_are_those_of_the_formula(
    variant: str, weights: list[float] | None, classes: int, in_conflict: bool
) -> None:
    learner = begun(variant=variant)
    assert learner.conflicts is not None
    rows = torch.arange(2, 14)
    if not in_conflict:
        rows = rows[learner.conflicts.in_conflict[rows] == 0]
    assert len(rows) > 2
    current = new_task(5, classes, seed=4)
    assert len(current.y.unique()) == classes
    weight = None if weights is None else torch.tensor(weights)
    batch = Batch(current, torch.arange(5), weight, MEMORY.take(rows), rows)
    loss = learner.loss(batch)
    apart = batch_part(learner, batch) if variant == "batch" else class_part(learner, batch)
    expected = replay_part(learner, batch, weights or [1.0] * 5) + ETA * apart
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(learner.net, loss), gradient(learner.net, expected))


@pytest.mark.parametrize("variant", ["batch", "class"])
def test_memory_alone_is_plain_replay(variant: str) -> None:
    learner = begun(variant=variant)
    batch = batch_of(new_task(0), None, MEMORY)
    torch.testing.assert_close(learner.loss(batch), replay_part(learner, batch, []))


def test_conflicts_are_those_of_the_old_net() -> None:
    old = new_learner("er").net
    task = new_task(30)
    learner = begun()
    assert learner.conflicts is not None
    scores = old(task.x).mean(dim=0)
    assert learner.conflicts.old.tolist() == scores[:3].argsort(descending=True)[:2].tolist()
    features = old.features(MEMORY.x)[learner.conflicts.in_conflict > 0]
    torch.testing.assert_close(learner.conflicts.centre, features.mean(dim=0).detach())


@pytest.mark.parametrize("variant", ["batch", "class"])
def test_without_the_term_it_is_plain_replay(variant: str) -> None:
    stream = small_stream(attribute=True)
    plain, without, with_ = (
        run(small_config(method, attribute=True, **settings), 0, stream=stream)
        for method, settings in (
            ("er", {}),
            ("clad", {"eta": 0, "variant": variant}),
            ("clad", {"variant": variant}),
        )
    )
    assert [p.y_pred.tolist() for p in without.predictions] == [
        p.y_pred.tolist() for p in plain.predictions
    ]
    assert with_.per_task != plain.per_task


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("variant", ["batch", "class"])
def test_recorded_steps_are_the_steps(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nets = []
    for graphable in (True, False):
        monkeypatch.setattr(Clad, "graphable", graphable)
        states: list[RunState] = []
        config, stream = (
            small_config("clad", attribute=True, variant=variant),
            small_stream(attribute=True),
        )
        run(config, 0, stream=stream, device="cuda", checkpoint=states.append)
        nets.append(parameters(states[-1].learner.net))
    assert torch.equal(*nets)


NET = build_mlp(6, 5, (8,), seed=0)
MEMORY_OF_ALL = random_samples(40, 4, seed=2)  # classes 0 to 3
# Class 3 has the highest mean score of the old ones, then 0, 2, 1; the new class 4 the highest.
SCORES = torch.tensor([[2.0, 0, 1, 9, 20], [2.0, 0, 1, -1, 20]])


def of_class(label: int, n: int = 2) -> Samples:
    return Samples(random_samples(n).x, torch.full((n,), label))


def found(share: float, memory: Samples = MEMORY_OF_ALL, train: Samples | None = None) -> Conflicts:
    train = of_class(4) if train is None else train
    conflicts = find_conflicts(NET, SCORES, train, memory, share)
    assert conflicts is not None
    return conflicts


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0, [3]), (0.2, [3]), (0.5, [3, 0]), (0.74, [3, 0]), (1, [3, 0, 2, 1])],
)
def test_the_share_of_old_classes_with_the_highest_scores(
    share: float, expected: list[int]
) -> None:
    assert found(share).old.tolist() == expected
    assert found(share).new.tolist() == [4]


def test_features_are_means_over_samples() -> None:
    conflicts = found(0.5)
    parts: dict[int, list[Tensor]] = {3: [], 0: []}
    for x, y in zip(MEMORY_OF_ALL.x, MEMORY_OF_ALL.y.tolist(), strict=True):
        if y in parts:
            parts[y].append(NET.features(x[None])[0].detach())
    assert len(parts[3]) != len(parts[0])
    torch.testing.assert_close(conflicts.centre, torch.stack(parts[3] + parts[0]).mean(0))
    for prototype, label in zip(conflicts.prototypes, (3, 0), strict=True):
        torch.testing.assert_close(prototype, torch.stack(parts[label]).mean(0))
    assert conflicts.in_conflict.tolist() == [float(y in parts) for y in MEMORY_OF_ALL.y.tolist()]
    assert conflicts.head is NET.head


def test_a_class_of_the_task_is_no_conflict_though_the_memory_has_it() -> None:
    assert found(1, train=of_class(3)).old.tolist() == [0, 2, 1]
    assert find_conflicts(NET, SCORES, MEMORY_OF_ALL, MEMORY_OF_ALL, 1) is None
