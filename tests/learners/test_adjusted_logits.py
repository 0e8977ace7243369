from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from faircil.learners import Learner
from faircil.learners.adjusted_logits import AsymmetricReplay, LogitAdjustment
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.samples import Samples
from learning import (
    batch_of,
    buffer_of,
    gradient,
    new_learner,
    of_classes,
    parameters,
    random_samples,
)
from small_runs import TASKS, small_config, small_stream

TAU = 3.0
OLD, NEW = (0, 3), (1, 2)  # class 4 is not yet seen


@pytest.fixture
def learner() -> Learner:
    """In its second task, with classes 0 and 3 behind it."""
    learner = new_learner("er-ace", tau=TAU)
    learner.begin_task(of_classes(20, OLD), buffer_of(None))
    learner.begin_task(of_classes(20, NEW), buffer_of(of_classes(8, OLD)))
    return learner


def naive_loss(
    learner: Learner, current: Samples, weights: list[float], memory: Samples | None
) -> Tensor:
    """One sample at a time, with a softmax over the classes that count."""
    present = set(current.y.tolist())
    counting = [label for label in range(5) if label not in OLD or label in present]
    total = torch.zeros(())
    for x, y, weight in zip(current.x, current.y.tolist(), weights, strict=True):
        share = torch.softmax(learner.net(x[None])[0, counting], dim=0)[counting.index(y)]
        total = total - weight * torch.log(share) / len(current)
    if memory is not None:
        for x, y in zip(memory.x, memory.y, strict=True):
            share = torch.softmax(learner.net(x[None])[0], dim=0)[y]
            total = total - TAU * torch.log(share) / len(memory)
    return total


@pytest.mark.parametrize("weights", [None, [0.0, 0.25, 1.0, 0.5]])
@pytest.mark.parametrize("classes", [NEW, (2,), (1, 3)], ids=str)  # 3 comes back
@pytest.mark.parametrize("n", [4, 0])
@pytest.mark.parametrize("replayed", [7, 0])
def test_loss_and_gradient_are_those_of_the_formula(
    learner: Learner, weights: list[float] | None, classes: tuple[int, ...], n: int, replayed: int
) -> None:
    if n + replayed == 0:
        pytest.skip("no batch is empty")
    current = of_classes(n, classes, seed=1)
    memory = of_classes(replayed, (0, 1, 2, 3), seed=2) if replayed else None
    weight = None if weights is None else torch.tensor(weights[:n])
    loss = learner.loss(batch_of(current, weight, memory))
    expected = naive_loss(learner, current, (weights or [1.0] * 4)[:n], memory)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(learner.net, loss), gradient(learner.net, expected))


def test_current_samples_leave_the_logits_of_old_classes_alone(learner: Learner) -> None:
    learner.loss(batch_of(of_classes(6, NEW))).backward()
    bias = learner.net.head.bias.grad
    assert bias is not None
    assert bias[list(OLD)].tolist() == [0, 0]
    assert (bias[[1, 2, 4]] != 0).all()


def test_in_the_first_task_all_classes_count() -> None:
    learner, plain = new_learner("er-ace"), new_learner("er")
    current, memory = of_classes(6, OLD), of_classes(5, OLD, seed=2)
    learner.begin_task(current, buffer_of(None))
    batch = batch_of(current, None, memory)
    torch.testing.assert_close(learner.loss(batch), plain.loss(batch))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_recorded_steps_are_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    nets = []
    for graphable in (True, False):
        monkeypatch.setattr(AsymmetricReplay, "graphable", graphable)
        states: list[RunState] = []
        config, stream = small_config("er-ace", attribute=True), small_stream(attribute=True)
        run(config, 0, stream=stream, device="cuda", checkpoint=states.append)
        nets.append(parameters(states[-1].learner.net))
    assert torch.equal(*nets)


NEW_SAMPLES = random_samples(40, seed=1)
NEW_SAMPLES = NEW_SAMPLES.take(NEW_SAMPLES.y < 2)  # classes 0 and 1
OLD_SAMPLES = Samples(random_samples(12, seed=2).x, torch.tensor([2] * 4 + [3] * 8))
SEEN = (0, 1, 2, 3)  # not 4


def begun(net: nn.Module | None = None, **settings: object) -> LogitAdjustment:
    learner = new_learner("logit-adjustment", net, **{"tau": TAU, **settings})
    assert isinstance(learner, LogitAdjustment)
    learner.begin_task(NEW_SAMPLES, buffer_of(OLD_SAMPLES))
    return learner


def effective_frequency(tau: float) -> list[float]:
    """Weigh each class as a step does: samples of the task 1/|T| each, of the buffer τ/|M|."""
    weight = [0.0] * 5
    for y in NEW_SAMPLES.y.tolist():
        weight[y] += 1 / len(NEW_SAMPLES)
    for y in OLD_SAMPLES.y.tolist():
        weight[y] += tau / len(OLD_SAMPLES)
    return [value / sum(weight) for value in weight]


