from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from faircil.errors import UsageError
from faircil.learners import LEARNERS, Learner
from faircil.learners.moments import Moments
from faircil.learners.replay import (
    Replay,
    SelectsAtTaskStart,
    draw_by_share,
    fit_classifier,
    project,
)
from faircil.nets import build_mlp
from faircil.runs.config import resolve
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.samples import Samples
from learning import batch_of, buffer_of, gradient, new_learner, parameters, random_samples
from small_runs import small_config, small_stream

TAU = 3.0


@pytest.fixture
def learner() -> Learner:
    return new_learner("er", build_mlp(4, 3, (5,), seed=0), tau=TAU)


def batch(n: int, seed: int) -> Samples:
    generator = torch.Generator().manual_seed(seed)
    return Samples(
        torch.randn(n, 4, generator=generator), torch.randint(3, (n,), generator=generator)
    )


def naive_loss(net: nn.Module, samples: Samples, weights: list[float]) -> Tensor:
    """One sample at a time: ``Σ w_i · −log p_i(y_i) / n``."""
    total = torch.zeros(())
    for x, y, weight in zip(samples.x, samples.y, weights, strict=True):
        total = total - weight * torch.log(torch.softmax(net(x[None])[0], dim=0)[y])
    return total / len(samples)


@pytest.mark.parametrize("weights", [None, [0.0, 0.25, 1.0, 0.5, 1.0, 0.0]])
@pytest.mark.parametrize("replayed", [0, 9])
def test_loss_and_gradient_are_those_of_the_formula(
    learner: Learner, weights: list[float] | None, replayed: int
) -> None:
    current = batch(6, seed=1)
    memory = batch(replayed, seed=2) if replayed else None
    loss = learner.loss(
        batch_of(current, None if weights is None else torch.tensor(weights), memory)
    )
    expected = naive_loss(learner.net, current, weights or [1.0] * 6)
    if memory is not None:
        expected = expected + TAU * naive_loss(learner.net, memory, [1.0] * replayed)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(learner.net, loss), gradient(learner.net, expected))


@pytest.mark.parametrize("weight", [None, torch.zeros(0)])
def test_an_empty_current_batch_trains_on_memory_alone(
    learner: Learner, weight: Tensor | None
) -> None:
    memory = batch(9, seed=2)
    empty = memory.take(torch.zeros(0, dtype=torch.int64))
    loss = learner.loss(batch_of(empty, weight, memory))
    expected = TAU * naive_loss(learner.net, memory, [1.0] * 9)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(learner.net, loss), gradient(learner.net, expected))


def test_a_step_is_one_of_sgd_with_momentum(learner: Learner) -> None:
    net = build_mlp(4, 3, (5,), seed=0)
    current, memory, weights = batch(6, seed=1), batch(9, seed=2), [0.5] * 6
    velocity = torch.zeros(())
    for _ in range(3):
        loss = naive_loss(net, current, weights) + TAU * naive_loss(net, memory, [1.0] * 9)
        velocity = 0.9 * velocity + gradient(net, loss)
        flat = nn.utils.parameters_to_vector(net.parameters()).detach()
        nn.utils.vector_to_parameters(flat - 0.1 * velocity, net.parameters())
        learner.step(batch_of(current, torch.tensor(weights), memory))
    torch.testing.assert_close(
        nn.utils.parameters_to_vector(learner.net.parameters()),
        nn.utils.parameters_to_vector(net.parameters()),
    )


HEADED = [m for m, row in LEARNERS.items() if "predictor" in row.options.model_fields]


