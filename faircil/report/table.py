"""Tables as data: the format of values, the meaning of marks, and cautionary notes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from faircil.counts import ENOUGH
from faircil.errors import DataError
from faircil.metrics import METRICS, Metric, Part
from faircil.moments import PassRecord, Price
from faircil.results.processed import GroupAnswers
from faircil.results.record import GroupResult, Names, RunSummary

AMONG_BEST = "°"
TOO_SMALL = "†"
TEST = "paired t-test over at least 3 common seeds, Holm, 5 %"
MOST_GROUPS = 20
NEARLY = 0.01  # of a disparity: smaller differences are ignored
UNTESTED = "nothing is marked: methods are tested only over 3 or more common seeds"


@dataclass(frozen=True)
class Cell:
    """The text of a value, and its marks.

    Parameters
    ----------
    text : str
    best : bool
        Whether it is significantly better than all others in its column.
    among_best : bool
        Whether there is no best, and it is the best mean or one of those after it, down to the
        first that is significantly worse.
    too_small : bool
        Whether it compares parts of the test data that are too small to evaluate.
    """

    text: str
    best: bool = False
    among_best: bool = False
    too_small: bool = False

    def marked(self, best: str) -> str:
        """Return the text with its marks; ``best`` is the mark of the best."""
        marks = (
            best if self.best else "",
            AMONG_BEST if self.among_best else "",
            TOO_SMALL if self.too_small else "",
        )
        return " ".join(filter(None, (self.text, *marks)))


@dataclass(frozen=True)
class Table:
    """A comparison on one dataset.

    Parameters
    ----------
    title : str
    header : tuple of str
    cells : tuple of tuple of Cell
        Row by row.
    ranked : bool
        Whether the best of each column is determined.
    notes : tuple of str
        Notes for the reader, one line each.
    """

    title: str
    header: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    ranked: bool = False
    notes: tuple[str, ...] = ()


def heading(metric: str) -> str:
    """Return the column heading of a metric."""
    return METRICS[metric].heading or metric


def format_value(mean: float | None, deviation: float | None = None) -> str:
    """Write a metric as in papers, ``.925 ± .004``; a dash for None.

    Examples
    --------
    >>> format_value(0.92512, 0.0041), format_value(-0.05), format_value(None)
    ('.925 ± .004', '−.050', '–')
    """
    if mean is None:
        return "–"
    text = _short(mean)
    return text if deviation is None else f"{text} ± {_short(deviation)}"


def _short(value: float) -> str:
    text = f"{value:z.3f}".replace("-", "−")
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def legend(table: Table, best: str = "bold") -> str:
    """Explain the marks of a table, and add its notes; empty if there are none.

    Parameters
    ----------
    table : Table
    best : str
        How the best of a column is marked; ``bold`` in :func:`as_markdown`.
    """
    cells = [cell for row in table.cells for cell in row]
    marks = []
    if any(cell.best for cell in cells):
        marks.append(f"{best}: significantly better than all others")
    if any(cell.among_best for cell in cells):
        marks.append(
            f"{AMONG_BEST}: the best mean and the next ones, down to the first that is "
            "significantly worse"
        )
    explained = f"{'; '.join(marks)} ({TEST})" if marks else UNTESTED
    return "\n".join([explained] * (table.ranked or bool(marks)) + list(table.notes))


def as_markdown(table: Table) -> str:
    """Write a table in Markdown, with the marks that :func:`legend` explains."""
    header = map(in_markdown, table.header)
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(table.header)]
    for row in table.cells:
        lines.append("| " + " | ".join(_marked(cell) for cell in row) + " |")
    return "\n".join(lines) + "\n"


def in_markdown(text: str) -> str:
    r"""Escape text, possibly from data, for Markdown: no tags, links, cells or line breaks.

    Examples
    --------
    >>> print(in_markdown("a|b <script> [x](y)"))
    a\|b &lt;script> \[x\](y)
    """
    plain = re.sub(r"[\x00-\x1f\x7f-\x9f]", "\ufffd", " ".join(text.splitlines()))
    plain = re.sub(r"[\\|\[\]]", r"\\\g<0>", plain)
    return plain.replace("<", "&lt;")


def _marked(cell: Cell) -> str:
    text = in_markdown(cell.text)
    bold = replace(cell, text=f"**{text}**" if cell.best else text)
    return bold.marked("")


MOST_NAMED = 6
MARGIN = 0.01  # smaller differences of means are not reported
LEVELS = ("worst_group", "final_accuracy")  # one of these is lower if a method levels down
CHANCE = 1.1  # relative to the accuracy of always predicting the same class
PLURALS: Mapping[Part, str] = {
    "class": "classes",
    "task": "classes",  # whose mean is the accuracy of a task
    "group": "groups",
    "value": "attribute values",
}


def summary_note(names: Sequence[str]) -> str:
    """State which metrics are means over tasks, and which are of the final model."""
    at_end = [heading(name) for name in names if METRICS[name].at_end]
    if len(at_end) in (0, len(names)):
        return ""
    return f"{', '.join(at_end)}: after the last task; all other metrics: mean over tasks"


def direction_note(names: Sequence[str]) -> str:
    """State for which metrics higher is better."""
    higher = [heading(name) for name in names if METRICS[name].higher_is_better]
    return f"higher is better for {', '.join(higher)}; lower is better for all other metrics"


Sizes = Mapping[str, int]  # number of test samples by name of the part


def part_sizes(runs: Sequence[RunSummary], part: Part) -> Sizes:
    """Return the numbers of test samples of the classes, values or groups that a metric compares.

    If they differ between runs, the smallest is used. The only group of a class is not compared.
    Empty if no run has recorded its groups.
    """
    fewest: dict[str, int] = {}
    for run in runs:
        for name, n in _sizes(run.groups or (), part).items():
            fewest[name] = min(n, fewest.get(name, n))
    return fewest


def _sizes(groups: Sequence[GroupResult], part: Part) -> dict[str, int]:
    sizes: dict[str, int] = {}
    labels = [group.label for group in groups]
    for group in groups:
        if part in ("class", "task"):
            name = group.label
        elif group.attribute is None or (part == "group" and labels.count(group.label) == 1):
            continue
        else:
            name = f"{group.label}/{group.attribute}" if part == "group" else group.attribute
        sizes[name] = sizes.get(name, 0) + group.n
    return sizes


def too_small(sizes: Sizes) -> Sizes:
    """Return the parts that are too small to evaluate."""
    return {name: n for name, n in sizes.items() if n < ENOUGH}


def compares_too_small(metric: Metric, runs: Sequence[RunSummary]) -> bool:
    """Whether a disparity depends on parts of the test data that are too small to evaluate."""
    if metric.compares is None or not metric.is_disparity:
        return False
    return bool(too_small(part_sizes(runs, metric.compares)))


def small_note(runs: Sequence[RunSummary], names: Sequence[str]) -> str:
    """Report how many parts are too small to evaluate, and which; empty if none are."""
    parts = [METRICS[name].compares for name in names if METRICS[name].is_disparity]
    found = {}
    for part in parts:
        if part is not None and (few := too_small(sizes := part_sizes(runs, part))):
            shown = [f"{name} n={n}" for name, n in sorted(few.items(), key=lambda item: item[1])]
            if len(shown) > MOST_NAMED:
                shown[MOST_NAMED:] = [f"and {len(shown) - MOST_NAMED} more"]
            kind = PLURALS[part]
            found[kind] = f"{len(few)} of {len(sizes)} {kind} ({', '.join(shown)})"
    if not found:
        return ""
    return (
        f"{TOO_SMALL}: rests on parts with fewer than {ENOUGH} test samples, too few to judge: "
        f"{'; '.join(found.values())}"
    )


Means = Mapping[str, float | None]


def levelling_note(means: Mapping[str, Means], references: frozenset[str]) -> str:
    """Report rows whose disparity is lower than another's only because some groups fare worse.

    See :func:`levels_down`. If a row levels down against several rows, the one with the best worst
    group is given; among ties, the most accurate.

    Parameters
    ----------
    means : mapping from row to mean of each metric
    references : frozenset of str
        Rows to which others are not compared.
    """
    found = []
    shown = [name for name, metric in METRICS.items() if metric.in_tables and metric.is_disparity]
    for name, own in means.items():
        rivals = {
            other: columns
            for other, values in means.items()
            if other not in references
            and (columns := [metric for metric in shown if levels_down(own, values, metric)])
        }
        if rivals:
            best = max(rivals, key=lambda other: [means[other].get(key) or 0.0 for key in LEVELS])
            lower = ", ".join(map(heading, rivals[best]))
            found.append(f"{name} against {best} in {lower} ({_levels(own, means[best])})")
    if not found:
        return ""
    return (
        "levelling down, not fairness (a lower disparity, but the worst group fares no better, and "
        f"it or the final accuracy is worse, by {format_value(MARGIN)} or more): {'; '.join(found)}"
    )


def _levels(own: Means, other: Means) -> str:
    return ", ".join(
        f"{heading(key)} {format_value(own.get(key))} against {format_value(other.get(key))}"
        for key in LEVELS
    )


def levels_down(own: Means, other: Means, disparity: str) -> bool:
    """Whether a disparity is lower than another one although no group gains.

    This is so if the disparity is lower by at least :data:`MARGIN`, the accuracy of the worst group
    is not higher, and it or the final accuracy is lower by at least :data:`MARGIN`.
    """
    less = _lost(own, other, disparity)
    worst, final = (_lost(own, other, key) for key in LEVELS)
    if less is None or less < MARGIN or worst is None or worst < 0:
        return False
    return max(worst, 0.0 if final is None else final) >= MARGIN


def _lost(own: Means, other: Means, name: str) -> float | None:
    """Return how much lower a value is than another; None if one is missing."""
    here, there = own.get(name), other.get(name)
    return None if here is None or there is None else there - here


def at_chance(means: Means, runs: Sequence[RunSummary]) -> bool:
    """Whether the final model is no better than one that always predicts the same class."""
    accuracy, classes = means.get("final_accuracy"), len(part_sizes(runs, "class"))
    return accuracy is not None and classes > 1 and accuracy <= CHANCE / classes


def chance_note(means: Mapping[str, Means], rows: Sequence[str]) -> str:
    """Report rows at chance level."""
    if not rows:
        return ""
    names = ", ".join(f"{name} ({format_value(means[name]['final_accuracy'])})" for name in rows)
    return (
        "at chance, so its disparities are meaningless and not ranked (final accuracy of at "
        f"most {CHANCE:g} / number of classes, as when always predicting one class): {names}"
    )


def change_table(passed: PassRecord, names: Names, title: str) -> Table:
    """Show the effect of a one-pass method's weights on the groups, largest change first.

    Parameters
    ----------
    passed : PassRecord
    names : Names
        Names of its classes and attribute values.
    title : str
    """
    order = sorted(passed.groups, key=lambda group: -abs(group.after - group.before))
    rows = tuple(
        tuple(
            map(
                Cell,
                (
                    group_name(group.label, group.attribute, names),
                    f"{group.samples:,}",
                    f"{group.weight:.2f}",
                    format_value(group.before),
                    format_value(group.after, group.error),
                ),
            )
        )
        for group in order[:MOST_GROUPS]
    )
    left = len(order) - len(rows)
    notes = (
        "weight: relative to equal groups; loss: squared, of training rows by the model without "
        "them, with equal weights and with these, ± standard error",
        *((f"{left:,} further groups changed less",) if left else ()),
        *((price_note(passed.price),) if passed.price else ()),
        *((bound_note(passed.objective, passed.bound),) if passed.bound is not None else ()),
    )
    header = ("group", "training rows", "weight", "loss, equal weights", "loss")
    return Table(title, header, rows, notes=notes)


def abstention_table(found: Sequence[GroupAnswers], abstain: float) -> Table:
    """Show how many predictions each group loses if uncertain ones are withheld, most first.

    Parameters
    ----------
    found : sequence of GroupAnswers
        For all test samples, then for each group.
    abstain : float
        Fraction of predictions that are withheld.
    """
    whole, *groups = found
    groups.sort(key=lambda one: one.answered)
    rows = tuple(
        tuple(
            map(
                Cell,
                (
                    ", ".join(filter(None, (one.label, one.attribute))) or "all",
                    f"{one.n:,.0f}",
                    format_value(one.answered),
                    format_value(one.accuracy),
                    format_value(one.answered_accuracy),
                ),
            )
        )
        for one in (whole, *groups[:MOST_GROUPS])
    )
    left = len(groups) - len(rows) + 1
    judged = [one for one in groups if one.n >= ENOUGH]
    before = min((one.accuracy for one in judged), default=None)
    after = min(
        (one.answered_accuracy for one in judged if one.answered_accuracy is not None),
        default=None,
    )
    notes = (
        f"worst group: {format_value(before)} of all its rows, {format_value(after)} of the "
        "answered ones; withholding can widen the difference between groups, so look at both "
        "columns",
        *((f"{left:,} further groups lose less",) if left else ()),
    )
    header = ("group", "test rows", "answered", "accuracy", "accuracy of the answered")
    title = f"without the {abstain:.0%} of the predictions that are least certain"
    return Table(title, header, rows, notes=notes)


def bound_note(objective: float, bound: float) -> str:
    """Report how much better another model could be at most."""
    return (
        f"objective {format_value(objective)}; no linear model of at most its norm has one lower "
        f"by more than {format_value(bound)}"
    )


def price_note(price: Price) -> str:
    """Report the disparity of the losses, and the cost of a smaller one."""
    what = "largest loss of a group" if price.largest else "disparity of losses"
    text = f"{what} {format_value(price.disparity)} at mean loss {format_value(price.mean)}"
    if price.counted <= NEARLY * price.disparity:
        return f"{text}: within its standard errors, so it is not evened out further"
    if price.disparity_then >= (1 - NEARLY) * price.disparity:
        return f"{text}: a smaller lam does not make it smaller"
    return (
        f"{text}; evening out further, with lam={price.lam:g}, would leave "
        f"{format_value(price.disparity_then)} and change the mean loss to "
        f"{format_value(price.mean_then)}"
    )


def group_name(label: int, attribute: Sequence[int], names: Names) -> str:
    """Return the class and, if groups have one, the attribute value."""
    try:
        values = [names.attribute_values[one] if one >= 0 else "unknown" for one in attribute]
        return ", ".join((names.classes[label], *values))
    except IndexError:
        raise DataError(
            f"a run names {len(names.classes)} classes and {len(names.attribute_values)} attribute "
            f"values, and has a group with the numbers {', '.join(map(str, (label, *attribute)))}: "
            "its files were altered; run it again"
        ) from None
