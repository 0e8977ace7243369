from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from faircil.compute import Generators
from faircil.errors import UsageError
from faircil.learners import LEARNERS, Batch
from faircil.learners.fairl import Fairl, FairlOptions, drift, rate, rate_reduction, with_projector
from faircil.learners.replay import fit_classifier
from faircil.nets import build_mlp
from faircil.samples import Samples
from learning import batch_of, buffer_of, new_learner, parameters, random_samples

WEIGHTS = {"beta": 0.3, "gamma": 0.7, "eta": 0.2, "tau": 3.0}
CURRENT = Samples(random_samples(12).x, torch.tensor([3, 4] * 6), torch.tensor([0, 1, 1] * 4))
MEMORY = Samples(
    random_samples(9, seed=1).x, torch.tensor([0, 1, 2] * 3), torch.tensor([0] * 5 + [1] * 4)
)


def begun(current: Samples = CURRENT, memory: Samples | None = MEMORY, **settings: object) -> Fairl:
    learner = new_learner("fairl", **{**WEIGHTS, **settings})
    assert isinstance(learner, Fairl)
    learner.begin_task(current, buffer_of(memory))
    return learner


def without_attribute(samples: Samples) -> Samples:
    return Samples(samples.x, samples.y)


def features_of(learner: Fairl, x: Tensor) -> Tensor:
    """All layers of the net before the classifier, one after the other."""
    projector = learner.net.head[0]  # type: ignore[index]
    features: Tensor = projector(learner.net.features(x))  # type: ignore[operator]
    return features


def naive_rate(part: Tensor) -> Tensor:
    n, width = part.shape
    return torch.logdet(torch.eye(width) + 2 * width / n * part.T @ part) / 2


def naive_reduction(rows: Tensor, keys: Tensor) -> Tensor:
    """One group at a time."""
    reduction = naive_rate(rows)
    for key in set(keys.tolist()):
        part = rows[keys == key]
        reduction = reduction - len(part) / len(rows) * naive_rate(part)
    return reduction


def naive_drift(rows: Tensor, before: Tensor, keys: Tensor) -> Tensor:
    """One group at a time."""
    total = torch.zeros(())
    for key in set(keys.tolist()):
        now, then = rows[keys == key], before[keys == key]
        apart = naive_rate(now) / 2 + naive_rate(then) / 2
        total = total + naive_rate(torch.cat([now, then])) - apart
    return total