@pytest.mark.parametrize("method", HEADED)
def test_a_head_of_moments_predicts_and_leaves_training_alone(method: str) -> None:
    ends: list[RunState] = []
    accuracy = []
    for head in ("net", "moments"):
        config = small_config(method, attribute=True, predictor=head)
        result = run(config, 0, stream=small_stream(attribute=True), checkpoint=ends.append)
        accuracy.append(result.per_task[-1].accuracy)
    own, fitted = (ends[len(ends) // 2 - 1].learner, ends[-1].learner)
    assert torch.equal(parameters(own.net), parameters(fitted.net))
    assert isinstance(fitted, Replay)
    assert fitted.fitted is not None
    # The head is the ridge solution of the buffer alone, on activations of the net as it is.
    kept = ends[-1].buffer.samples
    assert kept is not None
    again = Moments.on_activations(fitted, kept)
    x = small_stream(attribute=True).tasks[0].test.x
    assert torch.equal(fitted.scores(x), again.scores(x))
    assert not torch.equal(fitted.scores(x).argmax(1), own.scores(x).argmax(1))
    assert accuracy[1] > 0.5
    fitted.begin_task(kept, ends[-1].buffer)
    torch.testing.assert_close(fitted.net(x).argmax(1), fitted.scores(x).argmax(1))


def test_a_head_of_moments_needs_nothing_kept() -> None:
    learner = new_learner("er", predictor="moments")
    learner.end_task(buffer_of(None))
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(learner.scores(x), learner.net(x))


def test_no_encoder_of_texts_is_copied_for_a_head_of_moments() -> None:
    with pytest.raises(UsageError, match="`predictor=moments` copies the net after each task"):
        resolve(dataset="biasbios-sample", overrides=["finetune=true", "predictor=moments"])


def losses(learner_net: torch.nn.Module, samples: Samples) -> Tensor:
    return cross_entropy(learner_net(samples.x), samples.y, reduction="none")


def test_a_gradient_that_does_no_harm_stays() -> None:
    g, r = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])], [torch.ones(2), torch.tensor([-0.5])]
    for part, expected in zip(project(g, r), g, strict=True):
        assert torch.equal(part, expected)
    for part, expected in zip(project(g, [0 * part for part in r]), g, strict=True):
        assert torch.equal(part, expected)


def test_a_gradient_that_does_harm_loses_its_part_along_the_reference() -> None:
    g, r = [torch.tensor([1.0, 2.0]), torch.tensor([-3.0])], [torch.ones(2), torch.tensor([2.0])]
    flat, reference = torch.cat(g), torch.cat(r)
    result = torch.cat(project(g, r))
    expected = flat - (flat @ reference) / (reference @ reference) * reference
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(result @ reference, torch.tensor(0.0))


@pytest.mark.parametrize("weight", [None, torch.tensor([0.0, 0.25, 1.0, 0.5, 1.0, 0.0])])
@pytest.mark.parametrize("harms", [False, True])
def test_a_step_goes_along_the_projected_gradient(weight: Tensor | None, harms: bool) -> None:
    learner = new_learner("agem")
    current = random_samples(6)
    # The same inputs with the same classes pull the same way, with other classes against it.
    memory = Samples(current.x, (current.y + harms) % 5)
    before, net = parameters(learner.net), learner.net
    weights = torch.ones(6) if weight is None else weight
    g = gradient(net, (weights * losses(net, current)).mean())
    r = gradient(net, losses(net, memory).mean())
    assert (g @ r < 0) == harms
    learner.step(batch_of(current, weight, memory))
    expected = g - min(g @ r, torch.tensor(0.0)) / (r @ r) * r
    torch.testing.assert_close(parameters(net), before - 0.1 * expected)


def test_without_memory_it_is_fine_tuning() -> None:
    learner, other, current = new_learner("agem"), new_learner("finetune"), random_samples(6)
    for one in (learner, other):
        one.step(batch_of(current))
    assert torch.equal(parameters(learner.net), parameters(other.net))


def test_without_current_samples_it_steps_on_memory() -> None:
    learner, memory = new_learner("agem"), random_samples(6)
    before = parameters(learner.net)
    expected = before - 0.1 * gradient(learner.net, losses(learner.net, memory).mean())
    learner.step(batch_of(memory.take(slice(0)), torch.ones(0), memory))
    torch.testing.assert_close(parameters(learner.net), expected)


