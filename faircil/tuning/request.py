"""Requests for tuning: what is searched and by which score; and their results."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from faircil.data.own import OwnData
from faircil.errors import UsageError, raise_all, unknown_name
from faircil.metrics import METRICS
from faircil.report import format_value
from faircil.results.record import RunSummary, over_seeds
from faircil.runs.config import RunConfig, resolve
from faircil.weighting.measures import find_measure

# Held-out data is as unbalanced as training data (Biased MNIST: 95 to 5). A mean over samples or
# classes would let the majority choose the settings.
ACCURACY = "balanced_accuracy"
FORMS = "'accuracy - eo' or 'accuracy with eo <= 0.05'"
TARGETS = "'eo_gap<=0.05' or 'worst_group>=0.6'"


@dataclass(frozen=True)
class Objective:
    """Accuracy less a disparity, or the best accuracy with a disparity of at most ``bound``.

    Of a metric of which more is better, such as that of the worst group: accuracy plus it, or the
    best accuracy with at least ``bound`` of it. Accuracy is averaged over groups, see
    :data:`ACCURACY`.
    """

    metric: str
    bound: float | None = None

    @property
    def by_attribute(self) -> bool:
        """Whether it needs a sensitive attribute."""
        return METRICS[self.metric].by_attribute

    @property
    def sign(self) -> int:
        """1 if more of the metric is better, else −1."""
        return 1 if METRICS[self.metric].higher_is_better else -1

    @property
    def requirement(self) -> str:
        """The bound as people write it."""
        return f"{self.metric} {_relation(self.metric)} {self.bound:g}"

    @property
    def text(self) -> str:
        """As people write it."""
        if self.bound is None:
            return f"accuracy {'+' if self.sign > 0 else '-'} {self.metric}"
        return f"accuracy with {self.requirement}"

    def values(self, runs: Sequence[RunSummary]) -> tuple[float, float] | None:
        """Return accuracy and metric, means over runs; None where a run lacks one."""
        means = over_seeds(runs)[0]
        accuracy, value = means.get(ACCURACY), means.get(self.metric)
        return None if accuracy is None or value is None else (accuracy, value)

    def score(self, accuracy: float, value: float) -> float:
        """Return a number that is the larger, the better.

        Under a bound, what meets it scores its accuracy, 0 or more, and what does not scores below
        0: the negative of what it is off. So a search can always tell which way is better.
        """
        if self.bound is None:
            return accuracy + self.sign * value
        margin = self.sign * (value - self.bound)
        return accuracy if margin >= 0 else margin

    def is_met(self, score: float) -> bool:
        """Tell whether a configuration of this score will do."""
        return self.bound is None or score >= 0

    def missed_by(self, score: float) -> str:
        """Say how far a configuration of this score is from the bound that it does not meet."""
        return f"{format_value(-score)} too {'little' if self.sign > 0 else 'much'}"

    def shortfall(self, accuracy: float, value: float) -> str:
        """Say how far a configuration is from the bound."""
        return (
            f"the closest has {self.metric} {format_value(value)}, "
            f"{self.missed_by(self.score(accuracy, value))}, at accuracy {format_value(accuracy)}"
        )


def usual_objective(measure: str) -> str:
    """Return the objective for a measure: accuracy, and the metric that the measure names."""
    return Objective(find_measure(measure).disparity).text


def parse_target(text: str) -> Objective:
    """Read ``METRIC<=NUMBER``, or ``METRIC>=NUMBER`` where more is better.

    Examples
    --------
    >>> parse_target("eo_gap<=.05")
    Objective(metric='eo_gap', bound=0.05)
    """
    match = re.fullmatch(r"\s*(\w+)\s*(<=|≤|>=|≥)\s*(\S+)\s*", text)
    if match is None:
        raise UsageError(f"target '{text}' cannot be read; write {TARGETS}")
    return _bounded(f"target '{text}'", *match.groups())


def _relation(metric: str) -> str:
    return ">=" if METRICS[metric].higher_is_better else "<="


def _bounded(what: str, metric: str, relation: str, number: str) -> Objective:
    """Return the objective with a bound; raises with all mistakes at once."""
    mistakes = []
    if metric not in METRICS:
        mistakes.append(f"{what}: {unknown_name('metric', metric, METRICS)}")
    elif (right := _relation(metric)) != relation.replace("≤", "<=").replace("≥", ">="):
        better = "more" if right == ">=" else "less"
        mistakes.append(f"{what}: {better} of {metric} is better; write {metric}{right}{number}")
    try:
        bound = float(number)
    except ValueError:
        bound = math.nan
    if not 0 <= bound < math.inf:
        mistakes.append(
            f"{what}: '{number}' is not a valid bound; write a number of at least 0, e.g. 0.05"
        )
    raise_all(mistakes)
    return Objective(metric, bound)


def parse_objective(text: str) -> Objective:
    """Read ``accuracy - METRIC`` or ``accuracy with METRIC <= NUMBER``.

    Where more of the metric is better, ``+`` and ``>=``.

    Examples
    --------
    >>> parse_objective("accuracy with eo <= .05")
    Objective(metric='eo', bound=0.05)
    """
    what = f"objective '{text}'"
    if match := re.fullmatch(r"\s*accuracy\s+with\s+(\w+)\s*(<=|≤|>=|≥)\s*(\S+)\s*", text):
        return _bounded(what, *match.groups())
    match = re.fullmatch(r"\s*accuracy\s*([-−+])\s*(\w+)\s*", text)
    if match is None:
        raise UsageError(f"{what} cannot be read; write {FORMS}")
    sign, name = match.groups()
    if name not in METRICS:
        raise UsageError(f"{what}: {unknown_name('metric', name, METRICS)}")
    objective = Objective(name)
    if (sign == "+") != (objective.sign > 0):
        better = "more" if objective.sign > 0 else "less"
        raise UsageError(f"{what}: {better} of {name} is better; write '{objective.text}'")
    return objective


Overrides = tuple[str, ...]  # ``name=value`` settings

BUDGET = 12
SEED = 10  # none of those that tables show


@dataclass(frozen=True)
class TuneRequest:
    """Settings to choose for a method on a dataset.

    Parameters
    ----------
    dataset, method, measure : str
        The dataset is empty where it is the user's own data.
    weighting : str or None
        None: the method's own.
    fixed : tuple of str
        ``name=value`` settings that are not up for choice.
    tried : tuple of str
        ``name=value,value`` for each setting that is; empty: those of the shipped table.
    objective : str or None
        See :func:`parse_objective`; None: accuracy less the disparity of the measure.
    strategy : str
        See :mod:`faircil.tuning.tune`.
    budget : int
        Configurations to try, at most.
    seeds : tuple of int
        That each is tried on.
    select_on : str
        ``validation``, a held-out part of the training data; ``test`` is the way of the paper,
        which shows too good a picture, and is there to be compared with.
    own : OwnData, optional
        The user's own data.
    favoured : tuple of str
        Names of the favoured classes, for a measure that needs them.
    target : str or None
        A bound such as ``eo_gap<=0.05`` in place of the objective. Where nothing meets it, the
        closest is chosen, and without ``tried`` the trade-off ``lam`` alone is searched.
    """

    dataset: str
    method: str
    measure: str
    weighting: str | None = None
    fixed: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    objective: str | None = None
    strategy: str = "random"
    budget: int = BUDGET
    seeds: tuple[int, ...] = (SEED,)
    select_on: Literal["validation", "test"] = "validation"
    own: OwnData | None = None
    favoured: tuple[str, ...] = ()
    target: str | None = None

    @property
    def data(self) -> str:
        """What the data is called."""
        return self.own.name if self.own else self.dataset

    def config(self, overrides: Sequence[str]) -> RunConfig:
        """Return the run that tries these settings."""
        return resolve(
            dataset=self.dataset or None,
            own=self.own,
            method=self.method,
            weighting=self.weighting,
            measure=self.measure,
            favoured=self.favoured,
            overrides=[*self.fixed, *overrides],
            evaluate_on=self.select_on,
        )


@dataclass(frozen=True)
class Trial:
    """Settings that were tried: their runs, and their score, None where a run failed.

    ``diverged`` says that the settings are to blame for it.
    """

    overrides: Overrides
    runs: tuple[RunSummary, ...]
    score: float | None
    problem: str | None = None
    diverged: bool = False


@dataclass(frozen=True)
class NotTuned:
    """All trials of a request of which none will do, and why."""

    request: TuneRequest
    trials: tuple[Trial, ...]
    problem: str


@dataclass(frozen=True)
class Tuned:
    """All trials of a request in the order they were made, and the best of them.

    ``note`` says that the best misses the target, and by how much; empty where it does not.
    """

    request: TuneRequest
    trials: tuple[Trial, ...]
    best: Trial
    note: str = ""