@pytest.mark.parametrize("rate_on", ["current", "all"])
@pytest.mark.parametrize("attribute", [False, True])
def test_loss_of_the_features_is_that_of_the_formula(rate_on: str, attribute: bool) -> None:
    current, memory = CURRENT, MEMORY
    if not attribute:
        current, memory = without_attribute(current), without_attribute(memory)
    learner = begun(current, memory, rate_on=rate_on)
    before = features_of(learner, memory.x).detach()
    learner.step(batch_of(current, None, memory))
    new, old = features_of(learner, current.x), features_of(learner, memory.x)
    expected = WEIGHTS["gamma"] * naive_drift(old, before, memory.y)
    if rate_on == "all":
        both = torch.cat([current.y, memory.y])
        expected = expected - naive_reduction(torch.cat([new, old]), both)
    else:
        expected = expected - naive_reduction(new, current.y)
    if current.z is not None and memory.z is not None:
        found = learner.adversary
        assert found is not None
        expected = expected + WEIGHTS["beta"] * naive_reduction(found(new), current.z)
        expected = expected + WEIGHTS["eta"] * naive_reduction(found(old), memory.z)
    batch = batch_of(current, None, memory)
    loss = learner.feature_loss(batch, torch.cat([new, old]))
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-4)
    for one, other in zip(
        torch.autograd.grad(loss, [new, old]),
        torch.autograd.grad(expected, [new, old]),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_the_features_before_are_those_of_the_rows_in_the_memory() -> None:
    learner = begun(beta=0, eta=0, gamma=1)
    rows = torch.tensor([7, 2, 5])
    part = MEMORY.take(rows)
    batch = Batch(CURRENT, torch.arange(12), None, part, rows)
    features = features_of(learner, batch.x)
    still = learner.feature_loss(batch, features)
    # Logarithms of determinants add up here, and most of them cancel out.
    expected = -naive_reduction(features[:12], CURRENT.y)
    torch.testing.assert_close(still, expected, rtol=1e-4, atol=1e-4)


def test_the_classifier_is_fitted_to_the_task_and_the_buffer_when_the_task_ends() -> None:
    learner, twin = begun(passes=2, lr=0.01), begun(passes=2, lr=0.01)
    before = parameters(learner.classifier)
    learner.step(batch_of(CURRENT, None, MEMORY))
    twin.step(batch_of(CURRENT, None, MEMORY))
    assert torch.equal(parameters(learner.classifier), before)
    encoder = parameters(learner.net.head[0])  # type: ignore[index]
    learner.end_task(buffer_of(MEMORY))
    fit_classifier(
        twin.classifier,
        Samples(features_of(twin, CURRENT.x).detach(), CURRENT.y),
        Samples(features_of(twin, MEMORY.x).detach(), MEMORY.y),
        twin.generators.method,
        lr=0.01,
        tau=3.0,
        passes=2,
    )
    torch.testing.assert_close(parameters(learner.classifier), parameters(twin.classifier))
    assert torch.equal(parameters(learner.net.head[0]), encoder)  # type: ignore[index]


def test_a_step_of_the_features_is_one_of_adam_on_their_loss() -> None:
    learner, twin = begun(), begun()
    batch = batch_of(CURRENT, None, MEMORY)
    twin.train_adversary(batch, features_of(twin, batch.x).detach())
    weights = [*twin.net.features.parameters(), *twin.net.head[0].parameters()]  # type: ignore[union-attr, index]
    adam = torch.optim.Adam(weights, 1e-4, (0.5, 0.999))
    twin.feature_loss(batch, features_of(twin, batch.x)).backward()  # type: ignore[no-untyped-call]
    adam.step()
    learner.step(batch)
    torch.testing.assert_close(features_of(learner, batch.x), features_of(twin, batch.x))


def test_the_adversary_finds_more_of_the_attribute_and_the_features_hide_it() -> None:
    learner = begun(beta=100, gamma=0, eta=0, feature_lr=0.003)
    batch, adversary = batch_of(CURRENT, None, MEMORY), learner.adversary
    assert adversary is not None
    attribute = torch.tensor([0, 1, 1] * 4)

    def found() -> float:
        return naive_reduction(adversary(features_of(learner, CURRENT.x)), attribute).item()

    before, untouched = found(), features_of(learner, CURRENT.x)
    learner.train_adversary(batch, untouched.detach())
    after = found()
    assert after > before
    assert torch.equal(features_of(learner, CURRENT.x), untouched)
    weights = parameters(adversary)
    learner.optimizer.zero_grad()
    learner.feature_loss(batch, features_of(learner, batch.x)).backward()  # type: ignore[no-untyped-call]
    learner.optimizer.step()
    assert found() < after
    assert torch.equal(parameters(adversary), weights)


def test_every_task_gets_a_new_adversary_and_none_without_an_attribute() -> None:
    learner = begun()
    first = learner.adversary
    learner.begin_task(CURRENT, buffer_of(MEMORY))
    assert first is not None
    assert learner.adversary is not None
    assert not torch.equal(parameters(first), parameters(learner.adversary))
    assert begun(without_attribute(CURRENT), without_attribute(MEMORY)).adversary is None


def test_a_net_that_does_not_end_in_its_last_linear_layer_is_refused() -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.Softmax(dim=1))
    learner = LEARNERS["fairl"](net, FairlOptions(), Generators.from_seed(0))
    with pytest.raises(UsageError, match="logits"):
        learner.begin_task(CURRENT, buffer_of(None))


