"""The search space of a request, looked up and checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from faircil.errors import UsageError, collecting, raise_all
from faircil.files import applies, shipped_rows
from faircil.runs.config import RunConfig, attribute_mistakes, has_attribute
from faircil.runs.settings import (
    Settings,
    parse_overrides,
    settings_of,
    unused_mistakes,
    unused_settings,
    validate_settings,
)
from faircil.sweep.command import written
from faircil.tuning.request import (
    Objective,
    Overrides,
    Trial,
    TuneRequest,
    parse_objective,
    parse_target,
    usual_objective,
)


@dataclass(frozen=True)
class Axis:
    """A setting and its values, as users write them."""

    name: str
    values: tuple[str, ...]

    @property
    def overrides(self) -> list[str]:
        """Each value as ``name=value``."""
        return [f"{self.name}={value}" for value in self.values]


Space = tuple[Axis, ...]
TRADE_OFF = "lam"  # the weight of accuracy against the disparity


def size(space: Space) -> int:
    """Return the number of combinations."""
    return prod(len(axis.values) for axis in space)


def combinations(space: Space) -> Iterator[Overrides]:
    """Yield all combinations; the last setting varies fastest."""
    return product(*(axis.overrides for axis in space))


def combination(space: Space, index: int) -> Overrides:
    """Return the item of :func:`combinations` at a position, without generating the others."""
    places = np.unravel_index(index, [len(axis.values) for axis in space])
    return tuple(axis.overrides[place] for axis, place in zip(space, places, strict=True))


def space_of(request: TuneRequest, config: RunConfig, mistakes: list[str]) -> Space:
    """Return the search space of a request; add invalid values to ``mistakes``.

    Parameters
    ----------
    request : TuneRequest
    config : RunConfig
        Configuration of the request without overrides.
    mistakes : list of str
    """
    fixed = {text.partition("=")[0] for text in request.fixed}
    if request.target is not None and not request.tried:
        return _trade_off(config, fixed, mistakes)
    if not request.tried:
        shipped = shipped_space(config)
        space = tuple(axis for axis in shipped if axis.name not in fixed)
        if not space:
            names = ", ".join(axis.name for axis in shipped)
            mistakes.append(
                f"nothing is left to choose for {config.label}: the whole search space ({names}) "
                "is fixed; fix fewer settings with `fixed`, or give values to try with `tried`"
            )
        return space
    space = _parsed(request.tried, mistakes)
    mistakes += [
        f"setting '{axis.name}' is given with `fixed` and with `tried`; give it once"
        for axis in space
        if axis.name in fixed
    ]
    found: list[str] = []
    values = config.settings.flat()
    for override in (override for axis in space for override in axis.overrides):
        known = parse_overrides([override], config.method, found, medium=config.medium)
        settings = _validated(config, values | known, found) if known else None
        if settings is not None:
            found += unused_mistakes(config.method, settings.learner, known)
    mistakes += dict.fromkeys(found)  # an unknown setting is one mistake, not one per value
    return space


def _trade_off(config: RunConfig, fixed: set[str], mistakes: list[str]) -> Space:
    """Return the values of the trade-off to search for a target."""
    space = tuple(axis for axis in shipped_space(config, target=True) if axis.name == TRADE_OFF)
    if unused := unused_settings(config.method, config.settings.learner, [TRADE_OFF]):
        mistakes.append(
            f"a target chooses `{TRADE_OFF}`, which has no effect on method '{config.method}' "
            f"here: {unused[TRADE_OFF]}; leave that setting out, or the target"
        )
    elif not space:
        mistakes.append(
            f"a target chooses `{TRADE_OFF}`, the trade-off of fsw and moments, which "
            f"{config.label} does not use; use `method='moments'` or `weighting='fsw'`"
        )
    if TRADE_OFF in fixed:
        mistakes.append(
            f"a target chooses `{TRADE_OFF}`, and it is given; leave out one of the two"
        )
    return space


def shipped_space(config: RunConfig, *, target: bool = False) -> Space:
    """Look a run up in ``grids.toml``; for a target, in the rows for targets."""
    key: dict[str, Any] = {
        "dataset": config.dataset,
        "method": config.method,
        "weighting": config.weighting,
        "measure": config.measure,
        "attribute": has_attribute(config.dataset, config.own),
        "texts": config.text.mode if config.text else None,
        "target": target,
    }
    values: dict[str, list[Any]] = {}
    for row in shipped_rows("faircil.tuning", "grids.toml", str):  # keeps the spelling of 0.00002
        if applies(row, key):
            values.update(row["try"])
    known = settings_of(config.method, config.medium)
    unused = unused_settings(config.method, config.settings.learner, values)
    return tuple(
        Axis(name, tuple(map(written, choices)))
        for name, choices in values.items()
        if choices and name in known and name not in unused
    )


def usual(space: Space, config: RunConfig) -> Overrides:
    """Return the settings of a configuration as a point of the space, or next to it."""
    settings = config.settings.flat()
    overrides = []
    for axis in space:
        own = settings[axis.name]
        same = (value for value in axis.values if _read(config, axis.name, value) == own)
        overrides.append(f"{axis.name}={next(same, written(own))}")
    return tuple(overrides)


def _read(config: RunConfig, name: str, value: str) -> Any:
    """Convert a value to its type as a setting: 1 and 1.0 are the same learning rate."""
    known = parse_overrides([f"{name}={value}"], config.method, [], medium=config.medium)
    settings = _validated(config, config.settings.flat() | known, [])
    return None if settings is None else settings.flat()[name]


def _validated(config: RunConfig, values: dict[str, Any], mistakes: list[str]) -> Settings | None:
    """Validate settings of a run of the same method on the same data."""
    method, measure = config.method, config.measure
    return validate_settings(values, method, measure, mistakes, medium=config.medium)


def _parsed(texts: Sequence[str], mistakes: list[str]) -> Space:
    """Parse ``name=value,value`` texts."""
    axes: dict[str, Axis] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        choices = tuple(dict.fromkeys(values.split(",")))
        if not (name and equals and all(choices)):
            mistakes.append(
                f"'{text}' in `tried` is not of the form name=value,value, such as tau=1,5"
            )
        elif name in axes:
            mistakes.append(f"setting '{name}' is tried twice; give all its values in one place")
        else:
            axes[name] = Axis(name, choices)
    return tuple(axes.values())


@dataclass(frozen=True)
class Problem:
    """A search problem.

    Parameters
    ----------
    request : TuneRequest
    config : RunConfig
        Configuration without overrides.
    space : tuple of Axis
    usual : tuple of str
        The settings without overrides, one for each axis.
    objective : Objective
    """

    request: TuneRequest
    config: RunConfig
    space: Space
    usual: Overrides
    objective: Objective


def problem_of(request: TuneRequest) -> Problem:
    """Look a request up; raise an error with all mistakes."""
    mistakes: list[str] = []
    config = objective = None
    with collecting(mistakes):
        if request.target is not None:
            objective = parse_target(request.target)
        else:
            objective = parse_objective(request.objective or usual_objective(request.measure))
    if request.target is not None and request.objective is not None:
        mistakes.append("`target` and `objective` are given; give one of them")
    if objective is not None and objective.by_attribute:
        what, remedy = f"objective '{objective.text}'", "use `objective='accuracy - eer'`"
        if request.target is not None:
            what, remedy = f"target '{request.target}'", "choose a metric such as eer"
        mistakes += attribute_mistakes(what, request.dataset, request.own, remedy)
    if request.budget < 1:
        mistakes.append(f"`budget` is {request.budget}, expected at least 1 configuration")
    if not request.seeds:
        mistakes.append("there is no seed to try on; give one with `seeds`, such as 10")
    with collecting(mistakes):
        config = request.config(())
    known = _without_fixed(request) if config is None else config
    space = () if known is None else space_of(request, known, mistakes)
    raise_all(list(dict.fromkeys(mistakes)))
    assert config is not None  # otherwise there was a mistake
    assert objective is not None
    return Problem(request, config, space, usual(space, config), objective)


def _without_fixed(request: TuneRequest) -> RunConfig | None:
    """Return the configuration if only fixed settings are invalid, to check the searched ones."""
    try:
        return replace(request, fixed=()).config(())
    except UsageError:
        return None


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial with the best score, the first one of ties; None if all failed."""
    scored = [trial for trial in trials if trial.score is not None]
    return max(scored, key=lambda trial: trial.score or 0.0, default=None)
