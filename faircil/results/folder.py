"""Run folders: a finished run as files that people and programs can open."""

from __future__ import annotations

import csv
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from faircil.errors import DataError, StorageError
from faircil.files import FILE as SUMS
from faircil.files import (
    check_checksums,
    damaged,
    read_json,
    read_rows,
    write_checksums,
    write_json,
    write_rows,
)
from faircil.postprocess.pool import Integers
from faircil.postprocess.tasks import TaskProbabilities
from faircil.results.identity import code_digest, version
from faircil.results.record import (
    METRIC_NAMES,
    EpochRecord,
    Names,
    RunResult,
    RunSummary,
    summarise_run,
)

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


_EPOCH = TypeAdapter(EpochRecord)


def read_epochs(folder: Path) -> list[EpochRecord]:
    """Read all epochs of the run in ``folder``, in order."""
    path = folder / "epochs.jsonl"
    try:
        return [_EPOCH.validate_python(row) for row in read_rows(path)]
    except ValidationError:
        raise damaged(path) from None


def read_names(folder: Path) -> Names:
    """Read what the classes and attribute values of the run in ``folder`` are called.

    After the last task all are there: by class, then by attribute value.
    """
    path = folder / "metrics.jsonl"
    try:
        rows = list(read_rows(path))
        rows = [row for row in rows if row["task"] == rows[-1]["task"]]
        classes = [row["class"] for row in rows if row["metric"] == "class_accuracy"]
        values = [row["attribute"] for row in rows if row["metric"] == "group_accuracy"]
    except (LookupError, TypeError):
        raise damaged(path) from None
    return Names(tuple(classes), attribute_values=tuple(dict.fromkeys(values)))


@dataclass(frozen=True)
class GroupScore:
    """Accuracy after a task on the ``n`` test samples of a class with one attribute value."""

    after_task: int
    label: str
    attribute: str
    n: int
    accuracy: float


def read_groups(folder: Path) -> list[GroupScore]:
    """Read the accuracy of each group after each task of the run in ``folder``.

    Empty where the data has no attribute: then the classes are the groups.
    """
    path = folder / "metrics.jsonl"
    try:
        return [
            GroupScore(row["task"], row["class"], row["attribute"], row["n"], row["value"])
            for row in read_rows(path)
            if row["metric"] == "group_accuracy"
        ]
    except (LookupError, TypeError):
        raise damaged(path) from None


FILE = "probabilities.npz"


@dataclass(frozen=True)
class SavedTask:
    """Probabilities after a task, with truth, attribute and task (from 0) of its test samples."""

    probabilities: TaskProbabilities
    y_true: Integers
    sensitive: Integers
    task: Integers


LABELS = ("y_true", "sensitive", "task")
PARTS = tuple(field.name for field in fields(TaskProbabilities))


def write_probabilities(folder: Path, result: RunResult) -> None:
    """Write the file of a run that has probabilities; arrays ``1/test``, ``1/pool``, …."""
    arrays: dict[str, NDArray[Any]] = {}
    pairs = zip(result.probabilities, result.predictions, strict=True)
    for number, (probabilities, predictions) in enumerate(pairs, start=1):
        arrays |= {f"{number}/{name}": getattr(probabilities, name) for name in PARTS}
        arrays |= {f"{number}/{name}": getattr(predictions, name) for name in LABELS}
    with (folder / FILE).open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_probabilities(run: RunSummary) -> list[SavedTask]:
    """Read the file of a finished run."""
    path = Path(run.dir) / FILE
    if path.is_file() and (path.parent / SUMS).is_file():
        check_checksums(path.parent, [FILE])
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
    except FileNotFoundError:
        raise DataError(f"{run.dir} cannot be post-processed: {_why_none(run)}") from None
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}); run it again with --force") from None


