"""Simple, slow implementations against which the fast ones are tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor, nn
from torch.nn import functional

from faircil.samples import Samples
from faircil.weighting.groups import Floats
from faircil.weighting.program import WeightProgram

Key = tuple[int, ...]
Net = TypeVar("Net", bound=nn.Module)
PlainLoss = Callable[[Tensor, Tensor], Tensor]  # from logits, (n, classes), and labels to (n,)


def seeded(build: Callable[[], Net], seed: int = 0) -> Net:
    """Build a net in float64 without touching the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build().double()


def make_samples(
    y: list[int], z: list[int] | list[list[int]] | None = None, *, d: int = 6, seed: int = 0
) -> Samples:
    """Random inputs in float64, (n, d), with the given classes and attribute values."""
    x = torch.randn(len(y), d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Samples(x, torch.tensor(y, dtype=torch.int64), None if z is None else torch.tensor(z))


def plain_cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return torch's own cross-entropy of each sample."""
    return functional.cross_entropy(logits, y, reduction="none")


def plain_hinge(logits: Tensor, y: Tensor) -> Tensor:
    """The paper's sum over all other labels, term by term, of each sample's softmax outputs."""
    return torch.stack(
        [
            sum(
                (torch.clamp(s[j] - s[label] + 1, min=0) for j in range(len(s)) if j != label),
                start=0 * s.sum(),
            )
            for s, label in zip(torch.softmax(logits, dim=1), y.tolist(), strict=True)
        ]
    )


PLAIN_LOSSES: dict[str, PlainLoss] = {"cross-entropy": plain_cross_entropy, "hinge": plain_hinge}


def sample_gradients(
    net: nn.Module, head: nn.Linear, x: Tensor, y: Tensor, loss: PlainLoss = plain_cross_entropy
) -> list[Tensor]:
    """Gradient of each sample's loss for ``[b W]``, (classes, 1 + d), by one backward pass each."""
    gradients = []
    for i in range(len(y)):
        parameters = [head.weight] if head.bias is None else [head.bias, head.weight]
        parts = torch.autograd.grad(loss(net(x[i : i + 1]), y[i : i + 1]), parameters)
        gradients.append(torch.cat([part.reshape(len(part), -1) for part in parts], dim=1))
    return gradients


def cosine(a: Tensor, b: Tensor) -> float:
    """Cosine of two gradients; 0 if one of them is zero."""
    length = float(a.norm() * b.norm())
    return float((a * b).sum()) / length if length else 0.0


def slow_statistics(
    net: nn.Module,
    head: nn.Linear,
    current: Samples,
    memory: Samples | None,
    by_attribute: bool,
    loss: PlainLoss = plain_cross_entropy,
) -> tuple[list[Key], Floats, Floats]:
    """Keys, mean losses (G,) and cosines (G, n) of all groups, sample by sample."""
    members: dict[Key, list[Tensor]] = {}
    losses: dict[Key, list[float]] = {}
    now: set[Key] = {tuple(key) for key in current.keys(by_attribute).tolist()}
    own = sample_gradients(net, head, current.x, current.y, loss)
    parts = [(current, own)]
    if memory is not None:
        parts.append((memory, sample_gradients(net, head, memory.x, memory.y, loss)))
    for part, gradients in parts:
        for i, key in enumerate(map(tuple, part.keys(by_attribute).tolist())):
            if part is current or key not in now:
                own_loss = loss(net(part.x[i : i + 1]), part.y[i : i + 1])
                members.setdefault(key, []).append(gradients[i])
                losses.setdefault(key, []).append(own_loss.item())
    keys = sorted(members)
    means = [torch.stack(members[key]).mean(dim=0) for key in keys]
    return (
        keys,
        np.array([np.mean(losses[key]) for key in keys]),
        np.array([[cosine(gradient, mean) for gradient in own] for mean in means]),
    )


def naive_optimum(program: WeightProgram) -> float:
    """Optimum by scipy: variables w and t, ``±(o − R w) ≤ t``, minimise ``cost·w + Σ t``."""
    k, n = program.gap_rows.shape
    # In units of the largest number: scipy drops matrix entries below 1e-9.
    unit = max(np.abs(program.gap_rows).max(initial=0), np.abs(program.floor_rows).max(initial=0))
    unit = unit or 1.0
    gap_rows, floor_rows = program.gap_rows / unit, program.floor_rows / unit
    gap_offsets, floor_offsets = program.gap_offsets / unit, program.floor_offsets / unit
    rows = np.block(
        [
            [-gap_rows, -np.eye(k)],
            [gap_rows, -np.eye(k)],
            [floor_rows, np.zeros((len(floor_rows), k))],
        ]
    )
    result = linprog(
        np.concatenate([program.cost / unit, np.ones(k)]),
        A_ub=rows,
        b_ub=np.concatenate([-gap_offsets, gap_offsets, floor_offsets]),
        bounds=[(0, 1)] * n + [(0, None)] * k,
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert result.status == 0, result.message
    return float(np.float64(result.fun) * unit)
