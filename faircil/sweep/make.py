"""Making one run: load, train, write."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from faircil.config import RunConfig
from faircil.data.stream import TaskStream
from faircil.device import enough_memory
from faircil.experiment import Listener, run
from faircil.loading import load_stream
from faircil.results.environment import environment
from faircil.results.folder import write_run
from faircil.results.reuse import claim, seed_folder
from faircil.results.summary import RunSummary
from faircil.text.embeddings import EmbeddingProgress

Load = Callable[[RunConfig, int], TaskStream]


def make_run(
    config: RunConfig,
    seed: int,
    folder: Path,
    *,
    command: str,
    device: torch.device,
    begin: Callable[[TaskStream], None] = lambda _: None,
    listener: Listener = lambda _: None,
    progress: Callable[[EmbeddingProgress], None] = lambda _: None,
    load: Load | None = None,
) -> RunSummary:
    """Make a run and write it to the folder of its configuration.

    Parameters
    ----------
    config, seed
        The run.
    folder : Path
        Of the configuration; the run is in ``seed-N`` below.
    command : str
        What makes it again.
    device : torch.device
    begin : callable
        Is given the stream when it is loaded.
    listener : callable
        Is told of every epoch and every evaluation.
    progress : callable
        Is told how far the embedding of new texts is.
    load : callable, optional
        Loads the stream; if not given, :func:`faircil.loading.load_stream`.
    """
    load = load or partial(load_stream, device=device, progress=progress)
    with enough_memory():
        stream = load(config, seed)
        claim(folder)
        begin(stream)
        result = run(config, seed, stream=stream, device=device, listener=listener)
    return write_run(seed_folder(folder, seed), result, environment(command, str(device)))
