"""A value of ours beside the published one, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from faircil.reproduction.metrics import Metric
from faircil.reproduction.page import Verdict
from faircil.reproduction.published import SEEDS, Value
from faircil.statistics import against_published, interval


@dataclass(frozen=True)
class Comparison:
    """What a metric gave, beside what the paper says of it.

    Parameters
    ----------
    metric : Metric
    published : Value or None
    values : mapping from seed to value
        Ours; empty where nothing was run.
    verdict : Verdict or None
        None where the paper has no value.
    """

    metric: Metric
    published: Value | None
    values: Mapping[int, float]
    verdict: Verdict | None

    @property
    def difference(self) -> float | None:
        """Our mean less the published one."""
        if self.published is None or not self.values:
            return None
        return fmean(self.values.values()) - self.published.mean


def compare_values(
    metric: Metric, published: Value | None, values: Mapping[int, float]
) -> Comparison:
    """Hold values over seeds against a published one.

    They are the same where chance over the seeds of both sides, at 95 %, and the rounding of the
    print explain the difference; else better or worse by the direction of the metric.
    """
    verdict = None if published is None else _verdict(metric, published, values)
    return Comparison(metric, published, values, verdict)


def _verdict(metric: Metric, published: Value, values: Mapping[int, float]) -> Verdict:
    if not values:
        return Verdict.NOT_RUN
    ours = list(values.values())
    difference = fmean(ours) - published.mean
    if _same(ours, published):
        return Verdict.SAME
    if metric.higher_is_better is None:
        return Verdict.DIFFERENT
    return Verdict.BETTER if (difference > 0) == metric.higher_is_better else Verdict.WORSE


def _same(ours: list[float], published: Value) -> bool:
    if published.deviation is not None:
        mean, deviation = published.mean, published.deviation
        return against_published(ours, mean, deviation, SEEDS, published.rounding).same
    # A number without a deviation is taken as exact but for its rounding.
    found = interval(ours)
    low = found.mean if found.low is None else found.low
    high = found.mean if found.high is None else found.high
    return low - published.rounding <= published.mean <= high + published.rounding


def count_verdicts(verdicts: Iterable[Verdict]) -> str:
    """Write how many verdicts there are of each kind.

    Examples
    --------
    >>> count_verdicts([Verdict.SAME, Verdict.WORSE, Verdict.SAME])
    '2 same, 1 worse'
    """
    counts = Counter(verdicts)
    return ", ".join(f"{counts[kind]} {kind.value}" for kind in Verdict if counts[kind])
