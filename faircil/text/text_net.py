"""A pre-trained encoder with a linear head over all classes, fine-tuned fully or in part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from faircil.errors import DataError, UsageError
from faircil.nets import NetTraits, seeded
from faircil.text.encoders import Encoder, load_model
from faircil.text.passes import (
    FINE_TUNED,
    TOKEN_BUDGET,
    Layout,
    Passing,
    Use,
    encode,
    fixed_shapes,
    layout_of,
    row_lengths,
    suitable,
)


class TextNet(nn.Module):
    """Classifies rows of tokens; a :class:`faircil.nets.Net`.

    It accepts any number of rows in bounded memory. Dropout depends on the seed and the number of
    passes so far, not on torch's global generator, so runs are reproducible and can be resumed.

    Parameters
    ----------
    encoder : Encoder
        Copied; training does not modify it.
    n_classes : int
    seed : int
        Seed of the head and of dropout.
    pooling, token_budget, precision
        See :class:`faircil.text.passes.Passing`.
    trainable_layers : int, optional
        Train only this many of the encoder's last layers, and the head; None: everything.
    """

    remade = ("encoder",)

    def __init__(
        self,
        encoder: Encoder,
        n_classes: int,
        *,
        seed: int,
        pooling: str = FINE_TUNED,
        token_budget: int = TOKEN_BUDGET,
        precision: str = "auto",
        trainable_layers: int | None = None,
    ) -> None:
        super().__init__()
        self.passing = Passing(encoder.pad_id, pooling, token_budget, precision)
        self.folder = encoder.folder
        self.encoder = deepcopy(encoder.model)
        if trainable_layers is not None:
            train_last_layers(self.encoder, trainable_layers)
        self.head = _new_head(encoder.hidden_size, n_classes, seed)
        self.seed, self.passes = seed, 0
        self.trained_tokens: int | Tensor = 0  # a tensor on the device, to avoid synchronisation
        self.train()

    @property
    def traits(self) -> NetTraits:
        """Large, recorded in its own shapes, and reset to its pre-trained encoder."""
        return NetTraits(
            large=True,
            recording=self,
            trained_tokens=self.trained_tokens,
            passes=self.passes,
            proceed=self.proceed,
            restart=self.restart,
        )

    def layout(self, x: Tensor, known: Sequence[Layout], room: bool) -> Layout | None:
        """Return the layout of a recorded training step with tokens (n, L).

        None if there are more tokens than the budget, since activations are then recomputed. See
        :func:`faircil.text.passes.suitable`.
        """
        longest = int(row_lengths(x, self.passing.pad_id).max()) if len(x) else 1
        found = suitable(layout_of(len(x), longest, x.shape[1]), known, room=room)
        return found if found.tokens <= self.passing.token_budget else None

    def in_layout(self, layout: Layout) -> AbstractContextManager[Use]:
        """Use this layout for a training step in the block."""
        return fixed_shapes(layout)

    def drawing(self) -> AbstractContextManager[None]:
        """Draw in the block as in the next training pass, whose recording is replayed there."""
        self.train()
        return self._own_draws(self.head.weight.device)

    def features(self, x: Tensor) -> Tensor:
        """Return one vector per text, (n, d), for tokens (n, L)."""
        if self.training:
            self._count(row_lengths(x, self.passing.pad_id).sum())
        with self._own_draws(x.device):
            return encode(self.encoder, x, self.passing)

    def _count(self, tokens: Tensor) -> None:
        """Count training tokens, in place, so that a recorded step can update the number."""
        if isinstance(self.trained_tokens, int):
            self.trained_tokens = tokens + self.trained_tokens
        else:
            self.trained_tokens.add_(tokens.to(self.trained_tokens.device))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, (n, classes), for tokens (n, L)."""
        logits: Tensor = self.head(self.features(x))
        return logits

    def proceed(self, passes: int, tokens: int | Tensor) -> None:
        """Continue counting training passes and tokens from these numbers."""
        self.passes, self.trained_tokens = passes, tokens

    def restart(self, seed: int) -> None:
        """Reset in place: the encoder to its pre-trained weights, the head drawn from the seed."""
        self.encoder.load_state_dict(load_model(self.folder).state_dict())
        fresh = _new_head(self.head.in_features, self.head.out_features, seed)
        self.head.load_state_dict(fresh.state_dict())
        self.seed, self.passes = seed, 0

    def remake(self, _: str, weights: Mapping[str, Tensor]) -> nn.Module:
        """Return the encoder with weights from a file.

        It uses the given parameters themselves, so that an optimizer that refers to them trains it.
        """
        encoder: nn.Module = load_model(self.folder)
        for path, tensor in weights.items():
            owner, _, name = path.rpartition(".")
            module = encoder.get_submodule(owner)
            held: dict[str, Any] = module._buffers
            if name in module._parameters:
                held = module._parameters
            if name not in held or held[name].shape != tensor.shape:
                raise DataError(f"the content is damaged: {path} is no part of this shape")
            held[name] = tensor
        return encoder.train(self.training)

    @contextmanager
    def _own_draws(self, device: torch.device) -> Iterator[None]:
        # A recorded step uses the seed that is set before its replay.
        recorded = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if not self.training or recorded:
            yield
            return
        seed = int(np.random.SeedSequence([self.seed, self.passes]).generate_state(1, np.uint64)[0])
        self.passes += 1
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.default_generator.manual_seed(seed >> 1)
            if device.type == "cuda":
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(seed >> 1)
            yield


def train_last_layers(model: nn.Module, count: int) -> None:
    """Freeze an encoder except for the last ``count`` of its layers."""
    depth = model.config.num_hidden_layers  # type: ignore[union-attr]
    stacks = (m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == depth)
    layers = next(stacks, None)
    if layers is None or not 0 <= count <= len(layers):
        found = "no layers that can be identified" if layers is None else f"{len(layers)} layers"
        raise UsageError(
            f"trainable_layers is {count}, and the encoder has {found}; expected 0 to their "
            "number, or nothing to train all of it"
        )
    model.requires_grad_(False)
    for layer in layers[len(layers) - count :]:
        layer.requires_grad_(True)


def _new_head(n_inputs: int, n_classes: int, seed: int) -> nn.Linear:
    with seeded(seed):
        return nn.Linear(n_inputs, n_classes)
