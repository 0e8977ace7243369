"""Last-layer gradients in factored form, their sums within groups, and group statistics.

One forward pass over task and buffer suffices, since a gradient is an outer product δ h̃ᵀ.

For logits ``o = W h + b`` the loss gradient of sample i with respect to ``[b W]`` is the outer
product ``δ_i h̃_iᵀ`` with δ_i the gradient at the logits, ``softmax(o_i) − onehot(y_i)`` for the
cross-entropy (see :mod:`faircil.weighting.losses`), and ``h̃_i = [1; h_i]`` (``h̃ = h`` for a head
without bias). The whole package relies on two consequences:

- the mean gradient of a group is one small matrix product, ``Ḡ_g = Δ_gᵀ H̃_g / n_g``;
- the cosine of a sample with a group needs no outer product either,
  ``cos(i, g) = δ_iᵀ (Ḡ_g/‖Ḡ_g‖) h̃_i / (‖δ_i‖ ‖h̃_i‖)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock, local
from typing import Protocol

import torch
from torch import Tensor, nn

from faircil.compute import chunk_size, chunks_of, map_chunks, map_tasks, thread_safe
from faircil.errors import DataError, DivergedError, raise_all
from faircil.nets import evaluating, not_the_head
from faircil.samples import Inputs, Samples
from faircil.weighting.any_data import PROBE, Part, Stream, no_class
from faircil.weighting.any_net import plain_head, precise, same_logits
from faircil.weighting.groups import Floats, Groups, Integers, Membership
from faircil.weighting.losses import LossFunction, cross_entropy

# Largest number of products of a chunk of rows with a block of groups. It fits all groups if there
# are 200 of 10 classes, whereas 2,000 groups of 1,000 classes take 2 · 10⁶ numbers per row.
ROOM, ROOM_ON_GPU = 2**22, 2**28


@dataclass(frozen=True)
class LastLayer:
    """Factors of the last-layer gradients of n samples.

    Parameters
    ----------
    losses : Tensor, shape (n,)
    delta : Tensor, shape (n, classes)
        Gradient with respect to the logits.
    features : Tensor, shape (n, d)
        Input of the last layer, without the constant 1.
    bias : bool
        Whether the layer has a bias, that is, whether h̃ includes the constant 1.
    """

    losses: Tensor
    delta: Tensor
    features: Tensor
    bias: bool

    def at(self, rows: slice) -> LastLayer:
        """Return the factors of some samples, without a copy."""
        return LastLayer(self.losses[rows], self.delta[rows], self.features[rows], self.bias)


def last_layers(
    net: nn.Module,
    head: nn.Linear,
    sets: Sequence[tuple[Tensor, Tensor]],
    visit: Callable[[int, LastLayer, slice], None] = lambda *_: None,
    loss: LossFunction = cross_entropy,
) -> list[LastLayer]:
    """Compute the gradient factors of several sets of samples in one chunked forward pass.

    Parameters
    ----------
    net, head : Module, Linear
        The classifier and its last layer (see :func:`faircil.nets.find_head`).
    sets : sequence of (x, y), shapes (n, ...) and (n,)
        The samples.
    visit : callable
        Called with the index of a set, and the factors and rows of the chunk just computed, which
        are still in cache. Chunks arrive in any order, on any thread.
    loss : callable
    """
    results = [_empty(head, len(y)) for _, y in sets]
    size = chunk_size(head.weight.device)
    tasks = [(k, rows) for k, (_, y) in enumerate(sets) for rows in chunks_of(len(y), size)]
    with _measuring(net, head, loss) as measure:

        def work(task: tuple[int, slice]) -> None:
            number, rows = task
            (x, y), result = sets[number], results[number]
            measure(result, Part(rows, x[rows], y[rows]))
            visit(number, result.at(rows), rows)

        map_tasks(work, tasks, threads=thread_safe(net))
    return results


def stream_layer(
    net: nn.Module, head: nn.Linear, stream: Stream, loss: LossFunction = cross_entropy
) -> LastLayer:
    """Compute the gradient factors of all samples of a stream in one pass over it."""
    result = _empty(head, len(stream))
    with _measuring(net, head, loss) as measure:
        for part in stream.parts():
            raise_all(missing_outputs(head.out_features, part.y), DataError)
            measure(result, part)
    return result


@contextmanager
def _measuring(
    net: nn.Module, head: nn.Linear, loss: LossFunction
) -> Iterator[Callable[[LastLayer, Part], None]]:
    """Yield a function that computes the factors of some samples, on any thread.

    It compares the output of the head with the logits of every sample: for some of them, a net may
    end in another layer, or run its head more than once.
    """
    place = local()  # the current chunk of each thread

    def record(_: nn.Module, arguments: tuple[Tensor], output: Tensor) -> None:
        place.features[:] = arguments[0]
        place.output = output

    def measure(result: LastLayer, part: Part) -> None:
        place.features, place.output = result.features[part.rows], None
        logits = net(part.x)
        if place.output is None or not same_logits(place.output, logits):
            raise not_the_head("for some inputs the net's output is not the output of its last")
        del place.output
        precise_logits = logits.to(result.delta.dtype)
        result.losses[part.rows], result.delta[part.rows] = loss(precise_logits, part.y)

    hook = head.register_forward_hook(record)
    try:
        with evaluating(net):
            yield measure
    finally:
        hook.remove()


def _empty(head: nn.Linear, n: int) -> LastLayer:
    new = partial(head.weight.new_empty, dtype=precise(head.weight.dtype))
    delta, features = new((n, head.out_features)), new((n, head.in_features))
    return LastLayer(new((n,)), delta, features, head.bias is not None)


def cosines(factors: LastLayer, gradients: Tensor) -> Tensor:
    """Return the cosine of every sample's gradient with every group's; 0 for a zero gradient.

    Parameters
    ----------
    factors : LastLayer
        Factors of n samples.
    gradients : Tensor, shape (groups, classes, 1 + d) or (groups, classes, d) without a bias
        Mean gradients of the groups, or any positive multiple of them.

    Returns
    -------
    Tensor, shape (groups, n)
    """
    groups, classes, _ = gradients.shape
    directions = unit_gradients(gradients)
    matrix = directions[:, :, -factors.features.shape[1] :].reshape(groups * classes, -1)
    offset = directions[:, :, 0].reshape(-1) if factors.bias else matrix.new_zeros(len(matrix))
    n, device = len(factors.delta), factors.delta.device
    result = factors.delta.new_empty(groups, n)
    room = ROOM if device.type == "cpu" else ROOM_ON_GPU

    def measure(rows: slice) -> None:
        delta, features = unit(factors.delta[rows]), factors.features[rows]
        length = feature_lengths(features, factors.bias)
        for some in chunks_of(groups, max(1, room // (len(delta) * classes))):
            # δᵀ Ĝ h̃ for some groups: (rows, groups·classes), then a dot product over classes.
            of = slice(some.start * classes, some.stop * classes)
            product = torch.addmm(offset[of], features, matrix[of].T).view(len(delta), -1, classes)
            inner = torch.bmm(product, delta[:, :, None]).squeeze(2)
            result[some, rows] = torch.where(length == 0, 0.0, inner.T / length)

    map_chunks(measure, n, chunk_size(device), threads=device.type == "cpu")
    return result


def feature_lengths(features: Tensor, bias: bool) -> Tensor:
    """Return ``‖h̃‖`` of each row of features, (n, d), including the 1 if there is a bias."""
    length: Tensor = torch.linalg.vector_norm(features, dim=1)
    return torch.hypot(length, torch.ones_like(length)) if bias else length


def unit_gradients(gradients: Tensor) -> Tensor:
    """Scale every gradient, (groups, classes, …), to norm 1; a zero gradient stays zero."""
    return unit(gradients.flatten(1)).view_as(gradients)


def unit(vectors: Tensor) -> Tensor:
    """Scale every row to norm 1; a zero row stays zero."""
    # Divide by the largest entry first: squares of a confident sample's entries would underflow.
    largest = vectors.abs().amax(dim=1, keepdim=True)
    scaled = torch.where(largest == 0, 0.0, vectors / largest)
    result: Tensor = scaled / scaled.norm(dim=1, keepdim=True).clamp(min=1.0)
    return result


class GroupSums:
    """Accumulates gradients and losses within groups, chunk by chunk.

    Parameters
    ----------
    group : Tensor of int64, shape (n,)
        Group of each sample; samples with a negative group are ignored.
    groups : int
        Number of groups, G.
    """

    def __init__(self, group: Tensor, groups: int) -> None:
        self._group, self._groups = group, groups
        # Chunks arrive in any order but are summed in row order; early chunks wait, keyed by their
        # first row. As each may have gradients of all groups, they are added as soon as possible.
        self._early: dict[int, tuple[slice, list[tuple[int, Tensor]]]] = {}
        self._gradients: Tensor | None = None
        self._done, self._lock = 0, Lock()

    def add(self, factors: LastLayer, rows: slice) -> None:
        """Accumulate the gradients of one chunk, given its factors and rows."""
        # After sorting the chunk, which fits in cache, every group is one slice.
        part, order = torch.sort(self._group[rows], stable=True)
        delta = factors.delta.index_select(0, order)
        features = factors.features.index_select(0, order)
        present, sizes = torch.unique_consecutive(part, return_counts=True)
        sums, end = [], 0
        for g, size in zip(present.tolist(), sizes.tolist(), strict=True):
            members, end = slice(end, end + size), end + size
            if g >= 0:
                total = delta[members].T @ features[members]
                if factors.bias:
                    total = torch.cat([delta[members].sum(dim=0)[:, None], total], dim=1)
                sums.append((g, total))
        with self._lock:
            self._early[rows.start] = rows, sums
            while self._done in self._early:
                self._add_in_order(*self._early.pop(self._done), factors)

    def add_chunks(self, factors: LastLayer, first: int = 0) -> None:
        """Accumulate the gradients of samples from row ``first`` on."""

        def add(rows: slice) -> None:
            self.add(factors.at(rows), slice(first + rows.start, first + rows.stop))

        device = self._group.device
        on_cpu = device.type == "cpu"
        map_chunks(add, len(factors.losses), chunk_size(device), threads=on_cpu)

    def _add_in_order(
        self, rows: slice, sums: Sequence[tuple[int, Tensor]], factors: LastLayer
    ) -> None:
        if self._gradients is None:
            self._gradients = self._zeros(factors)
        for g, total in sums:
            self._gradients[g] += total
        self._done = rows.stop

    def _zeros(self, factors: LastLayer) -> Tensor:
        columns = factors.features.shape[1] + factors.bias
        return factors.delta.new_zeros(self._groups, factors.delta.shape[1], columns)

    def total(self, factors: LastLayer) -> tuple[Tensor, Tensor]:
        """Return the sums over all chunks; divided by the group size, they are means.

        Returns
        -------
        gradients : Tensor, shape (G, classes, 1 + d) or (G, classes, d) without a bias
            ``Σ δ_i h̃_iᵀ``; zero for a group without samples.
        losses : Tensor of float64, shape (G,)
        """
        if self._early:
            raise ValueError("chunks of rows are missing, so there is no sum of all")
        gradients = self._zeros(factors) if self._gradients is None else self._gradients
        losses = torch.zeros(self._groups, dtype=torch.float64, device=self._group.device)
        inside = self._group >= 0
        losses.index_add_(0, self._group[inside], factors.losses[inside].double())
        return gradients, losses


def group_sums(factors: LastLayer, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Sum gradients and losses of n samples within G groups; see :class:`GroupSums`."""
    sums = GroupSums(group, groups)
    sums.add_chunks(factors)
    return sums.total(factors)


