"""Fabricated run folders with malicious or odd names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from faircil.auditing import audit
from faircil.auditing.audit_files import KEPT, audit_document
from faircil.metrics import TaskMetrics, evaluate
from faircil.moments import GroupChange, PassRecord, Price
from faircil.results.folder import read_run, write_run
from faircil.results.record import EpochRecord, Names, Predictions, RunSummary
from run_results import make_result

SCRIPT = "<script>document.title = 'harm'</script>"
CLASSES = (SCRIPT, "w" * 300, "\u202eشغل עבודה", "", "$^$", '"><img src=x onerror=alert(1)>')
VALUES = ("&lt;b&gt;", "\x07 ü\t' onmouseover='alert(1)")
METHODS = (("er", "none"), ("er", "fsw"), ("moments", "none"))


def write_hostile(
    folder: Path, seeds: int = 3, tasks: int = 3, methods: int = 3, samples: int = 12
) -> list[RunSummary]:
    """Write runs of replay, FSW and moments with such names, ``samples`` in each group."""
    return [
        _write(folder / f"m{number}", number, seed, tasks, samples)
        for number in range(methods)
        for seed in range(seeds)
    ]


def _write(folder: Path, number: int, seed: int, tasks: int, samples: int) -> RunSummary:
    method, weighting = METHODS[number % len(METHODS)]
    classes = [f"{CLASSES[place % 6]}{place // 6 or ''}" for place in range(2 * tasks)]
    draw = np.random.default_rng([number, seed])
    parts: list[Predictions] = []
    per_task: list[TaskMetrics] = []
    for seen in range(1, tasks + 1):
        y = np.repeat(np.arange(2 * seen), 2 * samples)
        z = np.tile([0, 1], len(y) // 2)
        right = draw.random(len(y)) < 0.9 - 0.1 * (number % 3) - 0.2 * z * (number == 0)
        guess = np.where(right, y, draw.integers(0, 2 * seen, len(y)))
        sure = np.full(len(y), 0.5, dtype=np.float32)
        parts.append(Predictions(y, guess, sure, z, y // 2))
        before = per_task[-1] if per_task else None
        per_task.append(evaluate(y, guess, task=y // 2, sensitive=z, before=before))
    label = method if weighting == "none" else weighting
    result = replace(
        make_result(
            seed,
            method=method,
            weighting=weighting,
            dataset=SCRIPT,
            settings={"lr": number, "note": SCRIPT},
        ),
        label=label,
        names=Names(tuple(classes), "sex", VALUES),
        per_task=tuple(per_task),
        predictions=tuple(parts),
        notes=(f"a note about {SCRIPT}",),
    )
    if method == "moments":
        result = replace(result, epochs=tuple(_passed(task) for task in range(1, tasks + 1)))
    target = folder / f"seed-{seed}"
    write_run(target, result, {"command": f"faircil run {SCRIPT}", "gpu": None})
    return read_run(target)


def _passed(task: int) -> EpochRecord:
    groups = tuple(
        GroupChange(label, (value,), 40, 0.5 + value, 0.3, 0.2, 0.01)
        for label in range(2 * task)
        for value in (0, 1)
    )
    price = Price(False, 0.3, 0.1, 0.1, 0.25, 0.35, 0.05)
    passed = PassRecord(0.4, 0.0, 3, 1.0, 1.0, groups, bound=0.01, price=price)
    return EpochRecord(task, 1, 80, 80, 1, 0.1, weights=None, passed=passed)


def write_hostile_audit(folder: Path) -> Path:
    """Write an audit of such names, with a gate and an earlier audit; return its folder."""
    draw = np.random.default_rng(0)
    true = draw.integers(0, len(CLASSES), 900)
    values, other = draw.integers(0, 2, 900), draw.integers(0, 3, 900)
    people = {SCRIPT: [VALUES[place] for place in values], "w" * 200: [CLASSES[z] for z in other]}
    made = []
    for worse in (0.5, 0.1):  # the better group falls
        right = draw.random(900) < np.where(values == 0, 0.4, 0.4 + worse)
        guess = np.where(right, true, draw.integers(0, len(CLASSES), 900))
        labels = [[CLASSES[place] for place in column] for column in (true, guess)]
        made.append(audit(*labels, sensitive_features=people, draws=200))
    before, after = made
    gate = after.gate(["eo_gap>0.05", "worst_group<0.1"])
    earlier = (SCRIPT, before.report(), after.levelled_down(before))
    document = audit_document(f"{SCRIPT}.csv", f"faircil {SCRIPT}", after.report(), gate, earlier)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / KEPT).write_text(json.dumps(document), encoding="utf-8")
    return folder
