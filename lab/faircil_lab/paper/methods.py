"""Every method with and without weighting, with the shipped settings, and the targets for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from faircil.learners import ALIASES, LEARNERS
from faircil.report import format_value
from faircil.results.record import spread
from faircil_lab.paper.claims import Column, Pair
from faircil_lab.paper.contenders import BY_GROUP, DARK, Contender, Entry
from faircil_lab.paper.exhibit import Grid, Page, Results, Section
from faircil_lab.paper.metrics import TARGETS, Target
from faircil_lab.paper.table import ComparisonTable, TableRow, table_page

BY_SAMPLE, GROUPED = "{} + fsw", "{} + fsw by group"
CONTROLLED = ("er", "der++")  # methods that are shown with the controls
IN_PAPER = ("joint", "finetune", "icarl", "wa", "clad", "gss", "ocs", "fairl")
# Other variants of a method: what the original does, or what explains a published row.
VARIANTS = {
    "icarl": ("quota=total",),
    "wa": ("evaluate_before_alignment=true", "clip_nonneg=false"),
    "gss": ("quota=task",),
    "ocs": ("quota=total",),
    "der++": ("logits=stored",),
    "bgs": ("quota=total",),
    "lws": ("quota=class",),
}
ABOUT = (
    "Settings are those shipped with faircil; they were not tuned against each other, and were "
    "chosen without weighting: see [how](chosen-settings.md). All methods share the net, the data "
    "and its order, the initial weights of a seed, 32 buffered samples of each group (class and "
    "attribute value) unless `quota` says otherwise, one head over all classes, and evaluation "
    "after everything a method does at the end of a task. `fsw` weights the samples of the current "
    "task, one by one as in the paper, or by group; weights multiply the loss of current samples, "
    "never distillation or replay.\n\n`der++` is Dark Experience Replay (Buzzega et al. 2020). "
    "What the FSW paper calls DER is a different method (Yan et al. 2021, an expanding net), with "
    "which neither the paper nor this page compares."
)


def _rows(method: str) -> list[TableRow]:
    """Return a method alone, with weighting and its controls where it takes any, and a variant."""
    plain = Contender(
        method,
        method,
        in_paper=method in IN_PAPER,
        note=DARK.note if method == DARK.method else "",
    )
    rows = [TableRow(plain, method if method in IN_PAPER else None)]
    if LEARNERS[method].no_weighting is None:
        fsw = replace(plain, name=BY_SAMPLE.format(method), weighting="fsw")
        alias = next((name for name, pair in ALIASES.items() if pair == (method, "fsw")), None)
        rows += [
            TableRow(replace(fsw, in_paper=alias is not None), alias),
            TableRow(replace(fsw, name=GROUPED.format(method), fixed=BY_GROUP)),
        ]
        if method in CONTROLLED:
            source = rows[1].contender
            rows += [
                TableRow(
                    replace(fsw, name=f"{method} + {name}", weighting=name, settings_of=source)
                )
                for name in ("random", "balanced")
            ]
    if method in VARIANTS:
        fixed = VARIANTS[method]
        rows.append(TableRow(replace(plain, name=f"{method}: {' '.join(fixed)}", fixed=fixed)))
    return rows


ROWS = tuple(row for method in LEARNERS for row in _rows(method))
WEIGHTED = tuple(method for method in LEARNERS if LEARNERS[method].no_weighting is None)
PUBLISHED = tuple(row.contender.name for row in ROWS if row.published)
ER = tuple(row.contender.name for row in ROWS if row.contender.method == "er")


def _columns() -> tuple[Column, ...]:
    """Return the datasets by the measure of the main table, and demographic parity for replay."""
    found = []
    for target in TARGETS:
        shown = {"dp": ER if target.dataset == "biased-mnist" else ()}.get(target.measure)
        if target.dataset == "biasbios" and shown is None:
            shown = PUBLISHED
        besides = ("dp", "seconds total") if target.measure == "dp" else ("seconds total",)
        if shown is None or shown:
            found.append(Column(target, ("accuracy", target.metric), besides, only=shown))
    return tuple(found)


PAIRS = (
    *(Pair(form.format("er"), "er") for form in (BY_SAMPLE, GROUPED)),
    *(
        Pair(BY_SAMPLE.format(method), f"{method} + {control}")
        for method in CONTROLLED
        for control in ("random", "balanced")
    ),
    *(
        Pair(form.format(method), method)
        for method in WEIGHTED
        if method != "er"
        for form in (BY_SAMPLE, GROUPED)
    ),
)
Bounds = tuple[float, float]  # the least and the largest value
MNIST, FASHION = Target("mnist", "eer"), Target("fashion-mnist", "eer")
BIASED, BIASED_DP = Target("biased-mnist", "eo"), Target("biased-mnist", "dp")
DRUG = Target("drug", "eo")


def _goals(
    least_accuracy: Sequence[float | None], most_disparity: Sequence[float | None]
) -> dict[Target, dict[str, Bounds]]:
    """Return goals on MNIST, Fashion-MNIST and Biased MNIST."""
    found: dict[Target, dict[str, Bounds]] = {}
    targets = (MNIST, FASHION, BIASED)
    for target, accuracy, gap in zip(targets, least_accuracy, most_disparity, strict=True):
        found[target] = {} if accuracy is None else {"accuracy": (accuracy, inf)}
        found[target] |= {} if gap is None else {target.metric: (-inf, gap)}
    return found


NONE = (None, None, None)
GOALS: Mapping[str, Mapping[Target, Mapping[str, Bounds]]] = {
    "finetune": {MNIST: {"accuracy": (0.45, 0.46), "eer_task": (0.32, 0.335)}},
    "joint": _goals((0.97, 0.90, 0.94), (0.015, 0.035, 0.115)),
    "icarl: quota=total": _goals((0.92, 0.845, 0.802), (0.05, 0.06, 0.365)),
    "clad": _goals((0.825, 0.772, 0.861), NONE),
    "gss": _goals((0.879, 0.722, 0.799), NONE),
    "ocs": _goals((0.89, 0.78, 0.81), NONE),
    "fairl": _goals((0.75, 0.65, 0.70), NONE),
    "er + fsw": {
        MNIST: {"accuracy": (0.924, inf), "eer_task": (-inf, 0.035), "eer": (-inf, 0.038)},
        FASHION: {"accuracy": (0.826, inf), "eer_task": (-inf, 0.041), "eer": (-inf, 0.084)},
        BIASED: {"accuracy": (0.898, inf), "eo_gap": (-inf, 0.128)},
        BIASED_DP: {"accuracy": (0.898, inf), "dp": (-inf, 0.0135)},
        DRUG: {"accuracy": (0.402, inf), "eo_gap": (-inf, 0.105)},
    },
    "er + fsw by group": _goals((0.926, None, 0.911), (0.036, None, 0.112)),
    "der++": _goals((0.935, 0.815, 0.912), (0.034, None, None)),
    "der++ + fsw": _goals((0.934, 0.84, 0.92), (0.032, 0.045, 0.117)),
    "der++ + fsw by group": _goals((0.946, 0.852, 0.926), (0.017, 0.039, 0.103)),
}


@dataclass(frozen=True)
class MethodsTable(ComparisonTable):
    """A table with what the methods are, and with targets."""

    def page(self, results: Results) -> Page:
        """Put the page together from finished runs."""
        entries = {column: self.entries(column, results) for column in self.columns}
        page = table_page(self, entries)
        goals = goals_section({column.target: some for column, some in entries.items()})
        first, *others = page.sections
        return replace(page, sections=(first, methods_section(), goals, *others))


def methods_section() -> Section:
    """Say in a line each what the methods are."""
    rows = tuple(
        (
            f"`{name}`",
            learner.summary,
            learner.source,
            f"no: {learner.no_weighting}" if learner.no_weighting else "yes",
        )
        for name, learner in LEARNERS.items()
    )
    return Section(
        "Methods", table=Grid(("method", "what", "source", "weighting"), rows), on_terminal=False
    )


def goals_section(entries: Mapping[Target, Sequence[Entry]]) -> Section:
    """Hold the means over seeds against the targets; a diverged seed misses all."""
    rows = []
    for target, some in entries.items():
        for entry in some:
            for metric, bounds in GOALS.get(entry.name, {}).get(target, {}).items():
                mean, deviation = spread([run.metrics[metric] for run in entry.runs])
                met = mean is not None and bounds[0] <= mean <= bounds[1] and not entry.diverged
                not_run = mean is None and not entry.diverged
                verdict = "met" if met else "not run" if not_run else "**missed**"
                measured = format_value(mean, deviation)
                rows.append((target.title, entry.name, metric, _written(bounds), measured, verdict))
    header = ("on", "method", "metric", "target", "measured", "")
    return Section("Targets", "Means over seeds.", Grid(header, tuple(rows)))


def _written(bounds: Bounds) -> str:
    low, high = bounds
    if high == inf:
        return f"≥ {format_value(low)}"
    if low == -inf:
        return f"≤ {high:.4g}".replace("0.", ".")
    return f"{format_value(low)} … {format_value(high)}"


METHODS_TABLE = MethodsTable(
    "Every method, with and without weighting", "methods", ROWS, _columns(), PAIRS, ABOUT
)
