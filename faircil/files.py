"""File helpers: user paths, private files, checksums, JSON, and the tables shipped with faircil.

Data about people (runs, predictions, models, states, embeddings, audits) is private: written by
:func:`make_private` and :func:`open_private`, with permissions only for the owner. Pages and
pictures that are meant to be shared follow the user's umask.

Checksums have the format of ``sha256sum``, so ``sha256sum -c SHA256SUMS`` can check them, too.
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

TABLES_IN_FOLDERS = (".parquet", ".arrow", ".feather", ".npy")  # a folder of these is one table
KEPT_IN_FOLDERS = (".csv", ".json", ".jsonl", ".npz", ".safetensors")  # files of runs and models
ESCAPED = "backslashreplace"  # in JSON, such an escape is read back as the same character
NO_TEXT = re.compile("[\ud800-\udfff]")  # surrogates, for bytes of names that are not UTF-8
PARTIAL = ".partial"  # end of the name of a file that is being written
RANDOM_LETTERS = 8  # number of characters that tempfile adds to such a name
BETWEEN_LOOKS = 0.05  # seconds between attempts to get a lock
MOST_LETTERS = 50  # in a name made from a text: at most 200 bytes, of 255 allowed


def expanded(path: str | Path, what: str) -> Path:
    """Return a path with the home folder in place of ``~``.

    Parameters
    ----------
    path : str or Path
    what : str
        Description of the path, for the message if there is no such home folder.
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
    """Return a text as the name of a file or folder, without path components.

    Most texts are unchanged. Characters with a meaning to file systems are replaced; a hash then
    keeps names distinct.

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
    """Raise an error if a name is not UTF-8: Arrow and safetensors cannot open such files."""
    broken = [repr(str(path)) for path in paths if NO_TEXT.search(str(path))]
    if broken:
        raise DataError(f"names of files that are not UTF-8: {shortened(broken)}; rename them")


def refuse_input(out: Path, *inputs: Path) -> None:
    """Raise an error if an output would overwrite an input, or become part of an input folder.

    Pages and other new files may be written to an input folder, but no files that would be read as
    part of it the next time.
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
    """Return a file or folder in an installed package, without importing it; None if missing.

    Parameters
    ----------
    module : str
        Name of the module.
    inside : str
        Path relative to the folder of the module.
    """
    spec = find_spec(module)
    found = None if spec is None or spec.origin is None else Path(spec.origin).parent / inside
    return found if found is not None and found.exists() else None


def file_digest(path: Path) -> str:
    """Return the hash of a file's current content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def kept_digest(path: Path) -> str:
    """Return the hash of a file, which may be large; it is cached until the file is modified.

    Use it to identify an input; to detect damage, use :func:`file_digest`.
    """
    state = path.stat()
    return _kept(path.absolute(), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=2**16)  # a run may have as many image files
def _kept(path: Path, written: int, size: int) -> str:
    del written, size
    return file_digest(path)


Row = Mapping[str, Any]


@cache
def shipped_rows(
    package: str, name: str, parse_float: Callable[[str], Any] = float
) -> tuple[Row, ...]:
    """Read the rows of a TOML file of a package; cached, as a sweep looks up thousands of runs."""
    text = (files(package) / name).read_text(encoding="utf-8")
    return tuple(tomllib.loads(text, parse_float=parse_float)["row"])


def applies(row: Row, key: Mapping[str, Any]) -> bool:
    """Return whether a row applies to a run: each of its keys lists the run's value."""
    return all(key[name] in row[name] for name in key if name in row)


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, with permissions only for the owner.

    Existing folders keep their permissions, which are the user's choice.
    """
    for path in reversed(folder.parents):
        if not path.exists():
            path.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def open_private(path: Path, mode: str, newline: str | None = None) -> IO[Any]:
    """Open a file for writing; a new file is private. Text is UTF-8.

    Characters that are not valid text, such as those for bytes in file names, are escaped.
    """

    def opened(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    if "b" in mode:
        return open(path, mode, opener=opened)
    return open(path, mode, encoding="utf-8", errors=ESCAPED, newline=newline, opener=opened)


@contextmanager
def replacing(path: Path, *, private: bool = True) -> Iterator[Path]:
    """Yield the path of a temporary file to write, which replaces ``path`` at the end of the block.

    If the block fails, the existing file is unchanged. A replacement gets the permissions of the
    existing file; a new file is private or, with ``private=False``, follows the umask. A link is
    kept, and its target is replaced.
    """
    target = resolved(path)
    if target.exists() and not target.is_file():  # such as a device, which cannot be replaced
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
    """Remove partial files of killed processes; no process may be writing the file now."""
    target = resolved(path)
    pattern = f"{glob.escape(_begun(target))}{'[!.]' * RANDOM_LETTERS}{PARTIAL}"
    if len(target.name) <= MOST_LETTERS:  # else the partial files may be those of another name
        for partial in target.parent.glob(pattern):
            partial.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """Write a text file, completely or not at all; a new file is private."""
    with replacing(path) as partial, open_private(partial, "w") as file:
        file.write(text)


@contextmanager
def locked(
    path: Path, waiting: Callable[[], None] | None = None, *, nested: bool = False
) -> Iterator[bool]:
    """Let one process at a time into the block, by a lock on a file; yield whether this one may.

    The lock is released when its process ends, however it ends. Its holder may remove the file and
    its folder; the next process creates them again.

    Parameters
    ----------
    path : Path
        The file of the lock; created if missing.
    waiting : callable, optional
        Called once before waiting for another process in the block; None: do not wait.
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
        except FileNotFoundError:  # the folder was removed at this moment
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
        if not held:  # its last holder removed the file: others see a new one
            lock.release()
    try:
        yield held
    finally:
        if held:
            lock.release()