class GroupStatistics(Protocol):
    """Statistics of G groups and n current samples that the program needs, in float64."""

    @property
    def losses(self) -> Floats:
        """Mean loss of each group, (G,)."""

    @property
    def alignment(self) -> Floats:
        """Cosine of each current sample's gradient with each group's mean gradient, (G, n)."""

    def progress(self, weights: Floats) -> Floats:
        """Return the sums of cosines weighted by sample weights, (n,): (G,)."""


@dataclass(frozen=True)
class LastLayerStatistics:
    """Statistics from last-layer gradients; see :class:`GroupStatistics`.

    Parameters
    ----------
    losses : ndarray, shape (G,)
    factors : LastLayer
        Factors of the current samples.
    gradients : Tensor, shape (G, classes, 1 + d) or (G, classes, d) without a bias
        Gradients of the groups, up to positive factors, which do not change a cosine.
    """

    losses: Floats
    factors: LastLayer
    gradients: Tensor

    @cached_property
    def alignment(self) -> Floats:
        """See :class:`GroupStatistics`; computed on first use."""
        alignment: Floats = cosines(self.factors, self.gradients).double().cpu().numpy()
        return alignment

    def progress(self, weights: Floats) -> Floats:
        """See :class:`GroupStatistics`."""
        return self.alignment @ weights


