"""The section of a report on methods over tasks: learning, forgetting by group, persistent bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from faircil.metrics import METRICS
from faircil.report import sentences
from faircil.report.page import (
    MOST_METHODS,
    Cells,
    escaped,
    figure,
    heat_cell,
    legend,
    more,
    named,
    number,
    paragraph,
    percent,
    some,
    table,
)
from faircil.report.study import GroupPath, Method, Study
from faircil.report.svg import Series, fall_bar, legend_mark, line_chart
from faircil.results.over_time import lost_since_best

MOST_GROUPS = 10  # of a method that are shown at first
MOST_CLASSES = 12  # whose curves are drawn
MOST_VALUES = 7  # attribute values with a separate line
OTHER = 3  # index of their first colour, since the first methods use others
WHOLE = ("final_accuracy", "forgetting")  # accuracy itself, or over all tasks together
BY_TASK = tuple(
    name
    for name, metric in METRICS.items()
    if metric.in_tables and metric.compares != "task" and name not in WHOLE
)


def what_was_learned(study: Study) -> str:
    """List the tasks, and draw accuracy and disparity after each."""
    charts = [
        _over_tasks(study, metric)
        for metric in dict.fromkeys(("accuracy", "worst_group", study.disparity))
    ]
    return _tasks(study) + f'<div class="trio">{"".join(filter(None, charts))}</div>'


def _tasks(study: Study) -> str:
    """List the classes of each task with their test samples."""
    method = next((one for one in study.methods if one.groups), None)
    if method is None:
        return paragraph("These runs keep no predictions, so their classes are not listed.")
    by_task: dict[int, dict[str, int]] = {}
    for group in method.groups:
        classes = by_task.setdefault(group.task, {})
        classes[group.label] = classes.get(group.label, 0) + group.n
    rows = [
        (
            str(task),
            ", ".join(named(label) for label in classes),
            f"{sum(classes.values()):,}",
        )
        for task, classes in sorted(by_task.items())
    ]
    values = list(dict.fromkeys(named(g.value) for g in method.groups if g.value))
    compared = (
        f"Within each class these groups are compared: {sentences.listed(values)}."
        if values
        else "The data has no sensitive attribute: classes are compared."
    )
    cells = Cells(("task", "new classes", "test samples"), rows, "Tasks in the order of learning")
    return paragraph(compared, _one_order(method)) + table(replace(cells, kind="words"))


def _one_order(method: Method) -> str:
    if len(method.followed) == len(method.timelines):
        return ""
    return f"The order of classes differs between seeds: this is seed {method.runs[0].seed}."


def _over_tasks(study: Study, metric: str) -> str:
    series, rows = [], []
    crowded = len(study.methods) > MOST_METHODS  # bands would hide each other's lines
    for one in study.methods:
        found = one.after_tasks(metric)
        if not any(found):
            continue
        values = tuple(None if f is None else f.mean for f in found)
        low = tuple(None if f is None or crowded else f.low for f in found)
        high = tuple(None if f is None or crowded else f.high for f in found)
        series.append(Series(one.name, values, low, high, one.style))
        cells = (percent(f.mean) + sentences.between(f) if f else "–" for f in found)
        rows.append((named(one.name), *cells))
    if not series:
        return ""
    sentence = sentences.over_tasks_told(study, metric)
    title = f"{METRICS[metric].title} after each task, a line for each method"
    drawn = line_chart(series, title=title, limits=METRICS[metric].limits)
    header = ("method", *(f"task {task}" for task in range(1, study.tasks + 1)))
    return figure(drawn, sentence, Cells(header, rows, "after each task"), methods_key(study))


def methods_key(study: Study) -> str:
    """List the methods with their markers."""
    return legend([(legend_mark(one.style), named(one.name)) for one in study.methods])


def who_was_forgotten(study: Study) -> str:
    """Show the losses of each method's groups, and their curves."""
    followed = [one for one in study.methods if one.groups]
    if not followed:
        return ""
    lead = paragraph(
        "A group is a class with one attribute value; without an attribute, a class. The hollow "
        "circle is its best accuracy, the full one its accuracy at the end. The longer the bar to "
        "the left, the more was forgotten."
    )
    falls = some([_falls(one) for one in followed], "pair")
    return (
        lead
        + falls
        + "<h3>Each group over time</h3>"
        + some([_curves(one) for one in followed], "")
    )


def _falls(method: Method) -> str:
    groups = sorted(method.groups, key=lambda one: -(one.lost or 0.0) + (one.lost is None))
    cells = Cells(
        ("group", "best → end", "end", "lost, points"),
        [_fall(one, method.style) for one in groups],
        f"{named(method.name)}: the groups that lost most",
        "falls",
    )
    rest = replace(cells, rows=cells.rows[MOST_GROUPS:], caption="the other groups")
    shown = table(replace(cells, rows=cells.rows[:MOST_GROUPS]))
    if rest.rows:
        shown += more(f"{len(rest.rows)} more groups", table(rest))
    return figure(shown, f"{sentences.forgotten(method)} {_one_order(method)}")


def _fall(group: GroupPath, style: int) -> tuple[str, ...]:
    note = f' <span class="note">n = {group.n}: cannot tell</span>' * group.too_small
    best = group.last + (group.lost or 0.0)
    seen = f"{group.name}: {percent(best)} at its best, {percent(group.last)} at the end"
    lost = "new" if group.lost is None else number(group.lost)
    bar = f'<td class="bar">{fall_bar(best, group.last, style, seen)}</td>'
    return named(group.name) + note, bar, percent(group.last), lost


