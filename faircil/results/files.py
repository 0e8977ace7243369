"""The files of a run: JSON documents and rows of JSON, read with errors that say what to do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faircil.errors import DataError


def write_json(path: Path, value: Any) -> None:
    """Write a JSON document."""
    path.write_text(
        json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as lines of JSON."""
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read a JSON document."""
    with _readable(path):
        return json.loads(path.read_text(encoding="utf-8"))


def read_rows(path: Path) -> Iterator[Any]:
    """Yield rows from lines of JSON."""
    with _readable(path), path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path} is missing, so {path.parent} is no finished run") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:  # neither JSON nor UTF-8
        raise damaged(path) from None


def damaged(path: Path) -> DataError:
    """Return the error for a file that does not hold what it should."""
    return DataError(f"{path} is damaged, so {path.parent} is no finished run")
