"""Trials and chosen settings as files: ``tuning.json``, ``tuning.md`` and ``pareto.png``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from faircil.data.splits import SHARE
from faircil.errors import StorageError
from faircil.files import as_json, make_private, write_private
from faircil.metrics import METRICS
from faircil.report import format_value, heading, in_markdown
from faircil.report.plots import COLOURS, save
from faircil.results.record import over_seeds, version
from faircil.sweep.command import data_words, favoured_words, run_line
from faircil.tuning.request import (
    ACCURACY,
    NotTuned,
    Objective,
    Overrides,
    Trial,
    Tuned,
    TuneRequest,
)
from faircil.tuning.space import problem_of, size

Point = tuple[float, float]  # accuracy and the metric of the objective


def front(points: Sequence[Point], sign: int = -1) -> list[int]:
    """Return the indices of points that no other dominates, from the fairest to the most accurate.

    A point dominates another if it is no worse in both values and better in one. Of equal points,
    the first represents all. If ``sign`` is 1, larger second values are better.
    """
    found: list[int] = []
    # Fairest first, ties by accuracy: a point is dominated unless it is more accurate than all
    # points before it.
    order = [(-sign * value, -accuracy, i) for i, (accuracy, value) in enumerate(points)]
    for *_, position in sorted(order):
        if not found or points[position][0] > points[found[-1]][0]:
            found.append(position)
    return found


def draw_front(
    points: Sequence[Point], chosen: int | None, *, objective: Objective, title: str
) -> Figure:
    """Draw accuracy against disparity for all trials, numbered by rank.

    Parameters
    ----------
    points : sequence of (accuracy, disparity)
        Best first.
    chosen : int or None
        Index of the chosen point.
    objective : Objective
        Gives the metric, and its bound if there is one.
    title : str
    """
    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    axes = figure.subplots()
    # Wrapped: titles can be as long as the figure is wide.
    figure.suptitle(title, fontsize=11, wrap=True)
    best = front(points, objective.sign)
    rest = [position for position in range(len(points)) if position not in best]
    blue, orange, green = COLOURS[:3]
    _scatter(axes, [points[i] for i in rest], "beaten by another", c="#999999", s=36)
    line = [points[i] for i in best]
    # Steps, since nothing is known between two points.
    x, y = [gap for _, gap in line], [accuracy for accuracy, _ in line]
    axes.plot(x, y, color=blue, lw=1.6, drawstyle="steps-post", zorder=2)
    _scatter(axes, line, "nothing is fairer and more accurate (number: rank)", c=blue, s=46)
    if chosen is not None:
        _scatter(axes, [points[chosen]], "chosen", c=orange, s=230, marker="*")
    if objective.bound is not None:
        label = f"allowed: {objective.requirement}"
        axes.axvline(objective.bound, color=green, ls="--", lw=1.4, label=label)
    for position in {*best, *([] if chosen is None else [chosen])}:
        accuracy, gap = points[position]
        axes.annotate(
            str(position + 1), (gap, accuracy), (7, -12), textcoords="offset points", fontsize=9
        )
    axes.set_xlabel(METRICS[objective.metric].axis_title)
    axes.set_ylabel(METRICS["accuracy"].axis_title)
    axes.margins(0.08)
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]) if min(d for _, d in points) < 0 else 0.0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _scatter(axes: Axes, points: Sequence[Point], label: str, **style: Any) -> None:
    if points:
        axes.scatter([d for _, d in points], [a for a, _ in points], label=label, zorder=3, **style)


SEEDS = range(5)  # on which the chosen settings are run
PARTS = {
    "validation": f"{SHARE:.0%} of each group's training data, held out of training (seen tasks "
    "only); the test data was not used",
    "test": "the test data, so these figures are too optimistic: do not report them",
}


def run_command(request: TuneRequest, overrides: Overrides) -> str:
    """Return the command line that runs these settings on test data."""
    settings = [*request.fixed, *overrides]
    names = (request.method, request.weighting, request.measure)
    options = favoured_words(request.favoured)
    source = data_words(request.dataset, request.own)
    return run_line(source, *names, settings, SEEDS, options=options)


def target_outcome(tuned: Tuned) -> dict[str, Any]:
    """Return the settings chosen for a target, and how they were evaluated."""
    objective, seeds = problem_of(tuned.request).objective, list(tuned.request.seeds)
    accuracy, value = objective.values(tuned.best.runs) or (None, None)
    return {
        "target": objective.requirement,
        "reached": not tuned.note,
        "chosen": list(tuned.best.overrides),
        objective.metric: value,
        ACCURACY: accuracy,
        "judged_on": PARTS[tuned.request.select_on],
        "seeds": seeds,
    }


def target_line(tuned: Tuned) -> str:
    """Describe the settings chosen for a target, and how they were evaluated."""
    objective = problem_of(tuned.request).objective
    accuracy, value = objective.values(tuned.best.runs) or (None, None)
    return (
        f"target {objective.requirement}: chose {' '.join(tuned.best.overrides)}, with "
        f"{objective.metric} {format_value(value)} at accuracy {format_value(accuracy)} (mean over "
        f"groups), judged on {PARTS[tuned.request.select_on]}"
    )


def best_trial(tuned: Tuned | NotTuned) -> Trial | None:
    """Return the chosen trial, if one was chosen."""
    return tuned.best if isinstance(tuned, Tuned) else None


def ranked(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials, best first and failed ones last."""
    return sorted(trials, key=lambda t: (t.score is None, -(t.score or 0.0)))


