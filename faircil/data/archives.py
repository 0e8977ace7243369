"""Wanted files out of an archive, without extracting it.

Members are read into memory, by their base name, and never written under the name or with the
rights that the archive gives them: a hostile path or link has nothing to act on. One that stands
in place of a wanted file is refused all the same, since the archive is then not what it should be.
"""

from __future__ import annotations

import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

from faircil.data.sources import DataFile
from faircil.errors import DataError

Found = list[tuple[DataFile, bytes]]


def files_in_tar(archive: bytes, files: Iterable[DataFile]) -> Found:
    """Return those of ``files`` that a tar archive has, packed or not, as they are in it."""
    wanted = by_spelling(files)
    found = []
    with _readable("tar"), tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            file = wanted.get(PurePosixPath(member.name).name)
            if file is not None:
                _refuse_odd_member(member.name, regular=member.isreg())
                content = tar.extractfile(member)
                found.append((file, content.read() if content else b""))
    return found


def files_in_zip(archive: bytes, files: Iterable[DataFile]) -> Found:
    """Return those of ``files`` that a zip archive has, packed or not, as they are in it."""
    wanted = by_spelling(files)
    found = []
    with _readable("zip"), zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for member in opened.infolist():
            file = wanted.get(PurePosixPath(member.filename).name)
            if file is not None:
                is_link = stat.S_ISLNK(member.external_attr >> 16)
                _refuse_odd_member(member.filename, regular=not (is_link or member.is_dir()))
                found.append((file, opened.read(member)))
    return found


def by_spelling(files: Iterable[DataFile]) -> dict[str, DataFile]:
    """Return the files keyed by every name that others give them."""
    return {name: file for file in files for name in file.spellings}


def _refuse_odd_member(name: str, *, regular: bool) -> None:
    path = PurePosixPath(name)
    if not regular or path.is_absolute() or ".." in path.parts:
        raise DataError(
            f"refused: '{name}' in the archive is a link, a special file or points out of it; "
            "expected a plain file"
        )


@contextmanager
def _readable(kind: str) -> Iterator[None]:
    damage = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)
    try:
        yield
    # zipfile raises RuntimeError for encrypted members and for unknown compression.
    except (*damage, RuntimeError) as error:
        raise DataError(f"not an intact {kind} archive: {error}") from error
