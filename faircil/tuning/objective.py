"""The score by which tuning prefers one configuration to another."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from faircil.errors import UsageError, unknown_name
from faircil.metrics import METRICS
from faircil.report import format_value
from faircil.results.record import RunSummary, over_seeds
from faircil.weighting.measures import find_measure

# Held-out data is as unbalanced as training data (Biased MNIST: 95 to 5). A mean over samples or
# classes would let the majority choose the settings.
ACCURACY = "balanced_accuracy"
FORMS = "'accuracy - eo' or 'accuracy with eo <= 0.05'"


@dataclass(frozen=True)
class Objective:
    """Accuracy less a disparity, or the best accuracy with a disparity of at most ``bound``.

    Accuracy is averaged over groups, see :data:`ACCURACY`.
    """

    disparity: str
    bound: float | None = None

    @property
    def by_attribute(self) -> bool:
        """Whether it needs a sensitive attribute."""
        return METRICS[self.disparity].by_attribute

    @property
    def text(self) -> str:
        """As people write it."""
        if self.bound is None:
            return f"accuracy - {self.disparity}"
        return f"accuracy with {self.disparity} <= {self.bound:g}"

    def values(self, runs: Sequence[RunSummary]) -> tuple[float, float] | None:
        """Return accuracy and disparity, means over runs; None where a run lacks one."""
        means = over_seeds(runs)[0]
        accuracy, disparity = means.get(ACCURACY), means.get(self.disparity)
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


def usual_objective(measure: str) -> str:
    """Return the objective for a measure: accuracy less the metric that the measure names."""
    return f"accuracy - {find_measure(measure).disparity}"


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
    known = [name for name, metric in METRICS.items() if not metric.higher_is_better]
    if name not in known:
        raise UsageError(f"objective '{text}': {unknown_name('disparity', name, known)}")
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
