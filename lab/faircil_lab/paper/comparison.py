"""Whether a value grows or falls along a row of settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from faircil.errors import DataError
from faircil.files import read_json
from faircil.report import format_value
from faircil.report.statistics import against_published, interval
from faircil.results.record import RunSummary
from faircil_lab.paper.metrics import Metric
from faircil_lab.paper.page import Grid, Section, Verdict
from faircil_lab.paper.published import SEEDS, Value


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


HEADER = ("runs", "processor", "GPU", "threads", "torch", "code")


def machines_section(runs: Sequence[RunSummary]) -> Section:
    """Say where runs were made, and how many of them."""
    counts: dict[tuple[str, ...], int] = {}
    for folder in dict.fromkeys(run.dir for run in runs):
        machine = _machine(Path(folder))
        counts[machine] = counts.get(machine, 0) + 1
    rows = tuple((str(count), *machine) for machine, count in sorted(counts.items()))
    return Section("Machines", table=Grid(HEADER, rows), on_terminal=False)


def _machine(folder: Path) -> tuple[str, ...]:
    try:
        found: dict[str, Any] = read_json(folder / "environment.json")
    except DataError:
        return ("not known",) * (len(HEADER) - 1)
    names = ("processor", "gpu", "threads")
    versions = found.get("packages", {}).get("torch"), found.get("code")
    return tuple(str(v or "–") for v in (*(found.get(name) for name in names), *versions))


Points = NDArray[np.float64]


def dominated(points: Points, others: Points) -> NDArray[np.bool_]:
    """Return which points some other beats in both.

    Parameters
    ----------
    points : ndarray, shape (n, 2)
        Accuracy and disparity.
    others : ndarray, shape (m, 2)

    Returns
    -------
    ndarray of bool, shape (n,)
        True where another has the higher accuracy and the lower disparity.
    """
    better = (others[None, :, 0] > points[:, None, 0]) & (others[None, :, 1] < points[:, None, 1])
    return np.asarray(better.any(axis=1))


def front(points: Points) -> Points:
    """Return the points that none of the others beats in both, by accuracy."""
    kept = points[~dominated(points, points)]
    return kept[np.argsort(kept[:, 0], kind="stable")]


UNTOLD = "one seed cannot tell"
CLAIMED = {True: "grows", False: "falls", None: "no clear relation"}


@dataclass(frozen=True)
class Trend:
    """How a value moves along a row of settings.

    Parameters
    ----------
    names : tuple of str
        Where, whose and which value.
    reading : str
        What came out, in words.
    texts : tuple of str
        A line of a table: names, the paper's claim, the rank correlation, the verdict.
    verdict : Verdict or None
        None where the paper claims nothing, or one seed cannot tell.
    """

    names: tuple[str, ...]
    reading: str
    texts: tuple[str, ...]
    verdict: Verdict | None


def trend_of(
    names: tuple[str, ...],
    values: Sequence[Mapping[int, float]],
    grows: bool | None,
    *,
    claimed: bool,
) -> Trend:
    """Correlate the ranks of a value with the place in the row, seed by seed.

    Parameters
    ----------
    names : tuple of str
    values : sequence of mapping from seed to value
        One for each place in the row; seeds that are not everywhere take no part.
    grows : bool or None
        What the paper claims: that it grows, that it falls, neither.
    claimed : bool
        Whether the paper claims anything here.
    """
    claim = CLAIMED[grows] if claimed else "–"
    seeds = sorted(set.intersection(*(set(at_place) for at_place in values)))
    if not seeds:
        verdict = Verdict.NOT_RUN if claimed else None
        texts = (*names, claim, "–", Verdict.NOT_RUN.value)
        return Trend(names, Verdict.NOT_RUN.value, texts, verdict)
    found = interval([rank_correlation([place[seed] for place in values]) for seed in seeds])
    low, high = found.low, found.high
    if low is None or high is None:
        return Trend(names, UNTOLD, (*names, claim, format_value(found.mean), UNTOLD), None)
    low, high = max(low, -1.0), min(high, 1.0)
    told = True if low > 0 else False if high < 0 else None
    verdict = (Verdict.SAME if told == grows else Verdict.DIFFERENT) if claimed else None
    text = f"{format_value(found.mean)} ({format_value(low)} … {format_value(high)})"
    texts = (*names, claim, text, verdict.value if verdict else CLAIMED[told])
    return Trend(names, CLAIMED[told], texts, verdict)


def rank_correlation(values: Sequence[float]) -> float:
    """Return Spearman's rank correlation of values with their places; 0 where all are equal.

    Examples
    --------
    >>> rank_correlation([0.1, 0.3, 0.8]), rank_correlation([2, 2, 2])
    (1.0, 0.0)
    """
    ranks = rankdata(values)
    if np.ptp(ranks) == 0:
        return 0.0
    return float(np.corrcoef(np.arange(len(ranks)), ranks)[0, 1])
