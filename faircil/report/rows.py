"""Runs that differ only in their seed are a row, under a name that tells it from the others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from faircil.results.summary import RunSummary

CONTENT = "encoder content"
ENCODER = ("encoder", "finetune", CONTENT)


@dataclass(frozen=True)
class Row:
    """A configuration with its runs."""

    name: str
    runs: tuple[RunSummary, ...]


def group_runs(runs: Iterable[RunSummary]) -> list[Row]:
    """Put runs that differ only in their seed together; a copy of a run does not count twice.

    Where a method occurs with several settings, the name says which settings differ.
    """
    by_config: dict[str, dict[int, RunSummary]] = {}
    for run in runs:
        key = json.dumps([run.config, run.code], sort_keys=True)
        by_config.setdefault(key, {}).setdefault(run.seed, run)
    groups = [tuple(by_seed[seed] for seed in sorted(by_seed)) for by_seed in by_config.values()]
    return [Row(_name(group[0], [g[0] for g in groups]), group) for group in groups]


def _name(run: RunSummary, others: Sequence[RunSummary]) -> str:
    """Name a configuration so that it differs from all others on the same dataset.

    Between methods, only what they see of the data is named: an encoder of texts.
    """
    rivals = [
        (other.label, _options(other))
        for other in others
        if other.config["dataset"] == run.config["dataset"]
    ]
    differing = {
        key: value
        for key, value in _options(run).items()
        if any(
            options.get(key) != value
            for label, options in rivals
            if label == run.label or key in ENCODER
        )
    }
    if "encoder" in differing:
        differing.pop(CONTENT, None)
    return " ".join([run.label, *(_written(key, value) for key, value in differing.items())])


def _options(run: RunSummary) -> dict[str, Any]:
    """All that can differ between two configurations of one method, in reading order."""
    own = run.config.get("own") or {}
    digest = run.config.get("data_sha256")
    content = {"content": digest[:8]} if digest else {}
    if encoder := run.config.get("encoder_sha256"):
        content[CONTENT] = encoder[:8]
    settings = run.config["settings"]
    after = {name: run.config.get(name) for name in ("epsilon", "held_out", "evaluate_on")}
    measure = run.config["measure"]
    return {"measure": measure, **settings, **after, **own, **content, "code": run.code}


def _written(key: str, value: Any) -> str:
    """Write an option as people write it on the command line; a measure speaks for itself."""
    if key == "measure":
        return str(value)
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"{key}={text.lower() if isinstance(value, bool) else text}"
