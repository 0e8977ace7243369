"""iCaRL: distillation with sigmoid outputs, herded exemplars, nearest-mean-of-exemplars rule."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, normalize, one_hot

from faircil.compute import chunk_size
from faircil.learners.base import (
    Batch,
    Generators,
    Learner,
    Material,
    NonNegative,
    Options,
    ReplayBuffer,
    Samples,
    rows_of_groups,
    unique_rows,
)
from faircil.learners.distillation import Teacher, teach
from faircil.nets import features_of, find_head, with_features


def herd(features: Tensor, count: int) -> Tensor:
    """Choose samples one by one so that their mean stays close to the mean of all samples.

    Let μ be the mean of all features and s the sum of the k − 1 chosen before. The k-th minimises
    ``‖μ − (s + φ_j)/k‖``. Multiplied by k and squared, this is ``‖kμ − s‖² − 2 φ_j·(kμ − s) +
    ‖φ_j‖²``: the products ``φ_j·μ`` are computed once, and the products ``φ_j·s`` need one product
    of the features with a vector for each sample chosen.

    Parameters
    ----------
    features : Tensor, shape (n, d)
    count : int
        Number of samples to choose; all n if there are fewer.

    Returns
    -------
    Tensor of int64, shape (min(count, n),)
        Rows in the order of choice.
    """
    to_mean = features @ features.mean(dim=0)
    rest = -features.square().sum(dim=1) / 2  # −φ_j·s − ½‖φ_j‖²; −inf once chosen
    order = torch.zeros(min(count, len(features)), dtype=torch.int64, device=features.device)
    for k in range(len(order)):
        best = torch.argmax((k + 1) * to_mean + rest)
        order[k] = best
        rest -= features @ features[best]
        rest[best] = -torch.inf
    return order


def herd_each(features: Tensor, keys: Tensor, count: int) -> Tensor:
    """Herd the samples of each key; return their rows, key by key, in order of choice.

    Parameters
    ----------
    features : Tensor, shape (n, d)
    keys : Tensor of int64, shape (n, columns)
        Samples with equal rows are herded together.
    count : int
        Number of samples per key.
    """
    lists, index = unique_rows(keys)
    rows_of = rows_of_groups(index, len(lists))
    return torch.cat([rows[herd(features[rows], count)] for rows in rows_of])


def first_of_each_class(samples: Samples, count: int) -> Samples:
    """Keep the first ``count`` samples of each class, in order."""
    classes, index = unique_rows(samples.keys(by_attribute=False))
    kept = [rows[:count] for rows in rows_of_groups(index, len(classes))]
    return samples.take(torch.cat(kept).sort().values)


class IcarlOptions(Options):
    """Settings of iCaRL."""

    tau: NonNegative = 1.0
    """weight of the memory batch's loss"""
    quota: Literal["group", "total"] = "group"
    """how the buffer is divided: group, buffer_size exemplars for each class and attribute value;
    total, the size that all groups need, shared equally by the classes seen (the original rule)"""
    prototypes: Literal["exemplars", "all"] = "exemplars"
    """data for the means of the latest task's classes: exemplars, or all training data, which later
    tasks do not have"""


