"""The data of a run, as inputs of a net."""

from __future__ import annotations

from collections.abc import Callable

import torch

from faircil.config import RunConfig
from faircil.data.datasets import load_dataset
from faircil.data.own import load_own
from faircil.data.stream import TaskStream
from faircil.data.validation import validation_stream
from faircil.text.embeddings import EmbeddingProgress
from faircil.text.streams import encoded


def load_stream(
    config: RunConfig,
    seed: int,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[EmbeddingProgress], None] = lambda _: None,
) -> TaskStream:
    """Load the data of a run as inputs of a net.

    For an evaluation on validation data, held-out training data takes the place of the test data.
    Texts become tokens or embeddings; new embeddings are computed on the device, and ``progress``
    is told how far they are.
    """
    if config.own is not None:
        stream = load_own(config.own, seed)
    else:
        stream = load_dataset(
            config.dataset,
            seed,
            shuffle_classes=config.settings.class_order == "shuffled",
            classes_per_task=config.settings.classes_per_task,
        )
    if config.evaluate_on == "validation":
        stream = validation_stream(stream, seed)
    if config.text is None:
        return stream
    return encoded(stream, config.text, device=device, progress=progress)
