"""File helpers: user paths, private files, checksums, JSON, and the tables shipped with faircil.

What tells of people (runs, predictions, models, states, embeddings, audits) is written for its
owner alone, through :func:`make_private` and :func:`open_private`. Pages and pictures that are made
to be handed on follow the user's umask.

Checksums have the format of ``sha256sum``, so that ``sha256sum -c SHA256SUMS`` checks them as well.
"""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import re
import shutil
import tempfile
import time
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from faircil.errors import DataError, StorageError, UsageError, shortened

TABLES_IN_FOLDERS = (".parquet", ".arrow", ".feather", ".npy")  # a folder of such is one table
KEPT_IN_FOLDERS = (".csv", ".json", ".jsonl", ".npz", ".safetensors")  # of runs and models
ESCAPED = "backslashreplace"  # in JSON, what stands for such a byte is read as the same again
NO_TEXT = re.compile("[\ud800-\udfff]")  # what Python makes of bytes in names that are not UTF-8
PARTIAL = ".partial"  # end of the name of a file that is being written
RANDOM_LETTERS = 8  # of such a name, by tempfile
BETWEEN_LOOKS = 0.05  # seconds, at a lock that another process holds
MOST_LETTERS = 50  # of a name that is made of a text: 200 bytes at most, of 255


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
            f"{what} is '{path}', and there is no such home folder; write the full path"
        ) from None


def resolved(path: Path) -> Path:
    """Return a path without links.

    Raises
    ------
    UsageError
        If a link leads back to itself.
    """
    try:
        return path.resolve()
    except (RuntimeError, OSError):
        raise UsageError(
            f"{path} is a link that leads back to itself, or is behind one; remove the link"
        ) from None


def file_name(text: str) -> str:
    """Return a text as the name of a file or folder, which never leads elsewhere.

    Most names stay. What means something to a file system is left out, and a hash tells such names
    apart.

    Examples
    --------
    >>> file_name("biased-mnist"), file_name("../x")
    ('biased-mnist', '_x-d6b96a97')
    """
    plain = re.sub(r'[\x00-\x1f/\\:*?"<>|]+', "_", text).lstrip(".")[:MOST_LETTERS]
    if plain and plain == text:
        return plain
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"{plain}-{digest[:8]}"


def named_in_text(paths: Iterable[Path]) -> None:
    """Raise if a name is not UTF-8: Arrow and safetensors cannot open such files."""
    broken = [repr(str(path)) for path in paths if NO_TEXT.search(str(path))]
    if broken:
        raise DataError(f"names of files that are not UTF-8: {shortened(broken)}; rename them")


def refuse_input(out: Path, *inputs: Path) -> None:
    """Refuse to write to a file that is read, by whatever name, or to one in a folder that is.

    A folder that is read may get pages and other new files, but none that would be read with it the
    next time.
    """
    for path in inputs:
        place, read = resolved(out), resolved(path)
        same = place == read or (out.exists() and path.exists() and out.samefile(path))
        inside = path.is_dir() and read in place.parents
        if same or (inside and out.exists() and out.suffix.lower() in KEPT_IN_FOLDERS):
            raise UsageError(
                f"{out} is an input of this command; choose another name for the output"
            )
        if inside and out.suffix.lower() in TABLES_IN_FOLDERS:
            raise UsageError(
                f"{out} would become part of the input {path}; choose another place to write to"
            )


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


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone.

    A folder that is there keeps its permissions: they are the user's choice.
    """
    for path in reversed(folder.parents):
        if not path.exists():
            path.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def open_private(path: Path, mode: str, newline: str | None = None) -> IO[Any]:
    """Open a file to write; if it is new, for its owner alone. Text is UTF-8.

    What is no text, such as a byte in the name of a file, is written as an escape.
    """

    def opened(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    if "b" in mode:
        return open(path, mode, opener=opened)
    return open(path, mode, encoding="utf-8", errors=ESCAPED, newline=newline, opener=opened)


@contextmanager
def replacing(path: Path, *, private: bool = True) -> Iterator[Path]:
    """Yield the name of a new file to write, which takes the place of another when it is whole.

    What is there stays as it is if the block fails, and what takes its place has its permissions;
    a file that is new is for its owner alone, or for whoever may read new files of this process. A
    link stays a link.
    """
    target = resolved(path)
    if target.exists() and not target.is_file():  # such as a device: it has no other in its place
        yield target
        return
    number, name = tempfile.mkstemp(dir=target.parent, prefix=_begun(target), suffix=PARTIAL)
    os.close(number)
    partial = Path(name)
    try:
        if not private:
            partial.unlink()
            partial.touch()
        yield partial
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _begun(target: Path) -> str:
    return f".{target.name[:MOST_LETTERS]}."


def clear_partials(path: Path) -> None:
    """Remove what processes have left that were killed while they wrote a file; none may now."""
    target = resolved(path)
    pattern = f"{glob.escape(_begun(target))}{'[!.]' * RANDOM_LETTERS}{PARTIAL}"
    if len(target.name) <= MOST_LETTERS:  # else the partial files may be those of another name
        for partial in target.parent.glob(pattern):
            partial.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """Write a text file, whole or not at all; if it is new, for its owner alone."""
    with replacing(path) as partial, open_private(partial, "w") as file:
        file.write(text)


@contextmanager
def locked(
    path: Path, waiting: Callable[[], None] | None = None, *, nested: bool = False
) -> Iterator[bool]:
    """Let one process at a time into the block, by a lock on a file; yields whether this one may.

    The lock is released when its process ends, in any way. Its holder may remove the file and its
    folder: who comes next makes them again.

    Parameters
    ----------
    path : Path
        Made if it is not there.
    waiting : callable, optional
        Called if another process is in the block, which is then waited for; None: do not wait.
    nested : bool
        Whether this process may be in the block already.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, mode=0o600, is_singleton=nested)
    held, told = lock.is_locked, False
    if held:
        lock.acquire()
    while not held:
        try:
            make_private(path.parent)
            lock.acquire(timeout=0)
        except FileNotFoundError:  # the folder went at this moment
            continue
        except Timeout:
            if waiting is None:
                break
            if not told:
                waiting()
            told = True
            time.sleep(BETWEEN_LOOKS)
            continue
        held = path.exists()
        if not held:  # a file that its last owner has removed: others see a new one
            lock.release()
    try:
        yield held
    finally:
        if held:
            lock.release()