def _why_none(run: RunSummary) -> str:
    """Say why a run has no probabilities."""
    if all(task["dp"] is None for task in run.per_task):
        return "its data has no sensitive attribute with two values to compare"
    if run.code == code_digest():
        return (
            f"method '{run.config['method']}' keeps no buffer to fit on; use one that replays, or "
            "run it with --held-out 32"
        )
    return f"it was made by another version of faircil and has no {FILE}; run it again with --force"


def write_run(folder: Path, result: RunResult, environment: Mapping[str, Any]) -> RunSummary:
    """Write a run as ``folder``; what is there already is replaced once the new one is whole.

    Parameters
    ----------
    folder : Path
    result : RunResult
    environment : mapping
        Where the run was made, see :func:`faircil.results.identity.environment`.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    summary = summarise_run(result, folder, code_digest())
    try:
        _remove(partial)
        partial.mkdir(parents=True)
        write_json(partial / "config.json", identity(result.config, result.seed))
        write_json(partial / "environment.json", environment)
        write_json(partial / "summary.json", asdict(summary))
        write_rows(partial / "metrics.jsonl", tidy_rows(result))
        write_rows(partial / "epochs.jsonl", (asdict(epoch) for epoch in result.epochs))
        if result.config["evaluate_on"] == "test":  # of a trial, nobody needs them
            _write_predictions(partial, result)
        write_checksums(partial)
        _put_in_place(partial, folder)
    except OSError as error:
        raise StorageError(
            f"cannot write the run to {folder}: {error.strerror or error}; free space, or choose "
            "another folder with --out"
        ) from None
    finally:
        _remove(partial)
    return summary


def identity(config: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return what makes two runs the same: configuration, seed and code."""
    return {"faircil": version(), "code": code_digest(), "seed": seed, "config": dict(config)}


def read_identity(folder: Path) -> dict[str, Any]:
    """Return the identity of the run in ``folder``."""
    found = read_json(folder / "config.json")
    if not isinstance(found, dict):
        raise damaged(folder / "config.json")
    return found


def read_run(folder: Path) -> RunSummary:
    """Read a finished run."""
    values = read_json(folder / "summary.json")
    try:
        run = TypeAdapter(RunSummary).validate_python({**values, "dir": str(folder)})
    except (TypeError, ValidationError):
        run = None
    if run is None or not _is_complete(run):
        raise DataError(
            f"{folder / 'summary.json'} was not written by this version of faircil ({version()})"
        )
    return run


def find_runs(paths: Iterable[Path]) -> list[RunSummary]:
    """Read all runs at or below the given folders, each once, in order."""
    folders: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            raise DataError(f"{path} is not a folder; give folders that `faircil run` has written")
        found = sorted(file.parent for file in path.rglob("summary.json"))
        # A hidden folder is one that was being written when the machine stopped.
        found = [f for f in found if not any(p.startswith(".") for p in f.relative_to(path).parts)]
        if not found:
            raise DataError(f"{path} holds no finished run (no summary.json in it or below)")
        for folder in found:
            folders.setdefault(folder.resolve(), folder)
    try:
        return [read_run(folder) for folder in folders.values()]
    except DataError as error:
        raise DataError(f"{error}; run it again, or remove its folder") from None


def _put_in_place(new: Path, target: Path) -> None:
    """Rename ``new`` to ``target``; what was there goes last, and comes back if this fails."""
    old = target.with_name(f".{target.name}.old")
    _remove(old)
    if target.exists():
        target.rename(old)
    try:
        new.rename(target)
    except BaseException:
        if old.exists():
            old.rename(target)
        raise
    _remove(old)


def _write_predictions(folder: Path, result: RunResult) -> None:
    with (folder / "predictions.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(prediction_rows(result))
    if result.probabilities:
        write_probabilities(folder, result)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_complete(run: RunSummary) -> bool:
    """Whether a summary has all that reports read."""
    metrics = all(set(METRIC_NAMES) <= values.keys() for values in (run.metrics, *run.per_task))
    return metrics and {"dataset", "measure", "settings"} <= run.config.keys()
