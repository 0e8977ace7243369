"""What a finished run wrote down of its epochs, and the names behind its numbers."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from faircil.results.files import damaged, read_rows
from faircil.results.record import EpochRecord, Names

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
