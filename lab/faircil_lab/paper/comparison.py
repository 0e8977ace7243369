"""Our values against published ones, methods against each other, and trends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from faircil.errors import DataError
from faircil.files import damaged, read_json, read_rows
from faircil.report import format_value
from faircil.report.statistics import Interval, against_published, interval
from faircil.results.record import RunSummary
from faircil_lab.paper.exhibit import Grid, Section, Verdict
from faircil_lab.paper.metrics import Metric, Target
from faircil_lab.paper.published import SEEDS, Value
from faircil_lab.wording import interval_text


@dataclass(frozen=True)
class Comparison:
    """Our values of a metric, next to the published one.

    Parameters
    ----------
    metric : Metric
    published : Value or None
    values : mapping from seed to value
        Ours; empty where nothing was run.
    verdict : Verdict or None
        None where the paper has no value, and for times, which depend on the machine.
    """

    metric: Metric
    published: Value | None
    values: Mapping[int, float]
    verdict: Verdict | None

    @property
    def difference(self) -> float | None:
        """Our mean less the published one."""
        if self.published is None or not self.values or self.verdict is Verdict.DIVERGED:
            return None
        return fmean(self.values.values()) - self.published.mean


def compare_values(
    metric: Metric,
    published: Value | None,
    values: Mapping[int, float],
    *,
    diverged: bool = False,
    is_time: bool = False,
) -> Comparison:
    """Compare values over seeds with a published one.

    They are the same where chance over the seeds of both sides, at 95 %, and the rounding of the
    print explain the difference; else better or worse by the direction of the metric.

    Parameters
    ----------
    metric : Metric
    published : Value or None
    values : mapping from seed to value
    diverged : bool
        Whether a seed diverged: then the others are no value of the method.
    is_time : bool
        Whether it is a time: it has no verdict, since the paper's machine is another.
    """
    verdict = None
    if published is not None and not is_time:
        verdict = Verdict.DIVERGED if diverged else _verdict(metric, published, values)
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


def beaten(points: Points, others: Points) -> NDArray[np.bool_]:
    """Return which points some other beats: no worse in both values, and better in one.

    Parameters
    ----------
    points : ndarray, shape (n, 2)
        Accuracy and disparity.
    others : ndarray, shape (m, 2)

    Returns
    -------
    ndarray of bool, shape (n,)
    """
    more = others[None, :, 0] - points[:, None, 0]  # accuracy, (n, m)
    less = points[:, None, 1] - others[None, :, 1]  # disparity
    better = (more >= 0) & (less >= 0) & ((more > 0) | (less > 0))
    return np.asarray(better.any(axis=1))


NOISY = ("drug",)  # datasets too small to rank methods on


def ranks(target: Target) -> bool:
    """Whether differences between methods on a target mean anything beyond chance."""
    return target.dataset not in NOISY


DRAWS = 1000  # of the gap by chance: its mean is known to .001


class Group(Protocol):
    """Accuracy on the n test samples of a class with one attribute value."""

    @property
    def label(self) -> Any:
        """Its class."""

    @property
    def n(self) -> int:
        """Number of its test samples."""

    @property
    def accuracy(self) -> float:
        """Share of them that is predicted right."""


def gap_by_chance(groups: Sequence[Group], generator: np.random.Generator) -> float:
    """Return the ``eo_gap`` to expect of a model that treats all groups alike.

    Each class keeps the number of its samples that are predicted right, and chance decides to
    which of its groups they belong. What is left is the gap that small groups show anyway.
    """
    gaps = []
    for _, some in groupby(groups, key=lambda group: group.label):
        members = list(some)
        if len(members) == 1:  # nothing to compare it with
            continue
        sizes = np.array([group.n for group in members])
        right = round(sum(group.n * group.accuracy for group in members))
        drawn = generator.multivariate_hypergeometric(sizes, right, DRAWS) / sizes
        gaps.append(np.ptp(drawn, axis=1).mean())
    return float(np.mean(gaps))


@dataclass(frozen=True)
class GroupScore:
    """Accuracy after a task on the ``n`` test samples of a class with one attribute value."""

    after_task: int
    label: str
    n: int
    accuracy: float


def read_groups(folder: Path) -> list[GroupScore]:
    """Read the accuracy of each group after each task of the run in ``folder``.

    Empty where the data has no attribute: then the classes are the groups.
    """
    path = folder / "metrics.jsonl"
    try:
        return [
            GroupScore(row["task"], row["class"], row["n"], row["value"])
            for row in read_rows(path)
            if row["metric"] == "group_accuracy"
        ]
    except (LookupError, TypeError):
        raise damaged(path) from None


def run_gap_by_chance(run: RunSummary) -> float | None:
    """Return the mean of :func:`gap_by_chance` over the tasks of a run; None without its files."""
    try:
        groups = read_groups(Path(run.dir))
    except DataError:
        return None
    generator = np.random.default_rng(run.seed)
    tasks = groupby(groups, key=lambda group: group.after_task)
    gaps = [gap_by_chance(list(some), generator) for _, some in tasks]
    return fmean(gaps) if gaps else None


UNDEFINED = "undefined with one seed"
CLAIMED = {True: "grows", False: "falls", None: "no clear relation"}


@dataclass(frozen=True)
class Trend:
    """How a value moves along a row of settings.

    Parameters
    ----------
    names : tuple of str
        Where, whose and which value.
    reading : str
        The result in words.
    texts : tuple of str
        A line of a table: names, the paper's claim, the rank correlation, the verdict.
    verdict : Verdict or None
        None where the paper claims nothing, or there is one seed.
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
        return Trend(names, UNDEFINED, (*names, claim, format_value(found.mean), UNDEFINED), None)
    found = Interval(found.mean, max(low, -1.0), min(high, 1.0))
    seen = True if low > 0 else False if high < 0 else None
    verdict = (Verdict.SAME if seen == grows else Verdict.DIFFERENT) if claimed else None
    texts = (*names, claim, interval_text(found), verdict.value if verdict else CLAIMED[seen])
    return Trend(names, CLAIMED[seen], texts, verdict)


def rank_correlation(values: Sequence[float]) -> float:
    """Return Spearman's rank correlation of values with their places; 0 where all are equal.

    Examples
    --------
    >>> rank_correlation([0.1, 0.3, 0.8]), rank_correlation([2, 2, 2])
    (1.0, 0.0)
    """
    return spearman(np.arange(len(values)), np.array(values))


def spearman(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return the rank correlation; 0 where one of the two does not move."""
    return pearson(rankdata(a), rankdata(b))


def pearson(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return the linear correlation; 0 where one of the two does not move."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])