def _curves(method: Method) -> str:
    """Draw the accuracy of each group after each task, with a small chart per class."""
    by_class: dict[str, list[GroupPath]] = {}
    for group in method.groups:
        by_class.setdefault(group.label, []).append(group)
    values = list(dict.fromkeys(group.value for group in method.groups))
    style = {value: place + OTHER for place, value in enumerate(values)}
    charts = []
    for label, groups in list(by_class.items())[:MOST_CLASSES]:
        series = [
            Series(one.name, one.path, style=style[one.value])
            for one in groups
            if style[one.value] < MOST_VALUES + OTHER
        ]
        seen = f"accuracy of the groups of class {label} after each task, by {method.name}"
        drawn = line_chart(series, title=seen, limits=(0.0, 1.0), size=(220, 130))
        charts.append(f"<div><h4>{named(label)}</h4>{drawn}</div>")
    shown = [(legend_mark(style[value]), named(value)) for value in values[:MOST_VALUES]]
    left = len(by_class) - MOST_CLASSES
    told = [f"Accuracy of each group with {named(method.name)}, a chart for each class."]
    told += [f"{left} further classes are in the table."] * (left > 0)
    tasks = range(1, len(method.groups[0].path) + 1)
    rows = [(named(one.name), f"{one.n:,}", *map(percent, one.path)) for one in method.groups]
    cells = Cells(("group", "n", *(f"task {t}" for t in tasks)), rows, "accuracy after each task")
    key = legend(shown) if values != [""] else ""
    return figure(f'<div class="small">{"".join(charts)}</div>', " ".join(told), cells, key)


def how_fairness_moved(study: Study) -> str:
    """Show metrics of each task after each task, forgotten fairness, and persistent bias."""
    followed = [one for one in study.methods if one.timelines]
    if not followed or study.tasks < 2:
        return ""
    lead = paragraph(
        "Each row is a point in time, each column a task. Read a column downwards to see what "
        "later tasks did to its classes. Darker is worse."
    )
    tables = some([_matrix(one, study.disparity) for one in followed], "pair")
    every = "".join(
        f"<h3>{named(one.name)}</h3>"
        + "".join(_matrix(one, name) for name in BY_TASK if name != study.disparity)
        for one in followed[:MOST_METHODS]
    )
    shown = more("The same for every other measure", every)
    return lead + tables + shown + _fairness_forgetting(followed) + _transfer(followed)


def _matrix(method: Method, metric: str) -> str:
    values = method.matrix(metric)
    if not np.isfinite(values).any():
        return ""
    row = METRICS[metric]
    shades = 1 - values if row.higher_is_better else values / max(0.1, float(np.nanmax(values)))
    rows = [
        (
            f"after task {place}",
            *(heat_cell(v, s, percent(v, 0)) for v, s in zip(own, shade, strict=True)),
        )
        for place, (own, shade) in enumerate(zip(values, shades, strict=True), start=1)
    ]
    header = ("", *(f"task {task}" for task in range(1, values.shape[1] + 1)))
    caption = f"{named(method.name)}: {escaped(row.title)} of each task"
    told = f"{sentences.moved(values, metric)} {_one_order(method)}"
    return figure(table(Cells(header, rows, caption)), told)


def _fairness_forgetting(methods: Sequence[Method]) -> str:
    """List how much worse each metric is on earlier tasks than at its best."""
    rows = []
    for name in BY_TASK:
        lost = [_lost(one, name) for one in methods]
        if any(value is not None for value in lost):
            rows.append((escaped(METRICS[name].title), *(number(value) for value in lost)))
    header = ("", *(named(one.name) for one in methods))
    lead = paragraph(
        "How much worse, in points, earlier tasks are at the end than at their best moment, on "
        "average. For a disparity this is <em>fairness forgetting</em>: what was even has become "
        "uneven. Below zero, it has improved."
    )
    return f"<h3>What was forgotten, by every measure</h3>{lead}" + table(Cells(header, rows))


def _lost(method: Method, metric: str) -> float | None:
    lost = lost_since_best(method.matrix(metric), METRICS[metric].higher_is_better)
    known = lost[np.isfinite(lost)]
    return float(known.mean()) if len(known) else None


def _transfer(methods: Sequence[Method]) -> str:
    """Show whether the advantaged group has an advantage in new classes too."""
    if not any(one.transfers for one in methods):
        return ""
    parts = []
    for one in methods:
        rows = [
            (
                f"task {step.task + 1}",
                named(value),
                *(number(v, signed=True) for v in (step.before, step.old, step.new)),
            )
            for value, step in one.transfers
        ]
        header = ("learned", "ahead before", "before", "after", "in the new")
        parts.append(figure(table(Cells(header, rows, named(one.name))), sentences.carried(one)))
    lead = paragraph(
        "Does bias carry over? Before a task is learned, one group is ahead in the old classes: "
        "its lead is how far its accuracy is above the mean of the groups of a class. The table "
        "shows its lead in the old classes before and after, and in the new classes, in points."
    )
    return f"<h3>Bias from one task to the next</h3>{lead}" + some(parts, "pair")
