"""Getting the files of a dataset: one way after another until all files are in place."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from faircil.data.sources import DataFile, check_source, data_folder, find_source, unpack
from faircil.data.ways import Way, ways_to
from faircil.errors import DataError, FaircilError

GZIP_START = b"\x1f\x8b"


def fetch(
    source_name: str,
    *,
    local: Path | None = None,
    force: bool = False,
    report: Callable[[str], None],
) -> Path:
    """Put the files of a source in place and return their folder.

    A file gets its place in one step and only after its hash was checked: neither an interruption
    nor a wrong download leaves half a file or replaces a good one.

    Parameters
    ----------
    source_name : str
        A name in ``SOURCES``.
    local : Path, optional
        Folder to look in first: the files, packed or not, in it or in its folder ``source_name``.
    force : bool
        Get even the files that are in place and intact.
    report : callable
        Takes one line of progress.

    Raises
    ------
    DataError
        If files are still missing, with what each way said and how to do it by hand.
    """
    source = find_source(source_name)
    folder = data_folder() / source.name
    intact = {status.path.name for status in check_source(source.name) if status.state == "ok"}
    pending = [file for file in source.files if force or file.name not in intact]
    said = []
    for way in ways_to(source, local):
        if not pending:
            break
        report(f"{source.name}: trying {way.title}")
        trouble = _use(way, pending, folder)
        if trouble:
            said.append(f"{way.title}: {trouble}")
            report(f"{source.name}: {said[-1]}")
    if pending:
        raise DataError(_by_hand(source.name, folder, pending, said))
    report(f"{source.name}: all files are in {folder}")
    return folder


def _use(way: Way, pending: list[DataFile], folder: Path) -> str:
    """Store what the way has of ``pending``, strike it off there, and return what went wrong."""
    troubles = []
    try:
        for file, content in way.get(tuple(pending)):
            if file not in pending:
                continue
            try:
                stored = _to_store(file, content)
            except DataError as error:
                troubles.append(str(error))
                continue
            _write(folder / file.name, stored)
            pending.remove(file)
    except DataError as error:
        troubles.append(str(error))
    if pending and not troubles:
        troubles.append(f"has no {', '.join(file.name for file in pending)}")
    return "; ".join(troubles) if pending else ""


def _to_store(file: DataFile, content: bytes) -> bytes:
    """Return verified content, packed if the file is stored packed; DataError if it is not it."""
    is_packed = content.startswith(GZIP_START)
    as_it_came = replace(file, name=file.spellings[is_packed])
    plain = unpack(as_it_came, content)
    if file.name == as_it_came.name:
        return content
    return plain if is_packed else gzip.compress(plain, compresslevel=6, mtime=0)


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(content)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        # Not a DataError: the way that gave the file is not to blame, and no other would help.
        raise FaircilError(
            f"cannot write {path} ({error.strerror}): check the room and your rights there, "
            "or set FAIRCIL_DATA to another folder"
        ) from error


def _by_hand(name: str, folder: Path, pending: Iterable[DataFile], said: Iterable[str]) -> str:
    lines = [f"no way gave all files of {name}:", *(f"- {line}" for line in said)]
    lines.append(
        "Put these files there by hand (sha256 of the unpacked content), "
        f"then run `faircil data check {name}`:"
    )
    lines += [f"- {folder / file.name}  sha256 {file.sha256}" for file in pending]
    return "\n".join(lines)
