from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from faircil.files import write_rows
from faircil.metrics import METRICS
from faircil.results.record import GroupResult, RunSummary


def make_run(label: str, *, seed: int = 0, **values: Any) -> RunSummary:
    """Make a summary of a run of two tasks; values are assigned to fields by name.

    ``groups`` are tuples of class, attribute value, test samples and accuracy.
    """
    values.setdefault("balanced_accuracy", values.get("accuracy", 0.5))
    values = dict.fromkeys(("eopp", "eopp_gap")) | values  # no favoured classes
    metrics = {name: values.pop(name, 0.5) for name in METRICS}
    config = {name: values.pop(name, None) for name in ("own", "data_sha256", "encoder_sha256")} | {
        "method": label
    }
    config |= {"dataset": values.pop("dataset", "made"), "measure": values.pop("measure", "eo")}
    groups = values.pop("groups", None)
    return RunSummary(
        label=label,
        code=values.pop("code", "code"),
        config=config | {"settings": values},
        seed=seed,
        metrics=metrics,
        steps=100,
        seconds={"gradient": 0.1, "lp": 0.1, "train": 0.1, "eval": 0.1, "total": 0.5},
        per_task=[metrics | {"forgetting": None}, metrics],
        notes=[],
        dir="somewhere",
        groups=None if groups is None else [GroupResult(*group) for group in groups],
    )


def in_folder(run: RunSummary, folder: Path, groups: Mapping[tuple[str, str], float]) -> RunSummary:
    """Write a run's accuracies of groups (class, attribute value), with 10 samples each."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"metric": "group_accuracy", "task": 1, "class": c, "attribute": z, "n": 10, "value": value}
        for (c, z), value in groups.items()
    ]
    write_rows(folder / "metrics.jsonl", rows)
    return replace(run, dir=str(folder))
