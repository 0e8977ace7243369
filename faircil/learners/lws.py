"""LwS (learning without shortcuts): clusters replace an attribute that is unknown.

A shortcut shows in the losses: samples that it fits are learned early, the others late. Similar
samples of a class form a cluster, and a cluster with a large loss gets a large weight. The buffer
is filled from all levels of loss, so that not only samples with the shortcut are replayed. Training
never uses the attribute.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize, pad

from faircil.learners.base import (
    Batch,
    Count,
    Generators,
    Learner,
    Material,
    NonNegative,
    Options,
    ReplayBuffer,
    Samples,
    Share,
    TauOptions,
    rows_of_groups,
    unique_rows,
)
from faircil.learners.replay import in_turn
from faircil.nets import build_mlp, features_of, find_head, with_features

ROUNDS = 100  # of k-means, at most
NO_CLUSTER = -1
LEAST = 1e-12  # smallest sum of losses


class ClusterReplayOptions(TauOptions):
    """Settings of learning without shortcuts."""

    clusters_per_class: Count = 8
    """number of clusters that the samples of a class are divided into"""
    gamma: NonNegative = 1.0
    """weight of the loss of the clusters, for current samples"""
    replay_clusters: NonNegative = 1.0
    """weight of the loss of the clusters, for replayed samples"""
    distill: NonNegative = 1.0
    """weight of the squared error between the cluster logits of the buffer and those stored"""
    weight_step: Share = 0.3
    """how far the weight of a cluster moves per epoch towards the one that suits its loss"""
    loss_bins: Annotated[int, Field(ge=1, le=1000)] = 4
    """number of loss levels from which samples for the buffer are drawn equally"""
    early: Share = 0.2
    """share of the task's epochs after which the losses for the buffer are measured"""
    quota: Literal["group", "class"] = "group"
    """how the buffer is divided: group, buffer_size samples for each group; class, the same total
    without regard to the attribute (the original rule)"""


