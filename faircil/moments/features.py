"""Fixed feature maps: drawn or fitted once, on the first task, and never changed.

Inputs are standardised on the first task. If an input hardly varies there, its deviation is set to
a tenth of the typical one: a pixel or category used only by later tasks should neither be ignored
nor count as a hundred deviations. Beyond five deviations, values grow logarithmically: later
classes may lie far from the first ones, and must still differ from each other.

- ``raw``: the standardised inputs.
- ``relu``: ``relu(xR + b)`` with R ~ N(0, 1.5²/inputs) and b ~ U(−1, 1), random and never trained
  (RanPAC, McDonnell et al. 2023; ACIL, Zhuang et al. 2022).
- ``both``: the inputs and the ReLU features.
- ``patches``, for images: see :mod:`faircil.moments.patches`.
- ``trained``: activations of a net trained on the first task, standardised, along with ``relu``.
  On their own they perform worse: a net trained on two classes retains little that separates
  others.

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
FLOOR = 0.1  # smallest deviation of an input, relative to the typical one
FARTHEST = 5.0  # deviations of a standardised input beyond which it grows logarithmically
LOOKED_AT = 1000  # rows used to detect inputs on another scale
TOLD_BY = 10_000  # rows used to detect flags
SELDOM = 0.25  # largest fraction of ones among zeros for which gathering pays off
ENOUGH_FLAGS = 32
AT_ONCE = 2**26  # entries of a chunk whose squares are summed together


class Standardise(nn.Module):
    """Subtract the mean and divide by the deviation.

    Parameters
    ----------
    x : Tensor, shape (n, inputs)
        The data to fit on.
    device : torch.device, optional
        Where mean and deviation are computed, part by part; by default on the device of x, at
        once.
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
        """Apply :meth:`forward` to values, (..., k), of the inputs ``places``, (k,)."""
        return _drawn_in((values - self.mean[places]) * self.factor[places])

    def far(self, x: Tensor) -> float:
        """Return the fraction of values beyond ±5: large if x is on another scale.

        A sample of rows, evenly spread over x, suffices.
        """
        x = x[:: max(1, len(x) // LOOKED_AT)].to(self.mean.device)
        away = self.scaled(x).abs() > FARTHEST
        return float(away.float().mean()) if away.numel() else 0.0


def mean_and_deviation(x: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the mean and deviation of each column, (inputs,), computed part by part on ``device``.

    Sums are in float64 and relative to the first row, so a mean far from 0 costs no precision.

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
    """Return z with values beyond ±5 on a logarithmic scale; z itself is overwritten."""
    near = z.clamp(-FARTHEST, FARTHEST)
    beyond = z.sub_(near)
    return near.add_(beyond.abs().log1p_().mul_(beyond.sign_()))


class FeatureMap(nn.Module):
    """Maps inputs to features, (n, d); its attribute ``width`` is d."""

    width: int

    def far(self, x: Tensor) -> float:
        """Return the fraction of inputs (n, ...) far from those of the first task, if known."""
        del x
        return 0.0


class Raw(FeatureMap):
    """The standardised inputs, and a constant.

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
        """Return the fraction of inputs (n, ...) far from those of the first task."""
        return self.standardise.far(x.flatten(1))


class RandomRelu(FeatureMap):
    """Random ReLU features of the standardised inputs, and a constant.

    Most inputs of a table are flags: 1 for the category of a row, else 0. The product zR is then
    that of zeros, which is the same for all rows, plus one row of R for each 1:
    ``zR = z(0)R + Σ_j (z_j(x_j) − z_j(0)) R_j`` over the nonzero flags j. On a CPU, these rows are
    gathered, and only the other inputs are multiplied. It holds for any value of a flag.

    Parameters
    ----------
    x : Tensor, shape (n, ...)
        Inputs of the first task.
    width : int
        Number of features d, including the constant.
    generator : torch.Generator
    inputs : bool
        Whether the standardised inputs are features as well; they come first.
    device : torch.device, optional
        Where features will be computed; by default the device of x. See :class:`Standardise`.
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
        # Numeric inputs, then flags, so that each part of R is contiguous.
        self.register_buffer("order", torch.cat([others.nonzero()[:, 0], flags]))
        # relu(0 · x + 1) is the constant, which saves a pass over the features to append it.
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
        # b + z(0)R is one more row of R, which saves a pass over the features to add it.
        offset = torch.addmv(self.bias, each.T, self.at_zero)
        return drawn.addmm_(with_constant(z), torch.cat([several, offset[None]])).relu_()

    def far(self, x: Tensor) -> float:
        """Return the fraction of inputs (n, ...) far from those of the first task."""
        return self.standardise.far(x.flatten(1))


def flags_of(x: Tensor) -> Tensor:
    """Return the 0/1 inputs that are rarely 1, (F,); none if gathering them does not pay off.

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

    In single precision, the last digits of a row's features depend on the rows that are computed
    with it, so sums over the same rows in other batches would differ.

    Parameters
    ----------
    features : FeatureMap
        Feature map, or inputs.
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
        Its output is that of its last linear layer, which is removed from the copy.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.width = last_linear(net).in_features + 1
        self.net = with_last(deepcopy(net), nn.Identity()).eval().requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Return features, (n, d)."""
        return with_constant(self.net(x))


class Trained(FeatureMap):
    """Activations of a trained net, random ReLU features of its inputs, and a constant.

    Parameters
    ----------
    x : Tensor, shape (n, ...)
        Inputs of the first task.
    net : Module
        The net, whose last activations are features.
    width : int
        Number of features d, including the constant.
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
        activations = self.activations(x)[:, :-1]  # the random features have a constant
        return torch.cat([self.scaled(activations), self.drawn(x)], dim=1)

    def far(self, x: Tensor) -> float:
        """Return the fraction of inputs (n, ...) far from those of the first task."""
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
        """Return scores, (n, classes); −inf for unseen classes."""
        # Multiply from the left: BLAS is slow with a matrix of few columns.
        scores: Tensor = (self.head.weight @ self.features(x).T).T
        return scores.masked_fill(~self.seen, -torch.inf)

    def grow(self, classes: int) -> None:
        """Add outputs for further classes, which are not seen yet."""
        known = len(self.seen)
        self.seen = torch.cat([self.seen, self.seen.new_zeros(classes - known)])
        head = nn.Linear(self.head.in_features, classes, bias=False).to(self.head.weight)
        nn.init.zeros_(head.weight)
        with torch.no_grad():
            head.weight[:known] = self.head.weight
        self.head = head

    def show(self, classes: Integers, head: Tensor) -> None:
        """Set the weights of these classes to the columns of a head, (d, C)."""
        with torch.no_grad():
            chosen = torch.tensor(classes, device=self.seen.device)
            self.head.weight.zero_()
            self.head.weight.index_copy_(0, chosen, head.T.to(self.head.weight.dtype))
            self.seen.fill_(False).index_fill_(0, chosen, True)


def with_constant(features: Tensor) -> Tensor:
    """Append a column of ones."""
    return pad(features, (0, 1), value=1.0)
