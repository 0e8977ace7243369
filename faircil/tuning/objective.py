"""What makes one configuration better than another."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean

from faircil.errors import UsageError, unknown_name
from faircil.report import HIGHER_IS_BETTER, format_value
from faircil.results.folder import read_groups
from faircil.results.record import METRIC_NAMES, RunSummary, spread

DISPARITIES = tuple(name for name in METRIC_NAMES if name not in HIGHER_IS_BETTER)
BY_ATTRIBUTE = ("eo", "eo_gap", "dp", "dp_predicted")
FORMS = "'accuracy - eo' or 'accuracy with eo <= 0.05'"


def group_accuracy(run: RunSummary) -> float | None:
    """Return the mean accuracy over groups (class and attribute value), averaged over tasks.

    Held-out data is as unbalanced as training data (Biased MNIST: 95 to 5), so a mean over samples
    or classes would let the majority choose the settings. Without an attribute the classes are the
    groups, which is the accuracy of the run.
    """
    if run.metrics["eo"] is None:
        return run.metrics["accuracy"]
    groups = groupby(read_groups(Path(run.dir)), key=lambda group: group.after_task)
    return fmean(fmean(group.accuracy for group in some) for _, some in groups)


@dataclass(frozen=True)
class Objective:
    """Accuracy less a disparity, or the best accuracy with a disparity of at most ``bound``.

    Accuracy is :func:`group_accuracy` here.
    """

    disparity: str
    bound: float | None = None

    @property
    def text(self) -> str:
        """As people write it."""
        if self.bound is None:
            return f"accuracy - {self.disparity}"
        return f"accuracy with {self.disparity} <= {self.bound:g}"

    def values(self, runs: Sequence[RunSummary]) -> tuple[float, float] | None:
        """Return accuracy and disparity, means over runs; None where a run lacks one."""
        disparity, _ = spread([run.metrics[self.disparity] for run in runs])
        accuracy, _ = spread([group_accuracy(run) for run in runs])
        return None if accuracy is None or disparity is None else (accuracy, disparity)

    def score(self, accuracy: float, disparity: float) -> float:
        """Return a number that is the larger, the better.

        Under a bound, what meets it scores its accuracy, 0 or more, and what does not scores below
        0: the negative of what it is over. So a search can always tell which way is better.
        """
        if self.bound is None:
            return accuracy - disparity
        return accuracy if disparity <= self.bound else self.bound - disparity

    def is_met(self, score: float) -> bool:
        """Tell whether a configuration of this score will do."""
        return self.bound is None or score >= 0

    def shortfall(self, accuracy: float, disparity: float) -> str:
        """Say how far a configuration is from the bound."""
        bound = self.bound or 0.0
        return (
            f"the closest has {self.disparity} {format_value(disparity)}, "
            f"{format_value(disparity - bound)} too much, at accuracy {format_value(accuracy)}"
        )


def parse_objective(text: str) -> Objective:
    """Read ``accuracy - METRIC`` or ``accuracy with METRIC <= NUMBER``.

    Examples
    --------
    >>> parse_objective("accuracy with eo <= .05")
    Objective(disparity='eo', bound=0.05)
    """
    match = re.fullmatch(r"\s*accuracy\s*(?:[-−]\s*(\w+)|with\s+(\w+)\s*(?:<=|≤)\s*(\S+))\s*", text)
    if match is None:
        raise UsageError(f"objective '{text}' cannot be read; write {FORMS}")
    name = match[1] or match[2]
    if name not in DISPARITIES:
        raise UsageError(f"objective '{text}': {unknown_name('disparity', name, DISPARITIES)}")
    if match[3] is None:
        return Objective(name)
    try:
        bound = float(match[3])
    except ValueError:
        bound = math.nan
    if not 0 <= bound < math.inf:
        raise UsageError(
            f"objective '{text}': '{match[3]}' is no bound of a disparity; write a number from 0 "
            "on, e.g. 0.05"
        )
    return Objective(name, bound)
