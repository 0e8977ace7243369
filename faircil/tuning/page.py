"""What was tried and chosen, for people."""

from __future__ import annotations

from collections.abc import Sequence

from faircil.data.validation import SHARE
from faircil.report import format_value
from faircil.results.summary import over_seeds
from faircil.sweep.command import data_words, run_line
from faircil.tuning.problem import problem_of
from faircil.tuning.request import NotTuned, Overrides, Trial, Tuned, TuneRequest
from faircil.tuning.space import size

SEEDS = range(5)  # that the chosen settings are run on
PARTS = {
    "validation": f"{SHARE:.0%} of each group's training data, held out of training (seen tasks "
    "only); the test data was not looked at",
    "test": "the test data, so these figures are too good: do not report them",
}


def run_command(request: TuneRequest, overrides: Overrides) -> str:
    """Return what to type to run these settings on test data."""
    settings = [*request.fixed, *overrides]
    names = (request.method, request.weighting, request.measure)
    return run_line(data_words(request.dataset, request.own), *names, settings, SEEDS)


def best_trial(tuned: Tuned | NotTuned) -> Trial | None:
    """Return the chosen trial, if one was chosen."""
    return tuned.best if isinstance(tuned, Tuned) else None


def ranked(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials, the best first, those that failed last."""
    return sorted(trials, key=lambda t: (t.score is None, -(t.score or 0.0)))


def ranking(tuned: Tuned | NotTuned) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return header and rows of the table of trials."""
    objective = problem_of(tuned.request).objective
    rows = []
    for place, trial in enumerate(ranked(tuned.trials), start=1):
        means = over_seeds(trial.runs)[0] if trial.score is not None else {}
        values = [trial.score, means.get("accuracy"), means.get(objective.disparity)]
        settings = " ".join(trial.overrides)
        rows.append((str(place), settings, *map(format_value, values), _remark(trial, tuned)))
    return ("rank", "settings", "score", "accuracy", objective.disparity, "remark"), rows


def _remark(trial: Trial, tuned: Tuned | NotTuned) -> str:
    objective = problem_of(tuned.request).objective
    if trial is best_trial(tuned):
        return "chosen"
    if trial.score is not None and not objective.is_met(trial.score):
        return f"{objective.disparity} {format_value(-trial.score)} too much"
    return " ".join((trial.problem or "").split())


def title(tuned: Tuned | NotTuned) -> str:
    """Say what was chosen for what."""
    request = tuned.request
    fixed = f" ({' '.join(request.fixed)})" if request.fixed else ""
    part = ", chosen on test data" if request.select_on == "test" else ""
    return f"{request.config(()).label}{fixed} on {request.data}, measure {request.measure}{part}"


def extent(tuned: Tuned | NotTuned) -> str:
    """Say how many of how many configurations were tried, and how."""
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
    lines = [f"# Settings of {title(tuned)}", ""]
    if best is None:
        lines += [f"Nothing was chosen. {tuned.problem}" if isinstance(tuned, NotTuned) else ""]
    else:
        lines += [f"Chosen: `{' '.join(best.overrides)}`. To go on:", ""]
        lines += ["```", run_command(request, best.overrides), "```"]
    lines += [
        "",
        f"- {extent(tuned)}.",
        f"- Score: {problem.objective.text}.",
        f"- Judged on {PARTS[request.select_on]}.",
        *(f"- `{axis.name}`: {', '.join(axis.values)}" for axis in problem.space),
        "",
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows),
        "",
    ]
    if any(trial.score is not None for trial in tuned.trials):
        lines += ["![Accuracy against disparity of all trials](pareto.png)", ""]
    return "\n".join(lines)
