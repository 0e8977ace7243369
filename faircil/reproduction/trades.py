"""The points of accuracy and disparity that FSW and the others reach on validation data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from faircil.config import RunConfig
from faircil.report import BOUNDS
from faircil.reproduction.contenders import CONTENDERS, FSW, Contender, request
from faircil.reproduction.exhibit import Results
from faircil.reproduction.pareto import Points, front
from faircil.reproduction.targets import Target
from faircil.results.summary import RunSummary
from faircil.tuning.request import Tuned, TuneRequest

LAMBDAS = ("0", "0.01", "0.1", "0.5", "1", "5", "10")
RIVALS = tuple(c for c in CONTENDERS if c.method not in BOUNDS and c != FSW)


@dataclass(frozen=True)
class Trade:
    """The points of a target: FSW's by λ, and each rival's front."""

    target: Target
    lambdas: tuple[str, ...]
    curve: Points
    rivals: Mapping[Contender, Points]

    def against(self, *, in_paper_only: bool) -> Points:
        """Return the points of the rivals, (n, 2)."""
        chosen = [p for c, p in self.rivals.items() if c.in_paper or not in_paper_only]
        return np.concatenate([np.empty((0, 2)), *chosen])


def choice_of(target: Target, tuned: Mapping[TuneRequest, Tuned]) -> Tuned | None:
    """Return the search for FSW's settings on a target."""
    return tuned.get(request(FSW, target.dataset, target.measure))


def curve_configs(choice: Tuned) -> list[RunConfig]:
    """Return the best of the search once for each λ; a later setting wins over an earlier one."""
    return [choice.request.config([*choice.best.overrides, f"lam={lam}"]) for lam in LAMBDAS]


def trade_of(target: Target, results: Results) -> Trade | None:
    """Collect the points of a target; None where FSW has none."""
    choice = choice_of(target, results.tuned)
    if choice is None:
        return None
    runs = [results.runs(config, choice.request.seeds) for config in curve_configs(choice)]
    found = {
        lam: point
        for lam, of_lam in zip(LAMBDAS, runs, strict=True)
        if (point := _point(of_lam, target.metric))
    }
    rivals = {}
    for contender in RIVALS:
        tuned = results.tuned.get(request(contender, target.dataset, target.measure))
        points = [_point(trial.runs, target.metric) for trial in tuned.trials] if tuned else []
        if known := [point for point in points if point]:
            rivals[contender] = front(np.array(known))
    if not found:
        return None
    return Trade(target, tuple(found), np.array(list(found.values())), rivals)


def _point(runs: Sequence[RunSummary], metric: str) -> tuple[float, float] | None:
    """Return mean accuracy and disparity; None where a run or a value is missing."""
    values = [(run.metrics["accuracy"], run.metrics[metric]) for run in runs]
    known = [(a, d) for a, d in values if a is not None and d is not None]
    if not known or len(known) < len(values):
        return None
    return fmean(a for a, _ in known), fmean(d for _, d in known)
