"""Any net as a classifier: its logits, head and precision, and how it is left unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from faircil.errors import UsageError
from faircil.nets import evaluating, find_head, name_of, not_the_head, with_features
from faircil.samples import Inputs

Logits = Callable[[nn.Module, Any], Tensor]  # from a net and its inputs to logits, (n, classes)


class Classifier(nn.Module):
    """A net as a function from inputs to logits, (n, classes).

    It runs under the ``torch.autocast`` that was active when it was created, on any thread, without
    autocast's cache: tensors cast here without gradients must not be used in training.

    Parameters
    ----------
    net : Module
        Gets a tensor as its only argument, a tuple as arguments, a mapping as keyword arguments.
    logits : callable, optional
        Maps net and inputs to logits, for nets that :func:`as_logits` does not understand.
    """

    def __init__(self, net: nn.Module, logits: Logits | None = None) -> None:
        super().__init__()
        self.net = net
        self._logits = logits
        self.device = next((p.device for p in net.parameters()), torch.device("cpu"))
        kind = self.device.type
        if kind == "meta":
            raise UsageError(
                f"{name_of(net)} is on the device 'meta', where tensors have no numbers; load its "
                "weights first"
            )
        if any(p.is_inference() for p in net.parameters()):
            raise UsageError(
                f"{name_of(net)} was created under torch.inference_mode, so torch computes no "
                "gradients for it; create or load it outside, or pass a copy created outside: "
                "copy.deepcopy(net)"
            )
        casts = torch.is_autocast_enabled(kind)
        self._cast = torch.get_autocast_dtype(kind) if casts else None

    def forward(self, x: Inputs) -> Tensor:
        """Return logits, (n, classes)."""
        x = _recordable(x)
        with self._casting():
            if self._logits is not None:
                return as_logits(self._logits(self.net, x), self.net)
            if isinstance(x, Tensor):
                return as_logits(self.net(x), self.net)
            if isinstance(x, Mapping):
                return as_logits(self.net(**x), self.net)
            return as_logits(self.net(*x), self.net)

    def _get_name(self) -> str:
        return name_of(self.net)  # messages name the user's net

    def uncast(self) -> AbstractContextManager[object]:
        """Switch autocast off for sums and products of the net's outputs."""
        if self._cast is None:
            return nullcontext()
        return torch.autocast(self.device.type, enabled=False)

    def _casting(self) -> AbstractContextManager[object]:
        if self._cast is None:
            return nullcontext()
        return torch.autocast(self.device.type, self._cast, cache_enabled=False)


def _recordable(x: Inputs) -> Any:
    """Return inputs that a backward pass may save: inference tensors are copied."""
    if isinstance(x, Tensor):
        return x.clone() if x.is_inference() else x
    if isinstance(x, Mapping):
        return {name: _recordable(part) for name, part in x.items()}
    return tuple(_recordable(part) for part in x)


def as_logits(output: object, net: nn.Module) -> Tensor:
    """Return the logits in the output of a net.

    They are the output itself, its ``logits`` (an attribute or a key), or the only matrix in a
    tuple.
    """
    found = output["logits"] if isinstance(output, Mapping) and "logits" in output else output
    found = getattr(found, "logits", found)
    if isinstance(found, tuple | list):
        matrices = [part for part in found if isinstance(part, Tensor) and part.ndim == 2]
        found = matrices[0] if len(matrices) == 1 else found
    if isinstance(found, Tensor) and found.ndim == 2 and found.is_floating_point():
        return found
    if isinstance(found, Tensor):
        came = f"a tensor of {found.dtype} and shape {tuple(found.shape)}"
    else:
        came = f"a {type(found).__name__}"
    raise UsageError(
        f"{name_of(net)} returned {came}, expected logits of shape (n, classes), alone, as "
        "`.logits`, or as the only matrix of a tuple; pass logits=, a function of the net and its "
        "inputs that returns them"
    )


def precise(dtype: torch.dtype) -> torch.dtype:
    """Return the type to compute with: float32 in place of 16-bit types."""
    return torch.float32 if dtype.itemsize < 4 else dtype


def rounding(*parts: Tensor) -> float:
    """Return the relative rounding error of the least precise of some tensors."""
    return max(torch.finfo(part.dtype).eps for part in parts)


def same_logits(output: Tensor, logits: Tensor) -> bool:
    """Whether the output of a layer is the logits: one tensor, or equal numbers."""
    return output is logits or (
        output.shape == logits.shape and torch.equal(output.to(logits.dtype), logits)
    )


def plain_head(net: nn.Module, x: Inputs, head: nn.Linear | str | None) -> nn.Linear:
    """Return the layer whose output is the logits, and which computes ``W h + b``.

    Parameters
    ----------
    net : Module
    x : Tensor, shape (n, ...), or inputs of several parts
        A few inputs.
    head : Linear or str, optional
        See :func:`faircil.nets.find_head`.
    """
    found = find_head(net, x, head, same_logits)
    if type(found).forward is nn.Linear.forward:
        return found
    with evaluating(net):
        logits, features = with_features(net, found, x)
        weight, bias, h = found.weight.double(), found.bias, features.double()
        expected = linear(h, weight, None if bias is None else bias.double())
        # Each product and each partial sum is rounded once.
        size = linear(h.abs(), weight.abs(), None if bias is None else bias.double().abs())
        most = (4 * rounding(logits, found.weight) + h.shape[1] * rounding(h.float())) * size
        if (logits.double() - expected).abs().gt(most).any():
            raise not_the_head(f"a {type(found).__name__}, which computes more than W h + b, is no")
    return found


@contextmanager
def unchanged(net: nn.Module) -> Iterator[None]:
    """Restore a net and torch's random state after the block, even after errors.

    Evaluation must not change a net, but modules may do so: by counting calls in a buffer, by
    drawing random numbers, or by merging weights in their own ``train`` method, which is undone
    only up to rounding. So buffers are restored, and weights of modules with such a ``train``.
    Modes are restored by :func:`faircil.nets.evaluating`.
    """
    own = [module for module in net.modules() if type(module).train is not nn.Module.train]
    moved = {p for module in own for p in module.parameters()} | set(net.buffers())
    kept = [(tensor, tensor.detach().clone()) for tensor in moved]
    states = [(p, p.requires_grad, p.grad) for p in net.parameters()]
    devices = {tensor.device for tensor in (*net.parameters(), *net.buffers())}
    cuda = sorted(device.index for device in devices if device.type == "cuda")
    with torch.random.fork_rng(devices=cuda):
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, before in kept:
                    # Skip equal tensors: autograd registers every write to a tensor that it saved.
                    if not torch.equal(tensor, before):
                        tensor.copy_(before)
            for parameter, trained, gradient in states:
                parameter.requires_grad_(trained)
                parameter.grad = gradient
