"""Products of sample and group gradients for any net, one forward-mode product per direction.

With J_i the derivative of sample i's logits by the parameters and δ_i its loss gradient at the
logits, the gradient of its loss is ``J_iᵀ δ_i``. Its norm requires this vector for each sample. Its
product with a direction v does not: ``⟨J_iᵀ δ_i, v⟩ = δ_iᵀ (J_i v)``, and one forward-mode product
gives ``J_i v`` for all samples.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from faircil.compute import CHUNK, chunks_of
from faircil.nets import name_of
from faircil.samples import Inputs, Samples, rows_of
from faircil.weighting.any_data import Stream, parts_of
from faircil.weighting.any_net import precise
from faircil.weighting.groups import Membership
from faircil.weighting.last_layer import split_gradients, unit
from faircil.weighting.losses import LossFunction, cross_entropy

logger = logging.getLogger(__name__)

Named = dict[str, Tensor]
ENTRIES = 2**22  # gradient entries per chunk of samples, so that they stay in cache
TANGENTS = 256  # rows of a forward-mode product: samples per chunk times directions


class FunctionalNet:
    """The function from P trained parameters and n inputs to logits, (n, classes).

    Parameters
    ----------
    net : Module
        Must be in eval mode during use; its parameters are not modified.
    """

    def __init__(self, net: nn.Module) -> None:
        self._net = net
        trained = {name: p for name, p in net.named_parameters() if p.requires_grad}
        self._parameters = {name: p.detach() for name, p in trained.items()}
        # All names of each parameter, since modules may share parameters. A module that occurs
        # twice is listed once: if torch ties names itself, it replaces its parameters twice and
        # then restores the replacement instead of the user's parameter.
        first = {p: name for name, p in trained.items()}
        self._places = [
            (f"{prefix}.{name}" if prefix else name, first[p])
            for prefix, module in net.named_modules()
            for name, p in module.named_parameters(recurse=False, remove_duplicate=False)
            if p in first
        ]
        self.size = sum(p.numel() for p in self._parameters.values())

    def zeros(self, rows: int) -> Tensor:
        """Return zeros with the shape of gradients, (rows, P)."""
        first = next(iter(self._parameters.values()))
        return first.new_zeros(rows, self.size, dtype=precise(first.dtype))

    def logits(self, x: Inputs) -> Tensor:
        """Return the logits of n inputs, (n, classes)."""
        return self._call(self._parameters, x)

    def split(self, flat: Tensor) -> tuple[Tensor, ...]:
        """View rows of all parameters, (n, P), parameter by parameter."""
        return torch.split(flat, [p.numel() for p in self._parameters.values()], dim=1)

    def gradients(self, x: Inputs, at_logits: Tensor) -> tuple[Tensor, ...]:
        """Return ``J_iᵀ u_i`` of each sample for vectors u at the logits, (n, classes).

        One tensor per parameter, since they are large; see :meth:`split`.
        """

        def product(parameters: Named, x: Inputs, u: Tensor) -> Tensor:
            return self._call(parameters, rows_of(x, None))[0].to(u.dtype) @ u

        with _plain_attention():
            named = vmap(grad(product), in_dims=(None, 0, 0))(self._parameters, x, at_logits)
        return tuple(part.flatten(1).to(precise(part.dtype)) for part in named.values())

    def total(self, x: Inputs, at_logits: Tensor) -> Tensor:
        """Return ``Σ_i J_iᵀ u_i``, (P,), by one backward pass."""
        trained = [p for p in self._net.parameters() if p.requires_grad]
        with torch.enable_grad():
            logits = self._net(x)
        parts = torch.autograd.grad(
            logits, trained, at_logits.to(logits.dtype), allow_unused=True, materialize_grads=True
        )
        return torch.cat([part.flatten().to(precise(part.dtype)) for part in parts])

    def products(self, x: Inputs, at_logits: Tensor, directions: Tensor) -> Tensor:
        """Return ``⟨J_iᵀ u_i, v_b⟩``, (B, n), for directions of the parameters, (B, P)."""

        def product(direction: Named) -> Tensor:
            def call(parameters: Named) -> Tensor:
                return self._call(parameters, x)

            tangent = jvp(call, (self._parameters,), (direction,))[1]
            inner: Tensor = torch.linalg.vecdot(tangent.to(at_logits.dtype), at_logits)
            return inner

        named = {
            name: part.view(-1, *p.shape).to(p.dtype)
            for (name, p), part in zip(
                self._parameters.items(), self.split(directions), strict=True
            )
        }
        with _plain_attention():
            products: Tensor = vmap(product)(named)
        return products

    def _call(self, parameters: Named, x: Inputs) -> Tensor:
        everywhere = {place: parameters[name] for place, name in self._places}
        logits: Tensor = functional_call(self._net, everywhere, (x,), tie_weights=False)
        return logits


class SampleBySample(FunctionalNet):
    """A :class:`FunctionalNet` for nets with a layer that torch.func cannot batch."""

    def gradients(self, x: Inputs, at_logits: Tensor) -> tuple[Tensor, ...]:
        """Return ``J_iᵀ u_i`` of each sample, with one backward pass each."""
        return self.split(torch.stack([self.total(*one) for one in _one_by_one(x, at_logits)]))

    def products(self, x: Inputs, at_logits: Tensor, directions: Tensor) -> Tensor:
        """Return ``⟨J_iᵀ u_i, v_b⟩``, (B, n), with one backward pass per sample."""
        each = [directions @ self.total(*one) for one in _one_by_one(x, at_logits)]
        return torch.stack(each, dim=1)


def functional_net(net: nn.Module, x: Inputs) -> FunctionalNet:
    """Return the net as a function; test which products it supports on two inputs, (n, ...)."""
    fast, some = FunctionalNet(net), rows_of(x, slice(2))
    logits = fast.logits(some)
    sent = torch.ones_like(logits, dtype=precise(logits.dtype))
    try:
        # The first forward-mode product compiles its rules using a deprecated torch feature.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fast.products(some, sent, torch.cat(fast.gradients(some, sent), dim=1))
    except RuntimeError as error:
        logger.warning(
            "%s has a layer that torch.func cannot differentiate (%s): every sample takes backward "
            "passes of its own; if that is too slow, use the gradients of the last layer",
            name_of(net),
            next(iter(str(error).splitlines()), type(error).__name__),
        )
        return SampleBySample(net)
    return fast


def _one_by_one(x: Inputs, at_logits: Tensor) -> Iterator[tuple[Inputs, Tensor]]:
    for rows in chunks_of(len(at_logits), 1):
        yield rows_of(x, rows), at_logits[rows]


@contextmanager
def _plain_attention() -> Iterator[None]:
    """Disable fused attention kernels, which have no forward mode."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@dataclass(frozen=True)