class ClusterReplay(Learner):
    """Minimise ``mean(v · CE) + γ · mean(CE_c)`` plus terms of the memory batch.

    At the start of a task, each class is divided into clusters by k-means, using cosines of the
    features of the initial net. CE_c is the cross-entropy of a linear layer on the features that
    predicts the cluster within a sample's class; every class of every task has such a layer. A
    memory batch adds ``τ · mean(CE) + replay_clusters · mean(CE_c) + distill · mean((c(x) −
    stored)²)``, the last over cluster logits stored when the samples entered the buffer.

    v is the weight of a sample's cluster: 1 in the first epoch, then moving towards ``N ℓ_c / (n_c
    Σ_c ℓ_c)``. Here n_c of the task's N samples are in cluster c, and ℓ_c is the mean of ``CE + γ
    CE_c`` over them in the last epoch. With these weights, the mean of v is 1, and clusters with
    the same loss count equally, regardless of size.

    For the buffer, losses are measured early, when little but the shortcut has been learned. The
    samples of a class are divided into ``loss_bins`` of equal width between their smallest and
    largest loss; samples are taken from the bins in turn until the quota is reached.

    Differences from the original: it has binary tasks with a sigmoid each, whereas here there is
    one softmax over all classes. Its initial net is pre-trained; ours is the initial net of the
    run. It updates the weight of a sample after every step with it; here, that of a cluster is
    updated after every epoch. It fills the buffer during the task, and draws a memory batch for
    each of two terms. Finally, our quota is per group, as for all methods, unless ``quota=class``.
    """

    options = ClusterReplayOptions

    settings: ClusterReplayOptions
    train: Samples
    head: nn.Linear

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        self.initial = deepcopy(net)
        self.cluster_heads = nn.ModuleList()  # one per task, with (classes · clusters) outputs
        super().__init__(net, settings, generators)
        nothing = torch.zeros(0, device=next(net.parameters()).device)
        # A cluster's number is the index of its class among the classes of all tasks, times k,
        # plus its index within the class.
        self.first = 0  # number of the task's first cluster
        self.cluster = nothing.long()  # of the current samples, (n,)
        self.weight = nothing  # v of the task's clusters
        self.losses = nothing  # of the current samples in their last step, (n,)
        self.early_losses: Tensor | None = None  # (n,), once they are measured
        self.memory_cluster = nothing.long()  # of the buffer, (m,)
        self.memory_logits = nothing[:, None].expand(-1, self.settings.clusters_per_class)

    def new_optimizer(self) -> torch.optim.Optimizer:
        """Create the optimizer of the net and of the cluster layers."""
        optimizer = super().new_optimizer()
        if len(self.cluster_heads):
            optimizer.add_param_group({"params": list(self.cluster_heads.parameters())})
        return optimizer

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Find the clusters, and add a layer that predicts them."""
        k, generator = self.settings.clusters_per_class, self.generators.method
        self.first += len(self.weight)
        self.train, self.head = train, find_head(self.net, train.x)
        self.cluster = self.first + clusters_within(
            train.y, features_of(self.initial, train.x), k, generator
        )
        count = k * len(torch.unique(train.y))
        seed = int(torch.randint(2**62, (), generator=generator))
        added = build_mlp(self.head.in_features, count, (), seed).head
        self.cluster_heads.append(added.to(self.head.weight.device))
        self.weight = torch.ones(count, device=train.y.device)
        self.losses, self.early_losses = torch.zeros(len(train), device=train.y.device), None
        # Buffer samples that were added from outside have no cluster.
        missing = (0 if buffer.samples is None else len(buffer.samples)) - len(self.memory_cluster)
        self.memory_cluster = pad(self.memory_cluster, (0, missing), value=NO_CLUSTER)
        self.memory_logits = pad(self.memory_logits, (0, 0, 0, missing))
        return super().begin_task(train, buffer)

    def begin_epoch(self, epoch: int, epochs: int) -> None:
        """Update the cluster weights; measure the losses for the buffer in the given epoch."""
        if epoch > 1:
            suited = suited_weights(self.cluster - self.first, self.losses, len(self.weight))
            step = 1.0 if epoch == 2 else self.settings.weight_step
            self.weight.lerp_(suited, step)  # in place, at the address that a recorded step reads
        if epoch == 1 + max(1, round(self.settings.early * epochs)):
            self.early_losses = self._current_losses()

    def loss(self, batch: Batch) -> Tensor:
        """Compute all terms in one forward pass."""
        settings, memory_rows = self.settings, batch.memory_rows
        logits, features = with_features(self.net, self.head, batch.x)
        cluster = self.cluster.index_select(0, batch.rows)
        if memory_rows is not None:
            cluster = torch.cat([cluster, self.memory_cluster.index_select(0, memory_rows)])
        told = self.told(features, cluster)
        place = torch.where(cluster < 0, NO_CLUSTER, cluster % settings.clusters_per_class)
        of_class = batch.split(cross_entropy(logits, batch.y, reduction="none"))
        of_cluster = batch.split(
            cross_entropy(told, place, reduction="none", ignore_index=NO_CLUSTER)
        )
        seen = of_class[0] + settings.gamma * of_cluster[0]
        self.losses.index_copy_(0, batch.rows, seen.detach())
        weight = self.weight.index_select(0, batch.split(cluster)[0] - self.first)
        loss = (weight * of_class[0]).mean() + settings.gamma * of_cluster[0].mean()
        if memory_rows is None:
            return loss
        stored = self.memory_logits.index_select(0, memory_rows)
        apart = (batch.split(told)[1] - stored).square().mean(dim=1)
        return (
            loss
            + settings.tau * of_class[1].mean()
            + settings.replay_clusters * of_cluster[1].mean()
            + settings.distill * (apart * (batch.split(cluster)[1] >= 0)).mean()
        )

    def told(self, features: Tensor, cluster: Tensor) -> Tensor:
        """Return the logits of the clusters within each sample's class.

        Parameters
        ----------
        features : Tensor, shape (n, d)
        cluster : Tensor of int64, shape (n,)
            Clusters of the samples.

        Returns
        -------
        Tensor, shape (n, k)
        """
        k = self.settings.clusters_per_class
        every = torch.cat([head(features) for head in self.cluster_heads], dim=1)
        place = (cluster // k).clamp(min=0)[:, None, None].expand(-1, 1, k)
        return every.view(len(features), -1, k).gather(1, place).squeeze(1)

    def remember(
        self, train: Samples, weights: Tensor | None, buffer: ReplayBuffer
    ) -> ReplayBuffer:
        """Add samples from all levels of loss, and store their cluster logits."""
        del weights
        losses = self._current_losses() if self.early_losses is None else self.early_losses
        _, group = unique_rows(train.keys(self.settings.quota == "group"))
        _, cell = unique_rows(train.keys())
        chosen = []
        for rows in rows_of_groups(group, int(group.max()) + 1):
            level = loss_levels(losses[rows], self.settings.loss_bins)
            order = in_turn(level, self.generators.buffer)
            chosen.append(rows[order[: buffer.quota * len(torch.unique(cell[rows]))]])
        kept = torch.cat(chosen)
        self.memory_cluster = torch.cat([self.memory_cluster, self.cluster[kept]])
        with torch.no_grad():
            stored = self.told(features_of(self.net, train.x[kept]), self.cluster[kept])
        self.memory_logits = torch.cat([self.memory_logits, stored])
        return buffer.with_samples(train.take(kept))

    def _current_losses(self) -> Tensor:
        return cross_entropy(self.scores(self.train.x), self.train.y, reduction="none")


def clusters_within(y: Tensor, features: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """Divide each class into up to k clusters by k-means with cosines.

    Parameters
    ----------
    y : Tensor of int64, shape (n,)
    features : Tensor, shape (n, d)
    k : int
    generator : torch.Generator
        On the CPU; draws the first centres.

    Returns
    -------
    Tensor of int64, shape (n,)
        k times the index of the sample's class among the classes, plus its cluster's index in it.
    """
    place: Tensor
    _, place = torch.unique(y, return_inverse=True)
    cluster = place * k
    for rows in rows_of_groups(place, int(place.max()) + 1):
        x = normalize(features[rows])
        centres = x[torch.randperm(len(x), generator=generator)[:k].to(x.device)]
        owner = (x @ centres.T).argmax(dim=1)
        for _ in range(ROUNDS):
            # A matrix product rather than a scatter, as it is deterministic on a GPU as well.
            member = owner == torch.arange(len(centres), device=x.device)[:, None]
            sums = member.to(x.dtype) @ x
            centres = torch.where(member.any(dim=1, keepdim=True), normalize(sums), centres)
            before, owner = owner, (x @ centres.T).argmax(dim=1)
            if torch.equal(owner, before):
                break
        cluster[rows] += owner
    return cluster


def suited_weights(cluster: Tensor, losses: Tensor, clusters: int) -> Tensor:
    """Return ``N ℓ_c / (n_c Σ_c ℓ_c)`` for each cluster, (clusters,).

    Parameters
    ----------
    cluster : Tensor of int64, shape (N,)
        Cluster of each sample.
    losses : Tensor, shape (N,)
    clusters : int
        Number of clusters; empty ones have weight 0.
    """
    member = cluster == torch.arange(clusters, device=cluster.device)[:, None]
    size = member.sum(dim=1).clamp(min=1)
    mean = member.to(losses.dtype) @ losses / size
    weights: Tensor = len(losses) * mean / (size * mean.sum().clamp(min=LEAST))
    return weights


def loss_levels(losses: Tensor, bins: int) -> Tensor:
    """Return the bin of each loss, (n,), among bins of equal width between the extremes."""
    low, high = losses.min(), losses.max()
    place = (losses - low) / (high - low).clamp(min=LEAST) * bins
    return place.long().clamp(max=bins - 1)
