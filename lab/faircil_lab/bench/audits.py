"""``faircil bench audit``: how often the intervals of audits cover the truth, and gates err.

Systems with known rates are audited many times on new samples. They are unfair in three ways:
*one* value of the attribute has an accuracy lower by the gap in every class; values are *spread*
evenly from the best to the worst; or predictions *shift*, so that the first value gets the first
class more often, and all others the other classes. The last class is harder by half of the gap, for
``eer``. A mistake predicts the next class. So every measure has a true value of its own, and
without a gap it is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.special import ndtr

from faircil.auditing.disparities import FAMILIES, LEVELS, value_of
from faircil.auditing.findings import report_of
from faircil.counts import Counts, Floats, Integers, count
from faircil.metrics import METRICS
from faircil.report import Table
from faircil_lab.bench.benchmark import Benchmark, items, sections, table_of
from faircil_lab.bench.measuring import Circumstances, in_processes

SIZES = (30, 100, 1000)
GROUPS = (2, 5)
GAPS = (0.0, 0.05, 0.2)
BEST = 0.85  # accuracy of the best group
SCALE = 10**7  # samples that stand for all: rates are exact to seven digits
ROUNDING = 1e-6
SCOPE = ("attribute",)
PATTERNS = {
    "one": "one is worse",
    "shift": "predictions shift",
    "spread": "evenly spread",
}
RATE = "rate"  # of the first group, by itself


@dataclass(frozen=True)
class System:
    """A system whose true rates are known.

    Parameters
    ----------
    classes, groups : int
        Classes, and values of the attribute.
    size : int
        Samples of a class with one value, on average.
    gap : float
    pattern : {"one", "spread", "shift"}
    """

    classes: int
    groups: int
    size: int
    gap: float
    pattern: str = "one"

    @property
    def shares(self) -> Floats:
        """P(class, prediction given value), shape (Z, C, C)."""
        number = np.arange(self.classes)
        first = np.arange(self.groups)[:, None] == 0
        worse = {
            "one": first | (number < 0),
            "spread": np.linspace(1, 0, self.groups)[:, None] + 0 * number,
            "shift": first != (number == 0),
        }[self.pattern]
        right = BEST - self.gap * (worse + number / (self.classes - 1) / 2)
        table = np.zeros((self.groups, self.classes, self.classes))
        table[:, number, number] = right
        table[:, number, (number + 1) % self.classes] = 1 - right
        shares: Floats = table / self.classes
        return shares

    def sample(self, rng: np.random.Generator) -> Counts:
        """Draw the samples of an audit, as many of each value."""
        n = self.classes * self.size
        drawn = rng.multinomial(n, self.shares.reshape(self.groups, -1))
        return counts_of(drawn.reshape(self.groups, self.classes, self.classes))

    def truth(self) -> dict[str, float]:
        """Return the true value of every measure."""
        counts = counts_of(np.round(self.shares * SCALE).astype(np.int64))
        found = {}
        for name in LEVELS:
            value = METRICS[name].of(counts)
            assert value is not None  # every class and every value has samples
            found[name] = value
        for family in FAMILIES.values():
            trials = family.trials(counts)
            if trials is not None:
                found |= {name: value_of(name, counts, trials) for name in family.measures}
        return found | {RATE: float(counts.group_accuracies[0, 0])}


def counts_of(table: Integers) -> Counts:
    """Count samples given by value, class and prediction, (Z, C, C)."""
    value, label, predicted = np.nonzero(table)
    return count(label, predicted, sensitive=value, favoured=[0], times=table[table > 0])


@dataclass(frozen=True)
class Coverage:
    """What became of the audits of a system, for one measure.

    Parameters
    ----------
    system : System
    measure : str
    truth : float
    audits : int
    covered, above, below : float
        Shares of intervals that cover the truth, are above, and are below it. A gate whose limit is
        the truth fails in ``above`` (in ``below`` for measures of which more is better).
    width : float
        Mean width of an interval.
    unfair : float
        Share of audits that call the attribute unfair, whatever the measure.
    """

    system: System
    measure: str
    truth: float
    audits: int
    covered: float
    above: float
    below: float
    width: float
    unfair: float


def systems(
    classes: int, sizes: Sequence[int] = SIZES, groups: Sequence[int] = GROUPS
) -> list[System]:
    """Return all systems to audit; with two values, a spread is the same as one."""
    made: list[System] = []
    for z, size, gap in product(groups, sizes, GAPS):
        patterns = ("one", "shift", "spread")[: 1 if gap == 0 else z]
        made += [System(classes, z, size, gap, pattern) for pattern in patterns]
    return made


def measure_coverage(
    audited: Sequence[System], audits: int, draws: int, seed: int, jobs: int = 1
) -> Iterator[tuple[Coverage, ...]]:
    """Audit every system many times; yields the coverage of each measure, by system.

    Every system has a seed of its own.
    """
    cases = [(system, (seed, number)) for number, system in enumerate(audited)]
    return in_processes(partial(coverage_of, audits=audits, draws=draws), cases, jobs)


def coverage_of(
    case: tuple[System, Sequence[int]], audits: int, draws: int
) -> tuple[Coverage, ...]:
    """Audit a system many times, from a seed; return the coverage of each measure."""
    system, seed = case
    rng = np.random.default_rng(seed)
    truth = system.truth()
    limits: dict[str, list[tuple[float, float]]] = {name: [] for name in truth}
    unfair = 0
    for audit in range(audits):
        report = report_of({SCOPE: system.sample(rng)}, draws=draws, seed=audit)
        unfair += bool(report.unfair)
        for one in report.findings:
            if one.low is not None and one.high is not None:
                limits[one.measure].append((one.low, one.high))
        first = report.rates[0]
        if first.low is not None and first.high is not None:
            limits[RATE].append((first.low, first.high))
    return tuple(
        _coverage(system, name, value, limits[name], unfair / audits)
        for name, value in truth.items()
    )


def _coverage(
    system: System,
    measure: str,
    truth: float,
    limits: Sequence[tuple[float, float]],
    unfair: float,
) -> Coverage:
    low, high = np.array(limits).T
    above = float((low > truth + ROUNDING).mean())
    below = float((high < truth - ROUNDING).mean())
    width = float((high - low).mean())
    shares = (1 - above - below, above, below, width, unfair)
    return Coverage(system, measure, truth, len(low), *shares)


@dataclass(frozen=True)
class AuditResults(Circumstances):
    """All coverages.

    Parameters
    ----------
    outcomes : tuple of tuple of Coverage
        By system.
    """

    outcomes: tuple[tuple[Coverage, ...], ...]

    @property
    def coverages(self) -> list[Coverage]:
        """All of them."""
        return [one for outcome in self.outcomes for one in outcome]


def _kinds(results: AuditResults) -> dict[tuple[int, str], list[Coverage]]:
    found: dict[tuple[int, str], list[Coverage]] = {}
    for one in results.coverages:
        found.setdefault((one.system.groups, one.system.pattern), []).append(one)
    return found


def _title(what: str, groups: int, pattern: str) -> str:
    return f"{what}, {groups} groups, {PATTERNS[pattern]}"


def _grid(title: str, coverages: Sequence[Coverage], text: Any) -> Table:
    """Make a table with a row for each measure and gap, and a column for each size."""
    sizes = sorted({one.system.size for one in coverages})
    rows: dict[tuple[str, float], dict[int, Coverage]] = {}
    for one in coverages:
        rows.setdefault((one.measure, one.system.gap), {})[one.system.size] = one
    lines = []
    for (measure, gap), by_size in sorted(rows.items(), key=lambda row: (row[0][0], row[0][1])):
        truth = next(iter(by_size.values())).truth
        cells = [text(by_size[size]) if size in by_size else "–" for size in sizes]
        lines.append((measure, f"{gap:g}", f"{truth:.3f}", *cells))
    return table_of(title, ("measure", "gap", "true value", *(f"size {n}" for n in sizes)), lines)


def _coverage_text(one: Coverage) -> str:
    return f"{100 * one.covered:.1f} % ({one.width:.3f})"


def _wrongly_failed(one: Coverage) -> float:
    """Per cent of the gates that fail although the truth is exactly at their limit."""
    return 100 * (one.below if one.measure in (*LEVELS, RATE) else one.above)


def _gate_error(one: Coverage) -> str:
    return f"{_wrongly_failed(one):.1f} %"


def _alarms(results: AuditResults) -> Table:
    sizes = sorted({one.system.size for one in results.coverages})
    found: dict[int, dict[int, float]] = {}
    for one in results.coverages:
        if one.system.gap == 0:
            found.setdefault(one.system.groups, {})[one.system.size] = one.unfair
    rows = [
        (str(groups), *(f"{100 * by_size[size]:.1f} %" for size in sizes))
        for groups, by_size in found.items()
    ]
    return table_of("False alarms", ("groups", *(f"size {n}" for n in sizes)), rows)


def _tables(results: AuditResults) -> list[Table]:
    kinds = _kinds(results).items()
    return [
        *(_grid(_title("Coverage", *kind), found, _coverage_text) for kind, found in kinds),
        *(_grid(_title("Gate errors", *kind), found, _gate_error) for kind, found in kinds),
        _alarms(results),
    ]


def _sentences(results: AuditResults) -> Iterator[str]:
    positive = [one for one in results.coverages if one.truth > ROUNDING]
    zero = [one for one in results.coverages if one.truth <= ROUNDING]
    for what, found in (("a true value above 0", positive), ("a true value of 0", zero)):
        if not found:
            continue
        shares = [100 * one.covered for one in found]
        low, high = sum(x < 93 for x in shares), sum(x > 97 for x in shares)
        yield (
            f"At {what}, {len(found) - low - high} of {len(found)} coverages are from 93 to 97 %, "
            f"{low} below and {high} above; the lowest is {min(shares):.1f} %, the mean "
            f"{np.mean(shares):.1f} %. {_far(shares, 95.0, found[0].audits)} are further from 95 % "
            "than three standard errors."
        )
    if gates := [_wrongly_failed(one) for one in positive]:
        yield (
            f"A gate whose limit is the true value fails in {np.mean(gates):.1f} % on average, in "
            f"{max(gates):.1f} % at most; in {sum(x > 5 for x in gates)} of {len(gates)} cases in "
            f"more than 5 %, in {_far([max(x, 5.0) for x in gates], 5.0, positive[0].audits)} by "
            "more than three standard errors."
        )
    if fair := [one for one in results.coverages if one.system.gap == 0]:
        worst = max(one.unfair for one in fair)
        yield f"A fair system is called unfair in {100 * worst:.1f} % of audits at most."


def _far(shares: Sequence[float], expected: float, audits: int) -> int:
    """Count shares, in per cent, that chance hardly explains if all are as expected."""
    error = (expected * (100 - expected) / audits) ** 0.5
    return sum(abs(share - expected) > 3 * error for share in shares)


ABOUT = """
Each coverage is of {audits} audits, with a nominal level of 95 %. If coverage were exactly 95 %, it
would by chance be outside 93 to 97 % in about {outside:.0f} % of the cases. *Size* is the mean
number of samples of a class with one value; there are {classes} classes. In brackets, the mean
width of an interval.

