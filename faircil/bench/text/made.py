"""An encoder with random weights, and texts that are made of random tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from faircil.bench.text.workload import (
    ATTRIBUTES,
    CLASSES,
    HEAD_WIDTH,
    QUOTA,
    TASKS,
    Workload,
)
from faircil.buffer import ReplayBuffer
from faircil.samples import Samples
from faircil.text.encoders import Encoder
from faircil.text.extra import text_module

PADDING, FIRST = 0, 101  # tokens of BERT that fill rows up, and that begin them
WORDS = (1000, 30522)  # its tokens that are words
TELLING = 0.25  # of a text's tokens are words of its group
OWN_WORDS = 8  # that a group has
OLD_CLASSES = CLASSES - CLASSES // TASKS  # of all tasks but the last


def make_encoder(workload: Workload) -> Encoder:
    """Make an encoder of BERT's architecture with weights that are drawn, on the CPU.

    It has no tokenizer and no files: its texts are made as tokens.
    """
    transformers = text_module("transformers")
    config = transformers.BertConfig(
        hidden_size=workload.hidden,
        num_hidden_layers=workload.layers,
        num_attention_heads=max(1, workload.hidden // HEAD_WIDTH),
        intermediate_size=4 * workload.hidden,
        max_position_embeddings=max(512, workload.tokens),
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = transformers.BertModel(config, add_pooling_layer=False).eval()
    return Encoder(
        name="made",
        folder=Path(),
        model=model,
        tokenizer=None,
        hidden_size=workload.hidden,
        max_length=config.max_position_embeddings,
        pad_id=PADDING,
        digest="",
    )


@dataclass(frozen=True)
class Corpus:
    """All training texts, on the CPU, sorted by class.

    Parameters
    ----------
    samples : Samples
        Tokens (n, L) of type int32, classes, attribute values.
    """

    samples: Samples

    @property
    def last_task(self) -> Samples:
        """The texts of the last task's classes."""
        return self.samples.take(self.samples.y >= OLD_CLASSES)

    @property
    def buffer(self) -> ReplayBuffer:
        """What is kept of the earlier tasks when the last one begins."""
        earlier = self.samples.take(self.samples.y < OLD_CLASSES)
        return ReplayBuffer(QUOTA).with_task(earlier, None, torch.Generator().manual_seed(0))


def make_corpus(workload: Workload) -> Corpus:
    """Draw texts: in each some tokens are of its class and attribute value, the others of all."""
    generator = torch.Generator().manual_seed(0)
    place = torch.arange(workload.rows)
    y, z = place * CLASSES // workload.rows, place % ATTRIBUTES
    shape = (workload.rows, workload.tokens)

    def draw(low: int, high: int) -> Tensor:
        return torch.randint(low, high, shape, generator=generator, dtype=torch.int32)

    first_own = (WORDS[0] + (y * ATTRIBUTES + z) * OWN_WORDS).int()[:, None]
    telling = torch.rand(shape, generator=generator) < TELLING
    tokens = torch.where(telling, first_own + draw(0, OWN_WORDS), draw(*WORDS))
    tokens[:, 0] = FIRST
    return Corpus(Samples(tokens, y, z))


def shortened_rows(tokens: Tensor, shortest: float) -> Tensor:
    """Return tokens, (n, L), cut to lengths that are drawn evenly, and filled up with padding.

    Parameters
    ----------
    tokens : Tensor of int32, shape (n, L)
    shortest : float
        As a part of L.
    """
    if shortest == 1:
        return tokens
    n, longest = tokens.shape
    generator = torch.Generator().manual_seed(0)
    low = max(1, round(shortest * longest))
    length = torch.randint(low, longest + 1, (n, 1), generator=generator).to(tokens.device)
    return torch.where(torch.arange(longest, device=tokens.device) < length, tokens, PADDING)
