"""What a finished run wrote down of its epochs, and the names behind its numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from faircil.errors import DataError
from faircil.results.record import EpochRecord, Names

_EPOCH = TypeAdapter(EpochRecord)


def read_epochs(folder: Path) -> list[EpochRecord]:
    """Read all epochs of the run in ``folder``, in order."""
    path = folder / "epochs.jsonl"
    try:
        return [_EPOCH.validate_python(row) for row in _rows(path)]
    except ValidationError:
        raise _damaged(path) from None


def read_names(folder: Path) -> Names:
    """Read what the classes and attribute values of the run in ``folder`` are called.

    After the last task all are there: by class, then by attribute value.
    """
    path = folder / "metrics.jsonl"
    try:
        rows = list(_rows(path))
        rows = [row for row in rows if row["task"] == rows[-1]["task"]]
        classes = [row["class"] for row in rows if row["metric"] == "class_accuracy"]
        values = [row["attribute"] for row in rows if row["metric"] == "group_accuracy"]
    except (LookupError, TypeError):
        raise _damaged(path) from None
    return Names(tuple(classes), attribute_values=tuple(dict.fromkeys(values)))


def _rows(path: Path) -> Iterator[Any]:
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path} is missing, so {path.parent} is no finished run") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:  # neither JSON nor UTF-8
        raise _damaged(path) from None


def _damaged(path: Path) -> DataError:
    return DataError(
        f"{path} is damaged, so {path.parent} is no finished run; run it again, or remove its "
        "folder"
    )
