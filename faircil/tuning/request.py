"""Tuning requests, with their search settings and objective; and their results."""

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

# Held-out data is as imbalanced as training data (Biased MNIST: 95 to 5). A mean over samples or
# classes would let the majority determine the settings.
ACCURACY = "balanced_accuracy"
FORMS = "'accuracy - eo' or 'accuracy with eo <= 0.05'"
TARGETS = "'eo_gap<=0.05' or 'worst_group>=0.6'"


@dataclass(frozen=True)
class Objective:
    """Accuracy minus a disparity, or the best accuracy with a disparity of at most ``bound``.

    For a metric that should be high, such as that of the worst group: accuracy plus the metric, or
    the best accuracy with a value of at least ``bound``. Accuracy is averaged over groups, see
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
        """1 if the metric should be high, else −1."""
        return 1 if METRICS[self.metric].higher_is_better else -1

    @property
    def requirement(self) -> str:
        """The bound in the format of the command line."""
        return f"{self.metric} {_relation(self.metric)} {self.bound:g}"

    @property
    def text(self) -> str:
        """The objective in the format of the command line."""
        if self.bound is None:
            return f"accuracy {'+' if self.sign > 0 else '-'} {self.metric}"
        return f"accuracy with {self.requirement}"

    def values(self, runs: Sequence[RunSummary]) -> tuple[float, float] | None:
        """Return accuracy and metric, as means over runs; None if a run lacks one."""
        means = over_seeds(runs)[0]
        accuracy, value = means.get(ACCURACY), means.get(self.metric)
        return None if accuracy is None or value is None else (accuracy, value)

    def score(self, accuracy: float, value: float) -> float:
        """Return a score; larger is better.

        With a bound, configurations that meet it score their accuracy, which is at least 0. Others
        score the negative distance to the bound, so a search can always tell which direction is
        better.
        """
        if self.bound is None:
            return accuracy + self.sign * value
        margin = self.sign * (value - self.bound)
        return accuracy if margin >= 0 else margin

    def is_met(self, score: float) -> bool:
        """Return whether a configuration with this score meets the bound."""
        return self.bound is None or score >= 0

    def missed_by(self, score: float) -> str:
        """Describe how far a configuration with this score is from the bound that it misses."""
        return f"{format_value(-score)} too {'little' if self.sign > 0 else 'much'}"

    def shortfall(self, accuracy: float, value: float) -> str:
        """Describe how far a configuration is from the bound."""
        return (
            f"the closest has {self.metric} {format_value(value)}, "
            f"{self.missed_by(self.score(accuracy, value))}, at accuracy {format_value(accuracy)}"
        )


def usual_objective(measure: str) -> str:
    """Return the objective for a measure: accuracy, and the measure's metric."""
    return Objective(find_measure(measure).disparity).text


def parse_target(text: str) -> Objective:
    """Parse ``METRIC<=NUMBER``, or ``METRIC>=NUMBER`` if the metric should be high.

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
    """Return the objective with a bound; raise an error with all mistakes."""
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
    """Parse ``accuracy - METRIC`` or ``accuracy with METRIC <= NUMBER``.

    If the metric should be high, ``+`` and ``>=``.

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
SEED = 10  # not among the seeds shown in tables


@dataclass(frozen=True)
class TuneRequest:
    """A request to tune the settings of a method on a dataset.

    Parameters
    ----------
    dataset, method, measure : str
        The dataset is empty for the user's own data.
    weighting : str or None
        None: the method's own.
    fixed : tuple of str
        ``name=value`` settings outside of the search space.
    tried : tuple of str
        ``name=value,value`` for each searched setting; empty: the shipped search space.
    objective : str or None
        See :func:`parse_objective`; None: accuracy minus the disparity of the measure.
    strategy : str
        See :mod:`faircil.tuning.tune`.
    budget : int
        Maximum number of configurations to try.
    seeds : tuple of int
        Seeds on which each configuration is tried.
    select_on : str
        ``validation``, a held-out part of the training data; or ``test`` as in the paper, which is
        too optimistic and is meant for comparisons.
    own : OwnData, optional
        The user's own data.
    favoured : tuple of str
        Names of the favoured classes, for a measure that needs them.
    target : str or None
        A bound such as ``eo_gap<=0.05`` instead of the objective. If no configuration meets it, the
        closest one is chosen; without ``tried``, only the trade-off ``lam`` is searched.
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
        """Name of the data."""
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
    """Settings that were tried, with their runs and score; the score is None if a run failed.

    ``diverged`` means that the settings caused the failure.
    """

    overrides: Overrides
    runs: tuple[RunSummary, ...]
    score: float | None
    problem: str | None = None
    diverged: bool = False


@dataclass(frozen=True)
class NotTuned:
    """All trials of a request without an acceptable one, and the reason."""

    request: TuneRequest
    trials: tuple[Trial, ...]
    problem: str


@dataclass(frozen=True)
class Tuned:
    """All trials of a request, in order, and the best of them.

    ``note`` says by how much the best one misses the target; empty if it does not.
    """

    request: TuneRequest
    trials: tuple[Trial, ...]
    best: Trial
    note: str = ""
