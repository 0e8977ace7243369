"""Random numbers: one stream per purpose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Generators:
    """One stream of random numbers per purpose, so that methods on one seed share what they can.

    Parameters
    ----------
    init_seed : int
        Of the net: its layers draw from torch's global generator.
    shuffle, memory, buffer, weights : torch.Generator
        Order of the samples, batches of the buffer, choice of the buffer, draws of a weighting.
    method : torch.Generator
        Whatever else a method draws.
    """

    init_seed: int
    shuffle: torch.Generator
    memory: torch.Generator
    buffer: torch.Generator
    weights: torch.Generator
    method: torch.Generator

    @classmethod
    def from_seed(cls, seed: int) -> Generators:
        """Derive independent generators from the seed of the run."""
        init, *seeds = (
            np.random.SeedSequence([seed, 1]).generate_state(6, np.uint64) >> 1
        ).tolist()
        return cls(init, *(torch.Generator().manual_seed(s) for s in seeds))
