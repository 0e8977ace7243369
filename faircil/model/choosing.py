"""The method of a model, chosen on held-out rows of what it learns first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import torch

from faircil.data.encode import draw_test
from faircil.data.own import OwnData
from faircil.data.stream import Task, TaskStream, classes_in_tasks
from faircil.model.model import Floats32, Model
from faircil.runs.config import Part, RunConfig
from faircil.samples import unique_rows
from faircil.tuning import auto
from faircil.tuning.request import SEED

FEWEST = 500  # rows: with fewer, held-out rows tell methods apart by chance alone
MOST = 10_000  # rows to choose by, drawn from each group alike: a choice needs no more

Configure = Callable[..., RunConfig]


def choose_config(
    configure: Configure,
    own: OwnData,
    method: str,
    x: Floats32,
    labels: Sequence[Hashable],
    values: Sequence[str | None] | None,
    device: str,
) -> tuple[RunConfig, list[str]]:
    """Return the configuration of a model, and notes on why it was chosen.

    Parameters
    ----------
    configure : callable
        Makes it of roles, method, weighting and further settings.
    own : OwnData
        Roles of columns.
    method : str
        ``auto``: chosen as ``faircil run`` does, on a stream of two classes a task. With few rows
        it is ``moments``.
    x, labels, values
        Rows, as of :meth:`faircil.model.model.Model.learn`.
    device : str
    """
    if method != auto.AUTO:
        return configure(own, method, None), []
    few = len(x) < FEWEST or len(set(labels)) < 2
    if few or (values is not None and None in values):  # replay cannot learn unknown groups
        why = "there are too few rows to tell methods apart" if few else "groups are unknown"
        config = configure(own, auto.MOMENTS.method, auto.MOMENTS.weighting)
        return config, [f"method {auto.MOMENTS.name}, since {why}"]

    def make(candidate: auto.Candidate, part: Part) -> RunConfig:
        del part  # rows are held out of the stream itself
        return configure(own, candidate.method, candidate.weighting, *candidate.overrides)

    stream = _stream(configure(own, auto.MOMENTS.method, None), x, labels, values)
    choice = auto.choose_in_memory(make, stream, device)
    return choice.config, [f"method {choice.chosen.name}: {choice.reason}"]


def _stream(
    config: RunConfig,
    x: Floats32,
    labels: Sequence[Hashable],
    values: Sequence[str | None] | None,
) -> TaskStream:
    """Return rows as a stream of two classes a task; test rows are those of training."""
    names = Model(config)._with_names(labels, values)
    samples = names._samples(x, labels, values)
    if len(samples) > MOST:
        _, group = unique_rows(samples.keys())
        drawn = draw_test(group.numpy(), MOST / len(samples), SEED)
        samples = samples.take(torch.from_numpy(drawn))
    y = samples.y.numpy()
    tasks = []
    for classes in classes_in_tasks(len(names.labels), 2):
        rows = torch.from_numpy(np.flatnonzero(np.isin(y, classes)))
        part = samples.take(rows)
        tasks.append(Task(classes, part, part))
    return TaskStream(
        name="data",
        tasks=tuple(tasks),
        class_names=names.names,
        attribute=" × ".join(config.own.sensitive) if config.own and config.own.sensitive else None,
        attribute_values=tuple(names.values),
    )
