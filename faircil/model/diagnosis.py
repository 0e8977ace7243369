"""Which groups a model would hurt by learning further rows: a forecast and a rehearsal.

The forecasts of :mod:`faircil.weighting.forecast` need one pass. A *rehearsal* costs two epochs: a
copy of the model learns the new rows for one epoch with half of its buffer. On the other half,
which is not replayed, the probability of the true class is measured. Then the halves are swapped.
Replayed rows are remembered whatever happens to their group, so they are not informative. A group
has few rows in a buffer, and a single row could dominate a mean of losses, whereas probabilities
are bounded. More epochs, or more than two parts, do not improve the ranking.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from faircil.errors import DataError, UsageError
from faircil.learners import LEARNERS
from faircil.learners.moments import Moments
from faircil.model.history import GroupRows
from faircil.model.model import Model
from faircil.model.table_rows import NO_GAPS, UNWATCHED, Gaps, LessonWatcher, rows_for
from faircil.runs.config import RunConfig
from faircil.runs.experiment import learn_task
from faircil.runs.state import RunState
from faircil.samples import Samples, rows_of_groups, unique_rows
from faircil.weighting.forecast import forecast
from faircil.weighting.groups import Groups


@dataclass(frozen=True)
class GroupForecast:
    """The predicted effect of new rows on a group that a model knows.

    Parameters
    ----------
    label : str
        Class.
    value : str or None
        Attribute value.
    rows : int
        Rows in the buffer; for a method without a buffer, rows learned.
    loss : float
        Their current mean loss.
    probability : float or None
        Current mean probability of their class.
    fall : float or None
        Decrease of this probability in the rehearsal, on rows that were not replayed.
    crowding, slope : float or None
        See :class:`faircil.weighting.forecast.Forecast`.
    """

    label: str
    value: str | None
    rows: int
    loss: float
    probability: float | None = None
    fall: float | None = None
    crowding: float | None = None
    slope: float | None = None


@dataclass(frozen=True)
class ModelForecast:
    """The predicted effect of new rows on the groups of a model.

    Parameters
    ----------
    method : str
    forgets : bool
        Whether its method can forget; otherwise there is nothing to forecast.
    rows : int
        Number of new rows.
    new_classes : tuple of str
    groups : tuple of GroupForecast
        Groups, starting with the one that is hurt most.
    findings : tuple of str
        Conclusions, in plain language.
    notes : tuple of str
        How the rows were read.
    """

    method: str
    forgets: bool
    rows: int
    new_classes: tuple[str, ...]
    groups: tuple[GroupForecast, ...]
    findings: tuple[str, ...]
    notes: tuple[str, ...] = ()


def forecast_table(
    model: Model, path: Path, gaps: Gaps = NO_GAPS, *, watcher: LessonWatcher = UNWATCHED
) -> ModelForecast:
    """Forecast the effect of learning the rows of a table; the model is unchanged."""
    _, learned, test, notes = rows_for(model, path, gaps, watcher)
    x, labels, values = learned.take(~test)
    if not len(labels):
        raise DataError(f"{path} has no row to learn: all are marked as test rows")
    known = model.with_names(labels, values)
    new = known.names[len(model.names) :]
    if isinstance(model.learner, Moments):
        return _unforgetting(model, len(labels), new, notes)
    if not LEARNERS[model.config.method].replays:
        raise UsageError(
            f"method '{model.config.method}' keeps no rows, so there is nothing to make a forecast "
            "for its old groups from; give rows of them to `faircil.forecast(net, current, "
            "memory)` in Python, or use a model of a replay method such as 'er'"
        )
    current = known.samples_of(x, labels, values)
    state = deepcopy(known.state)
    assert state is not None  # the model has learned rows, or the table could not be read
    state.learner.grow(len(known.labels))
    memory = state.buffer.samples
    if memory is None:
        raise DataError("the buffer of the model is empty, so there are no old groups")
    current = current.to(memory.y.device)
    found = forecast(state.learner.net, current, memory)
    now, fall = (group_means(one, memory) for one in rehearse(model.config, state, current))
    groups = [
        GroupForecast(
            *_names(known, key),
            int(found.groups.size[place]),
            float(found.losses[place]),
            now[key],
            fall[key],
            None if np.isnan(found.crowding[place]) else float(found.crowding[place]),
            float(found.slopes[place]),
        )
        for place, key in enumerate(_keys(found.groups, memory))
    ]
    groups.sort(key=lambda one: -(one.fall or 0.0))
    return ModelForecast(
        model.config.label,
        True,
        len(labels),
        new,
        tuple(groups),
        tuple(_sentences(groups)),
        tuple(notes),
    )


def rehearse(
    config: RunConfig, state: RunState, current: Samples, memory: Samples | None = None
) -> tuple[Tensor, Tensor]:
    """Return the probabilities of old rows' classes, and their decrease in one epoch, (m,) each.

    Parameters
    ----------
    config : RunConfig
    state : RunState
        State between two tasks, with outputs for all classes of the task; unchanged.
    current : Samples
        Training data of the task, on the device of the learner.
    memory : Samples, optional
        m old rows that are not replayed; by default those of the buffer, of which each half is
        replayed while the other one is measured.
    """
    training = config.settings.training.model_copy(update={"epochs": 1})
    short = config.settings.model_copy(update={"training": training})
    brief = config.model_copy(update={"settings": short})
    rows = state.buffer.samples if memory is None else memory
    assert rows is not None  # ensured by the caller
    now = _probabilities(state, rows)
    fall = torch.empty_like(now)
    for measured in (
        _halves(rows) if memory is None else [torch.ones_like(rows.y, dtype=torch.bool)]
    ):
        copied = deepcopy(state)
        if memory is None:
            copied.buffer = replace(copied.buffer, samples=rows.take(~measured))
        held = rows.take(measured)
        learn_task(brief, copied, current)
        fall[measured] = now[measured] - _probabilities(copied, held)
    return now, fall


def _halves(samples: Samples) -> list[Tensor]:
    """Split the rows of each group in half, as masks, (m,); single rows are in the second half."""
    keys, index = unique_rows(samples.keys())
    first = torch.zeros_like(samples.y, dtype=torch.bool)
    for rows in rows_of_groups(index, len(keys)):
        first[rows[: len(rows) // 2]] = True
    return [first, ~first]


def _probabilities(state: RunState, samples: Samples) -> Tensor:
    """Return the learner's probability of the class of each sample, (n,)."""
    probabilities = state.learner.scores(samples.x).double().softmax(dim=1)
    return probabilities.gather(1, samples.y[:, None])[:, 0]


