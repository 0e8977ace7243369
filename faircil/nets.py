"""Networks. The contract: ``logits = net.head(net.features(x))``.

A net may say that its steps cannot be replayed as CUDA graphs (``graphable = False``), that they
are large enough to be shared by threads (``large = True``), and how many tokens of texts it was
trained on so far (``trained_tokens``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


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
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, (n, classes), for inputs (n, ...)."""
        logits: Tensor = self.head(self.features(x.flatten(1)))
        return logits


def build_mlp(n_inputs: int, n_classes: int, hidden: Sequence[int], seed: int) -> MLP:
    """Make an MLP with initial weights from the seed, without touching the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return MLP(n_inputs, n_classes, hidden)
