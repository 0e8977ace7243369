"""A request, looked up and checked: what a search works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from faircil.combinations import attribute_mistakes
from faircil.config import RunConfig
from faircil.errors import UsageError, collecting, raise_all
from faircil.tuning.objective import BY_ATTRIBUTE, Objective, parse_objective
from faircil.tuning.request import Overrides, Trial, TuneRequest
from faircil.tuning.space import Space, space_of, usual


@dataclass(frozen=True)
class Problem:
    """What is to be chosen.

    Parameters
    ----------
    request : TuneRequest
    config : RunConfig
        Without any override.
    space : tuple of Axis
    usual : tuple of str
        The settings without any override, an item for each axis.
    objective : Objective
    """

    request: TuneRequest
    config: RunConfig
    space: Space
    usual: Overrides
    objective: Objective


def problem_of(request: TuneRequest) -> Problem:
    """Look a request up; raises with all mistakes at once."""
    mistakes: list[str] = []
    config = objective = None
    with collecting(mistakes):
        objective = parse_objective(request.objective or f"accuracy - {request.measure}")
    if objective is not None and objective.disparity in BY_ATTRIBUTE:
        what = f"objective '{objective.text}'"
        mistakes += attribute_mistakes(what, request.dataset, request.own, "use 'accuracy - eer'")
    if request.budget < 1:
        mistakes.append(f"the budget is {request.budget} configurations, expected at least 1")
    if not request.seeds:
        mistakes.append("there is no seed to try on; give one, e.g. --seed 10")
    with collecting(mistakes):
        config = request.config(())
    known = _without_fixed(request) if config is None else config
    space = () if known is None else space_of(request, known, mistakes)
    raise_all(each_once(mistakes))
    assert config is not None  # else there was a mistake
    assert objective is not None
    return Problem(request, config, space, usual(space, config), objective)


def _without_fixed(request: TuneRequest) -> RunConfig | None:
    """Return the configuration if only the fixed settings spoil it, to check what is tried."""
    try:
        return replace(request, fixed=()).config(())
    except UsageError:
        return None


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial with the best score, of equals the first; None if all failed."""
    scored = [trial for trial in trials if trial.score is not None]
    return max(scored, key=lambda trial: trial.score or 0.0, default=None)


def each_once(mistakes: Sequence[str]) -> list[str]:
    """Take texts that list several mistakes apart, and leave out what was said before."""
    lines = (line for mistake in mistakes for line in mistake.removeprefix("- ").split("\n- "))
    return list(dict.fromkeys(lines))
