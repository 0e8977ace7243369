"""Learners and batches for tests that take single steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from faircil.buffer import ReplayBuffer
from faircil.compute import Generators
from faircil.learners import LEARNERS, Learner, Options
from faircil.nets import build_mlp
from faircil.samples import Samples
from faircil.testing.learners import batch_of as batch_of, parameters as parameters


def new_options(method: str, **values: object) -> Options:
    """Return settings of the method, with those in ``values`` that it has."""
    options = LEARNERS[method].options
    return options(**{name: v for name, v in values.items() if name in options.model_fields})


def new_learner(
    method: str, net: nn.Module | None = None, *, seed: int = 0, **settings: object
) -> Learner:
    """Make a learner of five classes in six dimensions, by default with a small net."""
    net = build_mlp(6, 5, (8,), seed=0) if net is None else net
    options = new_options(method, **{"lr": 0.1, "tau": 0.5, **settings})
    return LEARNERS[method](net, options, Generators.from_seed(seed))


def buffer_of(samples: Samples | None, quota: int = 8) -> ReplayBuffer:
    """Make a buffer with exactly these samples."""
    return ReplayBuffer(quota, samples)


def random_samples(
    n: int, classes: int = 5, *, seed: int = 0, attribute: bool = False, features: int = 6
) -> Samples:
    """Draw n samples with random classes and, optionally, a random binary attribute."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randint(2, (n,), generator=generator) if attribute else None
    return Samples(
        torch.randn(n, features, generator=generator),
        torch.randint(classes, (n,), generator=generator),
        z,
    )


def of_classes(n: int, classes: Sequence[int], seed: int = 0, attribute: bool = False) -> Samples:
    """Draw n samples of these classes."""
    samples = random_samples(n, len(classes), seed=seed, attribute=attribute)
    return Samples(samples.x, torch.tensor(classes)[samples.y], samples.z)


def moved(learner: Learner) -> None:
    """Change the net, so that it differs from its teacher."""
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in learner.net.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)


def gradient(net: nn.Module, loss: Tensor) -> Tensor:
    """Return the gradient of a loss with respect to all parameters of the net, flat."""
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, net.parameters())])