def features(n: int, width: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(n, width, generator=generator, dtype=torch.float64)
    return layer_norm(values, (width,)).requires_grad_()


def naive_feature_rate(part: Tensor) -> Tensor:
    """By the formula, over the features: ``½ log det(I + d/(n ε²) ZᵀZ)``, ε² = ½."""
    n, width = part.shape
    return torch.logdet(torch.eye(width).double() + 2 * width / n * part.T @ part) / 2


def naive_group_reduction(rows: Tensor, groups: list[list[int]]) -> Tensor:
    """One group at a time."""
    return naive_feature_rate(rows) - sum(
        len(g) / len(rows) * naive_feature_rate(rows[g]) for g in groups
    )


def agree(fast: Tensor, slow: Tensor, *inputs: Tensor) -> None:
    torch.testing.assert_close(fast, slow)
    for one, other in zip(
        torch.autograd.grad(fast, inputs), torch.autograd.grad(slow, inputs), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("n", [1, 5, 20])
@pytest.mark.parametrize("width", [2, 8])
def test_rate_is_that_of_the_formula(n: int, width: int) -> None:
    rows = features(n, width)
    agree(rate(rows), naive_feature_rate(rows), rows)


@pytest.mark.parametrize("width", [3, 16])
def test_rate_reduction_is_that_of_a_loop_over_the_groups(width: int) -> None:
    rows, keys = features(9, width), torch.tensor([4, 0, 4, 7, 0, 4, 4, 0, 4])
    groups = [[1, 4, 7], [0, 2, 5, 6, 8], [3]]
    agree(rate_reduction(rows, keys), naive_group_reduction(rows, groups), rows)


def test_several_columns_make_a_group_of_each_combination() -> None:
    rows, keys = features(6, 4), torch.tensor([[0, 1], [1, 0], [0, 1], [1, 1], [1, 0], [0, 1]])
    agree(rate_reduction(rows, keys), naive_group_reduction(rows, [[0, 2, 5], [1, 4], [3]]), rows)


def test_one_group_has_nothing_to_reduce() -> None:
    rows = features(7, 5)
    reduction = rate_reduction(rows, torch.full((7,), 3))
    assert reduction.item() == pytest.approx(0)
    assert torch.autograd.grad(reduction, rows)[0].abs().max() < 1e-12


def test_drift_is_that_of_a_loop_over_the_groups() -> None:
    rows, before = features(7, 6), features(7, 6, seed=1).detach()
    keys, groups = torch.tensor([2, 2, 0, 1, 0, 2, 2]), [[0, 1, 5, 6], [2, 4], [3]]
    slow = sum(
        naive_feature_rate(torch.cat([rows[g], before[g]]))
        - naive_feature_rate(rows[g]) / 2
        - naive_feature_rate(before[g]) / 2
        for g in groups
    )
    assert isinstance(slow, Tensor)
    agree(drift(rows, before, keys), slow, rows)


def test_what_did_not_move_has_no_drift() -> None:
    rows, keys = features(8, 5), torch.tensor([0, 1] * 4)
    still = drift(rows, rows.detach(), keys)
    assert still.item() == pytest.approx(0)
    assert torch.autograd.grad(still, rows)[0].abs().max() < 1e-12
    assert drift(rows, features(8, 5, seed=1), keys) > 0.1


def test_single_precision_is_enough_for_identical_wide_features() -> None:
    rows = features(1, 256).detach().expand(128, 256)
    exact = rate(rows)
    assert rate(rows.float()).item() == pytest.approx(exact.item(), rel=1e-3)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize(
    "net",
    [
        nn.Sequential(nn.Linear(6, 7), nn.Sequential(nn.ReLU(), nn.Linear(7, 5))),
        build_mlp(6, 5, (8,), seed=0),
        nn.Linear(6, 5),
    ],
    ids=["nested", "mlp", "only a head"],
)
def test_the_features_are_normalised_whatever_the_net(net: nn.Module, kind: str) -> None:
    net, classifier = with_projector(net, kind, torch.Generator().manual_seed(0))
    assert len(classifier.features) == (2 if kind == "mlp" else 0)
    seen: list[Tensor] = []
    classifier.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    logits = net(torch.randn(12, 6, generator=torch.Generator().manual_seed(1)))
    assert logits.shape == (12, 5)
    assert torch.equal(logits, classifier(seen[0]))
    torch.testing.assert_close(seen[0].mean(dim=1), torch.zeros(12), atol=1e-5, rtol=0)
    spread = seen[0].var(dim=1, correction=0)
    torch.testing.assert_close(spread, torch.ones(12), atol=0.05, rtol=0)
