"""A run seen epoch by epoch: how well losses were predicted, and how cost and disparity moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from faircil.data.stream import TaskStream
from faircil.report.plots import COLOURS
from faircil.runs.config import RunConfig, resolve
from faircil.runs.experiment import run
from faircil.runs.state import RunState, load_stream
from faircil.samples import Samples, concatenate
from faircil.weighting.groups import Floats, find_groups
from faircil.weighting.measures import find_measure
from faircil_lab.paper import watching
from faircil_lab.paper.drawing import finish_axes
from faircil_lab.paper.store import Measurement
from faircil_lab.paper.watching import CostAndDisparity, SampleFit, cost_and_disparity, fit

DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class EpochPanel:
    """A panel.

    Parameters
    ----------
    title : str
    tasks : tuple of int
        Of each epoch, E of them in order.
    lines : mapping
        From a name to values, (seeds, E).
    """

    title: str
    tasks: tuple[int, ...]
    lines: Mapping[str, Floats]


def draw_errors(panels: Sequence[EpochPanel], label: str) -> Figure:
    """Draw lines on a logarithmic scale: mean over seeds, and a band from the least to the most."""
    figure = Figure(figsize=(9.5, 3.2 * len(panels) + 0.5), layout="constrained")
    for axes, panel in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        for number, (name, values) in enumerate(panel.lines.items()):
            _draw_line(axes, panel, values, name, COLOURS[number], DASHES[number])
        axes.set_yscale("log")
        axes.set_ylabel(label)
        _finish(axes, panel)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def draw_together(panels: Sequence[EpochPanel]) -> Figure:
    """Draw the two lines of each panel, each on a scale of its own."""
    figure = Figure(figsize=(9.5, 3.2 * len(panels)), layout="constrained")
    for axes, panel in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        scales = (axes, axes.twinx())
        for number, (name, values) in enumerate(panel.lines.items()):
            scale, colour = scales[number], COLOURS[number]
            _draw_line(scale, panel, values, name, colour, DASHES[number])
            scale.set_ylabel(name, color=colour)
            scale.tick_params(axis="y", colors=colour)
            scale.set_ylim(bottom=0)
        _finish(axes, panel)
        scales[1].spines["top"].set_visible(False)
        scales[1].tick_params(labelsize=8.5)
    return figure


def _draw_line(
    axes: Axes, panel: EpochPanel, values: Floats, name: str, colour: str, dashes: str
) -> None:
    """Draw a line task by task: what lies between two tasks is no trend."""
    epochs = np.arange(1, len(panel.tasks) + 1)
    for task in dict.fromkeys(panel.tasks):
        rows = np.array(panel.tasks) == task
        part, label = values[:, rows], name if task == panel.tasks[0] else None
        (line,) = axes.plot(epochs[rows], part.mean(axis=0), label=label, color=colour)
        line.set(linestyle=dashes, linewidth=1.6, marker="o", markersize=3)
        if len(values) > 1:
            low, high = part.min(axis=0), part.max(axis=0)
            axes.fill_between(epochs[rows], low, high, color=colour, alpha=0.15, lw=0)


def _finish(axes: Axes, panel: EpochPanel) -> None:
    finish_axes(axes)
    axes.set_title(panel.title, fontsize=11, loc="left", pad=16)
    axes.set_xlabel("epoch of the task")
    axes.set_xlim(0.5, len(panel.tasks) + 0.5)
    starts = [k for k, task in enumerate(panel.tasks) if k == 0 or task != panel.tasks[k - 1]]
    ticks = [
        (start + epoch, epoch)
        for start, end in pairwise([*starts, len(panel.tasks)])
        for epoch in range(1, end - start + 1)
        if end - start <= 8 or epoch % 5 == 0
    ]
    axes.set_xticks(*zip(*ticks, strict=True))
    for start in starts:
        if start:
            axes.axvline(start + 0.5, color="0.8", lw=0.8, zorder=0)
        place = (start + 0.6, 1.01)
        axes.annotate(
            f"task {panel.tasks[start]}",
            place,
            xycoords=axes.get_xaxis_transform(),
            fontsize=8.5,
            color="0.35",
        )


@dataclass(frozen=True)
class PredictionErrors:
    """Mean over groups of the distance between a group's loss after an epoch and a prediction.

    Parameters
    ----------
    unchanged : float
        Of the loss before the epoch.
    first, second : float
        Of Taylor's formula with the step that the epoch took.
    program : float
        Of the linear program, which has a step of its own.
    """

    unchanged: float
    first: float
    second: float
    program: float


@dataclass(frozen=True)
class WatchedEpoch:
    """An epoch, counted from 1: on its training data (task and buffer), and on seen test data.

    ``errors`` is None in the first task, where nothing is predicted.
    """

    task: int
    epoch: int
    errors: PredictionErrors | None
    train: CostAndDisparity
    test: CostAndDisparity


@dataclass(frozen=True)
class WatchedRun:
    """All epochs of a run, in order."""

    epochs: tuple[WatchedEpoch, ...]


@dataclass(frozen=True)
class EpochByEpoch(Measurement[WatchedRun]):
    """FSW with the shipped settings, watched.

    Parameters
    ----------
    dataset : str
        Compared by the measure that is its own.
    seed : int
    overrides : tuple of str
        ``name=value`` settings.
    """

    name: ClassVar[str] = "epochs"
    values: ClassVar[type[WatchedRun]] = WatchedRun
    sources = (watching,)

    dataset: str
    seed: int
    overrides: tuple[str, ...] = ()

    def compute(self) -> WatchedRun:
        """Run and look at every epoch."""
        config = resolve(dataset=self.dataset, method="fsw", overrides=self.overrides)
        return watched_run(config, self.seed, load_stream(config, self.seed))


def watched_run(config: RunConfig, seed: int, stream: TaskStream) -> WatchedRun:
    """Run a configuration of replay on a stream and look at every epoch."""
    epochs: list[WatchedEpoch] = []

    def look(state: RunState, before: nn.Module | None) -> None:
        assert state.task is not None
        number = len(state.per_task) + 1
        tests = concatenate([task.test for task in stream.tasks[:number]])
        parts = _parts(state)
        fits = [fit(state.learner, part) for part in parts]
        errors = None
        if before is not None and len(parts) == 2:
            errors = _prediction_errors(config, state, before, fits)
        epochs.append(
            WatchedEpoch(
                task=number,
                epoch=state.task.epoch,
                errors=errors,
                train=cost_and_disparity(config.measure, parts, fits),
                test=cost_and_disparity(config.measure, [tests], [fit(state.learner, tests)]),
            )
        )

    run(config, seed, stream=stream, checkpoint=watching.watching(look))
    return WatchedRun(tuple(epochs))


def _parts(state: RunState) -> list[Samples]:
    """Return the training data of the task, and the buffer where there is one."""
    assert state.task is not None
    memory = state.buffer.samples
    return [state.task.material.current, *([] if memory is None else [memory])]


def _prediction_errors(
    config: RunConfig, state: RunState, before: nn.Module, after: Sequence[SampleFit]
) -> PredictionErrors:
    current, memory = _parts(state)
    by_attribute = find_measure(config.measure).by_attribute
    membership = find_groups(current, memory, by_attribute=by_attribute)
    step = watching.step_between(before, state.learner.net)
    expected = watching.expand_groups(before, step, current, memory, membership)
    truth = watching.group_means([part.losses for part in after], membership)
    program = watching.weights_of_epoch(config, state, before).groups.predicted_losses

    def error(prediction: Floats) -> float:
        return float(np.abs(truth - prediction).mean())

    return PredictionErrors(
        unchanged=error(expected.loss),
        first=error(expected.first_order),
        second=error(expected.second_order),
        program=error(program),
    )