def test_one_loss_is_differentiated_before_the_next_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a large net would keep the activations of both."""
    learner, calls = new_learner("agem"), list[str]()
    learner.net.register_forward_hook(lambda *_: calls.append("forward"))
    grad = torch.autograd.grad

    def differentiate(*arguments: Any, **options: Any) -> Any:
        calls.append("backward")
        return grad(*arguments, **options)

    monkeypatch.setattr(torch.autograd, "grad", differentiate)
    learner.step(batch_of(random_samples(6), memory=random_samples(6, seed=1)))
    assert calls == ["forward", "backward"] * 2


def mean_loss(classifier: nn.Module, samples: Samples) -> Tensor:
    """One sample at a time."""
    total = torch.zeros(())
    for x, y in zip(samples.x, samples.y, strict=True):
        total = total - torch.log_softmax(classifier(x[None])[0], dim=0)[y]
    return total / len(samples)


def fitted(current: Samples, memory: Samples | None, hidden: tuple[int, ...] = ()) -> nn.Module:
    classifier = build_mlp(6, 5, hidden, seed=0)
    generator = torch.Generator().manual_seed(0)
    fit_classifier(classifier, current, memory, generator, lr=0.03, tau=2.0, passes=100)
    return classifier


def test_passes_are_steps_of_adam_over_task_and_buffer() -> None:
    current, memory = random_samples(40), random_samples(30, seed=1)
    classifier = build_mlp(6, 5, (), seed=0)
    adam = torch.optim.Adam(classifier.parameters(), 0.03)
    for _ in range(100):  # both fit in one batch: their order does not matter
        adam.zero_grad()
        (mean_loss(classifier, current) + 2 * mean_loss(classifier, memory)).backward()  # type: ignore[no-untyped-call]
        adam.step()
    torch.testing.assert_close(
        parameters(fitted(current, memory)), parameters(classifier), rtol=1e-3, atol=1e-3
    )


def test_the_buffer_keeps_old_classes_readable() -> None:
    both = random_samples(300, 2)
    both.x[:, 0] += 6.0 * both.y
    old, new = both.take(both.y == 0), both.take(both.y == 1)
    assert (fitted(new, None)(old.x).argmax(dim=1) == 1).float().mean() > 0.5
    assert (fitted(new, old.take(slice(32)))(old.x).argmax(dim=1) == 0).float().mean() > 0.9


def test_an_mlp_reads_two_subspaces_and_a_linear_layer_cannot() -> None:
    generator = torch.Generator().manual_seed(0)
    subspace = torch.randint(2, (256,), generator=generator)
    features = 2 * torch.randn(256, 6, generator=generator)
    features[:, :3] *= subspace[:, None]
    features[:, 3:] *= 1 - subspace[:, None]
    samples = Samples(features, subspace)

    def errors(hidden: tuple[int, ...]) -> float:
        predicted = fitted(samples, None, hidden)(features).argmax(dim=1)
        return (predicted != subspace).float().mean().item()

    assert errors(()) > 0.25
    assert errors((6,)) < 0.1


quick = settings(deadline=None, max_examples=40)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows_of(sizes: list[int]) -> torch.Tensor:
    """Return the groups of rows, mixed: sizes[g] of group g."""
    group = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return group[torch.randperm(len(group), generator=generator())]


@quick
@given(
    st.lists(st.floats(0.05, 1), min_size=1, max_size=8),
    st.sampled_from([16, 50, 128]),
    st.integers(0, 100),
)
def test_every_batch_has_every_group_in_its_share(
    shares: list[float], batch_size: int, seed: int
) -> None:
    group = rows_of([3 + 5 * number for number in range(len(shares))])
    drawn = group[draw_by_share(group, torch.tensor(shares), 10 * batch_size, generator(seed))]
    for batch in drawn.split(batch_size):
        counts = torch.bincount(batch, minlength=len(shares))
        expected = batch_size * torch.tensor(shares) / sum(shares)
        assert (counts - expected).abs().max() <= 3


def test_a_group_without_a_share_is_not_drawn() -> None:
    group = rows_of([5, 5, 0, 5, 5])
    for shares in ([0.0, 0.5, 0.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0, 0.1]):
        drawn = group[draw_by_share(group, torch.tensor(shares), 2000, generator())]
        assert set(drawn.tolist()) == {number for number, share in enumerate(shares) if share}


def test_nor_is_it_drawn_by_a_draw_of_exactly_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "rand", lambda n, **_: torch.zeros(n, dtype=torch.float64))
    group = torch.tensor([0, 1])
    assert draw_by_share(group, torch.tensor([0.0, 1.0]), 1, generator()).tolist() == [1]


def test_rows_of_a_group_are_drawn_alike_and_with_replacement() -> None:
    group = rows_of([4, 20, 6])
    rows = draw_by_share(group, torch.tensor([0.25, 0.5, 0.25]), 40_000, generator())
    counts = torch.bincount(rows, minlength=30)
    for number, share in enumerate([0.25, 0.5, 0.25]):
        expected = 40_000 * share / int((group == number).sum())
        assert (counts[group == number] - expected).abs().max() < 5 * expected**0.5
    # Not each once before any comes again.
    assert len(set(rows[group[rows] == 1][:20].tolist())) < 20


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.float64])
def test_draws_follow_the_generator(dtype: torch.dtype) -> None:
    group = rows_of([9, 9])
    first, again, other = (
        draw_by_share(group, torch.ones(2, dtype=dtype), 64, generator(seed)) for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.dtype == torch.int64
    assert not torch.equal(group[first], group[other])  # where the steps begin is drawn as well


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
