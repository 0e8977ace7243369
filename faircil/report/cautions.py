"""What a reader has to know before believing a table: summaries, small groups, levelling down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faircil.counts import ENOUGH
from faircil.metrics import METRICS, Metric, Part
from faircil.report.table import TOO_SMALL, format_value
from faircil.results.record import GroupResult, RunSummary

MOST_NAMED = 6
MARGIN = 0.01  # a smaller difference of means is not named
CHANCE = 1.1  # times the accuracy of predicting always the same class
PLURALS: Mapping[Part, str] = {
    "class": "classes",
    "task": "classes",  # whose mean is the accuracy of a task
    "group": "groups",
    "value": "attribute values",
}


def heading(name: str) -> str:
    """Return the heading of a metric's column."""
    return METRICS[name].heading or name


def summary_note(names: Sequence[str]) -> str:
    """Say which metrics are means over tasks, and which are of the final model."""
    at_end = [heading(name) for name in names if METRICS[name].at_end]
    if len(at_end) in (0, len(names)):
        return ""
    return f"{', '.join(at_end)}: after the last task; all other metrics: mean over tasks"


def direction_note(names: Sequence[str]) -> str:
    """Say of which metrics more is better."""
    higher = [heading(name) for name in names if METRICS[name].higher_is_better]
    return f"higher is better for {', '.join(higher)}; lower is better for all other metrics"


Sizes = Mapping[str, int]  # test samples by name of the part


def part_sizes(runs: Sequence[RunSummary], part: Part) -> Sizes:
    """Return the test samples of each class, attribute value or group that a metric compares.

    Where they differ between runs, the fewest count. A group of a class that has no other is
    compared with none. Empty where no run has recorded its groups.
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
    """Return the parts that are too small to judge."""
    return {name: n for name, n in sizes.items() if n < ENOUGH}


def compares_too_small(metric: Metric, runs: Sequence[RunSummary]) -> bool:
    """Whether a disparity rests on parts of the test data that are too small to judge."""
    if metric.compares is None or not metric.is_disparity:
        return False
    return bool(too_small(part_sizes(runs, metric.compares)))


def small_note(runs: Sequence[RunSummary], names: Sequence[str]) -> str:
    """Say how many parts are too small to judge, and which; empty if none is."""
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
    """Name the rows that have a lower disparity than another because their worst group fares worse.

    Row a levels down against row b if a disparity of a is lower than that of b, and the accuracy of
    a's worst group is lower as well, both by :data:`MARGIN` or more (:func:`levels_down`). Of
    several such b, the one whose worst group fares best is named.

    Parameters
    ----------
    means : mapping from row to mean of each metric
    references : frozenset of str
        Rows that others are not held against.
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
            best = max(rivals, key=lambda other: means[other]["worst_group"] or 0.0)
            worst, other_worst = (format_value(means[row]["worst_group"]) for row in (name, best))
            found.append(
                f"{name} against {best} in {', '.join(map(heading, rivals[best]))} (worst group "
                f"{worst}, {best} {other_worst})"
            )
    if not found:
        return ""
    return (
        f"levelling down, not fairness (a disparity lower by {format_value(MARGIN)} or more, and "
        f"the worst group's accuracy lower by as much or more): {'; '.join(found)}"
    )


def levels_down(own: Means, other: Means, disparity: str) -> bool:
    """Whether a disparity is lower here than there, but the accuracy of the worst group as well."""
    return all(
        (here := own.get(name)) is not None
        and (there := other.get(name)) is not None
        and there - here >= MARGIN
        for name in (disparity, "worst_group")
    )


def at_chance(means: Means, runs: Sequence[RunSummary]) -> bool:
    """Whether the final model is no better than one that always predicts the same class."""
    accuracy, classes = means.get("final_accuracy"), len(part_sizes(runs, "class"))
    return accuracy is not None and classes > 1 and accuracy <= CHANCE / classes


def chance_note(means: Mapping[str, Means], rows: Sequence[str]) -> str:
    """Name the rows at chance."""
    if not rows:
        return ""
    names = ", ".join(f"{name} ({format_value(means[name]['final_accuracy'])})" for name in rows)
    return (
        f"at chance, so that its disparities mean nothing and are not ranked (final accuracy of at "
        f"most {CHANCE:g} / number of classes, as by always predicting one class): {names}"
    )