Where the true value is 0, an interval can be wrong on one side only, and coverage may be above
97 %. `rate` is the accuracy of a single group.

The method was chosen by simulations of other systems with other seeds: two or three classes, two to
ten groups of 15 to 800 samples, best accuracies of .7 to .95, gaps of .03 to .4. Systems such as
those below were not used, but EXTRA and the tail of tied groups are older and were chosen on such
systems. All cases of one seed are shown: none is left out.

What limits coverage: the distribution of a gap or of a worst group depends on unknown rates.
How far the others are from the worst one determines how low the lowest appears by chance; how a
gap is composed of classes and values determines how large it appears. Both have to be estimated
from the same samples. Where the true differences are about as large as their standard errors (gaps
of .05 in groups of 30 and 100) the estimate is worst, and the method tends to make intervals too
wide rather than too narrow: `worst_group` above all, whose limits have to hold for tied groups and
for a single worst one alike. Near 0, or among tied groups, only one of the two limits can be wrong.
A gate would fail in up to 5 % if that limit had all of the error; it has 4 %, so that coverage
there is about 96 %.

*Gate errors*: how often a gate fails whose limit is exactly the true value. *False alarms*: how
often an attribute without any effect is called unfair, by any measure.
"""


def _text(results: AuditResults, pictures: Mapping[str, str]) -> str:
    del pictures  # there are none
    first = results.coverages[0]
    error = (0.05 * 0.95 / first.audits) ** 0.5
    outside = 200 * float(ndtr(-0.02 / error))
    about = ABOUT.format(audits=first.audits, outside=outside, classes=first.system.classes)
    return f"{about}\n{items(_sentences(results))}\n" + sections(_tables(results))


def _rows(results: AuditResults) -> Iterator[dict[str, Any]]:
    for one in results.coverages:
        values = asdict(one)
        yield values.pop("system") | values


def _line(outcome: tuple[Coverage, ...]) -> str:
    system = outcome[0].system
    lowest = min(outcome, key=lambda one: one.covered)
    return (
        f"{system.groups} groups of {system.size}, gap {system.gap:g}, {system.pattern}: mean "
        f"coverage {100 * np.mean([one.covered for one in outcome]):.1f} %, lowest "
        f"{100 * lowest.covered:.1f} % ({lowest.measure})"
    )


AUDIT_COVERAGE = Benchmark[AuditResults](
    title="Coverage of audits",
    line=_line,
    document=lambda results: {"coverages": [asdict(one) for one in results.coverages]},
    rows=_rows,
    tables=_tables,
    figures=lambda _: {},
    text=_text,
    sentences=_sentences,
)
