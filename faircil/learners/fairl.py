"""FaIRL: features in which classes lie far apart and attribute values do not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from faircil.buffer import ReplayBuffer
from faircil.generators import Generators
from faircil.learners.batch import Batch, Material
from faircil.learners.features import with_features
from faircil.learners.options import NonNegative, Positive, ReplayOptions
from faircil.learners.rates import drift, rate_reduction
from faircil.learners.replay import Buffered
from faircil.nets import build_mlp
from faircil.samples import Samples
from faircil.weighting.head import evaluating, find_head

BETAS = (0.9, 0.999)  # the usual ones of Adam


class FairlOptions(ReplayOptions):
    """Settings of FaIRL."""

    lr: Positive = 0.001
    """learning rate of Adam, for the reader of the features"""
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
    reader: Literal["mlp", "linear"] = "mlp"
    """what finds the class in the features: an MLP with one hidden layer, or a linear layer"""


class Fairl(Buffered):
    """Shape the features by rate reduction (see :mod:`faircil.learners.rates`), then read them.

    The net's last layer gives way to a projector, an MLP of three layers with a normalised output,
    and a reader. ``Z`` are the projected features of the current batch, ``Z_M`` those of the memory
    batch, and ``D`` is an adversary, a net like the projector, made anew for each task. A step does
    three things:

    - ``D`` goes up ``ΔR(D(Z), z)``: it looks for the attribute in the features;
    - the net up to the reader goes up ``ΔR(Z, y) − β ΔR(D(Z), z) − η ΔR(D(Z_M), z_M)`` and down γ
      times the drift of ``Z_M`` from what it was when the task began, class by class;
    - the reader goes down the cross-entropy of the current batch plus τ times that of the memory
      batch, and passes no gradient on.

    Rate reduction gives every class a subspace of its own, filled to all sides, so that the means
    of the classes say little: a linear reader fails where the features are trained well.

    Without an attribute there is no adversary: what is left is rate reduction with replay.
    """

    summary = "features by rate reduction, against an adversary that looks for the attribute"
    source = "Chowdhury and Chaturvedi 2023"
    options = FairlOptions
    uses_attribute = True
    no_weighting = "its features are trained by the rates of whole batches, not by sample losses"

    settings: FairlOptions

    def __init__(self, net: nn.Module, settings: FairlOptions, generators: Generators) -> None:
        head = [module for module in net.modules() if isinstance(module, nn.Linear)][-1]
        width = head.in_features
        hidden = (width,) if settings.reader == "mlp" else ()
        projector = _normalised_mlp(width, generators)
        self.reader = build_mlp(width, head.out_features, hidden, _seed(generators))
        tail = nn.Sequential(projector, self.reader).to(head.weight.device)
        super().__init__(_replaced(net, head, tail), settings, generators)
        self.before: Tensor | None = None  # features of the buffer when the task began
        self.adversary: nn.Module | None = None
        self.adversary_optimizer: torch.optim.Optimizer | None = None

    def new_optimizer(self) -> torch.optim.Optimizer:
        """Make Adam, with settings of its own for the reader."""
        reader = list(self.reader.parameters())
        rest = [weight for weight in self.net.parameters() if all(weight is not w for w in reader)]
        optimizer = self._adam(rest)
        optimizer.add_param_group({"params": reader, "lr": self.settings.lr, "betas": BETAS})
        return optimizer

    def _adam(self, weights: Iterable[nn.Parameter]) -> torch.optim.Adam:
        betas = (self.settings.momentum, BETAS[1])
        return torch.optim.Adam(weights, self.settings.feature_lr, betas, fused=True)

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Keep the features of the buffer as they are now, and make the adversary."""
        material = super().begin_task(train, buffer)
        find_head(self.net, train.x, self.reader.head)  # says so where the net ends otherwise
        if material.memory is not None:
            with evaluating(self.net):
                self.before = self.features(material.memory.x)
        if train.z is not None:
            width = self.reader.head.in_features
            self.adversary = _normalised_mlp(width, self.generators).to(train.x.device)
            self.adversary_optimizer = self._adam(self.adversary.parameters())
        return material

    def step(self, batch: Batch) -> None:
        """Update the adversary, then the net up to the reader and the reader."""
        self.net.train()
        features = self.features(batch.x)
        self.train_adversary(batch, features.detach())
        self.optimizer.zero_grad()
        loss = self.feature_loss(batch, features) + self.reader_loss(batch, features.detach())
        loss.backward()  # type: ignore[no-untyped-call]
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

    def reader_loss(self, batch: Batch, features: Tensor) -> Tensor:
        """Return the cross-entropy of the reader on features, (b + k, d)."""
        losses = cross_entropy(self.reader(features), batch.y, reduction="none")
        new, old = batch.split(losses)
        return new.mean() if batch.memory is None else new.mean() + self.settings.tau * old.mean()

    def features(self, x: Tensor) -> Tensor:
        """Return what the reader gets, (n, d), for inputs (n, ...)."""
        entry = next(layer for layer in self.reader.modules() if isinstance(layer, nn.Linear))
        return with_features(self.net, entry, x)[1]


def _normalised_mlp(width: int, generators: Generators) -> nn.Module:
    """Make an MLP of three layers of the same width, its output normalised per sample."""
    mlp = build_mlp(width, width, (width, width), _seed(generators))
    return nn.Sequential(mlp, nn.LayerNorm(width, elementwise_affine=False))


def _seed(generators: Generators) -> int:
    return int(torch.randint(2**62, (), generator=generators.method))


def _replaced(net: nn.Module, head: nn.Linear, tail: nn.Module) -> nn.Module:
    """Put the tail where the head is, wherever that is in the net."""
    for module in net.modules():
        for name, child in module.named_children():
            if child is head:
                setattr(module, name, tail)
                return net
    return tail  # the net is nothing but its head