@pytest.mark.parametrize("tau", [0.5, TAU])
def test_the_prior_is_how_often_a_class_is_trained_on(tau: float) -> None:
    prior = begun(tau=tau).log_prior.exp()
    assert prior.tolist() == pytest.approx(effective_frequency(tau))
    assert prior[4] == 0


def test_an_even_buffer_gives_old_classes_tau_samples_over_their_number() -> None:
    learner = new_learner("logit-adjustment", tau=TAU)
    assert isinstance(learner, LogitAdjustment)
    train = Samples(torch.randn(100, 6), torch.tensor([3] * 70 + [4] * 30))
    memory = Samples(torch.randn(12, 6), torch.tensor([0, 1, 2]).repeat(4))
    learner.begin_task(train, buffer_of(memory))
    expected = torch.tensor([TAU * 100 / 3] * 3 + [70.0, 30.0])
    torch.testing.assert_close(learner.log_prior.exp(), expected / expected.sum())


def slow_loss(net: nn.Module, samples: Samples, log_prior: list[float], weights: Tensor) -> Tensor:
    """One sample at a time: ``−Σ w_i log(e^{o_y} π_y / Σ_{seen k} e^{o_k} π_k) / n``."""
    total = torch.zeros(())
    for x, y, weight in zip(samples.x, samples.y, weights, strict=True):
        scores = net(x[None])[0].exp()
        adjusted = torch.stack([scores[k] * torch.tensor(log_prior[k]).exp() for k in SEEN])
        total = total - weight * (adjusted[y] / adjusted.sum()).log()
    return total / len(samples)


@pytest.mark.parametrize("adjustment", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_adjusted_loss_and_gradient_are_those_of_the_formula(
    adjustment: float, weighted: bool
) -> None:
    learner = begun(adjustment=adjustment)
    frequency = torch.tensor(effective_frequency(TAU))
    log_prior = (adjustment * frequency.clamp(min=1e-30).log()).tolist()
    weight = (
        torch.rand(len(NEW_SAMPLES), generator=torch.Generator().manual_seed(0))
        if weighted
        else None
    )
    loss = learner.loss(batch_of(NEW_SAMPLES, weight, OLD_SAMPLES))
    ones = torch.ones(len(NEW_SAMPLES))
    expected = slow_loss(learner.net, NEW_SAMPLES, log_prior, ones if weight is None else weight)
    expected = expected + TAU * slow_loss(
        learner.net, OLD_SAMPLES, log_prior, torch.ones(len(OLD_SAMPLES))
    )
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient(learner.net, loss), gradient(learner.net, expected))


def test_no_class_is_preferred_where_inputs_say_nothing() -> None:
    # With one input for all, the best logits are equal ones: at those the gradient is zero.
    net = nn.Linear(6, 5)
    nn.init.zeros_(net.weight)
    nn.init.zeros_(net.bias)
    learner = begun(net)
    new, old = (Samples(torch.zeros_like(part.x), part.y) for part in (NEW_SAMPLES, OLD_SAMPLES))
    slope = gradient(net, learner.loss(batch_of(new, None, old)))
    torch.testing.assert_close(slope, torch.zeros_like(slope))
    plain = gradient(net, new_learner("er", net, tau=TAU).loss(batch_of(new, None, old)))
    assert plain.abs().max() > 0.1


def test_unseen_classes_are_neither_trained_nor_predicted() -> None:
    learner = begun()
    before = [part.detach()[4].clone() for part in learner.net.head.parameters()]  # type: ignore[union-attr]
    for _ in range(3):
        learner.step(batch_of(NEW_SAMPLES, None, OLD_SAMPLES))
    after = [part.detach()[4] for part in learner.net.head.parameters()]  # type: ignore[union-attr]
    assert all(torch.equal(one, two) for one, two in zip(before, after, strict=True))
    with torch.no_grad():
        learner.net.head.bias[4] = 1000  # type: ignore[union-attr,index,operator]
        plain = learner.net(NEW_SAMPLES.x)
    assert (learner.scores(NEW_SAMPLES.x)[:, 4] == -torch.inf).all()
    assert torch.equal(learner.scores(NEW_SAMPLES.x)[:, :4], plain[:, :4])  # the prior is not added
    assert set(learner.predict(NEW_SAMPLES.x).tolist()) <= set(SEEN)


def test_a_run_predicts_seen_classes_only() -> None:
    config = small_config("logit-adjustment", epochs=1, lr=1e-6)
    result = run(config, 0, stream=small_stream(attribute=False))
    seen: set[int] = set()
    for classes, predictions in zip(TASKS, result.predictions, strict=True):
        seen |= set(classes)
        assert set(predictions.y_pred.tolist()) <= seen


def test_without_replay_loss_old_classes_stay_finite_and_predictable() -> None:
    learner = begun(tau=0)
    assert learner.log_prior.isfinite().tolist() == [True] * 4 + [False]
    loss = learner.loss(batch_of(NEW_SAMPLES, None, OLD_SAMPLES))
    assert loss.isfinite()
    assert gradient(learner.net, loss).isfinite().all()
