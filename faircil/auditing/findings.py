"""What an audit finds: every measure with its interval, its noise floor, and who is worst.

Also what two audits say together: a gap that closed because the better group fell is named.
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
Scope = tuple[str, ...]  # attributes whose values are compared; empty: classes are


@dataclass(frozen=True)
class Worst:
    """Whom a disparity hurts most.

    Parameters
    ----------
    label : label of a class, or None
        The class within which they are compared; None: all samples.
    low, high : label of a value or of a class
        With the lowest and the highest rate, of those with enough samples.
    low_rate, high_rate : float
    """

    label: Any
    low: Any
    low_rate: float
    high: Any
    high_rate: float


@dataclass(frozen=True)
class Finding:
    """A measure of one scope.

    Parameters
    ----------
    measure : str
        One of ``MEASURES``.
    scope : tuple of str
        The attributes whose values are compared, or the intersection of several; empty: classes.
    value : float or None
        As observed, by the definition of the metric. None: it cannot be told.
    low, high : float or None
        Interval of the true value.
    floor, floor_high : float or None
        What no difference would show at these sizes: expectation, and what 95 % do not exceed.
    excess : float or None
        ``value − floor``: the observed gap, corrected for the number and the sizes of groups. Not
        an estimate of the true gap, which the interval is for.
    p_value : float or None
        Of the permutation test of no difference.
    p_adjusted : float or None
        The same after Holm, over all tests of the audit.
    worst : Worst or None
    too_small : int
        Compared cells with fewer than 10 samples.
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
        """Whether chance alone does not explain it, at 5 % over all tests of the audit."""
        return self.p_adjusted is not None and self.p_adjusted <= 1 - LEVEL


@dataclass(frozen=True)
class Rate:
    """Accuracy of a group: a class, with one value of a scope; None for a scope of no attribute.

    ``low`` and ``high`` are None where there are fewer than 10 samples: it cannot be told.
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
    """A gap within a class that closed because its better group fell.

    Parameters
    ----------
    scope : tuple of str
    label : label of the class
    better, worse : label of a value
        The best and the worst group before.
    gap_before, gap_after : float
        Between these two.
    better_before, better_after, worse_before, worse_after : float
        Accuracies.
    p_value : float
        Of the fall of the better group being chance, after Holm over all that are named.
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
        """Return it for JSON."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


@dataclass(frozen=True)
class Report:
    """All findings of an audit.

    Parameters
    ----------
    n : int
        Samples.
    draws : int
        Of every interval and test.
    findings : tuple of Finding
    rates : tuple of Rate
    notes : tuple of str
        What a reader has to know.
    """

    n: int
    draws: int
    findings: tuple[Finding, ...]
    rates: tuple[Rate, ...]
    notes: tuple[str, ...]

    def find(self, measure: str) -> tuple[Finding, ...]:
        """Return the findings of a measure, one for each scope."""
        return tuple(finding for finding in self.findings if finding.measure == measure)

    @property
    def unfair(self) -> tuple[Scope, ...]:
        """The attributes, or intersections, by which groups differ more than chance explains."""
        scopes = (finding.scope for finding in self.findings if finding.scope and finding.differs)
        return tuple(dict.fromkeys(scopes))

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for JSON; labels that JSON has no word for are texts."""
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
    """Compute every measure of every scope.

    Parameters
    ----------
    scopes : mapping
        Counts by the attributes whose values they are split by; without any attribute, those of
        the empty scope.
    notes : sequence of str
    draws : int
    seed : int
        Of all draws: the same counts and measures give the same report.
    only : collection of str, optional
        Disparities to compute, where others would take time for nothing; p-values are adjusted
        over these.
    """
    rng = np.random.default_rng(seed)
    findings: list[Finding] = []
    rates: list[Rate] = []
    families = {name: _restricted(family, only) for name, family in FAMILIES.items()}
    for number, (scope, counts) in enumerate(scopes.items()):
        if number == 0:  # what does not depend on an attribute
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
    """Return a family with some of its measures; all for None."""
    kept = {n: one for n, one in family.measures.items() if only is None or n in only}
    return replace(family, measures=kept)


def _adjusted(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Add the p-values after Holm, over all that there are."""
    tested = [finding.p_value for finding in findings if finding.p_value is not None]
    adjusted = iter(holm(tested).tolist())
    for one in findings:
        yield one if one.p_value is None else replace(one, p_adjusted=next(adjusted))


def _levels(scope: Scope, counts: Counts) -> list[Finding]:
    """Accuracy, and the worst group's."""
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
    """Disparities of one family."""
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
    """Find the largest gap between two cells with enough samples; None where no row has two."""
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


NEARLY = 0.01  # of a gap: less is no change


def levelled_down(
    before: Mapping[Scope, Counts], after: Mapping[Scope, Counts]
) -> tuple[LevelledDown, ...]:
    """Name the gaps that closed because the better group fell.

    Within each class, the best and the worst group before are compared, among those with enough
    samples in both. Their gap has closed by at least .01, and at least half of that is the fall of
    the better one. The p-value is of two independent proportions, one-sided; where both audits are
    of the same rows they vary together, and it is cautious.
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
