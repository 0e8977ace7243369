"""Learning from moments, compared with replay and ridge regression: what ``auto`` takes, costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes

from faircil.errors import FaircilError
from faircil.report import format_value
from faircil.report.statistics import PairedComparison, interval, paired
from faircil.runs.config import Part, RunConfig, resolve
from faircil.sweep.work import Work
from faircil.tuning import auto
from faircil.tuning.request import Tuned, TuneRequest
from faircil_lab.paper.claims import LEVEL, Column, Pair
from faircil_lab.paper.comparison import ranks
from faircil_lab.paper.contenders import (
    DARK,
    FILES_ABSENT,
    FSW,
    REPLAY,
    Contender,
    Entry,
    files_absent,
    seeds_diverged,
)
from faircil_lab.paper.drawing import (
    EMPHASIS,
    REFERENCE,
    draw_panels,
    finish_axes,
    style_of,
    write_png,
)
from faircil_lab.paper.exhibit import Grid, Page, Picture, Results, Section
from faircil_lab.paper.metrics import METRICS, Target
from faircil_lab.paper.table import ComparisonTable, table_page
from faircil_lab.paper.tables import (
    BY_MEANS,
    DARK_BY_GROUP,
    DRAWS,
    EQUAL_CLASSES,
    FIXED_WEIGHTS,
    GDUMB,
    IN_CONV,
    MANY_PATCHES,
    MOMENT_ROWS,
    MOMENT_TARGETS,
    MOMENTS,
    NOTES,
    ON_TRAINING,
    PATCHES_EQUAL,
    RIDGE,
    RIVALS,
    moment_column,
)

AUTO = Contender("auto", auto.AUTO, in_paper=False)
# What auto must not fall behind.
PLAIN = (REPLAY, DARK, GDUMB, *RIDGE)


@dataclass(frozen=True)
class Automatic:
    """What ``auto`` does on a target; it takes one of its candidates as they are shipped."""

    target: Target

    def make(self, candidate: auto.Candidate, part: Part) -> RunConfig:
        """Return the run of a candidate."""
        return resolve(
            dataset=self.target.dataset,
            method=candidate.method,
            weighting=candidate.weighting,
            measure=self.target.measure,
            overrides=candidate.overrides,
            evaluate_on=part,
        )

    def works(self, seeds: Sequence[int]) -> Iterator[Work]:
        """Return the runs to choose by, and all that may be chosen."""
        if files_absent(self.target.dataset):
            return
        trials = auto.trials_of(self.make)
        yield from trials.works
        for candidate in trials.candidates:
            plain = [auto.with_equal_groups(candidate)] * (candidate.method == MOMENTS.method)
            for one in (candidate, *plain):
                yield from (Work(self.make(one, "test"), seed) for seed in seeds)

    def choice(self, results: Results) -> auto.Choice | str:
        """Return what is chosen, or why nothing is."""
        if files_absent(self.target.dataset):
            return FILES_ABSENT
        try:
            trials = auto.trials_of(self.make)
            outcomes = [results.outcomes[work.key] for work in trials.works]
            return auto.decide(self.make, trials, outcomes)
        except FaircilError as error:
            return str(error)

    def entry(self, choice: auto.Choice | str, seeds: Sequence[int], results: Results) -> Entry:
        """Return its row."""
        ends = f"{min(seeds)}-{max(seeds)}" if len(seeds) > 1 else str(seeds[0])
        command = (
            f"faircil run --dataset {self.target.dataset} --measure {self.target.measure} "
            f"--seeds {ends}"
        )
        if isinstance(choice, str):
            return Entry(AUTO, (), command, choice)
        config = choice.config
        runs = tuple(results.runs(config, seeds))
        return Entry(
            AUTO,
            runs,
            command,
            results.problem(config, seeds),
            results.diverged(config, seeds),
        )


class MomentsTable(ComparisonTable):
    """The comparison, with a row of what ``auto`` takes, and how it stands to plain methods."""

    def works(self, tuned: Mapping[TuneRequest, Tuned]) -> Sequence[Work]:
        """Return the runs of all rows, and those of ``auto``."""
        chosen = [work for c in self.columns for work in Automatic(c.target).works(self.seeds)]
        return [*super().works(tuned), *chosen]

    def page(self, results: Results) -> Page:
        """Put the page together from finished runs."""
        entries, choices = {}, {}
        for column in self.columns:
            automatic = Automatic(column.target)
            choices[column] = automatic.choice(results)
            own = automatic.entry(choices[column], self.seeds, results)
            entries[column] = [*self.entries(column, results), own]
        page = table_page(self, entries)
        front = [standing(column, entries[column], choices[column]) for column in self.columns]
        first = (overview(entries), _front_section(front, entries), cost_section(entries))
        return replace(page, answer=_answer(front, page.answer), sections=(*first, *page.sections))


Entries = Mapping[Column, Sequence[Entry]]


def overview(entries: Entries) -> Section:
    """Write accuracy, disparity and worst group of all methods on all data, and draw them."""
    names = dict.fromkeys(entry.name for some in entries.values() for entry in some)
    rows = tuple(
        (name, *(_short(column, _named(some, name)) for column, some in entries.items()))
        for name in names
    )
    header = ("method", *(column.title for column in entries))
    return Section(
        "All methods on all data",
        "Means over seeds: accuracy / disparity / accuracy of the worst group after the last task. "
        "The disparity is `eer_task`, `eo_gap` or `dp_predicted`, by the measure in brackets. A "
        "low disparity with a worst group near 0 is no merit: everything was forgotten evenly. "
        "The sections below have deviations, times and commands.",
        Grid(header, rows),
        Picture(
            "moments.png",
            "Accuracy and disparity, means over seeds with 95 % intervals.",
            partial(_draw, entries=entries),
        ),
        on_terminal=False,
    )


def _named(entries: Sequence[Entry], name: str) -> Entry | None:
    return next((entry for entry in entries if entry.name == name), None)


def _short(column: Column, entry: Entry | None) -> str:
    if entry is None or not entry.runs or entry.diverged:
        return "–" if entry is None else "diverged" if entry.diverged else "not run"
    names = (*column.metrics[:2], "worst_group")
    values = [METRICS[name].by_seed(entry.runs).values() for name in names]
    return " / ".join(format_value(interval([*some]).mean) if some else "–" for some in values)


@dataclass(frozen=True)
class Standing:
    """How ``auto`` stands to plain methods in a column.

    Parameters
    ----------
    column : Column
    entry : Entry
    choice : Choice or str
        What it took, or why it took nothing.
    better : tuple of str
        Plain methods that are better in both accuracy and disparity, beyond the noise of the seeds.
    above : tuple of str
        Those whose worst group is better, beyond the noise of the seeds.
    """

    column: Column
    entry: Entry
    choice: auto.Choice | str
    better: tuple[str, ...]
    above: tuple[str, ...]

    @property
    def behind(self) -> bool:
        """Whether a plain method is better, or a seed of ``auto`` diverged."""
        return bool(self.better or self.above or self.entry.diverged)


def standing(column: Column, entries: Sequence[Entry], choice: auto.Choice | str) -> Standing:
    """Compare ``auto`` with each plain method, over common seeds."""
    own = next(entry for entry in entries if entry.contender == AUTO)
    plain = [entry for entry in entries if entry.contender in PLAIN and not entry.diverged]
    both = column.metrics[:2]
    return Standing(
        column,
        own,
        choice,
        tuple(one.name for one in plain if all(_surely_better(one, own, m) for m in both)),
        tuple(one.name for one in plain if _surely_better(one, own, "worst_group")),
    )


def _compared(one: Entry, other: Entry, metric: str) -> PairedComparison:
    values = METRICS[metric].by_seed
    return paired(values(one.runs), values(other.runs))


def _surely_better(one: Entry, other: Entry, metric: str) -> bool:
    found = _compared(one, other, metric)
    if found.difference is None or found.p_value is None or found.p_value > LEVEL:
        return False
    return (found.difference > 0) == METRICS[metric].higher_is_better


FRONT = (
    "`auto`, the default of `faircil run`, takes the candidate with the best balanced accuracy "
    "less disparity on held-out training rows. It should never be harmful: no plain method "
    "(replay, DER++ and GDumb with searched settings, ridge regression with equal samples or "
    "classes) may be better in both accuracy and disparity, or in the worst group, beyond the "
    "noise of the seeds (paired t-test at 5 %, without correction for the number of comparisons, "
    "which would favour `auto`)."
)
FRONT_HEADER = (
    *("on", "taken", "held-out rows", "accuracy", "disparity", "worst group"),
    *("better in both", "better worst group"),
)


def _front_section(front: Sequence[Standing], entries: Entries) -> Section:
    return Section(
        "What auto chooses, and whether it is harmful",
        FRONT,
        Grid(FRONT_HEADER, tuple(map(_front_row, front))),
        Picture(
            "moments-front.png",
            "Images without and with a biased background, and people.",
            partial(_draw, entries={c: some for c, some in entries.items() if c.target in BRIEFLY}),
        ),
    )


def _front_row(one: Standing) -> tuple[str, ...]:
    lost = f" ({seeds_diverged(one.entry)})" if one.entry.diverged else ""
    if isinstance(one.choice, str) or not (one.entry.runs or lost):
        return (one.column.title, "not run", *["–"] * (len(FRONT_HEADER) - 2))
    names = (*one.column.metrics[:2], "worst_group")
    return (
        one.column.title,
        one.choice.chosen.name,
        f"{one.choice.rows:,}",
        *(METRICS[m].text([*METRICS[m].by_seed(one.entry.runs).values()]) + lost for m in names),
        ", ".join(one.better) or "none",
        ", ".join(one.above) or "none",
    )


COST_ABOUT = (
    "What evening the groups gives and takes: `moments` minus `equal classes`, which differ in the "
    "weights of the groups alone; with 95 % intervals over seeds."
)


def cost_section(entries: Entries) -> Section:
    """Write what fairness costs in accuracy, and what it gains."""
    rows = []
    for column, some in entries.items():
        ours, plain = _named(some, MOMENTS.name), _named(some, EQUAL_CLASSES.name)
        if ours is None or plain is None or not (ours.runs and plain.runs):
            continue
        if ours.diverged or plain.diverged:  # as everywhere, not judged on the other seeds
            continue
        names = (*column.metrics[:2], "worst_group")
        rows.append((column.title, *(_difference(_compared(ours, plain, m), m) for m in names)))
    header = ("on", "accuracy", "disparity", "worst group")
    return Section("What fairness costs", COST_ABOUT, Grid(header, tuple(rows)))


def _difference(found: PairedComparison, metric: str) -> str:
    text = METRICS[metric].difference_text
    if found.difference is None:
        return "–"
    if found.low is None or found.high is None:
        return text(found.difference)
    return f"{text(found.difference)} ({text(found.low)} … {text(found.high)})"


def _answer(front: Sequence[Standing], answer: str) -> str:
    run = [
        one for one in front if (one.entry.runs or one.entry.diverged) and ranks(one.column.target)
    ]
    if not run:
        return answer
    some = ", ".join(one.column.title for one in run if one.behind) or "none"
    return f"`auto` is behind a plain method on {some} of the {len(run)} that were run. {answer}"


BRIEFLY = (
    Target("fashion-mnist", "eer"),
    Target("biased-mnist", "eo"),
    Target("census-occupation", "eo"),
)
# Main methods of the picture, the others are left to the table.
SHOWN = (REPLAY, DARK, GDUMB, FSW, DRAWS, *RIDGE, MOMENTS, MANY_PATCHES)
OURS = (MOMENTS, MANY_PATCHES)


def _draw(path: Path, entries: Entries) -> None:
    shown = {c: some for c, some in entries.items() if any(one.runs for one in some)}
    draws = [partial(_draw_column, column=c, entries=some) for c, some in shown.items()]
    figure = draw_panels("Accuracy against disparity (better: up and left)", draws)
    write_png(figure, path)


def _draw_column(axes: Axes, column: Column, entries: Sequence[Entry]) -> None:
    for number, contender in enumerate(SHOWN):
        entry = _named(entries, contender.name)
        if entry is None or not entry.runs or entry.diverged:
            continue
        style, ours = style_of(number), contender in OURS
        across, up = (
            interval([*METRICS[name].by_seed(entry.runs).values()])
            for name in (column.metrics[1], column.metrics[0])
        )
        axes.errorbar(
            across.mean,
            up.mean,
            xerr=None if across.low is None else across.mean - across.low,
            yerr=None if up.low is None else up.mean - up.low,
            label=contender.name,
            color=EMPHASIS if ours else REFERENCE if contender in RIDGE else style.colour,
            marker="*" if contender is MOMENTS else "P" if ours else style.marker,
            markersize=13 if ours else 6.5,
            lw=0.9,
        )
    axes.set_title(column.title, fontsize=10)
    axes.set_xlabel(column.metrics[1], fontsize=9)
    axes.set_ylabel("accuracy", fontsize=9)
    axes.set_xlim(left=0)
    finish_axes(axes)


MOMENTS_TABLE = MomentsTable(
    "Learning from moments, compared with replay and ridge regression",
    "moments",
    MOMENT_ROWS,
    tuple(map(moment_column, MOMENT_TARGETS)),
    (
        *(
            Pair(MOMENTS.name, other.name)
            for other in (
                *(REPLAY, DARK, GDUMB, *RIVALS, DRAWS),
                *(*BY_MEANS, *RIDGE, *FIXED_WEIGHTS, ON_TRAINING),
            )
        ),
        Pair(MANY_PATCHES.name, PATCHES_EQUAL.name),
        *(Pair(MANY_PATCHES.name, one.name) for one in IN_CONV),
        Pair(DRAWS.name, DARK_BY_GROUP.name),
    ),
    "[Fair learning from moments](../moments.md) explains the method. Rows named `equal` differ "
    "from it in one thing: the weights of the groups are fixed, equal for all groups of a class, "
    "for all classes, or for all samples. In rows named `ridge`, also, the largest ridge score "
    "wins, with equal samples as in RanPAC and ACIL, or equal classes as in AIR. `nearest class "
    "mean` and `LDA` use the same sums, with equal classes. `BGS` and `LwS` are replay "
    "against spurious correlations, not in the paper: the first trains the last layer again on a "
    "buffer balanced over classes and attribute values, the second finds clusters and does without "
    "the attribute. Features are random ReLU features of the raw inputs, so that all methods have "
    "the same information: as many as the first task has rows, from 200 to 2,000, or 4,000. "
    "Patches use the fact that the inputs are images, which an MLP does not; replay with a "
    "convolutional net is shown next to them, with the settings that were chosen for the MLP. "
    "`head of moments`: replay whose net is "
    "followed by a ridge head, fitted on the buffer. `trained features`: the last activations of "
    "a net that was trained on the first task, in addition to random ones. Settings of replay are "
    "searched on held-out training rows; methods based on moments have nothing to search: the "
    "penalty is chosen from the moments themselves, and lam is 1 unless it is named. "
    + " ".join(NOTES.values()),
    "tuned",
)