class Icarl(Learner):
    """Minimise ``loss of the current batch + τ · loss of a memory batch``; predict by means.

    The loss is binary cross-entropy, averaged over samples and all outputs. Targets are one-hot
    for outputs of new classes, and the previous net's outputs for old classes. Weights apply to
    the current samples' losses at outputs of new classes; the others are distillation. The original
    takes one mean over the task and the buffer together.

    The prediction is the class with the nearest mean of exemplars, in normalised features. The
    means are computed at the end of a task and used until training changes the net; during
    training, scores are logits.

    With ``quota=total`` there are M = buffer_size · classes · attribute values exemplars, M // seen
    classes of each; when a class is added, the lists of the others are truncated. Lists are in
    herding order, so a truncated list is what herding fewer samples would have chosen.
    """

    options = IcarlOptions
    divisible = True

    settings: IcarlOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.targets: Teacher | None = None  # targets of the outputs in the current task
        self.is_old = torch.zeros(0)  # (classes,), 1 or 0
        self.means: Tensor | None = None  # (classes, d), NaN for classes without exemplars
        self.full_means: Tensor | None = None  # the same over the task's training data
        self.attribute_values: set[tuple[int, ...]] = set()

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Compute the targets of all outputs for all training samples."""
        material = super().begin_task(train, buffer)
        self.means = self.full_means = None
        logits = teach(self, material)
        self.is_old = torch.zeros(logits.current.shape[1], device=train.y.device)
        self.is_old[list(self.old)] = 1

        def targets(samples: Samples, said: Tensor) -> Tensor:
            hard = one_hot(samples.y, len(self.is_old))
            return torch.where(self.is_old > 0, said.sigmoid(), hard)

        memory = None
        if material.memory is not None and logits.memory is not None:
            memory = targets(material.memory, logits.memory)
        self.targets = Teacher(targets(train, logits.current), memory)
        return material

    def loss(self, batch: Batch) -> Tensor:
        """Compute both terms in one forward pass."""
        assert self.targets is not None
        losses = binary_cross_entropy_with_logits(
            self.net(batch.x), self.targets.of(batch), reduction="none"
        ) / len(self.is_old)  # a sum over outputs is then their mean
        current, memory = batch.split(losses)
        kept = (current @ self.is_old).sum() / max(batch.size, 1)
        loss = batch.weighted_mean(current @ (1 - self.is_old)) + kept
        if batch.memory is None:
            return loss
        return loss + self.settings.tau * batch.memory_mean(memory.sum(1))

    def remember(
        self, train: Samples, weights: Tensor | None, buffer: ReplayBuffer
    ) -> ReplayBuffer:
        """Herd exemplars of each group; or of each class, truncating the other lists."""
        del weights
        features = normalize(train.mapped(partial(features_of, self.net)))
        if self.settings.prototypes == "all":
            self.full_means = class_means(features, train.y, len(self.is_old))
        if self.settings.quota == "group":
            return buffer.with_samples(train.take(herd_each(features, train.keys(), buffer.quota)))
        values, _ = unique_rows(train.keys()[:, 1:])
        self.attribute_values |= {tuple(row) for row in values.tolist()}
        total = buffer.quota * len(self.is_old) * len(self.attribute_values)
        count = total // len(self.old + self.new)
        kept = None if buffer.samples is None else first_of_each_class(buffer.samples, count)
        chosen = herd_each(features, train.keys(by_attribute=False), count)
        return ReplayBuffer(buffer.quota, kept).with_samples(train.take(chosen))

    def end_task(self, buffer: ReplayBuffer) -> None:
        """Compute the means of the exemplars' current features."""
        if buffer.samples is None:
            return
        features = normalize(features_of(self.net, buffer.samples.x))
        self.means = class_means(features, buffer.samples.y, len(self.is_old))
        if self.full_means is not None:
            self.means = torch.where(self.full_means.isnan(), self.means, self.full_means)

    def logits(self, x: Tensor) -> Tensor:
        """Return negative squared distances from the means; −inf for classes without a mean."""
        if self.means is None:
            return super().logits(x)
        _, features = with_features(self.net, find_head(self.net, x), x)
        features = normalize(features)
        # −‖φ − μ‖²; the mean of no exemplars is NaN.
        lengths = features.square().sum(dim=1, keepdim=True) + self.means.square().sum(dim=1)
        return (2 * features @ self.means.T - lengths).nan_to_num(nan=-torch.inf)

    def scores(self, x: Tensor) -> Tensor:
        """Return the logits chunk by chunk; the feature hook is not thread-safe."""
        self.net.eval()
        with torch.no_grad():
            return torch.cat([self.logits(part) for part in torch.split(x, chunk_size(x.device))])


def class_means(features: Tensor, y: Tensor, classes: int) -> Tensor:
    """Return the mean of each class's features, normalised; NaN for an absent class.

    Parameters
    ----------
    features : Tensor, shape (n, d)
    y : Tensor of int64, shape (n,)
    classes : int

    Returns
    -------
    Tensor, shape (classes, d)
    """
    members = one_hot(y, classes).to(features.dtype)
    return normalize(members.T @ features / members.sum(dim=0)[:, None])
