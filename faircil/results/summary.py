"""A run in a few numbers, and the mean and deviation over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from faircil.results.record import METRIC_NAMES, RunResult

Values = Mapping[str, float | None]


@dataclass(frozen=True)
class RunSummary:
    """A finished run as ``summary.json`` holds it.

    ``metrics`` are means over tasks, ``per_task`` the same metrics after each task, ``steps`` the
    updates of the net, ``seconds`` the split of the wall time, ``code`` the hash of the code that
    made it.
    """

    label: str
    code: str
    config: Mapping[str, Any]
    seed: int
    metrics: Values
    steps: int
    seconds: Mapping[str, float]
    per_task: Sequence[Values]
    notes: Sequence[str]
    dir: str

    def as_json(self) -> dict[str, Any]:
        """Return the run as ``faircil run --json`` prints it."""
        return {
            "seed": self.seed,
            **self.metrics,
            "steps": self.steps,
            "seconds": self.seconds,
            "per_task": list(self.per_task),
            "dir": self.dir,
        }


def summarise_run(result: RunResult, folder: Path, code: str) -> RunSummary:
    """Reduce a run, made by ``code`` and kept in ``folder``, to its numbers."""
    return RunSummary(
        label=result.label,
        code=code,
        config=result.config,
        seed=result.seed,
        metrics=result.averages(),
        steps=sum(epoch.steps for epoch in result.epochs),
        seconds=asdict(result.seconds),
        per_task=[result.after_task(position) for position in range(len(result.per_task))],
        notes=list(result.notes),
        dir=str(folder),
    )


def over_seeds(runs: Sequence[RunSummary]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return mean and standard deviation (n − 1) over runs of all metrics, steps and seconds.

    A value is None where a run lacks it; a deviation also where there is only one run.
    """
    means: dict[str, Any] = {}
    deviations: dict[str, Any] = {}
    for name in METRIC_NAMES:
        means[name], deviations[name] = spread([run.metrics[name] for run in runs])
    means["steps"], deviations["steps"] = spread([run.steps for run in runs])
    keys = runs[0].seconds.keys()
    pairs = {key: spread([run.seconds[key] for run in runs]) for key in keys}
    means["seconds"] = {key: pair[0] for key, pair in pairs.items()}
    deviations["seconds"] = {key: pair[1] for key, pair in pairs.items()}
    return means, deviations


def spread(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Return mean and standard deviation; None where they cannot be told."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None, None
    return mean(known), stdev(known) if len(known) > 1 else None


def as_document(runs: Sequence[RunSummary]) -> dict[str, Any]:
    """Return the JSON document of ``faircil run --json``."""
    means, deviations = over_seeds(runs)
    return {"runs": [run.as_json() for run in runs], "mean": means, "std": deviations}