def as_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON.

    JSON has no infinite numbers, and a result that has one is not lost for that: they are texts,
    which whoever reads them as numbers gets back.

    Examples
    --------
    >>> as_json({"bound": float("inf")})
    '{"bound": "inf"}'
    """
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), indent=indent, ensure_ascii=False, allow_nan=False)
    return text.encode(errors=ESCAPED).decode()


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, value: Any) -> None:
    """Write a JSON document, for its owner alone."""
    write_private(path, as_json(value, indent=2) + "\n")


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as lines of JSON, for their owner alone."""
    write_private(path, "".join(f"{as_json(row)}\n" for row in rows))


def read_json(path: Path) -> Any:
    """Read a JSON document."""
    with _readable(path):
        return json.loads(path.read_text(encoding="utf-8"))


SEAL = "sha256"  # key of the hash of all the rest of a document


def seal_of(document: Mapping[str, Any]) -> str:
    """Return the hash of a document but for its seal, however it is laid out."""
    rest = {name: value for name, value in document.items() if name != SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def write_sealed(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document with its hash in it."""
    write_json(path, {**document, SEAL: seal_of(document)})


def is_intact(text: str, document: Any) -> bool:
    """Whether a document is what :func:`write_sealed` wrote, to the byte, given its text."""
    return (
        isinstance(document, dict)
        and document.get(SEAL) == seal_of(document)
        and text == as_json(document, indent=2) + "\n"
    )


def read_rows(path: Path) -> Iterator[Any]:
    """Yield rows from lines of JSON."""
    with _readable(path), path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path} is missing, so {path.parent} is not a finished run") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:  # neither JSON nor UTF-8
        raise damaged(path) from None


def damaged(path: Path) -> DataError:
    """Return the error for a file that does not hold what it should."""
    return DataError(f"{path} is damaged, so {path.parent} is not a finished run")


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
AGAIN = "run it again, or remove its folder"


def write_checksums(folder: Path) -> None:
    """Write the sums of all files in a folder."""
    files = (path for path in sorted(folder.iterdir()) if path.is_file())
    lines = [f"{file_digest(path)}  {path.name}\n" for path in files]
    write_private(folder / SUMS, "".join(lines))


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


def check_file(path: Path) -> None:
    """Raise if a file of a finished run has changed since, or is gone."""
    try:
        check_checksums(path.parent, [path.name])
    except DataError as error:
        raise DataError(f"{error}; {AGAIN}") from None


def check_listed(path: Path) -> None:
    """Raise if a file of a finished run has changed since; of any other file nothing is known."""
    folder = path.parent
    if path.is_file() and ((folder / SUMS).exists() or (folder / "summary.json").exists()):
        check_file(path)


def claim(folder: Path) -> None:
    """Create a folder and check that it can be written: better before a long run than after.

    A new folder is for its owner alone.
    """
    try:
        make_private(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StorageError(
            f"cannot write to {folder}: {error.strerror or error}; choose another folder with "
            "`folder`"
        ) from None
