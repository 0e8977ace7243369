"""File helpers: user paths, checksums, JSON, and the tables shipped with faircil.

The format is that of ``sha256sum``, so that ``sha256sum -c SHA256SUMS`` checks them as well.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from faircil.errors import DataError, StorageError, UsageError


def expanded(path: str | Path, what: str) -> Path:
    """Return a path with the home folder in place of ``~``.

    Parameters
    ----------
    path : str or Path
    what : str
        What it is, for the message if there is no such home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(
            f"{what} is '{path}', and there is no such home folder; write the whole path"
        ) from None


def in_package(module: str, inside: str) -> Path | None:
    """Return a file or folder that an installed Python package carries; it is not imported.

    Parameters
    ----------
    module : str
        Name of the module.
    inside : str
        Path in its folder.
    """
    spec = find_spec(module)
    found = None if spec is None or spec.origin is None else Path(spec.origin).parent / inside
    return found if found is not None and found.exists() else None


def file_digest(path: Path) -> str:
    """Return the hash of what is in a file now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def kept_digest(path: Path) -> str:
    """Return the hash of a file, which may be large; it is read again only after it was written.

    This identifies an input; to look for damage, use :func:`file_digest`.
    """
    state = path.stat()
    return _kept(path.absolute(), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=2**16)  # a run may have as many files of images
def _kept(path: Path, written: int, size: int) -> str:
    del written, size
    return file_digest(path)


Row = Mapping[str, Any]


@cache
def shipped_rows(
    package: str, name: str, parse_float: Callable[[str], Any] = float
) -> tuple[Row, ...]:
    """Read the rows of a TOML file of a package, once: a sweep looks thousands of runs up."""
    text = (files(package) / name).read_text(encoding="utf-8")
    return tuple(tomllib.loads(text, parse_float=parse_float)["row"])


def applies(row: Row, key: Mapping[str, Any]) -> bool:
    """Tell whether a row is for a run: each of the keys that it names lists the run's value."""
    return all(key[name] in row[name] for name in key if name in row)


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


def free_room(folder: Path) -> int:
    """Return the bytes that may still be written to a folder that is there."""
    return shutil.disk_usage(folder).free


def check_room(folder: Path, needed: int) -> None:
    """Raise if what a run will write does not fit on the disk: better before it than after."""
    free = free_room(folder)
    if free < needed:
        raise StorageError(
            f"{folder} has room for {free / 1e6:,.0f} MB, and the run will write about "
            f"{needed / 1e6:,.0f} MB; free space, or choose another folder with `folder`"
        )


SUMS = "SHA256SUMS"


def write_checksums(folder: Path) -> None:
    """Write the sums of all files in a folder."""
    files = (path for path in sorted(folder.iterdir()) if path.is_file())
    lines = [f"{file_digest(path)}  {path.name}\n" for path in files]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def read_checksums(folder: Path) -> dict[str, str]:
    """Return the sums of a folder's files as they were when it was written, by name."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        raise DataError(f"{folder} has no readable {SUMS}, so it cannot be checked") from None
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def check_checksums(folder: Path, names: Collection[str]) -> None:
    """Raise if one of these files has changed since a folder was written, or any file is gone."""
    sums = read_checksums(folder)
    gone = [name for name in dict.fromkeys([*names, *sums]) if not (folder / name).is_file()]
    changed = [
        name for name in names if name not in gone and file_digest(folder / name) != sums.get(name)
    ]
    problems = [f"was altered after it was written: {', '.join(changed)}"] * bool(changed)
    problems += [f"lacks {', '.join(gone)}"] * bool(gone)
    if problems:
        raise DataError(f"{folder} {' and '.join(problems)}")


def claim(folder: Path) -> None:
    """Create a folder and check that it can be written: better before a long run than after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StorageError(
            f"cannot write to {folder}: {error.strerror or error}; choose another folder with "
            "`folder`"
        ) from None
