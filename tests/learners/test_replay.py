from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from faircil.errors import UsageError
from faircil.learners import LEARNERS, Learner
from faircil.learners.moments import Moments
from faircil.learners.replay import Replay
from faircil.nets import build_mlp
from faircil.runs.config import resolve
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.samples import Samples
from learning import batch_of, buffer_of, gradient, new_learner, parameters
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