def group_statistics(
    net: nn.Module,
    current: Samples,
    memory: Samples | None,
    membership: Membership,
    head: nn.Linear | str | None = None,
    loss: LossFunction = cross_entropy,
) -> LastLayerStatistics:
    """Compute statistics of all groups with one forward pass over task and buffer."""
    layer = compared_layer(net, current.x[:PROBE], membership.groups, head)
    sets, members = [(current.x, current.y)], [membership.current]
    if memory is not None and len(memory):
        sets.append((memory.x, memory.y))
        members.append(membership.memory)
    sums = [GroupSums(group, len(membership.groups)) for group in members]
    measured = last_layers(net, layer, sets, lambda k, *chunk: sums[k].add(*chunk), loss)
    totals = [each.total(factors) for each, factors in zip(sums, measured, strict=True)]
    return _statistics(measured[0], totals, membership)


def stream_statistics(layers: Sequence[LastLayer], membership: Membership) -> LastLayerStatistics:
    """Compute statistics of all groups from the factors of the task and, if any, the buffer."""
    members = (membership.current, membership.memory)
    groups = len(membership.groups)
    totals = [group_sums(*each, groups) for each in zip(layers, members, strict=False)]
    return _statistics(layers[0], totals, membership)


def _statistics(
    current: LastLayer, totals: Sequence[tuple[Tensor, Tensor]], membership: Membership
) -> LastLayerStatistics:
    gradients, losses = (sum(parts[1:], parts[0]) for parts in zip(*totals, strict=True))
    return LastLayerStatistics(mean_losses(losses, membership), current, gradients)


