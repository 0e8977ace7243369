from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from faircil.learners import Batch
from faircil.learners.lws import ClusterReplay, clusters_within, loss_levels, suited_weights
from faircil.samples import Samples
from learning import batch_of, buffer_of, gradient, moved, new_learner, of_classes, random_samples

K = 3
TAU, GAMMA, CLUSTERS, DISTILL = 3.0, 0.4, 0.6, 0.7


def learner_of(**settings: object) -> ClusterReplay:
    given = {"tau": TAU, "gamma": GAMMA, "replay_clusters": CLUSTERS, "distill": DISTILL}
    learner = new_learner("lws", **{**given, "clusters_per_class": K, **settings})
    assert isinstance(learner, ClusterReplay)
    return learner


def two_tasks(**settings: object) -> tuple[ClusterReplay, Samples, Samples]:
    """Return a learner in its second task, the task, and its memory."""
    learner, first = learner_of(**settings), of_classes(40, [0, 2], seed=1, attribute=True)
    buffer = buffer_of(None, 3)
    learner.begin_task(first, buffer)
    learner.step(batch_of(first))
    buffer = learner.remember(first, None, buffer)
    learner.end_task(buffer)
    moved(learner)
    second = of_classes(30, [1, 4], seed=2, attribute=True)
    memory = learner.begin_task(second, buffer).memory
    assert memory is not None
    return learner, second, memory


def cluster_logits(learner: ClusterReplay, x: Tensor, cluster: int) -> Tensor:
    """Return the logits of the K clusters of one class, (K,), for one input."""
    features = learner.net.features(x[None])
    every = torch.cat([head(features)[0] for head in learner.cluster_heads])
    start = cluster // K * K
    return every[start : start + K]


def naive_loss(learner: ClusterReplay, current: Samples, memory: Samples) -> Tensor:
    """One sample at a time."""
    total = torch.zeros(())
    for row, (x, y) in enumerate(zip(current.x, current.y, strict=True)):
        cluster = int(learner.cluster[row])
        weight = learner.weight[cluster - learner.first]
        told = cluster_logits(learner, x, cluster)
        own = weight * cross_entropy(learner.net(x[None])[0], y)
        place = torch.tensor(cluster % K)
        total = total + (own + GAMMA * cross_entropy(told, place)) / len(current)
    for row, (x, y) in enumerate(zip(memory.x, memory.y, strict=True)):
        cluster = int(learner.memory_cluster[row])
        total = total + TAU * cross_entropy(learner.net(x[None])[0], y) / len(memory)
        if cluster < 0:
            continue
        told = cluster_logits(learner, x, cluster)
        replayed = CLUSTERS * cross_entropy(told, torch.tensor(cluster % K))
        apart = DISTILL * (told - learner.memory_logits[row]).square().mean()
        total = total + (replayed + apart) / len(memory)
    return total


@pytest.mark.parametrize("known", [True, False])
def test_the_loss_is_that_of_samples_one_at_a_time(known: bool) -> None:
    learner, current, memory = two_tasks()
    learner.weight.copy_(torch.linspace(0.2, 2.0, len(learner.weight)))
    if not known:
        learner.memory_cluster[::2] = -1
    found = learner.loss(batch_of(current, None, memory))
    expected = naive_loss(learner, current, memory)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradient(learner.net, found), gradient(learner.net, expected))


def test_layers_of_clusters_are_trained_and_each_task_has_its_own() -> None:
    learner, current, memory = two_tasks()
    before = [head.weight.detach().clone() for head in learner.cluster_heads]
    assert [tuple(weight.shape) for weight in before] == [(2 * K, 8), (2 * K, 8)]
    learner.step(batch_of(current, None, memory))
    after = [head.weight for head in learner.cluster_heads]
    assert all(not torch.equal(*pair) for pair in zip(before, after, strict=True))


