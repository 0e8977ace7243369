"""Choosing a model's method, on held-out rows of the first rows that it learns."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import torch

from faircil.data.own import OwnData
from faircil.data.stream import Task, TaskStream, classes_in_tasks
from faircil.data.table_columns import draw_test
from faircil.errors import UsageError, collecting, raise_all, shortened
from faircil.learners import LEARNERS
from faircil.media import MediaOptions
from faircil.metrics import METRICS
from faircil.model.history import Measured, now
from faircil.model.model import Floats32, Model
from faircil.results.record import over_seeds
from faircil.runs.config import Part, RunConfig, medium_of, resolve
from faircil.samples import unique_rows
from faircil.tuning import auto
from faircil.tuning.request import SEED

FEWEST = 500  # rows below which held-out rows cannot distinguish methods
MOST = 6_000  # rows that suffice for the choice, drawn at the same rate from each group
WHOLE = 20  # rows up to which a group is used as a whole


@dataclass(frozen=True)
class Wish:
    """The user's request for a model, apart from its data.

    Parameters
    ----------
    method : str
        ``auto`` chooses as ``faircil run`` does, on a stream with two classes per task. With few
        rows it is ``moments``.
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
        if candidate is not None:
            given = tuple(auto.settings_for(candidate, self.overrides, medium=medium))
        config = resolve(
            own=own,
            method=taken.method,
            weighting=taken.weighting or self.weighting,
            measure=self.measure,
            favoured=self.favoured,
            overrides=given,
            other_methods=(auto.AUTO,),
        )
        if config.trains_encoder:
            raise UsageError(
                "`finetune=true` is for runs: a model does not keep the encoder of its texts; "
                "leave it out, and the encoder is frozen"
            )
        return config

    def media(self, own: OwnData) -> MediaOptions | None:
        """Return how texts or images become inputs, for any method; None for other inputs."""
        if own.items is None:
            return None
        return self.config(own, auto.MOMENTS if self.method == auto.AUTO else None).settings.media

    def check(self, own: OwnData) -> None:
        """Raise an error with all mistakes before learning; ``auto`` checks each candidate."""
        if self.method != auto.AUTO:
            self.config(own)
            return
        mistakes = []
        if self.weighting is not None:
            mistakes.append(
                "`weighting` is for a method that you choose; name one with `method`, such as er"
            )
        plain = replace(self, weighting=None)
        with collecting(mistakes):
            auto.check(lambda candidate, _: plain.config(own, candidate))
        raise_all(mistakes)


@dataclass(frozen=True)
class Settled:
    """The starting point of a model.

    Parameters
    ----------
    config : RunConfig
    notes : list of str
        Why it was chosen, if ``auto``.
    measured : list of Measured
        Results of the chosen method on held-out rows.
    """

    config: RunConfig
    notes: list[str] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)


def choose_config(
    wish: Wish,
    own: OwnData,
    x: Floats32,
    labels: Sequence[Hashable],
    values: Sequence[str | None] | None,
    device: str,
    trying: auto.Trying = lambda *_: None,
    image: tuple[int, int, int] | None = None,
) -> Settled:
    """Return the configuration of a model, and the reasons for it.

    Parameters
    ----------
    wish : Wish
    own : OwnData
        Roles of columns.
    x, labels, values
        Rows, as for :meth:`faircil.model.model.Model.learn`.
    device : str
    trying : callable
        Called before each run of a candidate.
    image : tuple of int, optional
        Channels, height and width, if inputs are pixels.
    """
    wish.check(own)
    if wish.method != auto.AUTO:
        return Settled(wish.config(own))
    if auto.protects(wish.overrides):
        return Settled(wish.config(own, auto.MOMENTS), [f"method moments, since {auto.KEEPS_ROWS}"])
    told = auto.partly_used(wish.overrides, medium=medium_of(None, own))
    stream, why = None, None
    if values is not None and None in values:  # replay cannot learn unknown groups
        why = "groups are unknown"
    elif values is not None and len(set(values)) < 2:
        why = "there is a single attribute value so far"
    elif len(x) >= FEWEST:
        stream, left_out = _stream(wish.config(own, auto.MOMENTS), x, labels, values)
        told += left_out
    if stream is None:
        why = why or "there are too few rows to compare methods"
        note = f"method {auto.MOMENTS.name}, since {why}"
        return Settled(wish.config(own, auto.MOMENTS), [note, *told])

    def make(candidate: auto.Candidate, part: Part) -> RunConfig:
        del part  # rows are held out of the stream itself
        return wish.config(own, candidate)

    stream = replace(stream, image=image)
    choice = auto.choose_in_memory(make, stream, device, trying, every_row=len(x) <= MOST)
    best = choice.best
    means, _ = over_seeds(best.runs)
    on = f"rows held out to choose the method, {best.candidate.name}, task by task"
    found = Measured(now(), on, choice.rows, 0, {name: means[name] for name in METRICS})
    notes = [f"method {choice.chosen.name}: {choice.reason}", *told]
    if LEARNERS[choice.config.method].replays:
        notes.append(
            "this method keeps rows of people in the model and cannot forget one exactly; method "
            f"{auto.MOMENTS.name} keeps none, and can"
        )
    return Settled(choice.config, notes, [found])


def _stream(
    config: RunConfig,
    x: Floats32,
    labels: Sequence[Hashable],
    values: Sequence[str | None] | None,
) -> tuple[TaskStream | None, list[str]]:
    """Return rows as a stream with two classes per task, and notes on it.

    Test rows are drawn from the training rows. Classes without a row to hold out are omitted; if
    fewer than two others remain, there is no stream.
    """
    names = Model(config).with_names(labels, values)
    samples = names.samples_of(x, labels, values)
    _, group = unique_rows(samples.keys())
    size = torch.bincount(group)[group]
    if len(samples) > MOST:
        drawn = torch.from_numpy(draw_test(group.numpy(), MOST / len(samples), SEED))
        rows = drawn | (size <= WHOLE)
        samples, size = samples.take(rows), size[rows]
    # A group with a single row has none held out, see `draw_test`.
    told_apart = torch.unique(samples.y[size > 1]).tolist()
    alone = [name for place, name in enumerate(names.names) if place not in told_apart]
    if len(told_apart) < 2:
        return None, []
    tasks = []
    for classes in classes_in_tasks(len(told_apart), 2, told_apart):
        part = samples.take(torch.isin(samples.y, torch.tensor(classes)))
        tasks.append(Task(classes, part, part))
    stream = TaskStream(
        name="data",
        tasks=tuple(tasks),
        class_names=names.names,
        attribute=" × ".join(config.own.sensitive) if config.own and config.own.sensitive else None,
        attribute_values=tuple(names.values),
    )
    if not alone:
        return stream, []
    told = "classes with too few rows to hold one out, not used in this choice"
    return stream, [f"{told}: {shortened(alone)}"]
