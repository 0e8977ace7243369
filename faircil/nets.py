"""Networks: the interface of a classifier, an MLP, a convolutional net, and head and features."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from faircil.compute import chunk_size, chunks_of, free_memory
from faircil.errors import DataError, FaircilError, UsageError
from faircil.samples import Inputs, rows_of

FILTERS = (32, 64)  # of the convolutions
SMALLEST = 8  # side of an image: two poolings leave 2 × 2 positions
FLOAT, MANY = 4, 2**26  # bytes of a parameter; parameters that may exceed a machine's memory
IN_CACHE, AT_ONCE = 64, 4096  # images that pass through convolutions together, on CPU and GPU


class LayoutUse(Protocol):
    """How many times inputs passed in a layout: ``times``."""

    times: int


class Recording(Protocol):
    """How training steps are recorded for a net that changes the shapes of its inputs.

    Steps with the same layout run the same kernels for any inputs. Layouts are compared by value;
    their content is internal to the net.
    """

    passes: int  # training passes so far; a step is recorded if it takes one, in its layout

    def layout(self, x: Tensor, known: Sequence[Any], room: bool) -> Any | None:
        """Return the layout of inputs (n, ...): a known one if they fit into it.

        None if a step with them cannot be recorded. ``room`` says whether a new one is allowed.
        """

    def in_layout(self, layout: Any) -> AbstractContextManager[LayoutUse]:
        """Make a step in the block pass in this layout."""

    def drawing(self) -> AbstractContextManager[None]:
        """Let the block, which replays a step, draw the random numbers of the step."""


@dataclass(frozen=True)
class NetTraits:
    """Properties of a net that a run must know; the defaults fit a small net.

    Parameters
    ----------
    large : bool
        Whether a training step is large enough for several threads. For a large net, methods that
        compare gradients of all layers use only those of the last layer.
    graphable : bool
        Whether a step runs the same kernels for every batch of the same shape, so that a GPU can
        record it as a CUDA graph.
    recording : Recording or None
        How steps are recorded if kernels depend on more than the shape of a batch.
    trained_tokens : int, Tensor or None
        Tokens used in training so far, if inputs are tokens; recorded for each epoch.
    passes : int or None
        Training passes so far, if random draws of the net depend on their number.
    proceed : callable or None
        ``proceed(passes, tokens)`` sets this number and that of tokens, if parts of a batch pass
        through copies of the net in several processes.
    restart : callable or None
        ``restart(seed)`` resets the net to its state before training, in place. None: every layer
        draws new weights, which is wrong for a net that starts from pre-trained weights.
    """

    large: bool = False
    graphable: bool = True
    recording: Recording | None = None
    trained_tokens: int | Tensor | None = None
    passes: int | None = None
    proceed: Callable[[int, int | Tensor], None] | None = None
    restart: Callable[[int], None] | None = None


class Net(Protocol):
    """A module that returns logits, (n, classes), for inputs (n, ...), and describes itself.

    Any ``nn.Module`` whose output is that of its last linear layer is a net. ``traits`` is optional
    and read with :func:`traits_of`.
    """

    @property
    def traits(self) -> NetTraits:
        """The current traits of the net."""

    def __call__(self, x: Tensor, /) -> Tensor:
        """Return logits, (n, classes), for inputs (n, ...)."""


def traits_of(net: nn.Module) -> NetTraits:
    """Return the traits of a net, or the defaults if it declares none."""
    traits = getattr(net, "traits", None)
    return traits if isinstance(traits, NetTraits) else NetTraits()


class MLP(nn.Module):
    """Fully connected layers with ReLU, and one linear head over all classes.

    Parameters
    ----------
    n_inputs, n_classes : int
    hidden : sequence of int
        Widths of the hidden layers.
    """

    def __init__(self, n_inputs: int, n_classes: int, hidden: Sequence[int] = (256, 256)) -> None:
        super().__init__()
        widths = [n_inputs, *hidden]
        _check_size(sum(before * after for before, after in pairwise((*widths, n_classes))))
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, (n, classes), for inputs (n, ...)."""
        logits: Tensor = self.head(self.features(x.flatten(1)))
        return logits


def _check_size(parameters: int) -> None:
    """Raise a MemoryError if the parameters do not fit, before the system kills the process."""
    free = free_memory(torch.device("cpu")) if parameters >= MANY else None
    if free is not None and FLOAT * parameters > free:
        raise MemoryError(
            f"a net of {parameters:,} parameters takes {FLOAT * parameters / 2**30:,.1f} GiB, and "
            f"{free / 2**30:,.1f} GiB are free"
        )


