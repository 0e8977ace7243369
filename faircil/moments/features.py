"""Fixed feature maps: they are drawn or fitted once, on the first task, and never change.

Inputs are standardised on the first task. Where they hardly vary there, their deviation is taken as
a tenth of the usual one: a pixel or a category that only later tasks use must not count for
nothing, nor for a hundred deviations. Beyond five deviations a value counts by its logarithm: later
classes may lie far from the first ones, and must still differ from each other.

- ``raw``: the standardised inputs.
- ``relu``: ``relu(xR + b)`` with R ~ N(0, 1.5²/inputs) and b ~ U(−1, 1), random and never trained
  (RanPAC, McDonnell et al. 2023; ACIL, Zhuang et al. 2022).
- ``both``: the two side by side.
- ``patches``, for images: see :mod:`faircil.moments.patches`.
- ``trained``: activations of a net trained on the first task, standardised, beside ``relu``. Alone
  they are no match for it: a net that has seen two classes keeps little that tells others apart.

Every map ends with a constant 1.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, pad

from faircil.compute import CHUNK, chunks_of
from faircil.errors import UsageError
from faircil.moments.on_gpu import parts_on
from faircil.nets import last_linear, with_last
from faircil.weighting.groups import Integers

SCALE = 1.5  # of R; deviations of a ReLU's argument
FLOOR = 0.1  # smallest deviation of an input by the usual one
FARTHEST = 5.0  # deviations of a standardised input from which on it counts by its logarithm
LOOKED_AT = 1000  # rows that tell whether inputs are on another scale
TOLD_BY = 10_000  # rows that tell which inputs are flags
SELDOM = 0.25  # share of ones among zeros, at most, for which gathering pays
ENOUGH_FLAGS = 32
AT_ONCE = 2**26  # numbers of a chunk whose squares are summed together


class Standardise(nn.Module):
    """Subtract the mean and divide by the deviation.

    Parameters
    ----------
    x : Tensor, shape (n, inputs)
        What it is fitted on.
    device : torch.device, optional
        Where its mean and deviation are computed, part by part; by default where it is, at once.
    """

    mean: Tensor
    factor: Tensor

    def __init__(self, x: Tensor, device: torch.device | None = None) -> None:
        super().__init__()
        if device is None or device.type == x.device.type or not len(x):
            deviation = x.std(dim=0, correction=0) if len(x) else x.new_ones(x.shape[1])
            mean = x.mean(dim=0)
        else:
            mean, deviation = mean_and_deviation(x, device)
        usual = deviation.square().mean().sqrt()
        factor = 1 / deviation.clamp(min=FLOOR * float(usual) or 1.0)
        self.register_buffer("mean", mean)
        self.register_buffer("factor", factor)

    def forward(self, x: Tensor) -> Tensor:
        """Return z, (n, inputs), and ``±(5 + log(|z| − 4))`` beyond ±5."""
        return _drawn_in(self.scaled(x))

    def scaled(self, x: Tensor) -> Tensor:
        """Return z, (n, inputs)."""
        return (x - self.mean) * self.factor

    def of(self, values: Tensor, places: Tensor) -> Tensor:
        """Return what :meth:`forward` does for values (..., k) of these inputs, (k,)."""
        return _drawn_in((values - self.mean[places]) * self.factor[places])

    def far(self, x: Tensor) -> float:
        """Return the share of values beyond ±5: large if x is on another scale.

        Some rows, evenly spread over x, are enough to tell.
        """
        x = x[:: max(1, len(x) // LOOKED_AT)].to(self.mean.device)
        away = self.scaled(x).abs() > FARTHEST
        return float(away.float().mean()) if away.numel() else 0.0


def mean_and_deviation(x: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return those of each column, (inputs,), computed on another device part by part.

    Sums are of float64, and around the first row: a mean far from 0 costs no digits.

    Parameters
    ----------
    x : Tensor, shape (n, inputs)
        At least one row.
    device : torch.device
    """
    around = x[0].to(device, torch.float64)
    total, squares = torch.zeros_like(around), torch.zeros_like(around)
    for _, part in parts_on(x, device):
        for rows in chunks_of(len(part), max(1, AT_ONCE // x.shape[1])):
            away = part[rows].double().sub_(around)
            total += away.sum(dim=0)
            squares += away.square_().sum(dim=0)
    mean = total / len(x)
    deviation = (squares / len(x) - mean.square()).clamp(min=0).sqrt()
    return (mean + around).to(x), deviation.to(x)


def _drawn_in(z: Tensor) -> Tensor:
    """Return z, beyond ±5 by its logarithm; z itself is overwritten."""
    near = z.clamp(-FARTHEST, FARTHEST)
    beyond = z.sub_(near)
    return near.add_(beyond.abs().log1p_().mul_(beyond.sign_()))


class FeatureMap(nn.Module):
    """Maps inputs to features, (n, d); its attribute ``width`` is d."""

    width: int

    def far(self, x: Tensor) -> float:
        """Return the share of inputs (n, ...) far from those of the first task, if it can tell."""
        del x
        return 0.0


class Raw(FeatureMap):
    """The standardised inputs and a constant.

    Parameters
    ----------
    x : Tensor, shape (n, ...)
        Inputs of the first task.
    device : torch.device, optional
        See :class:`Standardise`.
    """

    def __init__(self, x: Tensor, device: torch.device | None = None) -> None:
        super().__init__()
        self.standardise = Standardise(x.flatten(1), device)
        self.width = x[0].numel() + 1

    def forward(self, x: Tensor) -> Tensor:
        """Return features, (n, d)."""
        return with_constant(self.standardise(x.flatten(1)))

    def far(self, x: Tensor) -> float:
        """Return the share of inputs (n, ...) far from those of the first task."""
        return self.standardise.far(x.flatten(1))


class RandomRelu(FeatureMap):
    """Random ReLU features of the standardised inputs, and a constant.

    Most inputs of a table are flags: 1 for the category of a row, else 0. The product zR is then
    that of zeros, which is the same for all rows, plus one row of R for each 1:
    ``zR = z(0)R + Σ_j (z_j(x_j) − z_j(0)) R_j`` over the flags j that are not 0. On a CPU that is
    gathered, and only other inputs are multiplied. It holds for any value of a flag.

    Parameters
    ----------
    x : Tensor, shape (n, ...)
        Inputs of the first task.
    width : int
        Number of features d, with the constant.
    generator : torch.Generator
    inputs : bool
        Whether the standardised inputs are features as well; they come first.
    device : torch.device, optional
        Where features will be computed, by default where x is; see :class:`Standardise`.
    """

    weight: Tensor
    bias: Tensor
    order: Tensor
    at_zero: Tensor

    def __init__(
        self,
        x: Tensor,
        width: int,
        generator: torch.Generator,
        *,
        inputs: bool = False,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        count = x[0].numel()
        drawn = width - 1 - (count if inputs else 0)
        if drawn < 1:
            raise UsageError(
                f"`width={width}` leaves no room for random features beside {count} inputs and a "
                f"constant; choose at least {count + 2}, or `features='raw'`"
            )
        x = x.flatten(1)
        self.standardise = Standardise(x, device)
        self.width, self.inputs = width, inputs
        weight = torch.randn(count, drawn, generator=generator) * (SCALE / count**0.5)
        bias = torch.rand(drawn, generator=generator) * 2 - 1
        gathers = not inputs and (device or x.device).type == "cpu"
        flags = flags_of(x) if gathers else x.new_zeros(0, dtype=torch.int64)
        others = torch.ones(count, dtype=torch.bool, device=x.device)
        others[flags] = False
        self.numbers = count - len(flags)
        # Numbers, then flags, so that each part of R is contiguous.
        self.register_buffer("order", torch.cat([others.nonzero()[:, 0], flags]))
        # relu(0 · x + 1) is the constant: no pass over the features to append it.
        self.register_buffer("weight", pad(weight, (0, 1)).to(x.device)[self.order])
        self.register_buffer("bias", pad(bias, (0, 1), value=1.0).to(x.device))
        self.register_buffer("at_zero", self.standardise.of(flags.to(x.dtype) * 0, flags))

    def forward(self, x: Tensor) -> Tensor:
        """Return features, (n, d)."""
        x = x.flatten(1)
        if not len(self.at_zero):
            z = self.standardise(x)
            drawn = torch.addmm(self.bias, z, self.weight).relu_()
            return torch.cat([z, drawn], dim=1) if self.inputs else drawn
        if x.is_cuda:
            z = self.standardise(x).index_select(1, self.order)
            return torch.addmm(self.bias, z, self.weight).relu_()
        numbers, flags = self.order[: self.numbers], self.order[self.numbers :]
        several, each = self.weight[: self.numbers], self.weight[self.numbers :]
        given = x.index_select(1, flags)
        row, place = given.nonzero(as_tuple=True)
        change = self.standardise.of(given[row, place], flags[place]) - self.at_zero[place]
        begins = torch.searchsorted(row, torch.arange(len(x)))
        drawn = embedding_bag(place, each, begins, mode="sum", per_sample_weights=change)
        z = self.standardise.of(x.index_select(1, numbers), numbers)
        # b + z(0)R as one more row of R: no pass over the features to add it.
        offset = torch.addmv(self.bias, each.T, self.at_zero)
        return drawn.addmm_(with_constant(z), torch.cat([several, offset[None]])).relu_()

    def far(self, x: Tensor) -> float:
        """Return the share of inputs (n, ...) far from those of the first task."""
        return self.standardise.far(x.flatten(1))


def flags_of(x: Tensor) -> Tensor:
    """Return the inputs that are 0 or 1 and seldom 1, (F,); none where that would not pay.

    Parameters
    ----------
    x : Tensor, shape (n, inputs)
    """
    some = x[:: max(1, len(x) // TOLD_BY)]
    ones = some == 1
    share = ones.float().mean(dim=0)
    found = (((some == 0) | ones).all(dim=0) & (share > 0) & (share <= SELDOM)).nonzero()[:, 0]
    pays = len(found) >= ENOUGH_FLAGS
    return found if pays else found[:0]


class InDouble(FeatureMap):
    """The same features in double precision.

    In single precision the last digits of a row's features depend on the rows that are computed
    with it; sums over the same rows in other batches would then differ by them.

    Parameters
    ----------
    features : FeatureMap
        Drawn features, or inputs.
    """

    def __init__(self, features: FeatureMap) -> None:
        super().__init__()
        self.inner, self.width = deepcopy(features).double(), features.width

    def forward(self, x: Tensor) -> Tensor:
        """Return features, (n, d)."""
        found: Tensor = self.inner(x.double())
        return found


class Activations(FeatureMap):
    """Last activations of a copy of a net, and a constant.

    Parameters
    ----------
    net : Module
        Its output is that of its last linear layer, which the copy does without.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.width = last_linear(net).in_features + 1
        self.net = with_last(deepcopy(net), nn.Identity()).eval().requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Return features, (n, d)."""
        return with_constant(self.net(x))


class Trained(FeatureMap):
    """Activations of a trained net, beside random ReLU features of its inputs and a constant.

    Parameters
    ----------
    x : Tensor, shape (n, ...)
        Inputs of the first task.
    net : Module
        The net, whose last activations are features.
    width : int
        Number of features d, with the constant.
    generator : torch.Generator
    """

    def __init__(self, x: Tensor, net: nn.Module, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.activations = Activations(net)
        activations = torch.cat([self.activations(x[rows]) for rows in chunks_of(len(x), CHUNK)])
        count = activations.shape[1] - 1
        if width < count + 2:
            raise UsageError(
                f"`width={width}` leaves no room for random features beside {count} activations of "
                f"the net and a constant; choose at least {count + 2}, or a narrower last layer "
                "with `hidden`"
            )
        self.width = width
        self.scaled = Standardise(activations[:, :-1])
        self.drawn = RandomRelu(x, width - count, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return features, (n, d)."""
        activations = self.activations(x)[:, :-1]  # the drawn ones have a constant
        return torch.cat([self.scaled(activations), self.drawn(x)], dim=1)

    def far(self, x: Tensor) -> float:
        """Return the share of inputs (n, ...) far from those of the first task."""
        return self.drawn.far(x)


class FeatureNet(nn.Module):
    """Fixed features and a linear head over all classes.

    Parameters
    ----------
    features : FeatureMap
    classes : int
    """

    seen: Tensor

    def __init__(self, features: FeatureMap, classes: int) -> None:
        super().__init__()
        self.features = features
        self.head = nn.Linear(features.width, classes, bias=False)
        nn.init.zeros_(self.head.weight)
        self.register_buffer("seen", torch.zeros(classes, dtype=torch.bool))

    def forward(self, x: Tensor) -> Tensor:
        """Return scores, (n, classes); −inf for classes that were not seen."""
        # From the left: BLAS is slow with a matrix of few columns.
        scores: Tensor = (self.head.weight @ self.features(x).T).T
        return scores.masked_fill(~self.seen, -torch.inf)

    def grow(self, classes: int) -> None:
        """Make room for further classes, which are not seen yet."""
        known = len(self.seen)
        self.seen = torch.cat([self.seen, self.seen.new_zeros(classes - known)])
        head = nn.Linear(self.head.in_features, classes, bias=False).to(self.head.weight)
        nn.init.zeros_(head.weight)
        with torch.no_grad():
            head.weight[:known] = self.head.weight
        self.head = head

    def show(self, classes: Integers, head: Tensor) -> None:
        """Take the columns of a head, (d, C), as the weights of these classes."""
        with torch.no_grad():
            chosen = torch.tensor(classes, device=self.seen.device)
            self.head.weight.zero_()
            self.head.weight.index_copy_(0, chosen, head.T.to(self.head.weight.dtype))
            self.seen.fill_(False).index_fill_(0, chosen, True)


def with_constant(features: Tensor) -> Tensor:
    """Append a column of ones."""
    return pad(features, (0, 1), value=1.0)