def group_means(values: Tensor, samples: Samples) -> dict[tuple[int, ...], float]:
    """Return the mean of the samples' values, (n,), by group."""
    keys, index = unique_rows(samples.keys())
    sums = values.new_zeros(len(keys)).index_add_(0, index, values)
    means = (sums / torch.bincount(index, minlength=len(keys))).tolist()
    return {tuple(key): mean for key, mean in zip(keys.tolist(), means, strict=True)}


def _keys(groups: Groups, memory: Samples) -> list[tuple[int, ...]]:
    """Return groups as keys of samples."""
    if memory.z is None:
        return [(int(y),) for y in groups.label]
    return [(int(y), int(z)) for y, z in zip(groups.label, groups.attribute, strict=True)]


def _names(model: Model, key: tuple[int, ...]) -> tuple[str, str | None]:
    (group,) = model.groups_of({key: 1})
    return group.label, group.value


def _said(group: GroupForecast | GroupRows) -> str:
    return f"class '{group.label}'" + (f" ({group.value})" if group.value else "")


def _sentences(groups: list[GroupForecast]) -> list[str]:
    """Describe which groups are hurt, and how reliable this is."""
    hurt = [one for one in groups if (one.fall or 0.0) > 0]
    sentences = [
        f"of {len(groups)} known groups, {len(hurt)} are hurt by these rows in the rehearsal"
    ]
    if hurt:
        worst = hurt[0]
        sentences.append(
            f"most of all {_said(worst)}: of rows that are not replayed, the probability that the "
            f"model gives to their class falls by {worst.fall:.2f} in one epoch, from "
            f"{worst.probability:.2f}"
        )
    sentences.append("this ranks groups based on few rows of each; it is not a measurement")
    return sentences


def _unforgetting(model: Model, rows: int, new: tuple[str, ...], notes: list[str]) -> ModelForecast:
    """Return the forecast for a model that does not forget."""
    passed = model.lessons[-1].passed
    groups = [
        GroupForecast(*_names(model, (one.label, *one.attribute)), one.samples, one.after)
        for one in (passed.groups if passed else ())
    ]
    groups.sort(key=lambda one: -one.loss)
    findings = [
        f"method '{model.config.method}' forgets nothing: after any order of tasks its solution is "
        "that of all rows that it was given, so there is no forgetting to forecast",
        "known groups can still lose, since new classes share the inputs with them; the losses "
        "below are those of the model now, squared and of left-out rows",
    ]
    return ModelForecast(
        model.config.label, False, rows, new, tuple(groups), tuple(findings), tuple(notes)
    )
