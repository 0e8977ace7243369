"""Findings of an audit: all measures with intervals and noise floors, and the worst groups.

Also comparisons of two audits: gaps that closed because the better group got worse.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from scipy.special import ndtr

from faircil.auditing.disparities import FAMILIES, Family, Trials, class_weights, value_of
from faircil.auditing.intervals import gap_limits, noise_floor
from faircil.auditing.rate_intervals import mean_limits, rate_limits, worst_limits
from faircil.counts import ENOUGH, Counts, GroupAccuracy
from faircil.formulas import gaps
from faircil.metrics import METRICS
from faircil.report.statistics import LEVEL, holm

DRAWS = 2000
Scope = tuple[str, ...]  # attributes whose values are compared; empty: classes are compared


@dataclass(frozen=True)
class Worst:
    """The groups between which a disparity is largest.

    Parameters
    ----------
    label : label of a class, or None
        The class within which they are compared; None: over all samples.
    low, high : label of a value or of a class
        With the lowest and the highest rate among those with enough samples.
    low_rate, high_rate : float
    """

    label: Any
    low: Any
    low_rate: float
    high: Any
    high_rate: float


@dataclass(frozen=True)
class Finding:
    """A measure in one scope.

    Parameters
    ----------
    measure : str
        One of ``MEASURES``.
    scope : tuple of str
        Attributes whose values are compared, or the intersection of several; empty: classes.
    value : float or None
        Observed value, by the definition of the metric. None: undefined.
    low, high : float or None
        Interval of the true value.
    floor, floor_high : float or None
        Values expected without any difference at these sizes: their mean and 95 % quantile.
    excess : float or None
        ``value − floor``: the observed gap, corrected for the number and sizes of groups. It is not
        an estimate of the true gap; use the interval for that.
    p_value : float or None
        P-value of a permutation test of no difference.
    p_adjusted : float or None
        The same with Holm's correction over all tests of the audit.
    worst : Worst or None
    too_small : int
        Number of compared cells with fewer than 10 samples.
    """

    measure: str
    scope: Scope
    value: float | None
    low: float | None = None
    high: float | None = None
    floor: float | None = None
    floor_high: float | None = None
    excess: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    worst: Worst | None = None
    too_small: int = 0

    @property
    def differs(self) -> bool:
        """Whether the difference is significant at 5 % over all tests of the audit."""
        return self.p_adjusted is not None and self.p_adjusted <= 1 - LEVEL


@dataclass(frozen=True)
class Rate:
    """Accuracy of a group: a class with one value of a scope; None for the empty scope.

    ``low`` and ``high`` are None, that is undefined, if there are fewer than 10 samples.
    """

    scope: Scope
    label: Any
    attribute: Any
    n: int
    accuracy: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class LevelledDown:
    """A gap within a class that closed because the better group got worse.

    Parameters
    ----------
    scope : tuple of str
    label : label of the class
    better, worse : label of a value
        The best and the worst group of the earlier audit.
    gap_before, gap_after : float
        Gaps between these two groups.
    better_before, better_after, worse_before, worse_after : float
        Accuracies.
    p_value : float
        P-value of the better group's decrease, with Holm's correction over all reported gaps.
    """

    scope: Scope
    label: Any
    better: Any
    worse: Any
    gap_before: float
    gap_after: float
    better_before: float
    better_after: float
    worse_before: float
    worse_after: float
    p_value: float

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON document."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


@dataclass(frozen=True)
class Report:
    """All findings of an audit.

    Parameters
    ----------
    n : int
        Number of samples.
    draws : int
        Number of draws for every interval and test.
    findings : tuple of Finding
    rates : tuple of Rate
    notes : tuple of str
        Notes for the reader.
    """

    n: int
    draws: int
    findings: tuple[Finding, ...]
    rates: tuple[Rate, ...]
    notes: tuple[str, ...]

    def find(self, measure: str) -> tuple[Finding, ...]:
        """Return the findings of a measure, one per scope."""
        return tuple(finding for finding in self.findings if finding.measure == measure)

    @property
    def unfair(self) -> tuple[Scope, ...]:
        """The attributes, or intersections, whose groups differ significantly."""
        scopes = (finding.scope for finding in self.findings if finding.scope and finding.differs)
        return tuple(dict.fromkeys(scopes))

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON document; labels that JSON does not support become strings."""
        return {
            "n": self.n,
            "draws": self.draws,
            "level": LEVEL,
            "findings": [_plain(asdict(finding)) for finding in self.findings],
            "groups": [_plain(asdict(rate)) for rate in self.rates],
            "unfair": [list(scope) for scope in self.unfair],
            "notes": list(self.notes),
        }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def report_of(
    scopes: Mapping[Scope, Counts],
    notes: Sequence[str] = (),
    draws: int = DRAWS,
    seed: int = 0,
    only: Collection[str] | None = None,
) -> Report:
    """Compute all measures in all scopes.

    Parameters
    ----------
    scopes : mapping
        Counts by the attributes whose values are compared; without attributes, those of the empty
        scope.
    notes : sequence of str
    draws : int
    seed : int
        Seed of all draws: the same counts and measures give the same report.
    only : collection of str, optional
        Disparities to compute, to save time; p-values are corrected for these tests only.
    """
    rng = np.random.default_rng(seed)
    findings: list[Finding] = []
    rates: list[Rate] = []
    families = {name: _restricted(family, only) for name, family in FAMILIES.items()}
    for number, (scope, counts) in enumerate(scopes.items()):
        if number == 0:  # measures that do not depend on an attribute
            findings += _levels((), counts)[:1]
            findings += _findings((), families["class"], counts, draws, rng)
        findings += _levels(scope, counts)[1:]
        for name, family in families.items():
            known = name != "favoured" or counts.favoured is not None
            if family.by_attribute and scope and known:
                findings += _findings(scope, family, counts, draws, rng)
        rates += _rates(scope, counts)
    n = int(next(iter(scopes.values())).samples.sum())
    tests = sum(finding.p_value is not None for finding in findings)
    told = list(notes)
    if tests / (draws + 1) > 1 - LEVEL:
        told.append(
            f"with {draws} draws and {tests} tests no difference can be significant; use at least "
            f"{ceil(tests / (1 - LEVEL)):,}"
        )
    return Report(n, draws, tuple(_adjusted(findings)), tuple(rates), tuple(told))


