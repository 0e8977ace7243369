"""The file ``probabilities.npz`` of a run: all that post-processing needs, after each task."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faircil.errors import DataError
from faircil.postprocess.pool import Integers
from faircil.postprocess.tasks import TaskProbabilities
from faircil.results.checksums import FILE as SUMS
from faircil.results.checksums import check_checksums
from faircil.results.environment import code_digest
from faircil.results.record import RunResult
from faircil.results.summary import RunSummary

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