def test_the_buffer_keeps_its_clusters_and_their_logits() -> None:
    learner, second, memory = two_tasks()
    clusters, logits = learner.memory_cluster.clone(), learner.memory_logits.clone()
    assert len(clusters) == len(logits) == len(memory) == 12  # 3 of each of four groups
    # Classes 0 and 2 are the first two of the first task, with K clusters each.
    assert torch.equal(clusters // K, (memory.y == 2).long())
    buffer = learner.remember(second, None, buffer_of(memory, 3))
    assert buffer.samples is not None
    assert torch.equal(learner.memory_cluster[:12], clusters)
    assert torch.equal(learner.memory_logits[:12], logits)
    for row in range(12, len(buffer.samples)):
        cluster = int(learner.memory_cluster[row])
        assert cluster // K == 2 + int(buffer.samples.y[row] == 4)
        expected = cluster_logits(learner, buffer.samples.x[row], cluster)
        torch.testing.assert_close(learner.memory_logits[row], expected)


def test_weights_suit_the_mean_losses_of_clusters() -> None:
    cluster = torch.tensor([0, 0, 0, 1, 1, 3])
    losses = torch.tensor([1.0, 2.0, 3.0, 1.0, 1.0, 5.0])
    means, sizes = [2.0, 1.0, 0.0, 5.0], [3, 2, 1, 1]
    expected = [6 * mean / (size * 8) for mean, size in zip(means, sizes, strict=True)]
    found = suited_weights(cluster, losses, 4)
    torch.testing.assert_close(found, torch.tensor(expected))
    assert float(found[cluster].mean()) == pytest.approx(1)
    even = suited_weights(cluster, torch.ones(6), 4)
    torch.testing.assert_close(even * torch.tensor([3, 2, 0, 1]), torch.tensor([2.0, 2, 0, 2]))


def test_weights_start_at_one_and_move_to_those_that_suit() -> None:
    learner, train = learner_of(weight_step=0.3), random_samples(40)
    learner.begin_task(train, buffer_of(None))
    learner.begin_epoch(1, 5)
    assert learner.weight.eq(1).all()
    learner.step(batch_of(train))

    def suited() -> Tensor:
        logits = learner.net(train.x).detach()
        own = cross_entropy(logits, train.y, reduction="none")
        told = learner.told(learner.net.features(train.x), learner.cluster).detach()
        own = own + GAMMA * cross_entropy(told, learner.cluster % K, reduction="none")
        return suited_weights(learner.cluster, own, len(learner.weight))

    first = learner.losses.clone()
    learner.begin_epoch(2, 5)
    second = suited_weights(learner.cluster, first, len(learner.weight))
    torch.testing.assert_close(learner.weight, second)
    expected = suited()  # losses are those before the step
    learner.step(batch_of(train))
    learner.begin_epoch(3, 5)
    torch.testing.assert_close(learner.weight, 0.7 * second + 0.3 * expected)


def test_clusters_lie_within_classes_and_follow_directions() -> None:
    generator = torch.Generator().manual_seed(0)
    y, side = torch.arange(60) % 2, torch.arange(60) // 2 % 2
    features = 0.05 * torch.randn(60, 4, generator=generator)
    features[torch.arange(60), 2 * y + side] += 1 + torch.rand(60, generator=generator)
    found = clusters_within(y, features, 2, torch.Generator().manual_seed(1))
    assert torch.equal(found // 2, y)
    for label in (0, 1):
        own = found[y == label] % 2
        assert own.unique().tolist() == [0, 1]
        assert torch.equal(own, side[y == label]) or torch.equal(own, 1 - side[y == label])


def test_a_class_with_few_samples_has_few_clusters() -> None:
    found = clusters_within(torch.tensor([3, 3, 7]), torch.eye(3), 5, torch.Generator())
    assert sorted(found.tolist()) == [0, 1, 5]


def test_levels_of_loss_have_equal_width() -> None:
    losses = torch.tensor([0.0, 0.1, 0.24, 0.26, 0.6, 1.0])
    assert loss_levels(losses, 4).tolist() == [0, 0, 0, 1, 2, 3]
    assert loss_levels(torch.ones(3), 4).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("quota", "kept_hard"), [("group", 6), ("class", 10)])
def test_the_buffer_has_samples_of_all_levels_of_loss(quota: str, kept_hard: int) -> None:
    # Ten samples of the common value are hard; the rare value is easy, with ten samples.
    y, z = torch.zeros(110, dtype=torch.int64), (torch.arange(110) >= 100).long()
    train = Samples(torch.randn(110, 6), y, z)
    learner = learner_of(loss_bins=2, quota=quota)
    learner.begin_task(train, buffer_of(None, 12))
    hard = torch.arange(110) < 10
    learner.early_losses = torch.where(hard, 2.0, 0.1) + 0.01 * torch.rand(110)
    kept = learner.remember(train, None, buffer_of(None, 12)).samples
    assert kept is not None
    rows = [int((train.x == x).all(dim=1).nonzero()) for x in kept.x]
    assert sum(row < 10 for row in rows) == kept_hard
    assert len(rows) == len(set(rows)) == (12 + 10 if quota == "group" else 24)


def test_the_attribute_is_not_looked_at() -> None:
    train = random_samples(60, attribute=True)
    assert train.z is not None
    found = []
    for z in (train.z, train.z.flip(0)):
        learner = learner_of(quota="class")
        samples = Samples(train.x, train.y, z)
        learner.begin_task(samples, buffer_of(None, 2))
        learner.step(Batch(samples, torch.arange(60)))
        kept = learner.remember(samples, None, buffer_of(None, 2)).samples
        assert kept is not None
        found.append(kept.x)
    assert torch.equal(*found)


@pytest.mark.parametrize(("epochs", "when"), [(10, 3), (5, 2), (2, 2)])
def test_losses_for_the_buffer_are_measured_early(epochs: int, when: int) -> None:
    learner, train = learner_of(early=0.2), random_samples(40)
    learner.begin_task(train, buffer_of(None))
    for epoch in range(1, epochs + 1):
        learner.begin_epoch(epoch, epochs)
        if epoch == when:
            early = cross_entropy(learner.net(train.x).detach(), train.y, reduction="none")
        assert (learner.early_losses is not None) == (epoch >= when)
        learner.step(batch_of(train))
    assert learner.early_losses is not None
    torch.testing.assert_close(learner.early_losses, early)
