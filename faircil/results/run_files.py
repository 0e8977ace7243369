"""The contents of a finished run's files: written from the result of a run, and read back.

These are rows of metrics, epochs, predictions, and probabilities if post-processing can use them;
:mod:`faircil.results.folder` handles the folder.
"""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from faircil.errors import DataError
from faircil.files import check_file, damaged, open_private, read_checksums, read_json, read_rows
from faircil.metrics import arguments_of, predictions_by_task
from faircil.postprocess.pool import Integers
from faircil.postprocess.tasks import TaskProbabilities
from faircil.results.record import EpochRecord, Names, RunResult, RunSummary

PREDICTION_COLUMNS = ("after_task", "task", "y_true", "y_pred", "probability", "attribute")
DIGITS = 6  # of a probability in a file
PROBABILITIES = "probabilities.npz"
LABELS = ("y_true", "sensitive", "task")
PARTS = tuple(field.name for field in fields(TaskProbabilities))
# Errors of an archive: RuntimeError if it is encrypted, or needs features missing in this Python.
ARCHIVE = (zipfile.BadZipFile, zlib.error, RuntimeError)
DAMAGE = (ValueError, KeyError, OSError, EOFError, *ARCHIVE)


def tidy_rows(result: RunResult) -> Iterator[dict[str, Any]]:
    """Yield one row per metric value, with task and, if any, test task, class and attribute."""
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
    """Yield a header and one row per test sample and evaluation; tasks count from 1."""
    names = result.names
    width = len(PREDICTION_COLUMNS) - (names.attribute is None)
    yield PREDICTION_COLUMNS[:width]
    for after, part in enumerate(result.predictions, start=1):
        columns: list[list[Any]] = [
            [after] * len(part.y_true),
            (part.task + 1).tolist(),
            [names.classes[label] for label in part.y_true],
            [names.classes[label] for label in part.y_pred],
            [round(value, DIGITS) for value in part.probability.tolist()],
        ]
        if part.sensitive is not None:
            values = (*names.attribute_values, "")  # the last, at −1, for an unknown value
            columns.append([values[max(value, -1)] for value in part.sensitive])
        yield from zip(*columns, strict=True)


def write_predictions(folder: Path, result: RunResult) -> None:
    """Write the predictions of a run, and its probabilities if it has any."""
    with open_private(folder / "predictions.csv", "w", newline="") as file:
        csv.writer(file).writerows(prediction_rows(result))
    if result.probabilities:
        _write_probabilities(folder, result)


@dataclass(frozen=True)
class FinalPredictions:
    """Predictions for the n test samples after the last task, classes and values by name.

    ``sensitive`` is None without an attribute; None in the list is an unknown value.
    """

    y_true: list[str]
    y_pred: list[str]
    probability: list[float]
    sensitive: list[str | None] | None


def read_final_predictions(folder: Path) -> FinalPredictions:
    """Read the predictions of the run in ``folder`` after its last task."""
    path = folder / "predictions.csv"
    check_file(path)
    try:
        rows = predictions_by_task(path)[-1]
        found = arguments_of(rows)
        certain = [float(row["probability"]) for row in rows]
    except (DataError, ValueError, LookupError):
        raise damaged(path) from None
    return FinalPredictions(found["y_true"], found["y_pred"], certain, found.get("sensitive"))


def _write_probabilities(folder: Path, result: RunResult) -> None:
    """Write the probabilities of a run as arrays ``1/test``, ``1/pool``, …."""
    arrays: dict[str, NDArray[Any]] = {}
    pairs = zip(result.probabilities, result.predictions, strict=True)
    for number, (probabilities, predictions) in enumerate(pairs, start=1):
        arrays |= {f"{number}/{name}": getattr(probabilities, name) for name in PARTS}
        arrays |= {f"{number}/{name}": getattr(predictions, name) for name in LABELS}
    with open_private(folder / PROBABILITIES, "wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


@dataclass(frozen=True)
class SavedTask:
    """Probabilities after a task, with class, attribute and task (from 0) of the test samples."""

    probabilities: TaskProbabilities
    y_true: Integers
    sensitive: Integers
    task: Integers


def read_probabilities(run: RunSummary) -> list[SavedTask]:
    """Read the probabilities of a finished run."""
    folder = Path(run.dir)
    path = folder / PROBABILITIES
    if PROBABILITIES not in read_checksums(folder):
        raise DataError(f"{run.dir} cannot be post-processed: {_why_none(run)}")
    check_file(path)
    try:
        # Opened here, since numpy leaves a damaged archive open.
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return [
                SavedTask(
                    TaskProbabilities(**{name: file[f"{number}/{name}"] for name in PARTS}),
                    **{name: file[f"{number}/{name}"] for name in LABELS},
                )
                for number in range(1, len(run.per_task) + 1)
            ]
    except DAMAGE as error:
        raise DataError(f"{path} is damaged ({error}); run it again") from None


def _why_none(run: RunSummary) -> str:
    """Return why a run has no probabilities."""
    if all(task.get("dp") is None for task in run.per_task):
        return "its data has no sensitive attribute with two values to compare"
    if run.config.get("evaluate_on") == "validation":
        return "it was evaluated on validation data, and such a run keeps no probabilities"
    return (
        f"method '{run.config['method']}' keeps no buffer to fit on; use a method that replays, or "
        "hold samples out of training with `held_out=32`"
    )


_EPOCH = TypeAdapter(EpochRecord)


def read_epochs(folder: Path) -> list[EpochRecord]:
    """Read all epochs of the run in ``folder``, in order."""
    path = folder / "epochs.jsonl"
    try:
        return [_EPOCH.validate_python(row) for row in read_rows(path)]
    except ValidationError:
        raise damaged(path) from None


_NAMES = TypeAdapter(Names)


def read_names(folder: Path) -> Names:
    """Read the names of classes and attribute values of the run in ``folder``, by number.

    Runs of earlier versions do not store them. They are then taken from the metrics after the last
    task. Within each class, groups are sorted by the number of the value, so the values are put in
    an order that agrees with all classes.
    """
    path = folder / "metrics.jsonl"
    try:
        names = read_json(folder / "summary.json").get("names")
        if names is not None:
            return _NAMES.validate_python(names)
        rows = list(read_rows(path))
        rows = [row for row in rows if row["task"] == rows[-1]["task"]]
        classes = [row["class"] for row in rows if row["metric"] == "class_accuracy"]
        order: TopologicalSorter[str] = TopologicalSorter()
        last: dict[str, str] = {}
        for row in (row for row in rows if row["metric"] == "group_accuracy"):
            label, value = row["class"], row["attribute"]
            order.add(value, *([last[label]] if label in last else []))
            last[label] = value
        values = tuple(order.static_order())
    except (LookupError, TypeError, CycleError):
        raise damaged(path) from None
    except (ValidationError, AttributeError):
        raise damaged(folder / "summary.json") from None
    return Names(tuple(classes), attribute_values=values)
