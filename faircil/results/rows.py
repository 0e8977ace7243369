"""A run as rows: tidy values of all metrics, and predictions from which they can be recomputed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from faircil.results.record import RunResult

PREDICTION_COLUMNS = ("after_task", "task", "y_true", "y_pred", "attribute")


def tidy_rows(result: RunResult) -> Iterator[dict[str, Any]]:
    """Yield one row per value: after which task, metric, test task, class, attribute value, n."""
    names = result.names
    for position, metrics in enumerate(result.per_task):
        row: dict[str, Any] = {"seed": result.seed, "task": position + 1}
        for name, value in result.after_task(position).items():
            yield row | {"metric": name, "value": value}
        for test_task, value in enumerate(metrics.per_test_task, start=1):
            yield row | {"metric": "task_accuracy", "test_task": test_task, "value": value}
        for item in metrics.classes:
            yield row | {
                "metric": "class_accuracy",
                "class": names.classes[item.label],
                "n": item.n,
                "value": item.accuracy,
            }
        for group in metrics.groups:
            yield row | {
                "metric": "group_accuracy",
                "class": names.classes[group.label],
                "attribute": names.attribute_values[group.attribute],
                "n": group.n,
                "value": group.accuracy,
            }


def prediction_rows(result: RunResult) -> Iterator[tuple[Any, ...]]:
    """Yield a header and one row per test sample and evaluation, with names, tasks from 1."""
    names = result.names
    width = len(PREDICTION_COLUMNS) - (names.attribute is None)
    yield PREDICTION_COLUMNS[:width]
    for after, part in enumerate(result.predictions, start=1):
        columns: list[list[Any]] = [
            [after] * len(part.y_true),
            (part.task + 1).tolist(),
            [names.classes[label] for label in part.y_true],
            [names.classes[label] for label in part.y_pred],
        ]
        if part.sensitive is not None:
            columns.append([names.attribute_values[value] for value in part.sensitive])
        yield from zip(*columns, strict=True)
