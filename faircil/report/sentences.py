"""Plain sentences about a study, generated from its numbers and their significance.

They are HTML, with names from data marked as such. A sentence never claims more than the test
behind it: if seeds are too few, or a difference is insignificant, it says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape

import numpy as np

from faircil.counts import ENOUGH, Floats
from faircil.metrics import METRICS
from faircil.report.page import MOST_METHODS, badge, escaped, named, percent, points
from faircil.report.statistics import FEWEST_SEEDS, Interval
from faircil.report.study import Difference, GroupPath, Method, Study
from faircil.results.over_time import lost_since_best

SMALL = 0.005  # half a point: smaller differences are "about the same"
# Metrics in plain language; others are described by their title.
PLAIN = {
    "final_accuracy": "accuracy at the end",
    "worst_group": "accuracy of the worst group",
    "eo_gap": "gap between groups",
    "eopp_gap": "gap between groups of the favoured classes",
    "eer": "unevenness between classes",
    "eer_task": "unevenness between tasks",
    "dp": "unevenness of what is predicted",
}
KINDS = {"better": "good", "worse": "bad", "open": "open"}


def plain(metric: str) -> str:
    """Describe a metric in a few words without abbreviations."""
    return PLAIN.get(metric) or METRICS[metric].title


def listed(names: Sequence[str]) -> str:
    """Join names (HTML) for a sentence.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def first_of(names: Sequence[str]) -> str:
    """Join the first names (HTML) for a sentence, and count the others.

    Examples
    --------
    >>> first_of(list("abcdefgh"))
    'a, b, c, d, e, f and 2 more'
    """
    left = len(names) - MOST_METHODS
    return listed([*names[:MOST_METHODS], *([f"{left} more"] if left > 0 else [])])


def opening(study: Study) -> str:
    """Describe which methods learned what, and how often."""
    methods = listed([named(one.name) for one in study.methods[:MOST_METHODS]])
    if len(study.methods) > MOST_METHODS:
        methods = f"{len(study.methods)} methods"
    seeds = sorted({len(one.runs) for one in study.methods})
    times = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    runs = "once each" if seeds == [1] else f"{times} times each, from different random starts"
    verb = "learned" if len(study.methods) > 1 else "has learned"
    tasks = "one task" if study.tasks == 1 else f"{study.tasks} tasks, one after another"
    return f"{methods} {verb} {named(study.title)} in {tasks}, {runs}."


def standing(method: Method, study: Study) -> str:
    """Describe the final results of a method."""
    told = []
    for metric in study.headline:
        found = method.interval(metric)
        if found is not None:
            told.append(f"{plain(metric)} {percent(found.mean)}{between(found)}")
    return f"{named(method.name)}: {'; '.join(told)}."


def between(found: Interval) -> str:
    """Write the interval over seeds; empty for a single run, which has none."""
    if found.low is None or found.high is None:
        return ""
    return f" <span class='interval'>({percent(found.low)} to {percent(found.high)})</span>"


def changed(one: Difference) -> str:
    """Describe a method's difference from the baseline in a metric, and its significance."""
    size = points(abs(one.difference))
    direction = "higher" if one.difference > 0 else "lower"
    what = (
        f"{plain(one.metric)} {direction} by {size}"
        if abs(one.difference) >= SMALL
        else (f"{plain(one.metric)} about the same")
    )
    if one.low is not None and one.high is not None:
        limits = f"{points(one.low, signed=True)} to {points(one.high, signed=True)}"
        what += f" <span class='interval'>({limits})</span>"
    word = {"better": "better", "worse": "worse", "open": "cannot tell"}[one.verdict]
    told = f"{badge(KINDS[one.verdict], word)} {what}"
    if one.levelled:
        told += f". {badge('bad', 'levelled down')} It is lower, but no group gains by it"
    return f"{told}."


def few_seeds(study: Study) -> str:
    """Explain why no difference can be significant if seeds are too few."""
    most = max((one.n for one in study.differences), default=0)
    if not study.differences or most >= FEWEST_SEEDS:
        return ""
    runs = "one common run" if most == 1 else f"{most} common runs"
    return (
        f"{runs.capitalize()} cannot show whether a difference is due to chance; run "
        f"{FEWEST_SEEDS} seeds or more (<code>--seeds 0-4</code>)."
    )


def helped(study: Study) -> list[str]:
    """Describe for each method whether it improved on the baseline, if this is significant.

    If there are many methods, only the first have separate sentences.
    """
    told = {one.method for one in study.differences if one.verdict != "open"}
    others = [one for one in study.ranked if one is not study.baseline]
    found = [_helped(one, study) for one in others if one.name in told]
    if len(found) > MOST_METHODS:
        left = [named(one.name) for one in others if one.name in told][MOST_METHODS:]
        found[MOST_METHODS:] = [f"What {first_of(left)} changed is on the cards below."]
    untold = [named(one.name) for one in others if one.name not in told]
    if untold and study.baseline is not None:
        is_are = "is" if len(untold) == 1 else "are"
        found.append(
            f"These runs cannot tell whether {first_of(untold)} {is_are} better or worse than "
            f"plain replay ({named(study.baseline.name)})."
        )
    return found


def helped_as_text(study: Study) -> list[str]:
    """Return :func:`helped` and :func:`few_seeds` without HTML, for a terminal."""
    lines = [*helped(study), few_seeds(study)] if study.baseline is not None else []
    return [unescape(re.sub(r"<[^>]*>", "", line)) for line in lines if line]