def ranking(tuned: Tuned | NotTuned) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return header and rows of the table of trials."""
    objective = problem_of(tuned.request).objective
    shown = dict.fromkeys((ACCURACY, "final_accuracy", "worst_group", objective.metric))
    rows = []
    for place, trial in enumerate(ranked(tuned.trials), start=1):
        means = over_seeds(trial.runs)[0] if trial.score is not None else {}
        values = [trial.score, *(means.get(name) for name in shown)]
        settings = " ".join(trial.overrides)
        rows.append((str(place), settings, *map(format_value, values), _remark(trial, tuned)))
    return ("rank", "settings", "score", *map(heading, shown), "remark"), rows


def _remark(trial: Trial, tuned: Tuned | NotTuned) -> str:
    objective = problem_of(tuned.request).objective
    missed = trial.score is not None and not objective.is_met(trial.score)
    off = f"{objective.metric} {objective.missed_by(trial.score or 0.0)}" if missed else ""
    if trial is best_trial(tuned):
        return f"chosen, {off}" if missed else "chosen"
    return off or " ".join((trial.problem or "").split())


def title(tuned: Tuned | NotTuned) -> str:
    """Return a title with the method and data of the request."""
    request = tuned.request
    fixed = f" ({' '.join(request.fixed)})" if request.fixed else ""
    part = ", chosen on test data" if request.select_on == "test" else ""
    return f"{request.config(()).label}{fixed} on {request.data}, measure {request.measure}{part}"


def extent(tuned: Tuned | NotTuned) -> str:
    """Describe how many of how many configurations were tried, and how."""
    request = tuned.request
    seeds = ", ".join(map(str, request.seeds))
    return (
        f"{len(tuned.trials)} of {size(problem_of(request).space):,} configurations tried, "
        f"strategy {request.strategy}, budget {request.budget}, seed {seeds}"
    )


def as_page(tuned: Tuned | NotTuned) -> str:
    """Write the page."""
    request, problem, best = tuned.request, problem_of(tuned.request), best_trial(tuned)
    header, rows = ranking(tuned)
    lines = [f"# Settings of {in_markdown(title(tuned))}", ""]
    if best is None:
        lines += [f"Nothing was chosen. {tuned.problem}" if isinstance(tuned, NotTuned) else ""]
    else:
        lines += [f"Chosen: `{' '.join(best.overrides)}`. To continue:", ""]
        lines += ["```", run_command(request, best.overrides), "```"]
        lines += ["", f"Note: {tuned.note}."] if isinstance(tuned, Tuned) and tuned.note else []
    lines += [
        "",
        f"- {extent(tuned)}.",
        f"- Score: {problem.objective.text}; accuracy is averaged over groups.",
        f"- Judged on {PARTS[request.select_on]}.",
        *(f"- `{axis.name}`: {', '.join(axis.values)}" for axis in problem.space),
        "",
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(in_markdown(cell) for cell in row) + " |" for row in rows),
        "",
    ]
    if any(trial.score is not None for trial in tuned.trials):
        lines += ["![Accuracy against disparity of all trials](pareto.png)", ""]
    return "\n".join(lines)


def folder_name(request: TuneRequest) -> str:
    """Return a name that is equal only for equal requests."""
    content = json.dumps(asdict(request), sort_keys=True)
    short = hashlib.sha256(content.encode()).hexdigest()[:10]
    return f"{request.config(()).label}-{request.measure}-{short}"


def as_document(tuned: Tuned | NotTuned) -> dict[str, Any]:
    """Return the content of ``tuning.json``, with trials in the order of execution."""
    request, best = tuned.request, best_trial(tuned)
    problem = problem_of(request)
    return {
        "faircil": version(),
        "request": asdict(request) | {"objective": problem.objective.text},
        "space": {axis.name: list(axis.values) for axis in problem.space},
        "configurations": size(problem.space),
        "judged_on": PARTS[request.select_on],
        "trials": [_trial(trial) for trial in tuned.trials],
        "best": None if best is None else _trial(best),
        "problem": tuned.problem if isinstance(tuned, NotTuned) else None,
        "note": tuned.note if isinstance(tuned, Tuned) else "",
        "command": None if best is None else run_command(request, best.overrides),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "overrides": list(trial.overrides),
        "score": trial.score,
        "metrics": over_seeds(trial.runs)[0] if trial.runs else None,
        "runs": [run.dir for run in trial.runs],
        "problem": trial.problem,
    }


def write_tuning(tuned: Tuned | NotTuned, folder: Path) -> None:
    """Write the files, replacing those of an earlier call."""
    objective = problem_of(tuned.request).objective
    document = as_json(as_document(tuned), indent=2)
    try:
        make_private(folder)
        write_private(folder / "tuning.json", document + "\n")
        write_private(folder / "tuning.md", as_page(tuned))
    except OSError as error:
        raise StorageError(
            f"cannot write to {folder}: {error.strerror or error}; free space, or choose another "
            "folder with `folder`"
        ) from None
    scored = [trial for trial in ranked(tuned.trials) if trial.score is not None]
    values = [objective.values(trial.runs) for trial in scored]
    if values:
        figure = draw_front(
            [value for value in values if value is not None],
            0 if isinstance(tuned, Tuned) else None,
            objective=objective,
            title=title(tuned),
        )
        save(figure, folder / "pareto")