def compared_layer(
    net: nn.Module, x: Inputs, groups: Groups, head: nn.Linear | str | None
) -> nn.Linear:
    """Return the layer whose gradients are compared, found with a few inputs, (n, ...).

    It must have an output for each class.
    """
    layer = plain_head(net, x, head)
    raise_all(missing_outputs(layer.out_features, groups.label), DataError)
    return layer


def missing_outputs(outputs: int, classes: Tensor | Integers) -> list[str]:
    """Return the error messages for classes without an output."""
    lowest, highest = int(classes.min()), int(classes.max())
    if lowest < 0:
        return [no_class(lowest)]
    if highest < outputs:
        return []
    return [
        f"class {highest} is beyond the net's {outputs} outputs; classes count from 0, and the "
        "last layer needs an output for each"
    ]


def mean_losses(sums: Tensor, membership: Membership) -> Floats:
    """Divide losses summed within groups, (G,), by the group sizes."""
    if not torch.isfinite(sums).all():
        raise DivergedError(
            "the net's losses are not finite, so it has diverged or its inputs are not finite; "
            "lower the learning rate, and check the inputs for NaN"
        )
    mean: Floats = (sums.cpu() / torch.from_numpy(membership.groups.size)).numpy()
    return mean


@dataclass(frozen=True)
class SplitGradients:
    """Losses of n samples, and their gradients at the logits, split into direction and length.

    Gradients of the parameters are linear in the gradient at the logits, so they are computed for
    the direction alone: the tiny gradient of a confident sample would underflow in the backward
    pass.

    Parameters
    ----------
    losses : Tensor, shape (n,)
    direction : Tensor, shape (n, classes)
        ``δ_i / ‖δ_i‖`` for the gradients δ; zero if δ is zero.
    length : Tensor, shape (n,)
        ``‖δ_i‖``.
    """

    losses: Tensor
    direction: Tensor
    length: Tensor


def split_gradients(
    logits: Tensor, y: Tensor, loss: LossFunction = cross_entropy
) -> SplitGradients:
    """Compute losses of n samples and their gradients at the logits, (n, classes)."""
    losses, delta = loss(logits.to(precise(logits.dtype)), y)
    direction = unit(delta)
    return SplitGradients(losses, direction, torch.linalg.vecdot(delta, direction))