def _helped(method: Method, study: Study) -> str:
    own = [one for one in study.differences if one.method == method.name]
    better = [f"the {plain(one.metric)}" for one in own if one.verdict == "better"]
    worse = [f"the {plain(one.metric)}" for one in own if one.verdict == "worse"]
    base = named(study.baseline.name) if study.baseline else ""
    name = named(method.name)
    if better and worse:
        return (
            f"Against plain replay ({base}), {name} is better in {listed(better)}, but "
            f"<strong>worse in {listed(worse)}</strong>."
        )
    if worse:
        return f"<strong>{name} made things worse</strong> than {base}: {listed(worse)}."
    return f"{name} is better than plain replay ({base}) in {listed(better)}."


def over_tasks_told(study: Study, metric: str) -> str:
    """Describe how a metric changes from the first task to the last."""
    ends = []
    for one in study.methods[:MOST_METHODS]:
        known = [found.mean for found in one.after_tasks(metric) if found is not None]
        if known:
            ends.append(f"{named(one.name)} from {percent(known[0])} to {percent(known[-1])}")
    left = len(study.methods) - MOST_METHODS
    row = METRICS[metric]
    aim = "Higher is better" if row.higher_is_better else "Lower is better"
    many = any(len(one.runs) > 1 for one in study.methods)
    band = " A band is the 95 % interval of the mean over seeds." if many else ""
    if left > 0:
        ends += [f"{left} more are in the data"]
        band = " Intervals are in the data." if many else ""
    moved = f": {'; '.join(ends)}" if ends else ""
    return (
        f"<strong>{escaped(row.title.capitalize())}</strong> after each task{moved}. {aim}.{band}"
    )


def hardest(method: Method) -> GroupPath | None:
    """Return the group with the largest loss, among those large enough to evaluate."""
    judged = [one for one in method.groups if one.lost is not None and not one.too_small]
    return max(judged, key=lambda one: one.lost or 0.0, default=None)


def forgotten(method: Method) -> str:
    """Describe which groups have lost most and least compared to their best accuracy."""
    judged = [one for one in method.groups if one.lost is not None and not one.too_small]
    if not judged:
        return (
            f"With {named(method.name)}, no group of an earlier task has the {ENOUGH} test samples "
            "needed to judge it."
        )
    most = max(judged, key=lambda one: one.lost or 0.0)
    least = min(judged, key=lambda one: one.lost or 0.0)
    lost = most.lost or 0.0
    if lost < SMALL:
        return f"With {named(method.name)}, no group has lost accuracy since its best moment."
    text = (
        f"With {named(method.name)}, the group {named(most.name)} has lost most: from "
        f"{percent(most.last + lost)} at its best to {percent(most.last)} at the end"
    )
    if least is most:
        return f"{text}."
    kept = least.lost or 0.0
    other = f"lost {points(kept)}" if kept >= SMALL else "lost nothing"
    return f"{text}. {named(least.name)} {other}."


def moved(matrix: Floats, metric: str) -> str:
    """Describe the average effect of later tasks on a metric of earlier ones."""
    row = METRICS[metric]
    lost = lost_since_best(matrix, row.higher_is_better)
    known = lost[np.isfinite(lost)]
    if not len(known):
        return "The effect of later tasks is unknown: no earlier task can be compared."
    mean = float(known.mean())
    what = "accuracy lost" if row.higher_is_better else "fairness forgotten"
    if abs(mean) < SMALL:
        return f"On average, earlier tasks are as good as at their best moment ({points(mean)})."
    if mean < 0:
        return f"On average, earlier tasks have improved by {points(-mean)} since then."
    return (
        f"Since its best moment, an earlier task is worse by {points(mean)} ({what}), on average."
    )


def carried(method: Method) -> str:
    """Describe whether a value's advantage carries over from old classes to new ones."""
    steps = method.transfers
    if not steps:
        return "Nothing can be compared: no class has two groups in two tasks."
    over = [name for name, one in steps if one.new > SMALL]
    deeper = [name for name, one in steps if one.old - one.before > SMALL]
    return (
        f"With {named(method.name)}, the group that was ahead in the old classes was also ahead in "
        f"the new ones in {len(over)} of {len(steps)} tasks; learning the task widened its lead in "
        f"the old classes in {len(deeper)}."
    )


def weighed(method: Method) -> str:
    """Describe which groups have larger weights, and which smaller ones."""
    ends = [
        (one.name, last)
        for one in method.weights
        if (last := next((w for w in reversed(one.weights) if w is not None), None)) is not None
    ]
    if not ends:
        return ""
    heavy, light = max(ends, key=lambda one: one[1]), min(ends, key=lambda one: one[1])
    if method.weights_are_of_groups:
        scale = "1 is the weight of equal groups"
        pulled = f"{named(heavy[0])} counts most ({heavy[1]:.2f})"
        held = f"{named(light[0])} least ({light[1]:.2f})"
    else:
        scale = "1 means that all samples of the group are used, 0 that none are"
        pulled = f"of the last weighted epochs, {named(heavy[0])} is used most ({heavy[1]:.2f})"
        held = f"{named(light[0])} is held back most ({light[1]:.2f})"
    return f"With {named(method.name)} {pulled}, {held}; {scale}."


def traded(study: Study) -> str:
    """Describe the methods that no other beats in both accuracy and disparity."""
    best = [named(one.name) for one in study.methods if one.name in study.front]
    if not best:
        return ""
    beaten = [named(one.name) for one in study.ranked if one.name not in study.front]
    text = (
        f"Judging by the means, no method is more accurate <em>and</em> fairer than "
        f"{listed(best)} (the line)."
    )
    if study.baseline and study.baseline.name in study.front:
        text += " Plain replay is on the line: judging by the means, fairness costs accuracy here."
    return text + (f" Others are better than {listed(beaten)} in both." if beaten else "")
