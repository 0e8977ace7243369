from __future__ import annotations

from typing import Any

import numpy as np

from faircil.metrics import TaskMetrics, evaluate
from faircil.results.record import EpochRecord, Names, Predictions, RunResult, Seconds, WeightRecord

CONFIG: dict[str, Any] = {
    "dataset": "made",
    "own": None,
    "data_sha256": None,
    "method": "er",
    "weighting": "fsw",
    "measure": "eo",
    "evaluate_on": "test",
    "settings": {"epochs": 1, "hidden": [4]},
}
# After the first task all are right; after the second, half of class "a" is predicted as "c".
AFTER = (
    ([0, 0, 1, 1], [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]),
    ([0, 0, 1, 1, 2, 2], [0, 2, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1], [0, 0, 0, 0, 1, 1]),
)


def make_result(seed: int = 0, attribute: bool = True, **config: Any) -> RunResult:
    """Make the result of a run with two tasks: classes a and b, then c."""
    predictions: list[Predictions] = []
    per_task: list[TaskMetrics] = []
    for columns in AFTER:
        y_true, y_pred, sensitive, task = (np.array(c, dtype=np.int64) for c in columns)
        probability = np.linspace(0.9, 0.5, len(y_true), dtype=np.float32)
        p = Predictions(y_true, y_pred, probability, sensitive if attribute else None, task)
        before = per_task[-1] if per_task else None
        predictions.append(p)
        per_task.append(
            evaluate(p.y_true, p.y_pred, task=p.task, sensitive=p.sensitive, before=before)
        )
    weights = WeightRecord(
        kept=2, dropped=1, partial=1, objective=0.5, bound=0.5, gradient=0.1, lp=0.2
    )
    return RunResult(
        config=CONFIG | config,
        label="fsw",
        seed=seed,
        names=Names(("a", "b", "c"), *(("sex", ("F", "M")) if attribute else ())),
        per_task=tuple(per_task),
        predictions=tuple(predictions),
        epochs=(
            EpochRecord(task=1, epoch=1, samples=4, trained=4, steps=2, train=0.3, weights=None),
            EpochRecord(task=2, epoch=1, samples=4, trained=3, steps=2, train=0.3, weights=weights),
        ),
        seconds=Seconds(gradient=0.1, lp=0.2, train=0.6, eval=0.1, total=1.1),
        notes=("a note",),
    )