def as_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON.

    JSON has no infinite numbers and no NaN. Such values are written as text, from which ``float``
    restores them.

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
    """Write a JSON document; a new file is private."""
    write_private(path, as_json(value, indent=2) + "\n")


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as lines of JSON; a new file is private."""
    write_private(path, "".join(f"{as_json(row)}\n" for row in rows))


def read_json(path: Path) -> Any:
    """Read a JSON document."""
    with _readable(path):
        return json.loads(path.read_text(encoding="utf-8"))


SEAL = "sha256"  # key of the hash of the rest of a document


def seal_of(document: Mapping[str, Any]) -> str:
    """Return the hash of a document without its seal, regardless of its layout."""
    rest = {name: value for name, value in document.items() if name != SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def write_sealed(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document with its hash in it."""
    write_json(path, {**document, SEAL: seal_of(document)})


def is_intact(text: str, document: Any) -> bool:
    """Return whether a document, given its text, is exactly what :func:`write_sealed` wrote."""
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
    """Return the error for a file with invalid content."""
    return DataError(f"{path} is damaged, so {path.parent} is not a finished run")


def free_room(folder: Path) -> int:
    """Return the number of bytes that can still be written to an existing folder."""
    return shutil.disk_usage(folder).free


def check_room(folder: Path, needed: int) -> None:
    """Raise an error if the files of a run will not fit on the disk; call this before the run."""
    free = free_room(folder)
    if free < needed:
        raise StorageError(
            f"{folder} has room for {free / 1e6:,.0f} MB, and the run will write about "
            f"{needed / 1e6:,.0f} MB; free space, or choose another folder with `folder`"
        )


SUMS = "SHA256SUMS"
AGAIN = "run it again, or remove its folder"


def write_checksums(folder: Path) -> None:
    """Write the checksums of all files in a folder."""
    files = (path for path in sorted(folder.iterdir()) if path.is_file())
    lines = [f"{file_digest(path)}  {path.name}\n" for path in files]
    write_private(folder / SUMS, "".join(lines))


def read_checksums(folder: Path) -> dict[str, str]:
    """Return the stored checksums of a folder's files, by name."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        raise DataError(f"{folder} has no readable {SUMS}, so it cannot be checked") from None
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def check_checksums(folder: Path, names: Collection[str]) -> None:
    """Raise an error if one of these files was altered, or if any file of the folder is missing."""
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
    """Raise an error if a file of a finished run was altered or is missing."""
    try:
        check_checksums(path.parent, [path.name])
    except DataError as error:
        raise DataError(f"{error}; {AGAIN}") from None


def check_listed(path: Path) -> None:
    """Raise an error if a file of a finished run was altered; other files are not checked."""
    folder = path.parent
    if path.is_file() and ((folder / SUMS).exists() or (folder / "summary.json").exists()):
        check_file(path)


def claim(folder: Path) -> None:
    """Create a folder, and check that it is writable; call this before a long run.

    A new folder is private.
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
