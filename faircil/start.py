"""A run before its first task: a net with its first weights, a learner, an empty buffer."""

from __future__ import annotations

import torch
from torch import nn

from faircil.buffer import ReplayBuffer
from faircil.config import RunConfig
from faircil.data.small_groups import small_groups
from faircil.data.stream import TaskStream
from faircil.generators import Generators
from faircil.learners import LEARNERS
from faircil.nets import build_mlp
from faircil.settings import learner_options
from faircil.state import RunState
from faircil.text.streams import kept_encoder
from faircil.text.text_net import TextNet


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
    quota = settings.buffer_size if learner.replays else 0
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
