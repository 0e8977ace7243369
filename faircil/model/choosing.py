"""The method of a model, chosen on held-out rows of what it learns first."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from faircil.data.encode import draw_test
from faircil.data.own import OwnData
from faircil.data.stream import Task, TaskStream, classes_in_tasks
from faircil.errors import UsageError
from faircil.media import MediaOptions
from faircil.model.model import Floats32, Model
from faircil.runs.config import Part, RunConfig, medium_of, resolve
from faircil.runs.settings import in_effect
from faircil.samples import unique_rows
from faircil.tuning import auto
from faircil.tuning.request import SEED

FEWEST = 500  # rows: with fewer, held-out rows tell methods apart by chance alone
MOST = 10_000  # rows to choose by, drawn from each group alike: a choice needs no more


@dataclass(frozen=True)
class Wish:
    """What the user wants of a model, besides its data.

    Parameters
    ----------
    method : str
        ``auto``: chosen as ``faircil run`` does, on a stream of two classes a task. With few rows
        it is ``moments``.
    weighting, measure : str or None
    favoured : tuple of str
    overrides : tuple of str
        ``name=value`` settings; with ``auto``, each goes to the candidates that use it.
    """

    method: str
    weighting: str | None = None
    measure: str | None = None
    favoured: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()

    def config(self, own: OwnData, candidate: auto.Candidate | None = None) -> RunConfig:
        """Return the configuration of the method, or of a candidate of ``auto``."""
        taken = candidate or auto.Candidate(self.method, self.method)
        medium, given = medium_of(None, own), self.overrides
        if candidate:
            given = tuple(in_effect(given, taken.method, medium=medium))
        config = resolve(
            own=own,
            method=taken.method,
            weighting=taken.weighting or self.weighting,
            measure=self.measure,
            favoured=self.favoured,
            overrides=[*taken.overrides, *given],
            other_methods=(auto.AUTO,),
        )
        if config.trains_encoder:
            raise UsageError(
                "`finetune=true` is for runs: a model does not keep the encoder of its texts; "
                "leave it out, and the encoder is frozen"
            )
        return config

    def media(self, own: OwnData) -> MediaOptions:
        """Return how texts or images become inputs, whatever the method."""
        config = self.config(own, auto.MOMENTS if self.method == auto.AUTO else None)
        assert config.settings.media is not None  # of data with texts or images
        return config.settings.media


def choose_config(
    wish: Wish,
    own: OwnData,
    x: Floats32,
    labels: Sequence[Hashable],
    values: Sequence[str | None] | None,
    device: str,
    image: tuple[int, int, int] | None = None,
) -> tuple[RunConfig, list[str]]:
    """Return the configuration of a model, and notes on why it was chosen.

    Parameters
    ----------
    wish : Wish
    own : OwnData
        Roles of columns.
    x, labels, values
        Rows, as of :meth:`faircil.model.model.Model.learn`.
    device : str
    image : tuple of int, optional
        Channels, height and width, if inputs are pixels.
    """
    if wish.method != auto.AUTO:
        return wish.config(own), []
    few = len(x) < FEWEST or len(set(labels)) < 2
    if few or (values is not None and None in values):  # replay cannot learn unknown groups
        why = "there are too few rows to tell methods apart" if few else "groups are unknown"
        return wish.config(own, auto.MOMENTS), [f"method {auto.MOMENTS.name}, since {why}"]

    def make(candidate: auto.Candidate, part: Part) -> RunConfig:
        del part  # rows are held out of the stream itself
        return wish.config(own, candidate)

    stream = _stream(wish.config(own, auto.MOMENTS), x, labels, values)
    stream = replace(stream, image=image)
    choice = auto.choose_in_memory(make, stream, device)
    return choice.config, [f"method {choice.chosen.name}: {choice.reason}"]


def _stream(
    config: RunConfig,
    x: Floats32,
    labels: Sequence[Hashable],
    values: Sequence[str | None] | None,
) -> TaskStream:
    """Return rows as a stream of two classes a task; test rows are those of training."""
    names = Model(config).with_names(labels, values)
    samples = names.samples_of(x, labels, values)
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
