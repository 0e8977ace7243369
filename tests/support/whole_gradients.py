"""Gradients of all layers, computed in a simple, slow way, and various nets to test them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from faircil.samples import Samples
from faircil.weighting.groups import Membership
from oracles import PlainLoss, plain_cross_entropy


def whole_gradients(
    net: nn.Module, samples: Samples, loss: PlainLoss = plain_cross_entropy
) -> Tensor:
    """Gradient of each sample's loss for all trained parameters, (n, P), by a backward each."""
    trained = [p for p in net.parameters() if p.requires_grad]
    rows = torch.zeros(len(samples), sum(p.numel() for p in trained), dtype=trained[0].dtype)
    for i in range(len(samples)):
        own = loss(net(samples.x[i : i + 1]), samples.y[i : i + 1])
        parts = torch.autograd.grad(own, trained, allow_unused=True, materialize_grads=True)
        rows[i] = torch.cat([part.flatten() for part in parts])
    return rows


def unit_rows(vectors: Tensor) -> Tensor:
    """Scale each row to length 1; zero rows stay zero."""
    lengths = vectors.norm(dim=1, keepdim=True)
    return torch.where(lengths == 0, 0.0, vectors / lengths)


def slow_whole_statistics(
    net: nn.Module,
    current: Samples,
    memory: Samples | None,
    membership: Membership,
    loss: PlainLoss = plain_cross_entropy,
) -> tuple[Tensor, Tensor]:
    """Mean losses (G,) and cosines (G, n) of all groups, sample by sample."""
    net.eval()
    own = whole_gradients(net, current, loss)
    parts = [(current, own, membership.current)]
    if memory is not None:
        parts.append((memory, whole_gradients(net, memory, loss), membership.memory))
    losses, gradients = 0, 0
    for samples, own_gradients, group in parts:
        member = (group == torch.arange(len(membership.groups))[:, None]).to(own)
        losses += member @ loss(net(samples.x), samples.y).detach()
        gradients += member @ own_gradients
    size = torch.from_numpy(membership.groups.size)
    return losses / size, (unit_rows(gradients) @ unit_rows(own).T).detach()


class Tied(nn.Module):
    """Two layers that share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


class Twice(nn.Module):
    """A layer that runs twice."""

    def __init__(self) -> None:
        super().__init__()
        self.again, self.head = nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.again(torch.relu(self.again(x)))))


class CosineHead(nn.Module):
    """A head whose weight is used but which never runs; and one of which a part runs."""

    def __init__(self, runs: bool) -> None:
        super().__init__()
        self.body, self.head, self.runs = nn.Linear(6, 5), nn.Linear(5, 4), runs

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.body(x))
        logits = linear(normalize(h), normalize(self.head.weight)) * 5
        return logits + self.head(h) if self.runs else logits


class Sum(nn.Module):
    """Two branches whose outputs get the same gradient, and layers without effect."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(6, 4), nn.Linear(6, 4, bias=False)
        self.idle, self.ignored = nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        self.ignored(x)
        return self.left(x) + self.right(x.sin())


class Sequence(nn.Module):
    """Layers that see two tokens per sample, with or without attention."""

    def __init__(self, attends: bool) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(3, 4), nn.Linear(4, 4)
        block = nn.TransformerEncoderLayer(4, 2, 5, batch_first=True) if attends else nn.Tanh()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block(self.embed(x.view(-1, 2, 3))).mean(dim=1))


class Shuffled(nn.Module):
    """A linear layer whose rows are not the samples in order."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 5), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.body(x.flip(0)).flip(0)))


class Recurrent(nn.Module):
    """A net with a kind of layer that torch.func cannot differentiate."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.GRU(3, 5, batch_first=True), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x.view(-1, 2, 3))[0][:, -1])


def frozen(net: nn.Sequential, *names: str) -> nn.Sequential:
    """Stop the training of some parameters."""
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name not in names)
    return net


FACTORED: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: nn.Sequential(
        nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 4)
    ),
    "linear": lambda: nn.Linear(6, 4),
    "no bias": lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4, bias=False)),
    "in place": lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 4)),
    "frozen": lambda: frozen(
        nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, 4)),
        *("0.weight", "2.bias", "2.weight", "3.bias"),
    ),
    "frozen first layer": lambda: frozen(
        nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4)), "0.weight", "0.bias"
    ),
    "buffers": lambda: nn.Sequential(
        nn.Linear(6, 5), nn.BatchNorm1d(5, affine=False), nn.Dropout(0.5), nn.Linear(5, 4)
    ),
    "something after the head": lambda: nn.Sequential(
        nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.Softsign(), nn.LogSoftmax(dim=1)
    ),
    "sum": Sum,
    "convolutions": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)),
        nn.Conv2d(1, 3, (2, 3), padding=(1, 2), dilation=(1, 2)),
        nn.ReLU(inplace=True),
        nn.Conv2d(3, 2, 2, stride=2, bias=False),
        nn.Flatten(),
        nn.Linear(2, 5),
        nn.Tanh(),
        nn.Linear(5, 4),
    ),
    "frozen filters": lambda: frozen(
        nn.Sequential(
            nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 3, 2), nn.Flatten(), nn.Linear(6, 4)
        ),
        "1.weight",
    ),
}
OTHER: dict[str, Callable[[], nn.Module]] = {
    "conv": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)),
        nn.Conv2d(1, 3, 2),
        nn.BatchNorm2d(3),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(6, 4),
    ),
    "frozen conv": lambda: frozen(
        nn.Sequential(
            nn.Unflatten(1, (1, 2, 3)),
            nn.Conv2d(1, 3, 2),
            nn.BatchNorm2d(3),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(3, 4, bias=False),
        ),
        *("1.weight", "2.bias"),
    ),
    "norms": lambda: nn.Sequential(
        nn.Linear(6, 6), nn.GroupNorm(2, 6), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, 4)
    ),
    "grouped filters": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 1, 3)), nn.Conv2d(2, 4, 1, groups=2), nn.Flatten(), nn.Linear(12, 4)
    ),
    "circular filters": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)),
        nn.Conv2d(1, 2, 2, padding=1, padding_mode="circular"),
        nn.Flatten(),
        nn.Linear(24, 4),
    ),
    "tied": Tied,
    "twice": Twice,
    "head never runs": lambda: CosineHead(runs=False),
    "head used in two ways": lambda: CosineHead(runs=True),
    "tokens": lambda: Sequence(attends=False),
    "attention": lambda: Sequence(attends=True),
    "shuffled": Shuffled,
}