def _restricted(family: Family, only: Collection[str] | None) -> Family:
    """Return a family with only some of its measures; None: all of them."""
    kept = {n: one for n, one in family.measures.items() if only is None or n in only}
    return replace(family, measures=kept)


def _adjusted(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Add p-values with Holm's correction over all findings."""
    tested = [finding.p_value for finding in findings if finding.p_value is not None]
    adjusted = iter(holm(tested).tolist())
    for one in findings:
        yield one if one.p_value is None else replace(one, p_adjusted=next(adjusted))


def _levels(scope: Scope, counts: Counts) -> list[Finding]:
    """Return the accuracy, overall and of the worst group."""
    seen, known = counts.seen, counts.known
    hits, sizes = counts.hits.sum(axis=1)[seen], counts.samples.sum(axis=1)[seen]
    limits = mean_limits(hits, sizes, class_weights(counts)[seen])
    found = [Finding("accuracy", (), METRICS["accuracy"].of(counts), *limits)]
    enough = known.samples >= ENOUGH
    worst = METRICS["worst_group"].of(counts)
    if worst is None:
        return [*found, Finding("worst_group", scope, None)]
    limits = worst_limits(known.hits[enough], known.samples[enough])
    return [*found, Finding("worst_group", scope, worst, *limits)]


def _findings(
    scope: Scope, family: Family, counts: Counts, draws: int, rng: np.random.Generator
) -> list[Finding]:
    """Compute the disparities of a family."""
    if not family.measures:
        return []
    trials = family.trials(counts)
    small = 0 if trials is None else int(((trials.sizes > 0) & (trials.sizes < ENOUGH)).sum())
    worst = None if trials is None else _worst_of(trials)
    if trials is None or worst is None:
        return [Finding(name, scope, None, too_small=small) for name in family.measures]
    statistics = {name: one.statistic(trials, counts) for name, one in family.measures.items()}
    limits = gap_limits(trials, statistics, draws, rng)
    floors = noise_floor(trials, statistics, draws, rng)
    found = []
    for name in family.measures:
        value, floor = value_of(name, counts, trials), floors[name]
        found.append(
            Finding(
                name,
                scope,
                value,
                *limits[name],
                floor.mean,
                floor.high,
                value - floor.mean,
                floor.p_value,
                worst=worst,
                too_small=small,
            )
        )
    return found


def _worst_of(trials: Trials) -> Worst | None:
    """Find the largest gap between two cells with enough samples; None if no row has two."""
    rates = np.where(trials.sizes >= ENOUGH, trials.rates, np.nan)
    if not (np.isfinite(rates).sum(axis=1) > 1).any():
        return None
    row = int(np.nanargmax(gaps(rates)))
    low, high = int(np.nanargmin(rates[row])), int(np.nanargmax(rates[row]))
    return Worst(
        None if trials.rows is None else trials.rows.tolist()[row],
        trials.columns.tolist()[low],
        float(rates[row, low]),
        trials.columns.tolist()[high],
        float(rates[row, high]),
    )


def _rates(scope: Scope, counts: Counts) -> Iterator[Rate]:
    for group in counts.by_group():
        hits = np.array(round(group.accuracy * group.n))
        low, high = rate_limits(hits, np.array(group.n))
        limits = (float(low), float(high)) if group.n >= ENOUGH else (None, None)
        value = group.attribute if scope else None
        yield Rate(scope, group.label, value, group.n, group.accuracy, *limits)


NEARLY = 0.01  # smallest change of a gap that counts


def levelled_down(
    before: Mapping[Scope, Counts], after: Mapping[Scope, Counts]
) -> tuple[LevelledDown, ...]:
    """Find gaps that closed because the better group got worse.

    Within each class, the earlier audit's best and worst group are compared, among the groups with
    enough samples in both audits. Their gap must have closed by at least .01, and at least half of
    this must be due to the decrease of the better group. The p-value is that of a one-sided test of
    two independent proportions; if both audits use the same rows, these are correlated, and the
    test is conservative.
    """
    named: list[LevelledDown] = []
    chances: list[float] = []
    for scope in before.keys() & after.keys():
        old, new = _by_class(before[scope]), _by_class(after[scope])
        for label in old:
            both = [value for value in old[label] if value in new.get(label, {})]
            if len(both) < 2:
                continue
            better = max(both, key=lambda value: old[label][value].accuracy)
            worse = min(both, key=lambda value: old[label][value].accuracy)
            top, bottom = old[label][better], old[label][worse]
            top_now, bottom_now = new[label][better], new[label][worse]
            gap, gap_now = top.accuracy - bottom.accuracy, top_now.accuracy - bottom_now.accuracy
            closed, fall = gap - abs(gap_now), top.accuracy - top_now.accuracy
            if closed >= NEARLY and fall >= closed / 2:
                found = (top.accuracy, top_now.accuracy, bottom.accuracy, bottom_now.accuracy)
                named.append(
                    LevelledDown(scope, label, better, worse, gap, gap_now, *found, p_value=1.0)
                )
                chances.append(_fall_by_chance(top, top_now))
    adjusted = holm(chances).tolist()
    found_all = (replace(one, p_value=p) for one, p in zip(named, adjusted, strict=True))
    return tuple(sorted(found_all, key=lambda one: (one.scope, one.p_value, str(one.label))))


def _by_class(counts: Counts) -> dict[Any, dict[Any, GroupAccuracy]]:
    found: dict[Any, dict[Any, GroupAccuracy]] = {}
    for group in counts.by_group():
        if group.n >= ENOUGH:
            found.setdefault(group.label, {})[group.attribute] = group
    return found


def _fall_by_chance(before: GroupAccuracy, after: GroupAccuracy) -> float:
    whole = before.n + after.n
    pooled = (before.accuracy * before.n + after.accuracy * after.n + 0.5) / (whole + 1)
    error = np.sqrt(pooled * (1 - pooled) * (1 / before.n + 1 / after.n))
    return float(ndtr(-(before.accuracy - after.accuracy) / error))
