"""A run before its first task: its data, a net, a learner, an empty buffer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from faircil.buffer import ReplayBuffer
from faircil.compute import Generators
from faircil.data.datasets import load_dataset
from faircil.data.own import load_own
from faircil.data.splits import small_groups, validation_stream
from faircil.data.stream import TaskStream
from faircil.learners import LEARNERS
from faircil.nets import build_mlp
from faircil.runs.config import RunConfig
from faircil.runs.settings import learner_options
from faircil.runs.state import RunState
from faircil.text.embeddings import EmbeddingProgress
from faircil.text.streams import encoded, kept_encoder
from faircil.text.text_net import TextNet


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


def start_run(config: RunConfig, seed: int, stream: TaskStream, device: torch.device) -> RunState:
    """Make the state of a run before its first task.

    Parameters
    ----------
    config : RunConfig
    seed : int
    stream : TaskStream
        Its first sample tells the size of the net.
    device : torch.device
        Where the net is.
    """
    settings = config.settings
    generators = Generators.from_seed(seed)
    net = _build_net(config, stream, generators.init_seed).to(device)
    options = learner_options(config.method, settings)
    learner = LEARNERS[config.method](net, options, generators)
    quota = settings.buffer_size if LEARNERS[config.method].replays else 0
    return RunState(
        learner,
        ReplayBuffer(settings.buffer_size),
        generators,
        notes=[*stream.notes, *small_groups(stream, quota)],
    )


def _build_net(config: RunConfig, stream: TaskStream, seed: int) -> nn.Module:
    """Make the net of a run: an MLP, or the encoder of its texts with a head."""
    text = config.text
    if text is not None and text.finetune:
        return TextNet(
            kept_encoder(text.encoder),
            stream.n_classes,
            seed=seed,
            pooling=text.pool,
            token_budget=text.token_budget,
            precision=text.precision,
            trainable_layers=text.trainable_layers,
        )
    n_inputs = stream.tasks[0].train.x[0].numel()
    return build_mlp(n_inputs, stream.n_classes, config.settings.hidden, seed)