class ConvNet(nn.Module):
    """Two convolutions with ReLU and pooling, then the layers of an :class:`MLP`.

    There is no batch normalisation: the output of a row would depend on other rows of its batch,
    and the running statistics on the classes trained last. Per-sample gradients and group
    statistics would then mix samples and groups, and replay would have other features than the
    current task.

    Parameters
    ----------
    image : tuple of int
        Channels, height and width of an image, each side at least 8.
    n_classes : int
    hidden : sequence of int
        Widths of the dense layers after the convolutions.
    """

    def __init__(
        self, image: tuple[int, int, int], n_classes: int, hidden: Sequence[int] = (256, 256)
    ) -> None:
        super().__init__()
        channels, height, width = image
        if min(height, width) < SMALLEST:
            raise UsageError(
                f"a convolutional net needs images of at least {SMALLEST} × {SMALLEST} pixels, and "
                f"these have {height} × {width}; use `net='mlp'`"
            )
        self.image = image
        layers: list[nn.Module] = []
        for before, after in pairwise((channels, *FILTERS)):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        self.dense = MLP(FILTERS[-1] * (height // 4) * (width // 4), n_classes, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, (n, classes), for images, (n, channels · height · width)."""
        images = x.reshape(-1, *self.image)
        if torch.is_grad_enabled():
            parts = [self.convolutions(images)]
        else:  # any number of images: their feature maps are far larger than the images
            size = AT_ONCE if x.is_cuda else IN_CACHE
            parts = [self.convolutions(part) for part in torch.split(images, size)]
        logits: Tensor = self.dense(parts[0] if len(parts) == 1 else torch.cat(parts))
        return logits


def build_mlp(n_inputs: int, n_classes: int, hidden: Sequence[int], seed: int) -> MLP:
    """Build an MLP with initial weights from the seed; the global generator is not changed."""
    with seeded(seed):
        return MLP(n_inputs, n_classes, hidden)


def build_conv(
    image: tuple[int, int, int], n_classes: int, hidden: Sequence[int], seed: int
) -> ConvNet:
    """Build a convolutional net in the same way."""
    with seeded(seed):
        return ConvNet(image, n_classes, hidden)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Make layers draw their weights from the seed; the global generator is not changed."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def last_linear(net: nn.Module) -> nn.Linear:
    """Return the linear layer defined last: the head of most nets.

    Use it when no input is available yet; :func:`find_head` checks the result on an input.
    """
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise UsageError(
            f"{type(net).__name__} has no linear layer; end the net with an nn.Linear that "
            "returns the logits"
        )
    return layers[-1]


@torch.no_grad()
def grow_outputs(net: nn.Module, classes: int, seed: int) -> None:
    """Extend the linear layer defined last to more classes; existing outputs are unchanged.

    Parameters
    ----------
    net : Module
        Changed in place.
    classes : int
        New number of outputs, at least the current one.
    seed : int
        Seed of the new weights.
    """
    head = last_linear(net)
    known = head.out_features
    with seeded(seed):
        fresh = nn.Linear(head.in_features, classes, bias=head.bias is not None)
    fresh.to(head.weight)
    head.weight = nn.Parameter(torch.cat([head.weight, fresh.weight[known:]]))
    if head.bias is not None:
        head.bias = nn.Parameter(torch.cat([head.bias, fresh.bias[known:]]))
    head.out_features = classes


def with_last(net: nn.Module, layer: nn.Module) -> nn.Module:
    """Replace the linear layer defined last by another layer; return the net.

    The net is changed in place, unless it is that linear layer itself.
    """
    head = last_linear(net)
    for module in net.modules():
        for name, child in module.named_children():
            if child is head:
                setattr(module, name, layer)
                return net
    return layer


class HeadError(UsageError):
    """A net whose output is not that of a linear layer."""


def find_head(
    net: nn.Module,
    x: Inputs,
    head: nn.Linear | str | None = None,
    same: Callable[[Tensor, Tensor], bool] = operator.is_,
) -> nn.Linear:
    """Return the linear layer whose output is the net's output.

    Parameters
    ----------
    net : Module
        Any classifier that returns logits.
    x : Tensor, shape (n, ...), or inputs of several parts
        One row is passed through the net.
    head : Linear or str, optional
        The layer, or its name in the net; by default the last one that runs.
    same : callable
        Decides whether the outputs of a layer and of the net are the same; by default, one tensor.
    """
    head = layer_named(net, head) if isinstance(head, str) else head
    # Outputs with the number of changes made to them: an in-place activation after the layer
    # returns the same tensor with other numbers.
    outputs: list[tuple[nn.Linear, Tensor, int]] = []

    def record(layer: nn.Module, _: object, output: Tensor) -> None:
        assert isinstance(layer, nn.Linear)
        outputs.append((layer, output, output._version))

    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    hooks = [layer.register_forward_hook(record) for layer in layers]
    try:
        logits = first_output(net, x)
    finally:
        for hook in hooks:
            hook.remove()
    matching = [
        layer
        for layer, output, version in outputs
        if output._version == version and same(output, logits)
    ]
    found = matching[-1] if matching else None
    if found is None or (head is not None and head is not found):
        which = "its last" if head is None else "the given"
        raise not_the_head(f"the output of {name_of(net)} is not the output of {which}")
    return found


def first_output(net: nn.Module, x: Inputs) -> Any:
    """Return the output of a net for the first of its inputs, in eval mode, without gradients.

    Tensors created here count their changes, even in ``torch.inference_mode``.

    Parameters
    ----------
    net : Module
    x : Tensor, shape (n, ...), or inputs of several parts

    Raises
    ------
    DataError
        If the net cannot take the input, or its layers mix rows of a batch.
    """
    for name, module in net.named_modules():
        if isinstance(module, _BatchNorm) and module.running_mean is None:
            raise DataError(
                f"layer '{name}' of {name_of(net)} keeps no statistics (track_running_stats=False),"
                " so the net's output for a sample depends on the others in its batch; keep "
                "statistics, or normalise within a sample (LayerNorm, GroupNorm)"
            )
    try:
        with torch.inference_mode(False), evaluating(net):
            return net(rows_of(x, slice(1)))
    except (FaircilError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a user's net may raise anything for unsuitable inputs
        first = next(iter(str(error).splitlines()), type(error).__name__)
        parameter = next(net.parameters(), torch.empty(0))
        raise DataError(
            f"{name_of(net)} cannot take {_told(x)}: {first:.200}; its parameters are "
            f"{parameter.dtype} on {parameter.device}: give it inputs of the type, device and "
            "shape that it expects"
        ) from error


def _told(x: Inputs) -> str:
    """Describe inputs for messages."""
    if isinstance(x, Tensor):
        sparse = "" if x.layout is torch.strided else f" and layout {x.layout}"
        return f"inputs of {x.dtype} and shape {tuple(x.shape)}{sparse} on {x.device}"
    return f"inputs that are a {type(x).__name__} of {len(x)} parts"


def name_of(net: nn.Module) -> str:
    """Return the name of a net's class, for messages."""
    return str(net._get_name())  # type: ignore[no-untyped-call]


def layer_named(net: nn.Module, name: str) -> nn.Linear:
    """Return a linear layer by its name in the net."""
    linear = {name: one for name, one in net.named_modules() if isinstance(one, nn.Linear)}
    if name not in linear:
        raise UsageError(f"head '{name}' is not a linear layer of the net; it has: {list(linear)}")
    return linear[name]


def not_the_head(what: str) -> HeadError:
    """Return the error for a net that does not end with its linear layer."""
    return HeadError(
        f"{what} linear layer; return the logits (no softmax after the layer), with the "
        "classifier as the last nn.Linear"
    )


@contextmanager
def evaluating(net: nn.Module) -> Iterator[None]:
    """Put the net in eval mode without gradients, then restore the mode of every module.

    Modes are restored by ``train``, parents first: a module may have its own ``train``, which
    merges weights for evaluation and separates them again, or keeps some layers frozen.
    """
    modes = [(module, module.training) for module in net.modules()]
    try:
        net.eval()
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            if module.training != mode:
                module.train(mode)
        for module, mode in modes:
            if module.training != mode:  # it was set without the module's own train
                module.training = mode


def with_features(net: nn.Module, head: nn.Linear, x: Inputs) -> tuple[Tensor, Tensor]:
    """Return logits, (n, classes), and features, (n, d), from one pass, with gradients.

    Parameters
    ----------
    net, head : Module, Linear
        The classifier and its last layer (see :func:`faircil.nets.find_head`).
    x : Tensor, shape (n, ...), or inputs of several parts
    """
    found: list[Tensor] = []
    hook = head.register_forward_pre_hook(lambda _, inputs: found.append(inputs[0]))
    try:
        logits = net(x)
    finally:
        hook.remove()
    return logits, found[0]


def features_of(net: nn.Module, x: Tensor) -> Tensor:
    """Return the features, (n, d), of any number of inputs, without gradients, in eval mode."""
    head = find_head(net, x)
    with evaluating(net):
        chunks = chunks_of(len(x), chunk_size(x.device)) or [slice(0)]
        return torch.cat([with_features(net, head, x[rows])[1] for rows in chunks])
