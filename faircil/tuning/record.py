"""What was tried and chosen, as files: ``tuning.json``, ``tuning.md`` and ``pareto.png``."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from faircil.errors import StorageError
from faircil.plots import save
from faircil.results.environment import version
from faircil.results.summary import over_seeds
from faircil.tuning.page import PARTS, as_page, best_trial, ranked, run_command, title
from faircil.tuning.pareto import draw_front
from faircil.tuning.problem import problem_of
from faircil.tuning.request import NotTuned, Trial, Tuned, TuneRequest
from faircil.tuning.space import size


def folder_name(request: TuneRequest) -> str:
    """Return a name that two requests share only if they are the same."""
    content = json.dumps(asdict(request), sort_keys=True)
    short = hashlib.sha256(content.encode()).hexdigest()[:10]
    return f"{request.config(()).label}-{request.measure}-{short}"


def as_document(tuned: Tuned | NotTuned) -> dict[str, Any]:
    """Return all of it as ``tuning.json`` holds it, the trials in the order they were made."""
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
    """Write the files; what an earlier call has written is replaced."""
    objective = problem_of(tuned.request).objective
    document = json.dumps(as_document(tuned), indent=2, ensure_ascii=False, allow_nan=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tuning.json").write_text(document + "\n", encoding="utf-8")
        (folder / "tuning.md").write_text(as_page(tuned), encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"cannot write to {folder}: {error.strerror or error}; free space, or choose another "
            "folder with --out"
        ) from None
    scored = [trial for trial in ranked(tuned.trials) if trial.score is not None]
    values = [objective.values(trial.runs) for trial in scored]
    if values:
        figure = draw_front(
            [value for value in values if value is not None],
            0 if isinstance(tuned, Tuned) else None,
            disparity=objective.disparity,
            bound=objective.bound,
            title=title(tuned),
        )
        save(figure, folder / "pareto")