class Measured:
    """Sums over n samples within G groups, and the logit gradients of each sample.

    Parameters
    ----------
    losses : Tensor of float64, shape (G,)
    gradients : Tensor, shape (G, P)
    at_logits : Tensor, shape (n, classes)
        The vector at a sample's logits that yields its unit gradient; zero for a zero gradient.
    """

    losses: Tensor
    gradients: Tensor
    at_logits: Tensor


def measure(
    net: FunctionalNet,
    samples: Samples | Stream,
    group: Tensor,
    groups: int,
    loss: LossFunction = cross_entropy,
) -> Measured:
    """Measure n samples, given the group of each, (n,); a negative group is ignored.

    The gradient of each sample is materialised for its norm, so sums within groups are matrix
    products.
    """
    losses = torch.zeros(groups, dtype=torch.float64, device=group.device)
    gradients = net.zeros(groups)
    at_logits = []
    numbers = torch.arange(groups, device=group.device)[:, None]
    for rows, x, y in parts_of(samples, _most(ENTRIES // net.size)):
        member = group[rows] == numbers
        at = split_gradients(net.logits(x), y, loss)
        parts = net.gradients(x, at.direction)
        norms = torch.stack([torch.linalg.vector_norm(part, dim=1) for part in parts])
        norms = torch.linalg.vector_norm(norms, dim=0)[:, None]
        at_logits.append(torch.where(norms == 0, 0.0, at.direction / norms))
        for total, part in zip(net.split(gradients), parts, strict=True):
            total.addmm_(member * at.length, part)
        losses += member.double() @ at.losses.double()
    return Measured(losses, gradients, torch.cat(at_logits))


@dataclass(frozen=True)
class ForwardMode:
    """Unit gradients of n samples and of G groups.

    Parameters
    ----------
    net : FunctionalNet
    samples : Samples or Stream
        The n samples.
    at_logits : Tensor, shape (n, classes)
        See :class:`Measured`.
    directions : Tensor, shape (G, P)
        Unit gradients of the groups; zero for a zero gradient.
    losses : Tensor of float64, shape (G,)
        Summed within groups.
    """

    net: FunctionalNet
    samples: Samples | Stream
    at_logits: Tensor
    directions: Tensor
    losses: Tensor

    def products(self, combine: Tensor | None = None) -> Tensor:
        """Return the product of each sample with each group, or with each combination of groups.

        Parameters
        ----------
        combine : Tensor, shape (B, G), optional
            By default the groups themselves, B = G.

        Returns
        -------
        Tensor, shape (B, n)
        """
        directions = self.directions if combine is None else combine @ self.directions
        result = directions.new_empty(len(directions), len(self.samples))
        for rows, x, _ in parts_of(self.samples, _most(TANGENTS // len(directions))):
            result[:, rows] = self.net.products(x, self.at_logits[rows], directions)
        return result

    def progress(self, weights: Tensor) -> Tensor:
        """Return the product of each group with the weighted sum of all samples, (G,)."""
        total = self.net.zeros(1)[0]
        for rows, x, _ in parts_of(self.samples, CHUNK):
            total += self.net.total(x, weights[rows, None] * self.at_logits[rows])
        return self.directions @ total


def forward_mode(
    net: FunctionalNet,
    current: Samples | Stream,
    memory: Samples | Stream | None,
    membership: Membership,
    loss: LossFunction = cross_entropy,
) -> ForwardMode:
    """Measure the current samples and the gradients of all groups."""
    groups = len(membership.groups)
    now = measure(net, current, membership.current, groups, loss)
    losses, gradients = now.losses, now.gradients
    if memory is not None:
        old = measure(net, memory, membership.memory, groups, loss)
        losses, gradients = losses + old.losses, gradients + old.gradients
    return ForwardMode(net, current, now.at_logits, unit(gradients), losses)


def _most(rows: int) -> int:
    return max(1, min(CHUNK, rows))
