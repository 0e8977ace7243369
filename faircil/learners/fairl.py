"""FaIRL: features in which classes lie far apart and attribute values do not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from faircil.buffer import ReplayBatches
from faircil.compute import chunk_size, chunks_of, one_thread
from faircil.learners.base import (
    Batch,
    Count,
    Generators,
    Material,
    NonNegative,
    Positive,
    ReplayBuffer,
    ReplayOptions,
    Samples,
)
from faircil.learners.replay import Buffered, replay_loss
from faircil.nets import MLP, build_mlp, evaluating, find_head, last_linear, with_features

DISTORTION = 0.5  # ε²
BATCH = 64


def with_projector(net: nn.Module, kind: str, generator: torch.Generator) -> tuple[nn.Module, MLP]:
    """Replace the net's last linear layer; return the net and its reader.

    Parameters
    ----------
    net : Module
        Is changed, unless it is nothing but a linear layer.
    kind : str
        ``linear``, or ``mlp`` for one hidden layer.
    generator : torch.Generator
        Of the initial weights.
    """
    head = last_linear(net)
    width = head.in_features
    projector = normalised_mlp(width, generator)
    hidden = (width,) if kind == "mlp" else ()
    classifier = build_mlp(width, head.out_features, hidden, _seed(generator))
    tail = nn.Sequential(projector, classifier).to(head.weight.device)
    for module in net.modules():
        for name, child in module.named_children():
            if child is head:
                setattr(module, name, tail)
                return net, classifier
    return tail, classifier


def normalised_mlp(width: int, generator: torch.Generator) -> nn.Module:
    """Make an MLP of three layers of the same width, its output normalised per sample."""
    mlp = build_mlp(width, width, (width, width), _seed(generator))
    return nn.Sequential(mlp, nn.LayerNorm(width, elementwise_affine=False))


def _seed(generator: torch.Generator) -> int:
    return int(torch.randint(2**62, (), generator=generator))


def rate(features: Tensor) -> Tensor:
    """Return the rate of all features together, a scalar.

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
        Samples are in the same group where their keys are equal.
    """
    size = same_group(keys).sum(dim=1)
    return rate(features) - (size * shares(features, keys)).sum() / max(len(features), 1)


def drift(features: Tensor, before: Tensor, keys: Tensor) -> Tensor:
    """Return how far each group has moved, summed over the groups, a scalar.

    Of a group now, ``Z``, and before, ``Z̄``, it is ``R(Z ∪ Z̄) − ½ R(Z) − ½ R(Z̄)``: how well the
    features tell the two moments apart, 0 if they are the same.

    Parameters
    ----------
    features, before : Tensor, shape (n, d)
        Of the same samples.
    keys : Tensor, shape (n,) or (n, columns)
        Their groups.
    """
    both, keys = torch.cat([features, before]), keys.reshape(len(keys), -1)
    moment = torch.arange(2, device=keys.device).repeat_interleave(len(keys))
    together = torch.cat([keys, keys])
    apart = torch.cat([together, moment[:, None]], dim=1)
    return shares(both, together).sum() - shares(both, apart).sum() / 2


def shares(features: Tensor, keys: Tensor) -> Tensor:
    """Return what each sample adds to its group's rate, (n,): sums over a group are its rate.

    How a rate is shared among the samples of a group depends on their order; its sum does not.
    """
    same = same_group(keys)
    scale = features.shape[1] / (same.sum(dim=1) * DISTORTION)
    gram = scale[:, None] * same * (features @ features.T)
    identity = torch.eye(len(features), dtype=features.dtype, device=features.device)
    factor: Tensor = torch.linalg.cholesky_ex(gram + identity).L
    return factor.diagonal().log()


def same_group(keys: Tensor) -> Tensor:
    """Return whether two samples are in the same group, (n, n), from keys (n,) or (n, columns)."""
    keys = keys.reshape(len(keys), -1)
    return (keys[:, None] == keys).all(dim=2)


def fit_classifier(
    classifier: nn.Module,
    current: Samples,
    memory: Samples | None,
    generator: torch.Generator,
    *,
    lr: float,
    tau: float,
    passes: int,
) -> None:
    """Pass over the task with Adam, a batch of the buffer beside each of the task's.

    Parameters
    ----------
    classifier : Module
        Returns logits; trained from the weights that it has.
    current, memory : Samples, Samples or None
        Features, (n, d) and (m, d), in place of inputs.
    generator : torch.Generator
        Of the order of the samples.
    lr, tau, passes : float, float, int
        Learning rate, weight of the buffer, and how often to pass over the task.
    """
    adam = torch.optim.Adam(classifier.parameters(), lr, fused=True)
    replay = None if memory is None else ReplayBatches(memory, BATCH, generator)
    with one_thread():
        for _ in range(passes):
            order = torch.randperm(len(current), generator=generator).to(current.y.device)
            for rows in torch.split(order, BATCH):
                old, old_rows = (None, None) if replay is None else replay.next()
                batch = Batch(current.take(rows), rows, None, old, old_rows)
                adam.zero_grad()
                loss = replay_loss(classifier(batch.x), batch, tau)
                loss.backward()  # type: ignore[no-untyped-call]
                adam.step()


class FairlOptions(ReplayOptions):
    """Settings of FaIRL."""

    lr: Positive = 0.001
    """learning rate of Adam, for the reader of the features"""
    passes: Count = 5
    """passes of the reader over the task, after the features are trained"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """β₁ of Adam, for the features and for the adversary"""
    feature_lr: Positive = 0.0001
    """learning rate of Adam, for the features and for the adversary"""
    tau: NonNegative = 1.0
    """weight of the buffer in the loss of the reader"""
    beta: NonNegative = 0.01
    """weight of what the adversary can tell of the attribute from current samples"""
    gamma: NonNegative = 1.0
    """weight of how far the features of buffer samples have moved since the task began"""
    eta: NonNegative = 0.01
    """weight of what the adversary can tell of the attribute from buffer samples"""
    rate_on: Literal["current", "all"] = "current"
    """whose classes the features are to tell apart: those of current samples, or of all"""
    reader: Literal["linear", "mlp"] = "linear"
    """what finds the class in the features: a linear layer, or an MLP with one hidden layer"""


class Fairl(Buffered):
    """Shape the features by rate reduction (see the top of this file), then fit a classifier.

    The net's last layer gives way to a projector, an MLP of three layers with a normalised output,
    and a reader. ``Z`` are the projected features of the current batch, ``Z_M`` those of the memory
    batch, and ``D`` is an adversary, a net like the projector, made anew for each task. In a step,

    - ``D`` goes up ``ΔR(D(Z), z)``: it looks for the attribute in the features;
    - the net up to the reader goes up ``ΔR(Z, y) − β ΔR(D(Z), z) − η ΔR(D(Z_M), z_M)`` and down γ
      times the drift of ``Z_M`` from what it was when the task began, class by class.

    The reader is fitted when the task ends, to the cross-entropy of the task plus τ times that of
    the buffer. One that is trained along with the features can be much worse (first task of mnist,
    ``feature_lr`` .001: accuracy .53 along with them, .98 fitted afterwards).

    Without an attribute there is no adversary: what is left is rate reduction with replay.
    """

    options = FairlOptions
    follows = ()

    settings: FairlOptions

    def __init__(self, net: nn.Module, settings: FairlOptions, generators: Generators) -> None:
        net, self.classifier = with_projector(net, settings.reader, generators.method)
        super().__init__(net, settings, generators)
        self.material: Material | None = None
        self.before: Tensor | None = None  # features of the buffer when the task began
        self.adversary: nn.Module | None = None
        self.adversary_optimizer: torch.optim.Optimizer | None = None

    def new_optimizer(self) -> torch.optim.Optimizer:
        """Make the optimizer of all weights but the reader's."""
        classified = list(self.classifier.parameters())
        return self._adam(w for w in self.net.parameters() if all(w is not r for r in classified))

    def _adam(self, weights: Iterable[nn.Parameter]) -> torch.optim.Adam:
        weights, betas = list(weights), (self.settings.momentum, 0.999)
        # On a GPU it counts its steps there: a recorded step could not count on the host.
        there = weights[0].is_cuda
        lr = self.settings.feature_lr
        return torch.optim.Adam(weights, lr, betas, fused=True, capturable=there)

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Keep the features of the buffer as they are now, and make the adversary."""
        material = super().begin_task(train, buffer)
        find_head(self.net, train.x, self.classifier.head)  # says so where the net ends otherwise
        self.material = material
        self.before = None if material.memory is None else self._frozen(material.memory).x
        if train.z is not None:
            width = self.classifier.head.in_features
            self.adversary = normalised_mlp(width, self.generators.method).to(train.x.device)
            self.adversary_optimizer = self._adam(self.adversary.parameters())
        return material

    def step(self, batch: Batch) -> None:
        """Update the adversary, then the net up to the reader."""
        self.net.train()
        features = self.features(batch.x)
        self.train_adversary(batch, features.detach())
        self.optimizer.zero_grad()
        self.feature_loss(batch, features).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def train_adversary(self, batch: Batch, features: Tensor) -> None:
        """Let the adversary find more of the attribute in the features, (b + k, d)."""
        if self.adversary is None or self.adversary_optimizer is None or batch.current.z is None:
            return
        self.adversary.requires_grad_(True)
        self.adversary_optimizer.zero_grad()
        found = rate_reduction(self.adversary(batch.split(features)[0]), batch.current.z)
        (-found).backward()  # type: ignore[no-untyped-call]
        self.adversary_optimizer.step()
        self.adversary.requires_grad_(False)  # the features' loss passes it and leaves it

    def feature_loss(self, batch: Batch, features: Tensor) -> Tensor:
        """Return what the net up to the reader minimises, from its features, (b + k, d)."""
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
        """Fit the reader to the features as they are now."""
        del buffer  # has the task in it, too
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
        self.material = None  # the task is not kept

    def _frozen(self, samples: Samples) -> Samples:
        """Put the features in place of the inputs."""
        chunks = chunks_of(len(samples), chunk_size(samples.x.device))
        with evaluating(self.net):
            return replace(samples, x=torch.cat([self.features(samples.x[c]) for c in chunks]))

    def features(self, x: Tensor) -> Tensor:
        """Return what the reader gets, (n, d), for inputs (n, ...)."""
        entry = next(layer for layer in self.classifier.modules() if isinstance(layer, nn.Linear))
        return with_features(self.net, entry, x)[1]
