"""FaIRL: features trained by rate reduction to separate classes but not attribute values.

The rate of features ``Z``, one row per sample, n rows of width d, is

    R(Z) = ½ log det(I + d/(n ε²) ZᵀZ),        ε² = ½.

It is large if the features span many directions. The rate given groups, ``R_c``, is the mean of the
groups' own rates, weighted by their sizes; ``ΔR = R − R_c`` is large if every group is compact and
all of them together spread out.

Two identities make this cheap. First, ``det(I + ZᵀZ) = det(I + ZZᵀ)``: a batch has fewer samples
than features, so the n × n matrix is the smaller one. Second, if the entries of ``ZZᵀ`` between
samples of different groups are set to zero, the matrix has one block per group, up to the order of
rows. Its Cholesky factor then has the same blocks, and ``Σ log L_ii`` over the rows of a group is
the group's ½ log det. So one factorisation gives the rates of all groups, regardless of their
number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from faircil.compute import chunk_size, chunks_of
from faircil.learners.base import (
    Batch,
    BufferOptions,
    Count,
    Generators,
    Material,
    NonNegative,
    Positive,
    ReplayBuffer,
    Samples,
    TauOptions,
)
from faircil.learners.replay import Buffered, fit_classifier
from faircil.nets import (
    MLP,
    build_mlp,
    evaluating,
    find_head,
    last_linear,
    with_features,
    with_last,
)

DISTORTION = 0.5  # ε²


def with_projector(net: nn.Module, kind: str, generator: torch.Generator) -> tuple[nn.Module, MLP]:
    """Replace the net's last linear layer; return the net and its classifier.

    Parameters
    ----------
    net : Module
        Modified in place, unless it is a single linear layer.
    kind : str
        ``linear``, or ``mlp`` for one hidden layer.
    generator : torch.Generator
        Draws the initial weights.
    """
    head = last_linear(net)
    width = head.in_features
    projector = normalised_mlp(width, generator)
    hidden = (width,) if kind == "mlp" else ()
    classifier = build_mlp(width, head.out_features, hidden, _seed(generator))
    tail = nn.Sequential(projector, classifier).to(head.weight.device)
    return with_last(net, tail), classifier


def normalised_mlp(width: int, generator: torch.Generator) -> nn.Module:
    """Build an MLP of three layers of the same width with a per-sample normalised output."""
    mlp = build_mlp(width, width, (width, width), _seed(generator))
    return nn.Sequential(mlp, nn.LayerNorm(width, elementwise_affine=False))


def _seed(generator: torch.Generator) -> int:
    return int(torch.randint(2**62, (), generator=generator))


def rate(features: Tensor) -> Tensor:
    """Return the rate of all features, a scalar.

    Parameters
    ----------
    features : Tensor, shape (n, d)
    """
    everyone = features.new_zeros(len(features), dtype=torch.int64)
    return shares(features, everyone).sum()


def rate_reduction(features: Tensor, keys: Tensor) -> Tensor:
    """Return ``ΔR`` of the features and their groups, a scalar; 0 if there is one group.

    Parameters
    ----------
    features : Tensor, shape (n, d)
    keys : Tensor, shape (n,) or (n, columns)
        Samples with equal keys are in the same group.
    """
    size = same_group(keys).sum(dim=1)
    return rate(features) - (size * shares(features, keys)).sum() / max(len(features), 1)


def drift(features: Tensor, before: Tensor, keys: Tensor) -> Tensor:
    """Return the drift of the features, summed over the groups, a scalar.

    For a group with current features ``Z`` and earlier features ``Z̄`` it is
    ``R(Z ∪ Z̄) − ½ R(Z) − ½ R(Z̄)``, which is 0 if they are equal.

    Parameters
    ----------
    features, before : Tensor, shape (n, d)
        Features of the same samples.
    keys : Tensor, shape (n,) or (n, columns)
        Their groups.
    """
    both, keys = torch.cat([features, before]), keys.reshape(len(keys), -1)
    moment = torch.arange(2, device=keys.device).repeat_interleave(len(keys))
    together = torch.cat([keys, keys])
    apart = torch.cat([together, moment[:, None]], dim=1)
    return shares(both, together).sum() - shares(both, apart).sum() / 2


def shares(features: Tensor, keys: Tensor) -> Tensor:
    """Return each sample's contribution to the rate of its group, (n,); they sum to the rate.

    The contributions depend on the order of the samples; their sum does not.
    """
    same = same_group(keys)
    scale = features.shape[1] / (same.sum(dim=1) * DISTORTION)
    gram = scale[:, None] * same * (features @ features.T)
    identity = torch.eye(len(features), dtype=features.dtype, device=features.device)
    factor: Tensor = torch.linalg.cholesky_ex(gram + identity).L
    return factor.diagonal().log()


def same_group(keys: Tensor) -> Tensor:
    """Return whether pairs of samples share a group, (n, n), from keys (n,) or (n, columns)."""
    keys = keys.reshape(len(keys), -1)
    return (keys[:, None] == keys).all(dim=2)


class FairlOptions(TauOptions, BufferOptions):
    """Settings of FaIRL."""

    lr: Positive = 0.001
    """learning rate of Adam for the classifier"""
    passes: Count = 5
    """passes over the task to train the classifier, after the features"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """β₁ of Adam for the features and the adversary"""
    feature_lr: Positive = 0.0001
    """learning rate of Adam for the features and the adversary"""
    tau: NonNegative = 1.0
    """weight of the buffer in the classifier's loss"""
    beta: NonNegative = 0.01
    """weight of the adversary's objective on current samples"""
    gamma: NonNegative = 1.0
    """weight of the drift of the buffer's features since the start of the task"""
    eta: NonNegative = 0.01
    """weight of the adversary's objective on buffer samples"""
    rate_on: Literal["current", "all"] = "current"
    """samples whose classes are separated: current, or all (current and buffer)"""
    reader: Literal["linear", "mlp"] = "linear"
    """classifier of the features: a linear layer, or an MLP with one hidden layer"""


