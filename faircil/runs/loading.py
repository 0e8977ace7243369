"""The initial state of a run: its data, net, learner and empty buffer."""

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
from faircil.learners import LEARNERS, Learner
from faircil.nets import build_mlp
from faircil.runs.config import RunConfig, default_measure
from faircil.runs.state import RunState
from faircil.text.embeddings import EmbeddingProgress
from faircil.text.streams import encoded, kept_encoder
from faircil.text.text_net import TextNet
from faircil.weighting.measures import find_measure


def load_stream(
    config: RunConfig,
    seed: int,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[EmbeddingProgress], None] = lambda _: None,
) -> TaskStream:
    """Load the data of a run as inputs of a net.

    For an evaluation on validation data, held-out training data takes the place of the test data.
    Texts become tokens or embeddings; new embeddings are computed on the device, with calls of
    ``progress``.
    """
    if config.own is not None:
        stream = load_own(config.own, seed)
    else:
        stream = load_dataset(
            config.dataset,
            seed,
            shuffle_classes=config.settings.data.class_order == "shuffled",
            classes_per_task=config.settings.data.classes_per_task,
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
    learner = LEARNERS[config.method](net, settings.learner, generators)
    learner.by_attribute = find_measure(config.measure).by_attribute
    buffer_size = settings.training.buffer_size
    quota = buffer_size if LEARNERS[config.method].replays else 0
    return RunState(
        learner,
        ReplayBuffer(buffer_size),
        generators,
        notes=[*stream.notes, *small_groups(stream, quota), *_measure_notes(config, learner)],
    )


def _measure_notes(config: RunConfig, learner: Learner) -> list[str]:
    """Say that the method has a criterion of its own, where the user asked for another measure."""
    asked = config.measure != default_measure(config.dataset, config.own)
    if not asked or learner.follows is None or config.measure in learner.follows:
        return []
    follows = f" (it can follow {' or '.join(learner.follows)})" if learner.follows else ""
    return [
        f"method '{config.method}' has a fairness criterion of its own and does not follow measure "
        f"'{config.measure}'{follows}: the measure changes what is reported, not the training"
    ]


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
    return build_mlp(n_inputs, stream.n_classes, config.settings.training.hidden, seed)