class Fairl(Buffered):
    """Train features by rate reduction, then fit a classifier on them.

    The net's last layer is replaced by a projector, an MLP of three layers with a normalised
    output, and a classifier. ``Z`` are the projected features of the current batch, ``Z_M`` those
    of the memory batch, and ``D`` is an adversary, a net like the projector, reinitialised for
    each task. In a step,

    - ``D`` maximises ``ΔR(D(Z), z)``: it extracts the attribute from the features;
    - the net up to the classifier maximises ``ΔR(Z, y) − β ΔR(D(Z), z) − η ΔR(D(Z_M), z_M)`` minus
      γ times the drift of ``Z_M`` since the start of the task, class by class.

    The classifier is fitted at the end of the task, to the cross-entropy of the task plus τ times
    that of the buffer. Training it together with the features can be much worse (first task of
    mnist, ``feature_lr`` .001: accuracy .53 trained together, .98 fitted afterwards).

    Without an attribute there is no adversary, and the method is rate reduction with replay.
    """

    options = FairlOptions
    follows = ()

    settings: FairlOptions

    def __init__(self, net: nn.Module, settings: FairlOptions, generators: Generators) -> None:
        net, self.classifier = with_projector(net, settings.reader, generators.method)
        super().__init__(net, settings, generators)
        self.material: Material | None = None
        self.before: Tensor | None = None  # features of the buffer at the start of the task
        self.adversary: nn.Module | None = None
        self.adversary_optimizer: torch.optim.Optimizer | None = None

    def new_optimizer(self) -> torch.optim.Optimizer:
        """Create the optimizer of all weights except the classifier's."""
        classified = list(self.classifier.parameters())
        return self._adam(w for w in self.net.parameters() if all(w is not r for r in classified))

    def _adam(self, weights: Iterable[nn.Parameter]) -> torch.optim.Adam:
        weights, betas = list(weights), (self.settings.momentum, 0.999)
        # On a GPU, Adam counts its steps on the device: a recorded step cannot count on the host.
        there = weights[0].is_cuda
        lr = self.settings.feature_lr
        return torch.optim.Adam(weights, lr, betas, fused=True, capturable=there)

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Store the current features of the buffer and create the adversary."""
        material = super().begin_task(train, buffer)
        find_head(self.net, train.x, self.classifier.head)  # raises if the net ends differently
        self.material = material
        self.before = None if material.memory is None else self._frozen(material.memory).x
        if train.z is not None:
            width = self.classifier.head.in_features
            self.adversary = normalised_mlp(width, self.generators.method).to(train.x.device)
            self.adversary_optimizer = self._adam(self.adversary.parameters())
        return material

    def step(self, batch: Batch) -> None:
        """Update the adversary, then the net up to the classifier."""
        self.net.train()
        features = self.features(batch.x)
        self.train_adversary(batch, features.detach())
        self.optimizer.zero_grad()
        self.feature_loss(batch, features).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def train_adversary(self, batch: Batch, features: Tensor) -> None:
        """Train the adversary to extract the attribute from the features, (b + k, d)."""
        if self.adversary is None or self.adversary_optimizer is None or batch.current.z is None:
            return
        self.adversary.requires_grad_(True)
        self.adversary_optimizer.zero_grad()
        found = rate_reduction(self.adversary(batch.split(features)[0]), batch.current.z)
        (-found).backward()  # type: ignore[no-untyped-call]
        self.adversary_optimizer.step()
        self.adversary.requires_grad_(False)  # gradients of the features' loss pass through it

    def feature_loss(self, batch: Batch, features: Tensor) -> Tensor:
        """Return the loss of the net up to the classifier, from its features, (b + k, d)."""
        settings, current, memory = self.settings, batch.current, batch.memory
        new, old = batch.split(features)
        if settings.rate_on == "all":
            loss = -rate_reduction(features, batch.y)
        else:
            loss = -rate_reduction(new, current.y)
        if self.adversary is not None and current.z is not None:
            loss = loss + settings.beta * rate_reduction(self.adversary(new), current.z)
            if memory is not None and memory.z is not None:
                loss = loss + settings.eta * rate_reduction(self.adversary(old), memory.z)
        if memory is not None and self.before is not None and batch.memory_rows is not None:
            before = self.before.index_select(0, batch.memory_rows)
            loss = loss + settings.gamma * drift(old, before, memory.y)
        return loss

    def end_task(self, buffer: ReplayBuffer) -> None:
        """Fit the classifier to the current features."""
        del buffer  # it also contains the task
        if self.material is None:
            return
        settings, memory = self.settings, self.material.memory
        fit_classifier(
            self.classifier,
            self._frozen(self.material.current),
            None if memory is None else self._frozen(memory),
            self.generators.method,
            lr=settings.lr,
            tau=settings.tau,
            passes=settings.passes,
        )
        self.material = None  # release the task's data

    def _frozen(self, samples: Samples) -> Samples:
        """Replace the inputs by their features."""
        chunks = chunks_of(len(samples), chunk_size(samples.x.device))
        with evaluating(self.net):
            return replace(samples, x=torch.cat([self.features(samples.x[c]) for c in chunks]))

    def features(self, x: Tensor) -> Tensor:
        """Return the classifier's inputs, (n, d), for inputs (n, ...)."""
        entry = next(layer for layer in self.classifier.modules() if isinstance(layer, nn.Linear))
        return with_features(self.net, entry, x)[1]
